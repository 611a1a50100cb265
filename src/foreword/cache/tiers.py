"""Tiers and the edges between neighbours, as the cache wants them (spec: replay B2.6, A2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from foreword.config.replay import WriteMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.config.replay import InstanceGroup, TierFlow, TierStrategy

BYTES_PER_GB = 2**30
_BYTES_PER_MB = 10**6
SHARED = "shared"
"""Name of the one tier of a group whose tiers share a capacity."""


@dataclass(frozen=True, slots=True)
class Tier:
    """A tier of a group; a quota of ``None`` is never exceeded, a bandwidth of ``None`` is unknown."""

    name: str
    quota_bytes: int | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Edge:
    """What happens between a tier and the next farther one."""

    write_mode: WriteMode
    propagates_access: bool
    promotes: bool
    threshold: int


def tiers_of(group: InstanceGroup) -> tuple[Tier, ...]:
    """The tiers that are replayed: each storage, or one for all of them."""
    if not group.tier_strategy.hierarchical_eviction_enabled:
        return (Tier(SHARED, _quota(group.quota_capacity, group.used_percentage), None),)
    return tuple(
        Tier(tier.unique_name, _quota(tier.capacity, group.used_percentage), _speed(tier.band_width_mbps))
        for tier in group.tiers
    )


def edges_of(group: InstanceGroup) -> tuple[Edge, ...]:
    """The edge below each tier but the last."""
    if not group.tier_strategy.hierarchical_eviction_enabled:
        return ()
    flows = {(flow.from_tier, flow.to_tier): flow for flow in group.tier_strategy.tier_flows}
    names = [tier.unique_name for tier in group.tiers]
    return tuple(_edge(group.tier_strategy, flows.get(ends)) for ends in pairwise(names))


def written_tiers(edges: Sequence[Edge]) -> int:
    """Number of tiers that a write reaches: the first, and on across leading write-through edges."""
    return 1 + next((i for i, edge in enumerate(edges) if edge.write_mode is not WriteMode.WRITE_THROUGH), len(edges))


def _edge(strategy: TierStrategy, flow: TierFlow | None) -> Edge:
    """The group's strategy, with what the flow of this edge overrides."""
    own = {} if flow is None else flow.model_dump(exclude_none=True)
    merged = strategy.model_copy(update=own)
    return Edge(
        merged.write_mode, merged.access_propagation_enabled, merged.promote_enabled, merged.selective_write_threshold
    )


def _quota(capacity_gb: float, used: float) -> int | None:
    return None if capacity_gb < 0 else int(int(capacity_gb * BYTES_PER_GB) * used)


def _speed(band_width_mbps: float) -> float | None:
    return band_width_mbps * _BYTES_PER_MB if band_width_mbps > 0 else None
