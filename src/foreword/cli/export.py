"""``foreword export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, print_json
from foreword.store.commands import ExportFormat


def export(
    *,
    dataset: Annotated[Path, Parameter(help="Folder of a data set.")],
    target: Annotated[ExportFormat, Parameter(name="--format", help="Who is to read it.")],
    output: Annotated[Path, Parameter(help="Folder for the files.")],
    url: Annotated[str, Parameter(help="The server, for the command that is printed.")] = "http://127.0.0.1:8000",
    tokenizer: Annotated[str | None, Parameter(help="The tokenizer, where the manifest names a file (trace).")] = None,
    json: Json = False,
) -> int:
    """Write a data set in another tool's format, with the command that keeps its ratio."""
    from foreword import flow
    from foreword.cli.progress import counted

    with counted("exporting", "requests", quiet=json) as progress:
        made = flow.export(dataset, output, target=target, url=url, tokenizer=tokenizer, progress=progress)
    if json:
        document = {"files": list(map(str, made.files)), "requests": made.requests, "command": made.command}
        print_json({**document, "notes": list(made.notes)})
        return 0
    print(f"{made.requests:,} requests: {', '.join(map(str, made.files))}")
    for note in made.notes:
        print(f"note: {note}")
    print(f"run: {made.command}")
    return 0
