"""MindIE: names without a prefix, cumulative tokens typed as gauges, refreshed about once a second."""

from __future__ import annotations

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile, Logical, named
from foreword.terms import Engine, Visibility

MINDIE = EngineProfile(
    name="mindie",
    engine=Engine.MINDIE,
    # gives back one *block* of a whole-prompt hit, which is the value of "cap at N-1, then floor"
    hit_rule=HitRule.CAP_THEN_FLOOR,
    default_block_size=128,
    visibility=Visibility.FORWARD,
    prefixes=("npu_prefix_cache_hit_rate", "npu_cache_usage_perc", "all_radix_match_num"),
    owned_by=("MindIE Server",),
    sources={
        Logical.QUERIES: named("all_radix_match_num"),
        Logical.HITS: named("npu_radix_match_hit_num"),
        Logical.PROMPT_TOKENS: named("prompt_tokens_total"),
        Logical.PREEMPTIONS: named("num_preemptions_total"),
        Logical.KV_USAGE: named("npu_cache_usage_perc"),
        Logical.RUNNING: named("num_requests_running"),
        Logical.WAITING: named("num_requests_waiting"),
        Logical.REPORTED_RATE: named("npu_prefix_cache_hit_rate"),
    },
    settle_s=2.5,
)
