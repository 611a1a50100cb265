"""``foreword probe``: what a server puts around prompts, and its block size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from foreword.cli.options import Json, print_json
from foreword.cli.run import ApiKeyEnv, Model, api_key, split

if TYPE_CHECKING:
    from foreword.run.probe import Probed

Url = Annotated[str, Parameter(help="Base URL of an OpenAI-compatible server.")]
MetricsUrls = Annotated[
    tuple[str, ...], Parameter(help="Metrics pages; default: /metrics of the server, if any.", negative="")
]
Tokenizer = Annotated[
    str | None, Parameter(help="Its tokenizer, where at hand: a tokenizer.json, its folder, or hub:NAME@REV.")
]
Output = Annotated[Path | None, Parameter(help="File for the config fragment; default: shown.")]


def probe(  # noqa: PLR0913 - one parameter a flag
    url: Url,
    /,
    *,
    model: Model = None,
    tokenizer: Tokenizer = None,
    metrics_url: MetricsUrls = (),
    api_key_env: ApiKeyEnv = None,
    output: Output = None,
    json: Json = False,
) -> int:
    """Ask a server what it puts around prompts, and how large its cache blocks are; writes a config fragment."""
    from foreword import flow
    from foreword.run.probe import ProbeSpec

    found = flow.probe(ProbeSpec(url, split(metrics_url), model, tokenizer, api_key(api_key_env)))
    if output is not None:
        output.write_text(found.fragment(), encoding="utf-8")
    if json:
        print_json(found.document())
    else:
        print(_text(found) if output is not None else f"{_text(found)}\n{found.fragment()}", end="")
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _text(found: Probed) -> str:
    facts = found.facts
    size = "unknown" if found.block_size is None else f"{found.block_size} tokens, measured"
    lines = [f"{facts.model}: {facts.detection.profile.name} {facts.version or ''}".rstrip(), f"  block   {size}"]
    for name, sides in (("chat", found.chat), ("text", found.text)):
        told = "unknown" if sides is None else f"head {len(sides[0])}, tail {len(sides[1])} tokens"
        lines.append(f"  {name}    {told}")
    if found.how:
        lines.append(f"  from    {found.how}")
    return "\n".join([*lines, ""])
