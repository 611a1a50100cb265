"""LMDeploy: a cumulative hit rate and a token counter; hits are derived as the difference of their product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.rules import HitRule
from foreword.engines.model import Combine, EngineProfile, Logical, Source, label_number, named
from foreword.terms import Engine, Visibility

if TYPE_CHECKING:
    from foreword.engines.page import Page

_RATE, _TOKENS = "lmdeploy:prefix_cache_hit_rate", "lmdeploy:prompt_tokens_total"


def _block_size(page: Page) -> int | None:
    return label_number(page, "lmdeploy:backend_config_info", "block_size", "cache_block_seq_len")


LMDEPLOY = EngineProfile(
    name="lmdeploy",
    engine=Engine.LMDEPLOY,
    hit_rule=HitRule.CAP_THEN_FLOOR,
    default_block_size=64,
    visibility=Visibility.FORWARD,
    prefixes=("lmdeploy:",),
    owned_by=("lmdeploy",),
    sources={
        Logical.QUERIES: named(_TOKENS),
        Logical.HITS: (Source((_RATE, _TOKENS), combine=Combine.PRODUCT),),
        Logical.PROMPT_TOKENS: named(_TOKENS),
        Logical.KV_USAGE: named("lmdeploy:gpu_cache_usage_perc"),
        Logical.RUNNING: named("lmdeploy:num_requests_running"),
        Logical.WAITING: named("lmdeploy:num_requests_waiting"),
        Logical.REPORTED_RATE: named(_RATE),
    },
    rank_label="engine",
    block_size=_block_size,
)
