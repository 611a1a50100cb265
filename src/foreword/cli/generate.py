"""``foreword generate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from foreword.cli.options import Json, Overrides, Strict, print_json, print_warnings

Workers = Annotated[
    int | None, Parameter(validator=Number(gte=1), help="Processes; the data set is the same for any number.")
]
Proof = Annotated[
    Literal["window", "full"], Parameter(help="Re-encode joints and a sample of prompts, or every prompt.")
]
ProofEngine = Annotated[
    Literal["tokenizers", "tiktoken"],
    Parameter(help="What encodes for --proof full; tiktoken (extra) is faster, for tokenizers that it equals."),
]
Overwrite = Annotated[bool, Parameter(negative="", help="Replace a data set in the folder.")]
Resume = Annotated[
    bool, Parameter(negative="", help="Go on with an unfinished data set; the bytes are those of one go.")
]
Compress = Annotated[
    Literal["none", "zstd"], Parameter(help="Write data and metadata as they are, or as .zst (extra zstd).")
]


def generate(  # noqa: PLR0913 - one parameter a flag
    *,
    config: Annotated[Path, Parameter(help="Data-set config, YAML with the root key prefix_cache_dataset.")],
    output: Annotated[Path, Parameter(help="Folder of the data set; made if it does not exist.")],
    tokenizer: Annotated[
        str | None, Parameter(help="builtin, a tokenizer.json or its folder, or hub:NAME@REV.")
    ] = None,
    corpus: Annotated[Path | None, Parameter(help="File or folder of the text source.")] = None,
    workers: Workers = None,
    proof: Proof = "window",
    proof_engine: ProofEngine = "tokenizers",
    overwrite: Overwrite = False,
    resume: Resume = False,
    compress: Compress = "none",
    set_: Overrides = (),
    json: Json = False,
    strict: Strict = False,
) -> int:
    """Plan a data set, write its prompts token-exactly and check them."""
    from foreword import flow
    from foreword.cli.progress import counted
    from foreword.report.plan import plan_text
    from foreword.store.configs import load_dataset_config, with_sources

    asked = with_sources(load_dataset_config(config, overrides=set_), tokenizer=tokenizer, corpus=corpus)
    making = flow.Making(workers, proof, overwrite, resume, compress == "zstd", proof_engine)
    with counted("generating", "requests", quiet=json) as progress:
        made = flow.generate(asked, output, making=making, progress=progress)
    if json:
        print_json({"dataset": str(output), **made.written.report})
    else:
        print(plan_text(made.design))
        print(_proof_line(made.written.report))
        print(f"\ndata set: {output}")
    print_warnings(made.design.warnings)
    return flow.construction_exit_code(made.design, strict=strict)


def _proof_line(report: dict[str, dict[str, int | str]]) -> str:
    proof = report["reencode"]
    if proof["level"] == "ids":
        return "\n  proof             prompts of token ids: lengths, shared prefixes and first private blocks checked"
    joints = f"{proof['windows']:,} joints and " if proof["level"] == "window" else ""
    full = f"{proof['checked_full']:,} prompts encoded again in full"
    return f"\n  proof             {joints}{full}, {proof['wrong']:,} wrong"
