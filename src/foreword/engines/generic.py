"""An OpenAI-compatible server that we know nothing else about."""

from __future__ import annotations

from foreword.cache.rules import HitRule
from foreword.engines.model import EngineProfile
from foreword.terms import Engine

GENERIC = EngineProfile(
    name="generic",
    engine=Engine.GENERIC,
    hit_rule=HitRule.CAP_THEN_FLOOR,
    default_block_size=16,
    metrics_paths=("/metrics", "/prometheus/metrics"),
    ignore_eos=False,
)
