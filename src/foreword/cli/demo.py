"""``foreword demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, print_json


def demo(
    *,
    output: Annotated[Path | None, Parameter(help="Run folder; default: the next free outputs/run_NNN.")] = None,
    json: Json = False,
) -> int:
    """Run the whole chain on the built-in server and data: plan, generate, run cold and hot, report."""
    from foreword import flow
    from foreword.cli.progress import counted
    from foreword.cli.run_progress import RunProgress

    with counted("generating", "requests", quiet=json) as heard, RunProgress() as progress:
        shown = flow.demo(output, flow.Hearing(heard, progress))
    if json:
        print_json({**shown.outcome.document(), "report": str(shown.report.html)})
        return 0
    from rich.console import Console

    from foreword.report.console import print_report

    console = Console(highlight=False, soft_wrap=True)
    print_report(shown.report.document, console)
    console.print(f"\nrun:    {shown.outcome.folder}\nreport: {shown.report.html}")
    return 0
