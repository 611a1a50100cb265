"""A replay over time, for charts: a bounded number of moments, forward-filled per instance (spec: replay B1.2).

Time counts in seconds from the first read of any instance. An instance is empty and has hit nothing before its own
first read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from foreword.cache.group import CacheGroup
    from foreword.simulate.replay import Replay, ReplayedInstance

    Array = NDArray[Any]

MOST_MOMENTS = 1_000
MOST_BINS = 100
WINDOW_S = 10.0
_NS_PER_S = 1e9
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Ratios:
    """Hit ratios at each moment: of all reads so far, of their remote hits alone, and of the last ten seconds."""

    name: str
    hit: Array
    remote: Array
    windowed: Array


@dataclass(frozen=True, slots=True)
class TierTimeline:
    """What a tier holds at each moment, and what hits read from it in each of the equal spans, a second."""

    name: str
    bytes_per_s: float | None
    cached_bytes: Array
    read_bytes_per_s: Array


@dataclass(frozen=True, slots=True)
class GroupTimeline:
    """The tiers of a group, over all of its instances."""

    name: str
    input_tokens: int
    tiers: tuple[TierTimeline, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments, the middles of equal spans, and what is known at them; ``reads`` is the number of all reads."""

    reads: int
    seconds: Array
    span_middles_s: Array
    span_s: float
    total: Ratios
    instances: tuple[Ratios, ...]
    groups: tuple[GroupTimeline, ...]


@dataclass(frozen=True, slots=True)
class _Clock:
    """Moments in nanoseconds, and the edges of the equal spans."""

    moments: Array
    edges: Array


def timeline(replay: Replay) -> Timeline | None:
    """The replay at no more than ``MOST_MOMENTS`` reads, the last one included; ``None`` without a read."""
    every = list(replay.instances.values())
    times = np.sort(np.concatenate([_NOTHING, *(_times(at) for at in every)]))
    if not len(times):
        return None
    picked = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_MOMENTS)).astype(np.int64))
    span_ns = int(times[-1] - times[0])
    edges = times[0] + np.linspace(0, span_ns, min(MOST_BINS, max(1, span_ns)) + 1).astype(np.int64)
    clock = _Clock(np.unique(times[picked]), edges)
    return Timeline(
        reads=len(times),
        seconds=(clock.moments - times[0]) / _NS_PER_S,
        span_middles_s=((edges[:-1] + edges[1:]) / 2 - times[0]) / _NS_PER_S,
        span_s=span_ns / _NS_PER_S / (len(edges) - 1),
        total=_ratios("all instances", every, clock),
        instances=tuple(_ratios(at.instance_id, [at], clock) for at in every),
        groups=tuple(_group(group, [at for at in every if at.group is group], clock) for group in replay.groups),
    )


def _times(at: ReplayedInstance) -> Array:
    """Times of the reads; a read that another simulator dates back counts at the time of the one before it."""
    return np.maximum.accumulate(np.asarray(at.series.timestamp_ns))


def _group(group: CacheGroup, members: list[ReplayedInstance], clock: _Clock) -> GroupTimeline:
    tiers = []
    for index, tier in enumerate(group.tiers):
        cached = _filled(members, clock.moments, partial(_cached_bytes, tier=index))
        tiers.append(TierTimeline(tier.name, tier.bytes_per_s, cached, _a_second(members, clock.edges, index)))
    return GroupTimeline(group.name, sum(sum(at.series.input_tokens) for at in members), tuple(tiers))


def _cached_bytes(at: ReplayedInstance, *, tier: int) -> Array:
    return np.asarray(at.series.tier_cached_blocks[tier]).astype(np.float64) * at.cache.bytes_per_block


def _filled(members: list[ReplayedInstance], moments: Array, values: Callable[[ReplayedInstance], Array]) -> Array:
    """Sum over instances of the value at the latest read up to each moment."""
    total = np.zeros(len(moments))
    for at in members:
        total += np.concatenate([[0.0], values(at)])[np.searchsorted(_times(at), moments, side="right")]
    return total


def _a_second(members: list[ReplayedInstance], edges: Array, tier: int) -> Array:
    """Bytes that hits read from a tier in each span, by its seconds; nothing where time stands still."""
    total, length_s = np.zeros(len(edges) - 1), (edges[-1] - edges[0]) / _NS_PER_S / (len(edges) - 1)
    for at in members:
        read_bytes = np.asarray(at.series.tier_blocks[tier]).astype(np.float64) * at.cache.bytes_per_block
        total += np.histogram(_times(at), edges, weights=read_bytes)[0]
    return total / length_s if length_s else total


def _ratios(name: str, members: list[ReplayedInstance], clock: _Clock) -> Ratios:
    count, window = len(clock.moments), clock.moments - int(WINDOW_S * _NS_PER_S)
    both = np.concatenate([clock.moments, window])
    read, local, remote = (_filled(members, both, values) for values in (_read_so_far, _local_so_far, _remote_so_far))
    hit = local + remote
    return Ratios(
        name,
        _quotient(hit[:count], read[:count]),
        _quotient(remote[:count], read[:count]),
        _quotient(hit[:count] - hit[count:], read[:count] - read[count:]),
    )


def _read_so_far(at: ReplayedInstance) -> Array:
    return np.cumsum(np.asarray(at.series.input_tokens).astype(np.float64))


def _local_so_far(at: ReplayedInstance) -> Array:
    return np.cumsum(np.asarray(at.series.local_blocks).astype(np.float64)) * at.cache.config.block_size


def _remote_so_far(at: ReplayedInstance) -> Array:
    return np.cumsum(np.asarray(at.series.remote_blocks).astype(np.float64)) * at.cache.config.block_size


def _quotient(parts: Array, wholes: Array) -> Array:
    quotient: Array = np.divide(parts, wholes, out=np.zeros(len(parts)), where=wholes > 0)
    return quotient
