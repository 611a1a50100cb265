"""What every HTML page of a report shares: its templates, filters and embedded files."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import jinja2

from foreword.report import text

if TYPE_CHECKING:
    from collections.abc import Iterable

STATIC = files("foreword.report") / "static"


@cache
def environment() -> jinja2.Environment:
    """Templates, with the words and number formats of reports."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("foreword.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["text"] = text
    found.filters.update(
        percent=text.percent,
        points=text.points,
        whole=text.whole,
        difference=text.difference,
        number=text.number,
        signed=text.signed,
        change=text.change,
        size=text.size,
        shown=_shown,
        known=_known,
    )
    return found


def static(name: str) -> str:
    """Text of a style sheet or script."""
    return (STATIC / name).read_text(encoding="utf-8")


def embedded(value: object) -> str:
    """JSON that cannot end the script element around it."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _shown(value: object) -> str:
    """Text of a fact; absent is said, never shown as zero."""
    return text.NOT_REPORTED if value is None else str(value)


def _known(rows: Iterable[object], name: str) -> bool:
    """Whether any row has a value in a column, so that the column is worth its place."""
    return any(getattr(row, name) is not None for row in rows)
