"""``foreword replay``: a trace through tiered caches."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foreword.cli.options import Json, print_json, print_warnings
from foreword.errors import UsageError

if TYPE_CHECKING:
    from foreword.flow import Replayed, Replaying


Config = Annotated[Path | None, Parameter(help="Replay config, JSON.")]
Output = Annotated[Path | None, Parameter(help="Folder of the results, instead of output_result_path.")]
Series = Annotated[
    Literal["full", "sampled", "none"], Parameter(help="Rows of the hit-rate CSVs: all, about 1,000, or no file.")
]
Lives = Annotated[bool, Parameter(negative="", help="Also write the lives of all blocks.")]
Templates = Annotated[bool, Parameter(negative="", help="Also write the prefixes that many requests share.")]
OnError = Annotated[Literal["stop", "skip"], Parameter(help="Stop at a row in error, or count it and go on.")]
Core = Annotated[
    Literal["auto", "reference", "compiled"],
    Parameter(help="Which core replays; auto: the compiled one for long traces that it can replay."),
]
Cache = Annotated[bool, Parameter(help="Keep what was read of a large trace for the next time, and use it.")]
SaveTrace = Annotated[Path | None, Parameter(help="Also write the trace as Parquet to this file.")]
Prefill = Annotated[
    float | None,
    Parameter(help="Prompt tokens that an instance computes a second, to estimate the TTFT that hits save."),
]
LoadState = Annotated[Path | None, Parameter(help="Go on from this state, which an earlier replay saved.")]
SaveState = Annotated[Path | None, Parameter(help="Save the state at the end of the trace, for a trace that follows.")]
Schema = Annotated[bool, Parameter(negative="", help="Print the JSON schema of the config, and stop.")]


def replay(  # noqa: PLR0913 - one parameter a flag
    *,
    config: Config = None,
    output: Output = None,
    series: Series = "full",
    lifecycle: Lives = False,
    templates: Templates = False,
    on_error: OnError = "stop",
    core: Core = "auto",
    cache: Cache = True,
    save_trace: SaveTrace = None,
    prefill_tokens_per_s: Prefill = None,
    load_state: LoadState = None,
    save_state: SaveState = None,
    print_schema: Schema = False,
    json: Json = False,
) -> int:
    """Replay a trace of block keys through caches with tiers, policies and quotas.

    Writes INSTANCE_hit_rates.csv for each instance, summary.json and report.html.
    """
    if print_schema:
        return _print_schema()
    from foreword.flow import Replaying
    from foreword.store.replays import Export, SeriesChoice

    asked = Replaying(
        output,
        Export(SeriesChoice(series), lifecycle, templates),
        skip_errors=on_error == "skip",
        core=core,
        cached=cache,
        save_trace=save_trace,
        prefill_tokens_per_s=_checked(prefill_tokens_per_s),
        load_state=load_state,
        save_state=save_state,
    )
    return _replay_and_tell(config, asked, json=json)


def _print_schema() -> int:
    from foreword.config.replay import json_schema

    print_json(json_schema())
    return 0


def _checked(prefill_tokens_per_s: float | None) -> float | None:
    if prefill_tokens_per_s is not None and not 0 < prefill_tokens_per_s < math.inf:
        raise UsageError("--prefill-tokens-per-s must be a positive number")
    return prefill_tokens_per_s


def _replay_and_tell(config: Path | None, asked: Replaying, *, json: bool) -> int:
    if config is None:
        raise UsageError("replay needs --config", advice="see foreword replay --help")
    from foreword import flow
    from foreword.cli.progress import counted
    from foreword.report.replay_page import notices

    done = flow.replay(config, asked, hearing=partial(counted, quiet=json))
    if json:
        print_json({"output": str(done.output), **done.summary})
    else:
        _print_summary(done)
    print_warnings([f"{subject}: {message}" for subject, message in notices(done.summary)])
    return 0


def _print_summary(done: Replayed) -> None:
    for each in done.summary["instances"]:
        print(
            f"{each['instance_id']}: hit ratio {each['hit_ratio']:.6g} "
            f"({each['hit_tokens']:,} of {each['input_tokens']:,} tokens, {each['reads']:,} reads), "
            f"{each['cached_blocks']:,} blocks cached, {each['stranded_blocks']:,} stranded"
        )
        for index, tier in enumerate(each["tiers"]):
            blocks = tier["blocks"]
            print(
                f"  tier {index} {tier['name']}: hit ratio {tier['hit_ratio']:.6g}, {tier['cached_blocks']:,} blocks, "
                f"{blocks['promoted']:,} promoted, {blocks['demoted']:,} demoted, {blocks['evicted']:,} evicted, "
                f"{blocks['expired']:,} expired"
            )
    print(f"\nresults: {done.output}")
