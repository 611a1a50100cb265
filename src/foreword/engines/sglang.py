"""SGLang: no queries counter; tokens are counted when a request finishes, hits split by the tier they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile, Logical, Source, gauge_number, named
from foreword.terms import Engine, Visibility

if TYPE_CHECKING:
    from foreword.engines.page import Page, Sample


def _from_outer_tier(sample: Sample) -> bool:
    return (sample.label("cache_source") or "").startswith(("host", "storage"))


def _from_device(sample: Sample) -> bool:
    """Tier ``device``, the fallback ``total``, or no tier label at all (before 0.5.9)."""
    return not _from_outer_tier(sample)


def _page_size(page: Page) -> int | None:
    return gauge_number(page, "sglang:page_size")


def _capacities(page: Page) -> tuple[int, ...]:
    """Tokens of each data-parallel rank's cache; tensor-parallel ranks repeat it."""
    by_rank = {sample.label("dp_rank") or "": sample.value for sample in page.of("sglang:max_total_num_tokens")}
    return tuple(int(tokens) for tokens in by_rank.values() if tokens > 0)


SGLANG = EngineProfile(
    name="sglang",
    engine=Engine.SGLANG,
    hit_rule=HitRule.CAP_THEN_FLOOR,
    default_block_size=1,
    visibility=Visibility.FORWARD,
    prefixes=("sglang:",),
    owned_by=("sglang",),
    sources={
        Logical.QUERIES: named("sglang:prompt_tokens_total"),
        Logical.HITS: (Source(("sglang:cached_tokens_total",), only_if=_from_device),),
        Logical.EXTERNAL_HITS: (Source(("sglang:cached_tokens_total",), only_if=_from_outer_tier),),
        Logical.PROMPT_TOKENS: named("sglang:prompt_tokens_total"),
        Logical.PREEMPTIONS: named("sglang:num_retracted_requests_total"),
        Logical.EVICTED_TOKENS: named("sglang:evicted_tokens_total"),
        Logical.KV_USAGE: named("sglang:token_usage"),
        Logical.RUNNING: named("sglang:num_running_reqs"),
        Logical.WAITING: named("sglang:num_queue_reqs"),
        Logical.REPORTED_RATE: named("sglang:cache_hit_rate"),
    },
    rank_label="dp_rank",
    block_size=_page_size,
    capacities=_capacities,
    reset_paths=("/flush_cache",),
)
