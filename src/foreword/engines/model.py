"""The logical metric model: what we measure, and where an engine exposes it (spec: engines, section 13).

Our unit is the token. A source names the series that make up a logical metric; sources stand in order of preference
and are never added to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from foreword.terms import Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foreword.cache.rules import HitRule
    from foreword.engines.page import Page, Sample
    from foreword.terms import Engine


class Logical(StrEnum):
    """Logical metrics, under the names that run files use."""

    QUERIES = "queries"
    HITS = "hits"
    EXTERNAL_QUERIES = "external_queries"
    EXTERNAL_HITS = "external_hits"
    PROMPT_TOKENS = "prompt_tokens"
    PREEMPTIONS = "preemptions"
    EVICTED_TOKENS = "evicted_tokens"
    KV_USAGE = "kv_cache_usage"
    RUNNING = "running"
    WAITING = "waiting"
    REPORTED_RATE = "reported_rate"


class Kind(StrEnum):
    """Whether a metric grows (and is differenced) or is a state (and is sampled)."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class LogicalMetric:
    """Meaning of a logical metric; ``mean`` says that ranks are averaged, not summed."""

    kind: Kind
    unit: str
    meaning: str
    mean: bool = False


LOGICAL: Mapping[Logical, LogicalMetric] = {
    Logical.QUERIES: LogicalMetric(Kind.COUNTER, "tokens", "prompt tokens looked up in the local prefix cache"),
    Logical.HITS: LogicalMetric(Kind.COUNTER, "tokens", "prompt tokens served by the local prefix cache"),
    Logical.EXTERNAL_QUERIES: LogicalMetric(Kind.COUNTER, "tokens", "rest of the prompt looked up in outer tiers"),
    Logical.EXTERNAL_HITS: LogicalMetric(Kind.COUNTER, "tokens", "prompt tokens served by outer tiers"),
    Logical.PROMPT_TOKENS: LogicalMetric(Kind.COUNTER, "tokens", "prompt tokens of requests"),
    Logical.PREEMPTIONS: LogicalMetric(Kind.COUNTER, "requests", "requests whose blocks were taken away while running"),
    Logical.EVICTED_TOKENS: LogicalMetric(Kind.COUNTER, "tokens", "cached tokens dropped for want of room"),
    Logical.KV_USAGE: LogicalMetric(Kind.GAUGE, "ratio", "share of the KV cache in use by running requests", mean=True),
    Logical.RUNNING: LogicalMetric(Kind.GAUGE, "requests", "requests being computed"),
    Logical.WAITING: LogicalMetric(Kind.GAUGE, "requests", "requests in the queue"),
    Logical.REPORTED_RATE: LogicalMetric(Kind.GAUGE, "ratio", "the engine's own rate; shown, never used", mean=True),
}


class Unit(StrEnum):
    """What a counter counts. ``BY_HELP``: the HELP text says blocks or tokens, the name does not."""

    TOKENS = "tokens"
    BLOCKS = "blocks"
    BY_HELP = "by_help"


class Combine(StrEnum):
    """How the names of one source make one value."""

    SUM = "sum"
    PRODUCT = "product"


def _any_series(sample: Sample) -> bool:
    del sample
    return True


@dataclass(frozen=True, slots=True)
class Source:
    """Exposed names that together are one logical metric; all of them must be there.

    ``only_if`` keeps some series of a name (a tier, a mode). ``PRODUCT`` multiplies the two names label set by label
    set: a cumulative rate times its denominator, marked as derived.
    """

    names: tuple[str, ...]
    unit: Unit = Unit.TOKENS
    combine: Combine = Combine.SUM
    only_if: Callable[[Sample], bool] = _any_series

    def unit_on(self, page: Page) -> Unit:
        """Unit as the page declares it; tokens unless HELP says blocks."""
        if self.unit is not Unit.BY_HELP:
            return self.unit
        return Unit.BLOCKS if "block" in page.help_of(self.names[0]).lower() else Unit.TOKENS


def _no_block_size(page: Page) -> int | None:
    del page
    return None


def _no_capacities(page: Page) -> tuple[int, ...]:
    del page
    return ()


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """What we know of an engine; ``name`` is shown, ``engine`` is the planner's word for it.

    ``visibility`` says when the blocks of a prompt can be matched.
    ``capacities`` reads the tokens that each cache behind a page has room for.
    """

    name: str
    engine: Engine
    hit_rule: HitRule
    default_block_size: int
    visibility: Visibility = Visibility.SCHEDULED
    prefixes: tuple[str, ...] = ()
    owned_by: tuple[str, ...] = ()
    sources: Mapping[Logical, tuple[Source, ...]] = field(default_factory=dict)
    rank_label: str | None = None
    block_size: Callable[[Page], int | None] = _no_block_size
    capacities: Callable[[Page], tuple[int, ...]] = _no_capacities
    reset_paths: tuple[str, ...] = ()
    metrics_paths: tuple[str, ...] = ("/metrics",)
    settle_s: float = 0.0
    ignore_eos: bool = True


def named(*names: str, unit: Unit = Unit.TOKENS) -> tuple[Source, ...]:
    """Sources of one name each, best first."""
    return tuple(Source((name,), unit) for name in names)


def label_number(page: Page, name: str, *labels: str) -> int | None:
    """First label of an info series that holds a number ("None" and absent ones are skipped)."""
    for label in labels:
        for sample in page.of(name):
            value = sample.label(label) or ""
            if value.isdecimal() and int(value) > 0:
                return int(value)
    return None


def gauge_number(page: Page, name: str) -> int | None:
    """Value of a gauge that is a whole number above 0."""
    return next((int(sample.value) for sample in page.of(name) if sample.value > 0), None)
