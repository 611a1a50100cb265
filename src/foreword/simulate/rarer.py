"""The arrays of the policies that most replays do not have, for the compiled cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foreword.cache import interning, tables
from foreword.config.replay import FifoInstance, LfuInstance, OptimalInstance, S3FifoInstance, VllmInstance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foreword.cache.table import State
    from foreword.simulate.replay import Replay, ReplayedInstance

    Array = NDArray[Any]

Config = FifoInstance | LfuInstance | OptimalInstance | S3FifoInstance | VllmInstance


def make_further(replay: Replay, world: tables.World, *, events: Array, ids: Array) -> tables.Further | None:
    """Arrays for empty caches, or nothing where no instance needs any; marks the paths of pools as without copies."""
    every = list(replay.instances.values())
    if not any(isinstance(at.cache.config, Config) for at in every):
        return None
    _, tiers, _ = world.tallies.shape
    owner, count = world.rows[:, tables.OWNER], len(every)
    blocks = len(world.scratch)
    leveled = np.isin(owner[:blocks], _numbers(every, LfuInstance)).sum()
    upcoming, next_read, heaps, room = _foreseen(every, events, ids, blocks)
    pools, copies = _pools(every, world, events)
    return tables.Further(
        further=np.array([0, -1, 0, -1], np.int64),
        marks=np.zeros((blocks, tiers, 3), np.int32),
        levels=np.empty((int(leveled) * tiers + count * tiers + 1, 4), np.int32),
        lowest=np.full((count, tiers), -1, np.int32),
        queues=np.zeros((count, tiers, 2), np.int64),
        ratios=np.array([_ratios(at) for at in every], np.float64),
        moves_at=np.array([_moves_at(at) for at in every], np.int64),
        upcoming=upcoming,
        next_read=next_read,
        heaps=heaps,
        latest=np.empty(room, np.int64),
        pools=pools,
        copies=copies,
    )


def _numbers(every: list[ReplayedInstance], kind: type) -> list[int]:
    return [number for number, at in enumerate(every) if isinstance(at.cache.config, kind)]


def _ratios(at: ReplayedInstance) -> tuple[float, float]:
    match at.cache.config:
        case S3FifoInstance(eviction_policy_params=params):
            return params.small_ratio, params.ghost_ratio
        case _:
            return 0.0, 0.0


def _moves_at(at: ReplayedInstance) -> int:
    config = at.cache.config
    return config.eviction_policy_params.move_threshold if isinstance(config, S3FifoInstance) else 0


def _foreseen(every: list[ReplayedInstance], events: Array, ids: Array, blocks: int) -> tuple[Array, Array, Array, int]:
    """First read of each block, the read after each place of a read, queues of next reads, and their room in all."""
    upcoming = np.full(blocks, tables.NEVER_READ, np.int64)
    bounded, heaps, room = _numbers(every, OptimalInstance), np.zeros((len(every), 2), np.int64), 0
    next_read = np.full(len(ids) if bounded else 0, tables.NEVER_READ, np.int64)
    for number in bounded:
        own = events[events[:, tables.INSTANCE] == number]
        reads = own[own[:, tables.WRITES] == 0][:, tables.START : tables.STOP + 1]
        lengths = reads[:, 1] - reads[:, 0]
        places = np.repeat(reads[:, 0] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        turns = np.repeat(np.arange(len(reads)), lengths)
        known = ids[places] >= 0
        _look_ahead(ids[places[known]], places[known], turns[known], upcoming, next_read)
        heaps[number, tables.QUEUE] = room
        room += int((own[:, tables.STOP] - own[:, tables.START]).sum()) + 1
    return upcoming, next_read, heaps, room


def _look_ahead(block: Array, place: Array, turn: Array, upcoming: Array, next_read: Array) -> None:
    """Fill in first and next reads, from blocks in the order in which they are read."""
    order = np.argsort(block, kind="stable")
    block, place, turn = block[order], place[order], turn[order]
    again = np.flatnonzero(block[1:] == block[:-1])
    next_read[place[again]] = turn[again + 1]
    first = np.flatnonzero(np.diff(block, prepend=-1))
    upcoming[block[first]] = turn[first]


def _pools(every: list[ReplayedInstance], world: tables.World, events: Array) -> tuple[Array, Array]:
    """Free queues, empty, and room for the copies of all pools; their heads stand behind the copies.

    No pool has more copies than its capacity, or than all writes bring; one without a limit has one of each path.
    """
    rows, slots, at = world.rows[: len(world.scratch)], 0, tables.FIXED + tables.NEWER
    for number in _numbers(every, VllmInstance):
        own, capacity = rows[:, tables.OWNER] == number, int(world.members[number, tables.CAPACITY])
        writes = events[(events[:, tables.INSTANCE] == number) & (events[:, tables.WRITES] == 1)]
        brought = int((writes[:, tables.STOP] - writes[:, tables.START]).sum())
        slots += int(own.sum()) if capacity < 0 else min(capacity, brought)
        rows[own, at : at + 2] = -1
    pools = np.zeros((len(every), 2), np.int64)
    pools[:, tables.HEAD_COPY] = slots + np.arange(len(every))
    copies = np.full((slots + len(every), 5), -1, np.int32)
    copies[slots:, [tables.TO_NEWER, tables.TO_OLDER]] = pools[:, tables.HEAD_COPY, None]
    return pools, copies


class Place(NamedTuple):
    """An instance's number, its first block and the one behind its last, and a tier."""

    number: int
    low: int
    high: int
    tier: int


def rarer_state(config: Config, world: tables.World, *, further: tables.Further | None, of: Place) -> State:
    """The document that such a policy takes over."""
    if further is None:
        raise TypeError("a replay with such a policy has these arrays")
    head, size = int(world.members[of.number, tables.HEAD]), int(world.tallies[of.number, of.tier, tables.SIZE])
    column = tables.FIXED + tables.WIDTH * of.tier + tables.NEWER
    marks = further.marks[of.low : of.high, of.tier]

    def oldest_first(which: int) -> list[int]:
        return [block - of.low for block in interning.oldest_first(world.rows, head + which, column, size).tolist()]

    match config:
        case FifoInstance():
            return {"queue": oldest_first(0)}
        case LfuInstance():
            levels = further.levels[:, tables.TOUCHES]
            return {"touches": [[block, int(levels[marks[block, tables.LEVEL]])] for block in oldest_first(0)]}
        case S3FifoInstance():
            touches, ghost = marks[:, tables.TOUCHES], marks[:, tables.GHOST]
            queues = {
                name: [[block, int(touches[block])] for block in oldest_first(which)]
                for which, name in enumerate(("small", "main"))
            }
            ghosts = sorted([int(ghost[block]), block] for block in np.flatnonzero(ghost).tolist())
            return {**queues, "ghost": ghosts, "ghosts": int(further.queues[of.number, of.tier, tables.GHOSTS])}
        case OptimalInstance():
            return {"blocks": np.flatnonzero(world.rows[of.low : of.high, tables.HELD]).tolist()}
        case VllmInstance():
            return _pool_state(further, of)


def _pool_state(further: tables.Further, of: Place) -> State:
    """Copies from the head of the free queue."""
    copies, (head, numbered) = further.copies, further.pools[of.number].tolist()
    idle, copy = [], int(copies[head, tables.TO_NEWER])
    while copy != head:
        idle.append([int(copies[copy, tables.SERIAL]), int(copies[copy, tables.OF_PATH]) - of.low])
        copy = int(copies[copy, tables.TO_NEWER])
    return {"idle": idle, "numbered": numbered}
