"""The report as one HTML file that loads nothing: styles, script, charts and data are inside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

import jinja2

from foreword.collect.metrics import METRICS
from foreword.report import charts, text
from foreword.report.view import LadderView, ladder_view
from foreword.report.wording import CAUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from foreword.report.document import PassSection, ReportDocument

STATIC = files("foreword.report") / "static"


@dataclass(frozen=True, slots=True)
class PassView:
    """A pass with what is derived for the page."""

    section: PassSection
    ladder: LadderView
    charts: tuple[charts.Chart, ...]


def render_html(document: ReportDocument) -> str:
    """The page; the same document gives the same bytes."""
    passes = [
        PassView(section, ladder_view(section.ladder), charts.pass_charts(section))
        for section in sorted(document.passes, key=lambda section: not section.designed)
    ]
    plan = charts.plan_charts(document)
    drawn = [chart for one in passes for chart in one.charts] + list(plan)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            doc=document,
            passes=passes,
            plan_charts=plan,
            options=_embedded({chart.key: chart.option for chart in drawn if chart.option is not None}),
            style=_static("report.css"),
            script=_static("report.js"),
            echarts=_static("echarts.common.min.js"),
            causes=CAUSES,
            formulas={name: metric.formula for name, metric in METRICS.items()},
        )
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("foreword.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["text"] = text
    environment.filters.update(
        percent=text.percent,
        points=text.points,
        whole=text.whole,
        difference=text.difference,
        number=text.number,
        signed=text.signed,
        change=text.change,
        shown=_shown,
        known=_known,
    )
    return environment


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _embedded(value: object) -> str:
    """JSON that cannot end the script element around it."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _shown(value: object) -> str:
    """Text of a fact; absent is said, never shown as zero."""
    return text.NOT_REPORTED if value is None else str(value)


def _known(rows: Iterable[object], name: str) -> bool:
    """Whether any row has a value in a column, so that the column is worth its place."""
    return any(getattr(row, name) is not None for row in rows)
