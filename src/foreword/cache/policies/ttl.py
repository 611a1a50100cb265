"""Blocks that expire; recency decides only under pressure, if at all (spec: replay B2.7, ttl).

Expiry itself is a matter of blocks, not of tiers, and stands with the instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.lru import LruPolicy
from foreword.config.replay import LruParams

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable
    from foreword.config.replay import TtlParams


class TtlPolicy(LruPolicy):
    """Exact LRU under pressure, or no eviction at all without ``fallback_on_pressure``."""

    def __init__(self, table: BlockTable, tier: int, params: TtlParams) -> None:
        super().__init__(table, tier, LruParams())
        self.yields_to_pressure = params.fallback_on_pressure
