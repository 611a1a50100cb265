"""``foreword import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from foreword.cli.options import Json, print_json
from foreword.store.importing import ImportFormat


def import_(
    *,
    source: Annotated[ImportFormat, Parameter(name="--format", help="Whose settings they are.")],
    input: Annotated[tuple[Path, ...], Parameter(negative="", help="File of settings; may be repeated.")],  # noqa: A002 - the option's name
    output: Annotated[Path, Parameter(help="The config to write.")],
    engine: Annotated[
        Literal["vllm", "vllm_ascend", "sglang", "mindie", "trtllm", "llamacpp", "lmdeploy"],
        Parameter(help="The engine that serves; the settings do not name it."),
    ] = "vllm",
    json: Json = False,
) -> int:
    """Make a data-set config from settings of another tool; what has no counterpart is said."""
    from foreword import flow

    made = flow.import_settings(input, output, source=source, engine=engine)
    if json:
        addresses = {"url": made.url, "metrics_urls": list(made.metrics_urls)}
        print_json({"config": str(output), **addresses, "notes": list(made.notes), "commands": list(made.commands)})
        return 0
    print(f"config: {output}")
    for note in made.notes:
        print(f"note: {note}")
    for command in made.commands:
        print(f"next: {command}")
    return 0
