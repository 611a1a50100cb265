"""llama.cpp server: no labels; ``prompt_tokens_total`` leaves cached tokens out, so queries are a sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile, Logical, Source, named
from foreword.terms import Engine, Visibility

if TYPE_CHECKING:
    from foreword.engines.page import Page

_PROCESSED, _CACHED = "llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"


def _token_granular(page: Page) -> int:
    del page
    return 1


LLAMACPP = EngineProfile(
    name="llamacpp",
    engine=Engine.LLAMACPP,
    hit_rule=HitRule.CAP_ONLY,
    default_block_size=1,
    visibility=Visibility.FORWARD,
    prefixes=("llamacpp:",),
    owned_by=("llamacpp",),
    sources={
        Logical.QUERIES: (Source((_PROCESSED, _CACHED)),),
        Logical.HITS: named(_CACHED),
        Logical.PROMPT_TOKENS: (Source((_PROCESSED, _CACHED)),),
        Logical.KV_USAGE: named("llamacpp:kv_cache_usage_ratio"),
        Logical.RUNNING: named("llamacpp:requests_processing"),
        Logical.WAITING: named("llamacpp:requests_deferred"),
    },
    block_size=_token_granular,
)
