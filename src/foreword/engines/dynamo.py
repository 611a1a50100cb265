"""NVIDIA Dynamo front end: token sums over finished requests; the router's own rate is a prediction and not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile, Logical, gauge_number, named
from foreword.terms import Engine

if TYPE_CHECKING:
    from foreword.engines.page import Page


def _block_size(page: Page) -> int | None:
    return gauge_number(page, "dynamo_frontend_model_kv_cache_block_size")


DYNAMO = EngineProfile(
    name="dynamo",
    engine=Engine.GENERIC,
    hit_rule=HitRule.CAP_THEN_FLOOR,
    default_block_size=16,
    prefixes=("dynamo_frontend_",),
    sources={
        Logical.QUERIES: named("dynamo_frontend_input_sequence_tokens_sum"),
        Logical.HITS: named("dynamo_frontend_cached_tokens_sum"),
        Logical.PROMPT_TOKENS: named("dynamo_frontend_input_sequence_tokens_sum"),
        Logical.RUNNING: named("dynamo_frontend_inflight_requests"),
        Logical.WAITING: named("dynamo_frontend_queued_requests"),
    },
    block_size=_block_size,
)
