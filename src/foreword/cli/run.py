"""``foreword run``: send a data set to a server and record what it did."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foreword.cli.options import Json, print_json
from foreword.errors import UsageError

if TYPE_CHECKING:
    from foreword.run.spec import PassOutcome, RunOutcome, RunSpec

_INTERRUPTED, _SERVER = 130, 4


Dataset = Annotated[Path, Parameter(help="Folder of a data set.")]
Urls = Annotated[
    tuple[str, ...],
    Parameter(help="Base URL or endpoint; several, with commas, are the dp ranks.", negative=""),
]
MetricsUrls = Annotated[
    tuple[str, ...],
    Parameter(help="Metrics pages; default: /metrics of --url, if any.", negative=""),
]
ApiKeyEnv = Annotated[str | None, Parameter(help="Environment variable that holds the API key.")]
Concurrency = Annotated[
    int | None, Parameter(help="Requests in flight; the start order is kept. Default: the data set's, else 1.")
]
Mode = Annotated[
    Literal["cold", "warmup", "hot", "compare", "progressive_prefix_fill"] | None,
    Parameter(
        help="Passes to make: cold; warmup = warm-up, then hot; hot = on a server that is warm already; "
        "compare = cold, warm-up, hot. Default: the data set's."
    ),
]
Model = Annotated[str | None, Parameter(help="Model name; default: the only model of the server.")]
Salt = Annotated[str | None, Parameter(help="Salt of the prefix cache; default: a fresh one.")]
Apart = Annotated[
    Literal["none", "salt", "reset", "nonce"] | None,
    Parameter(help="How to start from an empty cache; default: salt where the server honours it."),
]
Output = Annotated[Path | None, Parameter(help="Run folder; default: the next free outputs/run_NNN.")]
Timeout = Annotated[float, Parameter(help="Seconds without a byte after which a request has failed.")]
Config = Annotated[Path | None, Parameter(help="Data-set config whose execution.url and metrics_url are defaults.")]
MaxRequests = Annotated[int | None, Parameter(help="Send only the first requests of each pass.")]


def run(  # noqa: PLR0913 - one parameter a flag
    *,
    dataset: Dataset,
    url: Urls = (),
    metrics_url: MetricsUrls = (),
    api_key_env: ApiKeyEnv = None,
    concurrency: Concurrency = None,
    mode: Mode = None,
    model: Model = None,
    salt: Salt = None,
    isolation: Apart = None,
    output: Output = None,
    timeout: Timeout = 120.0,
    max_requests: MaxRequests = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Send a data set to a server, closed loop, and record every request."""
    from foreword.run.spec import Isolation, RunSpec
    from foreword.terms import ExecutionMode

    urls, metrics_urls = _addresses(split(url), split(metrics_url), config)
    spec = RunSpec(
        dataset=dataset,
        urls=urls,
        metrics_urls=metrics_urls,
        api_key=api_key(api_key_env),
        concurrency=concurrency,
        mode=ExecutionMode(mode) if mode else None,
        model=model,
        salt=salt,
        isolation=Isolation(isolation) if isolation else None,
        output=output,
        timeout_s=timeout,
        max_requests=max_requests,
    )
    return _run_and_tell(spec, json=json)


def _addresses(
    urls: tuple[str, ...], metrics_urls: tuple[str, ...], config: Path | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Addresses as given, else those of the config's ``execution``: a data set itself holds none."""
    if config is not None:
        from foreword.store.configs import load_dataset_config

        asked = load_dataset_config(config)
        execution = asked.execution
        urls = urls or asked.routing.instances or split((execution.url or "",))
        metrics_urls = metrics_urls or split((execution.metrics_url or "",))
    if not urls:
        raise UsageError("no server to send to", advice="give --url, or --config with execution.url")
    return urls, metrics_urls


def split(values: tuple[str, ...]) -> tuple[str, ...]:
    """Values of an option that takes several, with commas or repeated."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def api_key(variable: str | None) -> str | None:
    """The key in an environment variable; UsageError where there is none."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise UsageError(f"--api-key-env: the environment has no {variable}", advice=f"export {variable}=...")
    return key


def summary_text(outcome: RunOutcome) -> str:
    """Designed and measured hit ratios of each pass, and where the run is."""
    lines = [
        f"{'pass':<8} {'requests':>8} {'failed':>7} {'designed':>9} {'by usage':>9} {'by counters':>12} {'time':>9}"
    ]
    lines += [_pass_line(one) for one in outcome.passes]
    lines.append(f"\nrun folder: {outcome.folder}")
    return "\n".join(lines)


def _pass_line(one: PassOutcome) -> str:
    usage = f"{one.unreported} n/r" if one.usage_hit_ratio is None and one.unreported else _ratio(one.usage_hit_ratio)
    return (
        f"{one.name.value:<8} {one.requests:>8} {one.failed:>7} {_ratio(one.designed_hit_ratio):>9} "
        f"{usage:>9} {_ratio(one.counter_hit_ratio):>12} {one.duration_s:>7.1f} s"
    )


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.2f} %"


def _run_and_tell(spec: RunSpec, *, json: bool) -> int:
    from foreword import flow
    from foreword.cli.run_progress import RunProgress

    with RunProgress() as progress:
        outcome = flow.run(spec, progress)
    if json:
        print_json(outcome.document())
    else:
        print(summary_text(outcome))
    for one in outcome.passes:
        if one.failed:
            print(_failure_line(one), file=sys.stderr)
    if outcome.interrupted:
        print(f"foreword: interrupted; everything so far is in {outcome.folder}", file=sys.stderr)
        return _INTERRUPTED
    return _SERVER if outcome.server_failed else 0


def _failure_line(one: PassOutcome) -> str:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in one.failures_by_kind.items())
    told = "foreword" if one.mostly_failed else "warning"
    share = f"{one.failed:,} of {one.requests:,} requests of the {one.name} pass failed"
    return f"{told}: {share} ({kinds}); the first: {one.first_error}"
