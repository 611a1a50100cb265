"""Whole traces on the compiled core: the same end state as feeding every row, many times sooner.

The core knows exact LRU in one tier or pool, for any number of instances and groups, in every mode and order of touch,
with simulated masks. Rows become arrays, the kernels run, and what they leave is loaded as a saved state.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.cache import kernels
from foreword.config.replay import TouchOrder
from foreword.simulate.cores import Core
from foreword.simulate.replay import UNKNOWN_INSTANCE, UNSUPPORTED_QUERY
from foreword.trace.schema import INT64_MAX, PREFIX_MATCH, RowKind, RowRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from foreword.cache.group import CacheGroup
    from foreword.cache.masks import BlockMask
    from foreword.cache.table import State
    from foreword.simulate.replay import Replay
    from foreword.trace.schema import RowError, TraceRow

    IntArray = NDArray[Any]

_NO_QUOTA = -1
_MOST_BYTES = 2**62
"""More than is ever cached; greater quotas count as this."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """Rows that run, as arrays: which they are, whose, when, what they do, and their slice of all keys."""

    row: IntArray
    instance: IntArray
    time: IntArray
    reads: IntArray
    writes: IntArray
    spans: IntArray


@dataclass(frozen=True, slots=True)
class _Ran:
    """What the kernels left of one instance: its blocks, their order, lives and events, beside all events."""

    every_event: IntArray
    first: int
    keys: IntArray
    parents: IntArray
    state: IntArray
    recency: IntArray
    events: IntArray
    outcomes: IntArray
    lives: IntArray
    evicted: int


def replay_compiled(replay: Replay, rows: Sequence[TraceRow], *, refuse: Callable[[RowError], None]) -> None:
    """Run rows in the order of their times and all delayed writes, on a replay that has no ``misfit``.

    ``refuse`` hears of each row that cannot be executed, in order, and may raise. The replay can go on from here, as if
    it had been fed every row.
    """
    saved = replay.save()
    taken, saved["skipped"] = _taken(replay, rows, refuse)
    saved["pending"]["asked"] = int((taken.reads & taken.writes).sum())
    ran, above = _run(replay, rows, taken)
    for group, document, checks in zip(replay.groups, saved["groups"], above, strict=True):
        document["over_quota_checks"] = checks
        for cache, own in zip(group.instances, document["instances"], strict=True):
            one = ran[cache.config.instance_id]
            own["table"] = _table(group, one, rows)
            own["policies"] = [{"shards": [(one.recency - one.first).tolist()]}]
            own["last_seen_ns"] = int(one.events[:, kernels.TIME].max(initial=0))
            if cache.lifecycle is not None:
                own["lifecycle"] = {"lives": _lives(one)}
            series = _series(one, rows)
            own["traffic"][0] |= {
                "read": sum(series["tier_blocks"][0]),
                "written": series["new_blocks"],
                "evicted": one.evicted,
            }
            saved["series"][cache.config.instance_id] = series
        document["clock_ns"] = max(each["last_seen_ns"] for each in document["instances"])
    replay.load(saved)
    replay.core = Core.COMPILED


def _taken(
    replay: Replay, rows: Sequence[TraceRow], refuse: Callable[[RowError], None]
) -> tuple[_Taken, dict[str, int]]:
    """Rows that run, and counts of those that are skipped on purpose."""
    count = len(rows)
    numbers = {name: number for number, name in enumerate(replay.instances)}
    instance = np.fromiter((numbers.get(row.instance_id, -1) for row in rows), np.int64, count)
    reads = np.fromiter((row.kind is not RowKind.WRITE for row in rows), np.bool_, count)
    writes = np.fromiter((row.kind is not RowKind.GET for row in rows), np.bool_, count)
    time = np.fromiter((row.timestamp_ns for row in rows), np.int64, count)
    sizes = np.fromiter((len(row.keys) for row in rows), np.int64, count)
    ends = np.cumsum(sizes)
    spans = np.column_stack([ends - sizes, ends])
    known = instance >= 0
    other = known & reads & np.fromiter((row.query_type != PREFIX_MATCH for row in rows), np.bool_, count)
    runs = known & ~other
    for row in _doubtful(replay, rows, runs & reads):
        try:
            replay.check_read(rows[row])
        except RowRefused as refused:
            runs[row] = False
            refuse(refused.error)
    skipped = {UNKNOWN_INSTANCE: int((~known).sum()), UNSUPPORTED_QUERY: int(other.sum())}
    taken = _Taken(np.flatnonzero(runs), instance[runs], time[runs], reads[runs], writes[runs], spans[runs])
    return taken, {kind: found for kind, found in skipped.items() if found}


def _doubtful(replay: Replay, rows: Sequence[TraceRow], reads: IntArray) -> list[int]:
    """Reads that may have to be refused: more keys than tokens fill, or a time near the end of time."""
    sizes = {name: at.cache.config.block_size for name, at in replay.instances.items()}
    latest = INT64_MAX - replay.config.trace_replay.write_delay_ns
    return [
        place
        for place in np.flatnonzero(reads).tolist()
        if len(rows[place].keys) * sizes[rows[place].instance_id] > rows[place].input_len
        or rows[place].timestamp_ns > latest
        or rows[place].input_len <= 0
    ]


def _run(replay: Replay, rows: Sequence[TraceRow], taken: _Taken) -> tuple[dict[str, _Ran], list[int]]:
    """Run the kernels; what they left of each instance, and the checks of each group that ended above its quota."""
    keys = np.frombuffer(b"".join(row.keys for row in rows), np.int64)
    ids, paths, first = np.empty(len(keys), np.int64), [], [0]
    events = _events(taken, replay.config.trace_replay.write_delay_ns)
    for number in range(len(replay.instances)):
        own = (events[:, kernels.INSTANCE] == number) & (events[:, kernels.WRITES] == 1)
        written = events[own, kernels.START : kernels.STOP + 1]
        spans = np.concatenate([written, taken.spans[(taken.instance == number) & ~taken.writes]])
        paths.append(kernels.intern_paths(keys, spans, len(written), ids, first[-1]))
        first.append(first[-1] + len(paths[-1][0]))
    members, groups, rules = _tables(replay, len(keys))
    outcomes, state, lives = kernels.replay_one_tier(events, ids, members, groups, rules, first[-1])
    ran = {}
    for number, (name, (low, high)) in enumerate(zip(replay.instances, pairwise(first), strict=True)):
        own = events[:, kernels.INSTANCE] == number
        order = kernels.oldest_first(state, first[-1] + number, int(members[number, kernels.SIZE]))
        mine = lives[(lives[:, kernels.LIFE_BLOCK] >= low) & (lives[:, kernels.LIFE_BLOCK] < high)]
        ran[name] = _Ran(
            events,
            low,
            *paths[number],
            state[low:high],
            order,
            events[own],
            outcomes[own],
            mine,
            members[number].tolist()[kernels.EVICTED],
        )
    return ran, groups[:, kernels.ABOVE].tolist()


def _events(taken: _Taken, delay_ns: int) -> IntArray:
    """Rows and delayed writes in the order in which they run: a write that is due at a time before any row of it."""
    count = len(taken.row)
    places = np.arange(count)
    asked = np.flatnonzero(taken.reads & taken.writes)
    due = taken.time[asked] + delay_ns
    turn = np.maximum(np.searchsorted(taken.time, due), asked + 1)
    order = np.argsort(np.concatenate([2 * turn, 2 * places + 1]), kind="stable")
    source = np.concatenate([asked, places])
    events = np.empty((len(source), 6), np.int64)
    events[:, kernels.TIME] = np.concatenate([due, taken.time])
    events[:, kernels.START : kernels.STOP + 1] = taken.spans[source]
    events[:, kernels.INSTANCE] = taken.instance[source]
    events[:, kernels.WRITES] = np.concatenate([np.ones(len(asked), np.bool_), ~taken.reads])
    events[:, kernels.ROW] = taken.row[source]
    return events[order]


def _tables(replay: Replay, keys: int) -> tuple[IntArray, IntArray, IntArray]:
    """Instances, groups and rules as the kernels want them."""
    numbers = {id(group): number for number, group in enumerate(replay.groups)}
    members = [[numbers[id(at.group)], at.cache.bytes_per_block, 0, 0] for at in replay.instances.values()]
    quotas = [group.tiers[0].quota_bytes for group in replay.groups]
    groups = [[_NO_QUOTA if quota is None else min(quota, _MOST_BYTES), 0] for quota in quotas]
    eviction, switches = replay.config.eviction_params, replay.config.trace_replay
    rules = [
        eviction.eviction_mode,
        min(eviction.eviction_batch_size_per_instance, keys + 1),
        switches.touch_order is TouchOrder.TAIL_FIRST,
        switches.write_refresh,
        any(at.cache.lifecycle is not None for at in replay.instances.values()),
    ]
    return np.array(members, np.int64), np.array(groups, np.int64), np.array(rules, np.int64)


def _table(group: CacheGroup, one: _Ran, rows: Sequence[TraceRow]) -> State:
    """Columns of the blocks of an instance."""
    births = one.every_event[one.state[:, kernels.BIRTH]]
    row_ttl_us = np.fromiter((row.ttl_us for row in rows), np.int64, len(rows))
    ttl_us, which = np.unique(row_ttl_us[births[:, kernels.ROW]], return_inverse=True)
    ttl_ns = [group.ttl_ns(each) for each in ttl_us.tolist()]
    last_access = one.state[:, kernels.LAST_ACCESS].tolist()
    return {
        "keys": one.keys.tolist(),
        "parents": one.parents.tolist(),
        "held": (one.state[:, kernels.PREVIOUS] >= 0).astype(np.int64).tolist(),
        "reads": one.state[:, kernels.READS].tolist(),
        "last_access": last_access,
        "ttl": [ttl_ns[each] for each in which.tolist()],
        "anchor": last_access if group.ttl_refresh else births[:, kernels.TIME].tolist(),
        "tier_time": [one.state[:, kernels.TIER_TIME].tolist()],
        "tier_reads": [one.state[:, kernels.TIER_READS].tolist()],
    }


def _lives(one: _Ran) -> list[State]:
    """Lives in order of birth."""
    return [
        {
            "block": block - one.first,
            "birth_ns": birth,
            "last_access_ns": last,
            "accesses": reads,
            "death_ns": None if death < 0 else death,
        }
        for block, birth, last, reads, death in one.lives.tolist()
    ]


def _series(one: _Ran, rows: Sequence[TraceRow]) -> State:
    """What reads and writes came to."""
    writes = one.events[:, kernels.WRITES] == 1
    wrote, read, answers = one.events[writes], one.events[~writes], one.outcomes[~writes]
    asked = [rows[row] for row in read[:, kernels.ROW].tolist()]
    hits = answers[:, 0].tolist()
    local = [_masked_blocks(row.block_mask, found) for row, found in zip(asked, hits, strict=True)]
    return {
        "timestamp_ns": read[:, kernels.TIME].tolist(),
        "read_blocks": (read[:, kernels.STOP] - read[:, kernels.START]).tolist(),
        "local_blocks": local,
        "remote_blocks": [found - own for found, own in zip(hits, local, strict=True)],
        "input_tokens": [row.input_len for row in asked],
        "all_cached_blocks": answers[:, 2].tolist(),
        "tier_blocks": [hits],
        "tier_cached_blocks": [answers[:, 1].tolist()],
        "write_ns": wrote[:, kernels.TIME].tolist(),
        "write_blocks": (wrote[:, kernels.STOP] - wrote[:, kernels.START]).tolist(),
        "new_blocks": int(one.outcomes[writes, 0].sum()),
    }


def _masked_blocks(mask: BlockMask, hits: int) -> int:
    """How many of the leading blocks a mask names."""
    if isinstance(mask, int):
        return min(mask, hits)
    return hits - mask[:hits].count(0) - max(0, hits - len(mask))
