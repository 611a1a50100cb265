"""``foreword validate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, print_json

_SHOWN = 20


def validate(
    *,
    dataset: Annotated[Path, Parameter(help="Folder of a data set.")],
    tokenizer: Annotated[str | None, Parameter(help="The tokenizer, where the manifest names a file.")] = None,
    corpus: Annotated[Path | None, Parameter(help="The text source, to compose every prompt again.")] = None,
    json: Json = False,
) -> int:
    """Re-encode every prompt, replay its blocks and check every stated number."""
    from foreword import flow
    from foreword.cli.progress import counted
    from foreword.store.requests import missed_target, read_manifest

    with counted("validating", "requests", quiet=json) as progress:
        found = flow.validate(dataset, tokenizer=tokenizer, corpus=corpus, progress=progress)
    if json:
        print_json(found.document())
        return found.exit_code
    for problem in found.problems[:_SHOWN]:
        print(f"foreword: {problem}", file=sys.stderr)
    if len(found.problems) > _SHOWN:
        print(f"foreword: and {len(found.problems) - _SHOWN:,} more problems", file=sys.stderr)
    print(found.summary())
    missed = None if found.problems else missed_target(read_manifest(dataset).raw)
    if missed:
        print(f"warning: {missed}", file=sys.stderr)
    return found.exit_code
