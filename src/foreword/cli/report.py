"""``foreword report``: what a run measured, against what was designed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreword.report.document import ReportDocument


def report(*, run_dir: Path, json: bool = False, output: Path | None = None, strict: bool = False) -> int:
    """Report a run: verdict, hit ladder, token accounting, charts.

    Writes prefix_cache_report.json, prefix_cache_report.html, requests.csv and groups.csv, and prints a summary.
    Example: foreword report --run-dir outputs/run_001

    Parameters
    ----------
    run_dir
        Folder that `foreword run` has written.
    json
        Print the report document as JSON instead of the summary.
    output
        Folder of the report files; by default report/ in the run folder.
    strict
        Exit with 3 when the run is outside its guide range, else with 1 when the report carries warnings.
    """
    from rich.console import Console

    from foreword.report.console import print_report
    from foreword.report.write import write_report

    written = write_report(run_dir, output)
    if json:
        sys.stdout.write(written.document.model_dump_json(indent=2) + "\n")
    else:
        console = Console(highlight=False, soft_wrap=True)
        print_report(written.document, console)
        console.print(f"\n{written.html}")
    return strict_exit_code(written.document) if strict else 0


def strict_exit_code(document: ReportDocument) -> int:
    """Exit code of a report that is read strictly."""
    from foreword.report.document import Severity
    from foreword.terms import RuntimeVerdict

    if document.headline.runtime.verdict is RuntimeVerdict.OUTSIDE_GUIDE:
        return 3
    return int(any(notice.severity is not Severity.NOTE for notice in document.notices))
