"""The arrays that the compiled cache works on, from the groups and instances of a replay."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.cache import tables
from foreword.cache.policies.random_lru import FIRST_STATE, sample_size
from foreword.cache.policies.vllm import VllmPolicy
from foreword.cache.table import NEVER
from foreword.config.replay import (
    FifoInstance,
    LeafAwareLruInstance,
    LfuInstance,
    LruInstance,
    MaskSemantics,
    OptimalInstance,
    RandomLruInstance,
    S3FifoInstance,
    TouchOrder,
    TtlInstance,
    VllmInstance,
    WriteMode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from foreword.cache.group import CacheGroup
    from foreword.simulate.replay import Replay, ReplayedInstance
    from foreword.trace.columns import TraceColumns

    Array = NDArray[Any]
    Paths = Sequence[tuple[Array, Array]]

_NO_QUOTA = -1
_MOST_BYTES = 2**62
"""More than is ever cached; greater quotas count as this."""

_FIRST_AND_END = 2
"""Bounds of the blocks of a single instance."""

_LONGEST_TTL_NS = 2**62
_MOST_THRESHOLD = 2**62
_POLICIES: dict[type, int] = {
    TtlInstance: tables.LRU,
    LeafAwareLruInstance: tables.LEAF,
    FifoInstance: tables.FIFO,
    LfuInstance: tables.LFU,
    S3FifoInstance: tables.S3FIFO,
    OptimalInstance: tables.BOUND,
    VllmInstance: tables.POOL,
}
_EDGE_MODES = {
    WriteMode.WRITE_THROUGH: tables.THROUGH,
    WriteMode.CASCADING: tables.CASCADING,
    WriteMode.SELECTIVE: tables.SELECTIVE,
}


def make_world(replay: Replay, trace: TraceColumns, *, events: Array, times: Array, paths: Paths) -> tables.World:
    """Empty caches for blocks with these keys and parents, of each instance in turn."""
    every = list(replay.instances.values())
    tiers = max(len(at.group.tiers) for at in every)
    firsts = np.cumsum([0, *(len(keys) for keys, _ in paths)])
    blocks = int(firsts[-1])
    keeps_tree = any(isinstance(at.cache.config, LeafAwareLruInstance) for at in every)
    written = events[:, tables.WRITES] * (events[:, tables.STOP] - events[:, tables.START])
    members, heads = _members(replay, every, firsts, len(trace.keys) + 1)
    groups, room = _groups(replay, events[:, tables.INSTANCE], written)
    lives = int(written.sum()) if replay.lifecycle else 0
    drawn = blocks if any(isinstance(at.cache.config, RandomLruInstance) for at in every) else 0
    seed = replay.config.trace_replay.random_seed or FIRST_STATE
    return tables.World(
        whole=_rules(replay, len(trace.keys) + 1),
        members=members,
        groups=groups,
        tiers=_tiers(replay.groups, tiers),
        rows=_rows(firsts, heads, tiers),
        runs=np.full((tiers, 2), -1, np.int64),
        shard=_shards(every, paths),
        slots=np.empty((drawn, tiers), np.int32),
        random=np.full((len(every), tiers), seed, np.uint64),
        tallies=np.zeros((len(every), tiers, tables.SIZE + 1), np.int64),
        amplification=np.array([_amplification(at) for at in every], np.float64),
        lives=np.empty((lives, 5), np.int64),
        heap=np.empty((room, 2), np.int64),
        ttl_ns=event_ttls(replay, trace, events=events),
        times=times,
        nodes=np.zeros((blocks if keeps_tree else 0, tables.NODE_WIDTH), np.int32),
        parents=_parents(firsts, paths) if keeps_tree else np.zeros(0, np.int32),
        victims=np.empty(blocks + 1, np.int32),
        scratch=np.empty(blocks, np.int32),
    )


def event_ttls(replay: Replay, trace: TraceColumns, *, events: Array) -> Array:
    """TTL of what each event brings in, the longest ones cut."""
    ttls = np.full(len(events), NEVER, np.int64)
    instance, ttl_us = events[:, tables.INSTANCE], trace.ttl_us[events[:, tables.ROW]]
    for number, at in enumerate(replay.instances.values()):
        own = np.flatnonzero(instance == number)
        values, which = np.unique(ttl_us[own], return_inverse=True)
        known = [min(at.group.ttl_ns(value), _LONGEST_TTL_NS) for value in values.tolist()]
        ttls[own] = np.array(known, np.int64)[which]
    return ttls


def _rules(replay: Replay, most: int) -> Array:
    eviction, switches = replay.config.eviction_params, replay.config.trace_replay
    return np.array(
        [
            eviction.eviction_mode,
            min(eviction.eviction_batch_size_per_instance, most),
            switches.touch_order is TouchOrder.TAIL_FIRST,
            switches.write_refresh,
            replay.lifecycle,
            switches.block_mask_semantics is MaskSemantics.TRUSTED,
            0,
            0,
            0,
            -1,
            0,
            0,
        ],
        np.int64,
    )


def _members(replay: Replay, every: list[ReplayedInstance], firsts: Array, most: int) -> tuple[Array, int]:
    """Instances, and the number of recency lists that they need."""
    numbers = {id(group): number for number, group in enumerate(replay.groups)}
    batch = replay.config.eviction_params.eviction_batch_size_per_instance
    rows, head = [], int(firsts[-1])
    for at, (first, _) in zip(every, pairwise(firsts.tolist()), strict=True):
        policy, shards, times, drawn = tables.LRU, at.cache.config.shard_count, 1, 0
        match at.cache.config:
            case LruInstance(eviction_policy_params=params):
                times = min(params.sample_times, shards)
            case RandomLruInstance(eviction_policy_params=sampled):
                policy, drawn = tables.RANDOM, min(sample_size(sampled, batch), most)
            case config:
                policy = _POLICIES[type(config)]
        yields = at.cache.policies[0].yields_to_pressure
        rows.append(
            [
                numbers[id(at.group)],
                at.cache.bytes_per_block,
                policy,
                head,
                shards,
                times,
                drawn,
                yields,
                first,
                isinstance(at.cache.config, TtlInstance),
                at.cache.config.block_size,
                _capacity(at),
            ]
        )
        head += 2 if policy == tables.S3FIFO else shards
    return np.array(rows, np.int64), head - int(firsts[-1])


def _capacity(at: ReplayedInstance) -> int:
    """Blocks of a pool, -1 for no limit and for other policies."""
    policy = at.cache.policies[0]
    capacity = policy.pool.capacity_blocks if isinstance(policy, VllmPolicy) else None
    return _NO_QUOTA if capacity is None else min(capacity, _MOST_BYTES)


def _amplification(at: ReplayedInstance) -> float:
    config = at.cache.config
    return config.eviction_policy_params.eviction_amplification_factor if isinstance(config, LruInstance) else 1.0


def _groups(replay: Replay, instance: Array, written: Array) -> tuple[Array, int]:
    """Groups, and the room that the expiries of all of them may take; blocks ``written`` by each event."""
    rows, start, room = [], 0, 0
    for group in replay.groups:
        stop = start + len(group.instances)
        own = (instance >= start) & (instance < stop)
        expires = any(cache.expires for cache in group.instances)
        rows.append([0, 0, group.written_tiers, group.ttl_refresh, start, stop, len(group.tiers), room, 0])
        room += int(written[own].sum()) + 1 if expires else 0
        start = stop
    return np.array(rows, np.int64), room


def _tiers(groups: Sequence[CacheGroup], tiers: int) -> Array:
    """Quotas of all tiers, and the edges below them."""
    levels = np.zeros((len(groups), tiers, 5), np.int64)
    levels[:, :, tables.QUOTA] = _NO_QUOTA
    for number, group in enumerate(groups):
        for tier, each in enumerate(group.tiers):
            if each.quota_bytes is not None:
                levels[number, tier, tables.QUOTA] = min(each.quota_bytes, _MOST_BYTES)
        for place, edge in enumerate(group.edges):
            threshold = min(edge.threshold, _MOST_THRESHOLD)
            levels[number, place, 1:] = (_EDGE_MODES[edge.write_mode], edge.propagates_access, edge.promotes, threshold)
    return levels


def _rows(firsts: Array, heads: int, tiers: int) -> Array:
    """Blocks in no tier and no tree, and lists whose heads are their own neighbours."""
    blocks = int(firsts[-1])
    row = np.zeros(tables.FIXED + tables.WIDTH * tiers, np.int32)
    row[tables.HOME] = -1
    rows = tables.filled((blocks + heads, len(row)), row)
    if len(firsts) > _FIRST_AND_END:
        rows[:blocks, tables.OWNER] = np.repeat(np.arange(len(firsts) - 1), np.diff(firsts))
    for tier in range(tiers):
        at = tables.FIXED + tables.WIDTH * tier
        rows[blocks:, at + tables.NEWER] = rows[blocks:, at + tables.OLDER] = np.arange(blocks, blocks + heads)
    return rows


def _parents(firsts: Array, paths: Paths) -> Array:
    """The block before each block, -1 for the first of a path."""
    parents = [above + np.where(above < 0, 0, first) for first, (_, above) in zip(firsts, paths, strict=False)]
    return np.concatenate(parents).astype(np.int32)


def _shards(every: list[ReplayedInstance], paths: Paths) -> Array:
    """The shard of each block; nothing where no instance has more than one."""
    counts = [at.cache.config.shard_count for at in every]
    if max(counts) == 1:
        return np.zeros(0, np.int32)
    parts = [
        (keys.view(np.uint64) % np.uint64(count)).astype(np.int32)
        for (keys, _), count in zip(paths, counts, strict=True)
    ]
    return np.concatenate(parts)
