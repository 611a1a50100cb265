"""TensorRT-LLM: Prometheus text at ``/prometheus/metrics``; ``/metrics`` is a JSON list that reading drains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile, Logical, Source, Unit, gauge_number, label_number, named
from foreword.terms import Engine, Visibility

if TYPE_CHECKING:
    from foreword.engines.page import Page


def _block_size(page: Page) -> int | None:
    told = gauge_number(page, "trtllm_kv_cache_tokens_per_block")
    return told or label_number(page, "trtllm_kv_cache_config_info", "page_size", "tokens_per_block")


TRTLLM = EngineProfile(
    name="trtllm",
    engine=Engine.TRTLLM,
    hit_rule=HitRule.CAP_ONLY,
    default_block_size=32,
    visibility=Visibility.FORWARD,
    prefixes=("trtllm_",),
    owned_by=("tensorrt_llm",),
    sources={
        Logical.QUERIES: named("trtllm_prompt_tokens_total"),
        # a partly reused block counts as one block: an upper bound, used only without the token counter
        Logical.HITS: (
            Source(("trtllm_prompt_cached_tokens_total",)),
            Source(("trtllm_kv_cache_reused_blocks_total",), Unit.BLOCKS),
        ),
        Logical.PROMPT_TOKENS: named("trtllm_prompt_tokens_total"),
        Logical.KV_USAGE: named("trtllm_kv_cache_utilization"),
        Logical.REPORTED_RATE: named("trtllm_kv_cache_hit_rate"),
    },
    block_size=_block_size,
    metrics_paths=("/prometheus/metrics",),
)
