from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from foreword.report.console import print_report
from tests.support.run_folder import RunShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.report.document import ReportDocument

    ReportOf = Callable[[RunShape], ReportDocument]


def printed(document: ReportDocument) -> str:
    """What a wide terminal shows."""
    buffer = io.StringIO()
    print_report(document, Console(file=buffer, width=200, highlight=False))
    return buffer.getvalue().replace("\u00a0", " ")


def test_the_summary_has_verdict_ladder_and_proofs(report_of: ReportOf) -> None:
    """A person in a terminal sees the verdict, each rung and what was proven."""
    text = printed(report_of(RunShape()))

    assert "construction PASS run WITHIN_GUIDE" in text
    assert [line.split("  ")[0] for line in text.splitlines()[4:9]] == [
        "rung",
        "target",
        "designed",
        "engine rule and template",
        "requests that succeeded",
    ]
    assert "60 of 60: hits as predicted, request by request" in text
    assert "nothing is left to explain" in text


def test_the_summary_names_open_causes_and_warnings(report_of: ReportOf) -> None:
    """What is unexplained comes with the causes that were found, and warnings come last."""
    text = printed(report_of(RunShape(residual_tokens=48)))

    assert "found: residual cache before the run" in text
    assert text.splitlines()[-1].startswith("warning: The cache was not empty")


def test_group_names_are_not_markup(report_of: ReportOf) -> None:
    """Square brackets in messages are printed as they are."""
    document = report_of(RunShape(extra={"warnings": ["[red]x[/red] was slow"]}))

    assert "[red]x[/red] was slow" in printed(document)


def test_absent_numbers_are_said(report_of: ReportOf) -> None:
    """Nothing measured is not a zero."""
    text = printed(report_of(RunShape(usage=False, counters=False)))

    assert "not reported: hits as predicted, request by request" in text
    assert "measured − target" in text
    assert "the ladder ends at its last replay" in text
