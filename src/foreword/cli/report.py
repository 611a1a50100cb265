"""``foreword report``: what a run measured, against what was designed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, print_json

if TYPE_CHECKING:
    from foreword.report.document import ReportDocument

_OUTSIDE_GUIDE = 3


def report(
    *,
    run_dir: Annotated[Path, Parameter(help="Run folder, as `foreword run` leaves it.")],
    output: Annotated[Path | None, Parameter(help="Folder of the report files; default: report/ in RUN-DIR.")] = None,
    strict: Annotated[
        bool, Parameter(negative="", help="Exit with 3 outside the guide range, with 1 where there are warnings.")
    ] = False,
    json: Json = False,
) -> int:
    """Explain a run: verdict, hit ladder, token accounting and charts.

    Writes prefix_cache_report.json, prefix_cache_report.html, requests.csv and groups.csv.
    """
    from rich.console import Console

    from foreword import flow
    from foreword.report.console import print_report

    written = flow.report(run_dir, output)
    if json:
        print_json(written.document.model_dump(mode="json"))
    else:
        console = Console(highlight=False, soft_wrap=True)
        print_report(written.document, console)
        others = "\n".join(f"        {path}" for path in (written.json, *written.tables))
        console.print(f"\nfiles:\n{others}\nreport: {written.html}")
    return strict_exit_code(written.document) if strict else 0


def strict_exit_code(document: ReportDocument) -> int:
    """Exit code of a report that is read strictly."""
    from foreword.report.document import Severity
    from foreword.terms import RuntimeVerdict

    if document.headline.runtime.verdict is RuntimeVerdict.OUTSIDE_GUIDE:
        return _OUTSIDE_GUIDE
    return int(any(notice.severity is not Severity.NOTE for notice in document.notices))
