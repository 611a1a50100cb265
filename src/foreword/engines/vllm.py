"""vLLM V1 and vLLM-Ascend: ``vllm:`` names, counters in tokens since 0.9.0, in blocks before (same name)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile, Logical, Source, Unit, label_number, named
from foreword.terms import Engine

if TYPE_CHECKING:
    from foreword.engines.page import Page


def _block_size(page: Page) -> int | None:
    """Match granularity: hybrid models match finer or coarser than ``block_size``, newer releases say how."""
    labels = ("cache_hit_alignment_tokens", "hash_block_size", "block_size")
    return label_number(page, "vllm:cache_config_info", *labels)


def _capacities(page: Page) -> tuple[int, ...]:
    """Tokens of each engine's cache, without the block that vLLM keeps for itself."""
    found: dict[str, int] = {}
    for sample in page.of("vllm:cache_config_info"):
        block, blocks, tokens = (_number(sample.label(name)) for name in _CAPACITY_LABELS)
        if block and (tokens or blocks):
            found[sample.label("engine") or ""] = (tokens or blocks * block) - block
    return tuple(found.values())


_CAPACITY_LABELS = ("block_size", "num_gpu_blocks", "kv_cache_size_tokens")


def _number(label: str | None) -> int:
    return int(label) if label and label.isdecimal() else 0


def _cache_counter(what: str) -> tuple[Source, ...]:
    new, old = f"vllm:prefix_cache_{what}_total", f"vllm:gpu_prefix_cache_{what}_total"
    return (Source((new,), Unit.BY_HELP), Source((old,), Unit.BY_HELP))


VLLM = EngineProfile(
    name="vllm",
    engine=Engine.VLLM,
    hit_rule=HitRule.CAP_THEN_FLOOR,
    default_block_size=16,
    prefixes=("vllm:",),
    owned_by=("vllm",),
    sources={
        Logical.QUERIES: _cache_counter("queries"),
        Logical.HITS: _cache_counter("hits"),
        Logical.EXTERNAL_QUERIES: named("vllm:external_prefix_cache_queries_total"),
        Logical.EXTERNAL_HITS: named("vllm:external_prefix_cache_hits_total"),
        Logical.PROMPT_TOKENS: named("vllm:prompt_tokens_total"),
        Logical.PREEMPTIONS: named("vllm:num_preemptions_total"),
        Logical.KV_USAGE: named("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        Logical.RUNNING: named("vllm:num_requests_running"),
        Logical.WAITING: named("vllm:num_requests_waiting"),
        Logical.REPORTED_RATE: named("vllm:gpu_prefix_cache_hit_rate"),
    },
    rank_label="engine",
    block_size=_block_size,
    capacities=_capacities,
    reset_paths=("/reset_prefix_cache",),
)

VLLM_ASCEND = replace(VLLM, name="vllm_ascend", engine=Engine.VLLM_ASCEND, default_block_size=128)
