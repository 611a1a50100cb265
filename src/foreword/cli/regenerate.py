"""``foreword regenerate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, print_json, print_warnings


def regenerate(
    *,
    manifest: Annotated[Path, Parameter(help="manifest.json of a data set, or the folder that holds it.")],
    output: Annotated[Path | None, Parameter(help="Folder to keep the data set in; else it is only compared.")] = None,
    tokenizer: Annotated[str | None, Parameter(help="The tokenizer, where the manifest names a file.")] = None,
    corpus: Annotated[Path | None, Parameter(help="The text source, where the manifest names a file.")] = None,
    json: Json = False,
) -> int:
    """Make a data set again from its manifest, and prove that every file is the same."""
    from foreword import flow
    from foreword.cli.progress import counted

    with counted("generating", "requests", quiet=json) as progress:
        made = flow.regenerate(manifest, output, tokenizer=tokenizer, corpus=corpus, progress=progress)
    notes = [f"it was made by {made.made_by}; another version may give other bytes"] if made.other_version else []
    if json:
        print_json(made.document())
    else:
        for problem in made.problems:
            print(f"foreword: {problem}", file=sys.stderr)
        verdict = "DIFFERENT" if made.problems else "EQUAL"
        print(f"{verdict}  {made.dataset_id}: {made.files:,} files made again from seed, tokenizer and corpus")
        if made.folder is not None:
            print(f"data set: {made.folder}")
    print_warnings(notes)
    return made.exit_code
