"""The report as one HTML file that loads nothing: styles, script, charts and data are inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.collect.metrics import METRICS
from foreword.report import charts
from foreword.report.page import embedded, environment, static
from foreword.report.view import LadderView, ladder_view
from foreword.report.wording import CAUSES

if TYPE_CHECKING:
    from foreword.report.document import PassSection, ReportDocument


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
        environment()
        .get_template("report.html.j2")
        .render(
            doc=document,
            passes=passes,
            plan_charts=plan,
            options=embedded({chart.key: chart.option for chart in drawn if chart.option is not None}),
            style=static("report.css"),
            script=static("report.js"),
            echarts=static("echarts.common.min.js"),
            causes=CAUSES,
            formulas={name: metric.formula for name, metric in METRICS.items()},
        )
    )
