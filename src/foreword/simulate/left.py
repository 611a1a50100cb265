"""What the compiled cache leaves: figures of each instance at once, the state to go on from when it is asked for."""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.cache import interning, tables
from foreword.cache.instance import Traffic
from foreword.config.replay import (
    FifoInstance,
    LeafAwareLruInstance,
    LfuInstance,
    OptimalInstance,
    RandomLruInstance,
    S3FifoInstance,
    VllmInstance,
)
from foreword.simulate.rarer import Place, rarer_state
from foreword.simulate.replay import Figures
from foreword.simulate.series import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foreword.cache.table import State
    from foreword.simulate.replay import Replay, ReplayedInstance
    from foreword.trace.columns import TraceColumns

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Ran:
    """Events and what they came to, the caches, keys and parents of each instance's blocks, and the trace."""

    events: Array
    outcomes: Array
    world: tables.World
    further: tables.Further | None
    paths: tuple[tuple[Array, Array], ...]
    trace: TraceColumns


@dataclass(frozen=True, slots=True)
class _Own:
    """One instance's part: its number, its tiers, its first block and the one behind its last."""

    number: int
    tiers: int
    low: int
    high: int


def figures_of(replay: Replay, ran: Ran) -> dict[str, Figures]:
    """Series, traffic and contents of each instance."""
    return {name: _figures(ran, _own(at, ran, number)) for number, (name, at) in enumerate(replay.instances.items())}


def state_of(replay: Replay, ran: Ran, *, asked: int) -> State:
    """The document that ``Replay.load`` takes, from a replay that has adopted the figures."""
    numbers = {name: number for number, name in enumerate(replay.instances)}
    groups = [
        {
            "group_name": group.name,
            "clock_ns": int(ran.world.times[ran.world.groups[place, tables.CLOCK]]),
            "over_quota_checks": int(ran.world.groups[place, tables.ABOVE]),
            "instances": [
                _instance_state(at, ran, _own(at, ran, numbers[name]))
                for name, at in replay.instances.items()
                if at.group is group
            ],
        }
        for place, group in enumerate(replay.groups)
    ]
    return {
        "groups": groups,
        "pending": {"asked": asked, "waiting": []},
        "skipped": dict(replay.skipped),
        "series": {name: at.series.save() for name, at in replay.instances.items()},
        "reads": {name: [[], []] for name in replay.instances},
    }


def _own(at: ReplayedInstance, ran: Ran, number: int) -> _Own:
    low = int(ran.world.members[number, tables.FIRST])
    return _Own(number, len(at.group.tiers), low, low + len(ran.paths[number][0]))


def _figures(ran: Ran, own: _Own) -> Figures:
    held = ran.world.rows[own.low : own.high, tables.HELD]
    return Figures(
        series=_series(ran, own),
        cached_blocks=tuple(ran.world.tallies[own.number, : own.tiers, tables.SIZE].tolist()),
        stranded_blocks=int(interning.stranded_blocks(ran.paths[own.number][1], held)),
        traffic=[Traffic(*row) for row in ran.world.tallies[own.number, : own.tiers, : tables.SIZE].tolist()],
        over_quota_checks=int(ran.world.groups[ran.world.members[own.number, tables.GROUP], tables.ABOVE]),
    )


def _series(ran: Ran, own: _Own) -> Series:
    """What reads and writes came to."""
    mine = ran.events[:, tables.INSTANCE] == own.number
    writes = ran.events[:, tables.WRITES] == 1
    reads = np.flatnonzero(mine & ~writes)
    wrote = np.flatnonzero(mine & writes)
    read, answers, tiers = ran.events[reads], ran.outcomes[reads], ran.world.tallies.shape[1]
    series = Series(own.tiers)
    series.timestamp_ns = _column(ran.world.times[read[:, tables.MOMENT]])
    series.read_blocks = _column(read[:, tables.STOP] - read[:, tables.START])
    series.local_blocks = _column(answers[:, tables.LOCAL])
    series.remote_blocks = _column(answers[:, tables.REMOTE])
    series.input_tokens = _column(ran.trace.input_len[read[:, tables.ROW]])
    series.all_cached_blocks = _column(answers[:, tables.ALL_CACHED])
    series.tier_blocks = [_column(answers[:, tables.BY_TIER + tier]) for tier in range(own.tiers)]
    series.tier_cached_blocks = [_column(answers[:, tables.BY_TIER + tiers + tier]) for tier in range(own.tiers)]
    series.write_ns = _column(ran.world.times[ran.events[wrote, tables.MOMENT]])
    series.write_blocks = _column(ran.events[wrote, tables.STOP] - ran.events[wrote, tables.START])
    series.new_blocks = int(ran.outcomes[wrote, tables.LOCAL].sum())
    return series


def _column(values: Array) -> array[int]:
    return array("q", np.ascontiguousarray(values, np.int64).tobytes())


def _instance_state(at: ReplayedInstance, ran: Ran, own: _Own) -> State:
    last = ran.events[ran.events[:, tables.INSTANCE] == own.number, tables.MOMENT].max(initial=0)
    return {
        "table": _table(at, ran, own),
        "tree": {"nodes": _nodes(ran, own)},
        "policies": [_policy(at, ran, own, tier) for tier in range(own.tiers)],
        "traffic": [asdict(each) for each in at.cache.traffic],
        "lifecycle": {"lives": _lives(ran, own)} if at.cache.lifecycle is not None else None,
        "last_seen_ns": int(ran.world.times[last]),
    }


def _table(at: ReplayedInstance, ran: Ran, own: _Own) -> State:
    """Columns of the blocks of an instance; a TTL is as long as its write said."""
    rows, times = ran.world.rows[own.low : own.high], ran.world.times
    row_ttl_us = ran.trace.ttl_us[ran.events[rows[:, tables.BIRTH], tables.ROW]]
    values, which = np.unique(row_ttl_us, return_inverse=True)
    ttl_ns = [at.group.ttl_ns(value) for value in values.tolist()]
    born = rows[:, tables.LAST] > 0
    firsts = [tables.FIXED + tables.WIDTH * tier for tier in range(own.tiers)]
    return {
        "keys": ran.paths[own.number][0].tolist(),
        "parents": ran.paths[own.number][1].tolist(),
        "held": rows[:, tables.HELD].tolist(),
        "reads": rows[:, tables.READS].tolist(),
        "last_access": times[rows[:, tables.LAST]].tolist(),
        "ttl": [ttl_ns[each] if lived else 0 for each, lived in zip(which.tolist(), born.tolist(), strict=True)],
        "anchor": times[rows[:, tables.ANCHOR]].tolist(),
        "tier_time": [times[rows[:, first + tables.WHEN]].tolist() for first in firsts],
        "tier_reads": [rows[:, first + tables.COUNT].tolist() for first in firsts],
    }


def _policy(at: ReplayedInstance, ran: Ran, own: _Own, tier: int) -> State:
    """The order of one tier."""
    world, size = ran.world, int(ran.world.tallies[own.number, tier, tables.SIZE])
    column = tables.FIXED + tables.WIDTH * tier + tables.NEWER
    head = int(world.members[own.number, tables.HEAD])
    match at.cache.config:
        case RandomLruInstance():
            blocks = world.slots[own.low : own.low + size, tier] - own.low
            return {"blocks": blocks.tolist(), "random": int(world.random[own.number, tier])}
        case LeafAwareLruInstance():
            registered = np.flatnonzero(world.rows[own.low : own.high, tables.HELD] >> tier & 1)
            listed = interning.oldest_first(world.rows, head, column, size)[::-1] - own.low
            return {"registered": registered.tolist(), "listed": listed.tolist()}
        case FifoInstance() | LfuInstance() | S3FifoInstance() | OptimalInstance() | VllmInstance() as config:
            return rarer_state(config, world, further=ran.further, of=Place(own.number, own.low, own.high, tier))
        case _:
            heads = range(head, head + at.cache.config.shard_count)
            lists = [interning.oldest_first(world.rows, each, column, size) - own.low for each in heads]
            return {"shards": [order.tolist() for order in lists]}


def _nodes(ran: Ran, own: _Own) -> list[list[Any]]:
    """The prefix tree of an instance, breadth first; no node of it was read for templates."""
    nodes = ran.world.nodes
    homes = ran.world.rows[own.low : own.high, tables.HOME]
    runs: dict[int, list[int]] = {}
    for block in np.flatnonzero(homes >= 0).tolist():
        runs.setdefault(int(homes[block]), []).append(block)
    children: dict[int, list[int]] = {}
    for node in sorted(runs, key=lambda each: int(nodes[each, tables.TURN])):
        children.setdefault(int(nodes[node, tables.OVER]), []).append(node)
    level, found = children.get(-1, []), []
    while level:
        found += [[runs[node], 0] for node in level]
        level = [child for node in level for child in children.get(node, [])]
    return found


def _lives(ran: Ran, own: _Own) -> list[State]:
    """Lives in order of birth."""
    lives = ran.world.lives[: ran.world.whole[tables.BORN]]
    block = lives[:, tables.LIFE_BLOCK]
    return [
        {
            "block": block - own.low,
            "birth_ns": birth,
            "last_access_ns": last,
            "accesses": reads,
            "death_ns": None if death < 0 else death,
        }
        for block, birth, last, reads, death in lives[(block >= own.low) & (block < own.high)].tolist()
    ]
