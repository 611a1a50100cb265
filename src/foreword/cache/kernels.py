"""Compiled twins of the path index and of exact LRU in one tier; ``simulate.compiled`` is their one caller.

Kernels and their helpers share this file, since a cached kernel does not see a change of a helper elsewhere. Blocks are
dense ids over all instances; ``state`` has one row a block, and behind these one row an instance: the two ends of its
recency list. Columns of a row stand in ``PREVIOUS`` and the names after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    IntArray = NDArray[Any]

PREVIOUS, NEXT, TIER_TIME, LAST_ACCESS, BIRTH, READS, TIER_READS, LIFE = range(8)
"""Neighbours towards the recent and the old end (-1: in no tier), times, event of birth, read hits, current life."""

TIME, START, STOP, INSTANCE, WRITES, ROW = range(6)
"""Columns of an event: its time, its slice of the ids, whose it is, whether it writes, and its row."""

LIFE_BLOCK, LIFE_BIRTH, LIFE_LAST, LIFE_READS, LIFE_DEATH = range(5)

GROUP, BYTES, SIZE, EVICTED = range(4)
"""Columns of an instance: its group, bytes of a block, blocks that it has, and blocks that it had to give."""

QUOTA, ABOVE = range(2)
"""Columns of a group: its quota in bytes (-1: none), and checks that ended above it."""

MODE, BATCH, TAIL_FIRST, WRITE_REFRESH, LIVES = range(5)
"""Rules of a replay; the last is whether lives are recorded."""

_ROUGH, _PRECISE = 1, 3
_FIRST_SLOTS = 1 << 10


@njit(cache=True, nogil=True)
def _slot(slots: IntArray, keys: IntArray, parents: IntArray, key: int, parent: int) -> int:
    """Where a block stands in a table with open addressing, or the free place for it."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(parent + 1) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mask = slots.size - 1
    place = np.int64(mixed >> np.uint64(20)) & mask
    while slots[place] >= 0 and (keys[slots[place]] != key or parents[slots[place]] != parent):
        place = (place + 1) & mask
    return int(place)


@njit(cache=True, nogil=True)
def intern_paths(keys: IntArray, spans: IntArray, written: int, ids: IntArray, first: int) -> tuple[IntArray, IntArray]:
    """Give the blocks of an instance their ids, from ``first``; returns key and parent of each, the latter from 0.

    Of ``spans``, slices of ``keys``, the first ``written`` are written in this order; the others are only looked up,
    and their ids are -1 from the first block that is never written.
    """
    room = 0
    for span in range(written):
        room += spans[span, 1] - spans[span, 0]
    own_keys, parents = np.empty(room, np.int64), np.empty(room, np.int32)
    slots = np.full(_FIRST_SLOTS, -1, np.int32)
    blocks = 0
    for span in range(len(spans)):
        parent = -1
        for at in range(spans[span, 0], spans[span, 1]):
            place = _slot(slots, own_keys, parents, keys[at], parent)
            if slots[place] < 0:
                if span >= written:
                    ids[at : spans[span, 1]] = -1
                    break
                slots[place], own_keys[blocks], parents[blocks] = blocks, keys[at], parent
                blocks += 1
                parent = blocks - 1
            else:
                parent = slots[place]
            ids[at] = first + parent
            if 2 * blocks > slots.size:
                slots = np.full(2 * slots.size, -1, np.int32)
                for block in range(blocks):
                    slots[_slot(slots, own_keys, parents, own_keys[block], parents[block])] = block
    return own_keys[:blocks].copy(), parents[:blocks].copy()


@njit(cache=True, nogil=True)
def _unlink(state: IntArray, block: int) -> None:
    previous, following = state[block, PREVIOUS], state[block, NEXT]
    state[previous, NEXT], state[following, PREVIOUS] = following, previous


@njit(cache=True, nogil=True)
def _push(state: IntArray, head: int, block: int) -> None:
    """Link a block in as the most recent."""
    second = state[head, NEXT]
    state[block, PREVIOUS], state[block, NEXT] = head, second
    state[head, NEXT], state[second, PREVIOUS] = block, block


@njit(cache=True, nogil=True)
def _read(state: IntArray, lives: IntArray, path: IntArray, head: int, now: int, tail_first: int) -> int:
    """Make the leading blocks that are held recent; their number."""
    hits = 0
    while hits < path.size and path[hits] >= 0 and state[path[hits], PREVIOUS] >= 0:
        hits += 1
    for step in range(hits):
        block = path[hits - 1 - step if tail_first else step]
        _unlink(state, block)
        _push(state, head, block)
        state[block, TIER_TIME] = state[block, LAST_ACCESS] = now
        state[block, READS] += 1
        state[block, TIER_READS] += 1
        if lives.size:
            lives[state[block, LIFE], LIFE_READS] += 1
            lives[state[block, LIFE], LIFE_LAST] = now
    return hits


@njit(cache=True, nogil=True)
def _write(state: IntArray, path: IntArray, rules: IntArray, head: int, now: int, event: int) -> int:
    """Bring in what is not held, and let the rest become recent if asked; the number of new blocks."""
    new = 0
    for step in range(path.size):
        block = path[path.size - 1 - step if rules[TAIL_FIRST] else step]
        if state[block, PREVIOUS] < 0:
            new += 1
            state[block, LAST_ACCESS], state[block, BIRTH], state[block, TIER_READS] = now, event, 0
        elif rules[WRITE_REFRESH]:
            _unlink(state, block)
        else:
            continue
        state[block, TIER_TIME] = now
        _push(state, head, block)
    return new


@njit(cache=True, nogil=True)
def _bear(state: IntArray, lives: IntArray, path: IntArray, born: int, now: int) -> int:
    """Start the lives of the blocks of a path that are not held; the number of lives so far."""
    for block in path:
        if state[block, PREVIOUS] < 0:
            state[block, LIFE] = born
            lives[born, LIFE_BLOCK], lives[born, LIFE_READS], lives[born, LIFE_DEATH] = block, 0, -1
            lives[born, LIFE_BIRTH] = lives[born, LIFE_LAST] = now
            born += 1
    return born


@njit(cache=True, nogil=True)
def _evict(state: IntArray, lives: IntArray, head: int, count: int, now: int) -> int:
    """Let up to so many of the least recent blocks go; how many went."""
    gone = 0
    while gone < count and state[head, PREVIOUS] != head:
        block = state[head, PREVIOUS]
        _unlink(state, block)
        state[block, PREVIOUS] = -1
        if lives.size:
            lives[state[block, LIFE], LIFE_DEATH] = now
        gone += 1
    return gone


@njit(cache=True, nogil=True)
def _make_room(  # noqa: PLR0913, PLR0917 - arrays are a kernel's state
    state: IntArray, lives: IntArray, members: IntArray, groups: IntArray, rules: IntArray, actor: int, now: int
) -> None:
    """Evict until the quota of the actor's group holds, or nobody has anything left to give."""
    group, blocks = members[actor, GROUP], len(state) - len(members)
    excess = -groups[group, QUOTA]
    for each in range(len(members)):
        if members[each, GROUP] == group:
            excess += members[each, SIZE] * members[each, BYTES]
    while groups[group, QUOTA] >= 0 and excess > 0:
        freed = 0
        for each in range(len(members)):
            if each != actor and (rules[MODE] != _ROUGH or members[each, GROUP] != group):
                continue
            count = rules[BATCH]
            if rules[MODE] == _PRECISE:
                count = min(count, -(-excess // members[each, BYTES]))
            gone = _evict(state, lives, blocks + each, count, now)
            members[each, SIZE] -= gone
            members[each, EVICTED] += gone
            freed += gone * members[each, BYTES]
        if freed == 0:
            groups[group, ABOVE] += 1
            return
        excess -= freed


@njit(cache=True, nogil=True)
def _fresh_state(blocks: int, instances: int) -> IntArray:
    """Blocks in no tier, and empty lists."""
    state = np.zeros((blocks + instances, 8), np.int64)
    state[:blocks, PREVIOUS] = -1
    for head in range(blocks, blocks + instances):
        state[head, PREVIOUS] = state[head, NEXT] = head
    return state


@njit(cache=True, nogil=True)
def replay_one_tier(
    events: IntArray, ids: IntArray, members: IntArray, groups: IntArray, rules: IntArray, blocks: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Run all events in order, and count in the columns of members and groups.

    Returns hits or new blocks, own and all cached blocks of each event; the state; and the lives.
    """
    state, room = _fresh_state(blocks, len(members)), 0
    for event in range(len(events)):
        room += (events[event, STOP] - events[event, START]) * events[event, WRITES] * rules[LIVES]
    lives, born, cached = np.empty((room, 5), np.int64), 0, 0
    outcomes = np.empty((len(events), 3), np.int64)
    for event in range(len(events)):
        now, actor = events[event, TIME], events[event, INSTANCE]
        path, head = ids[events[event, START] : events[event, STOP]], blocks + actor
        if events[event, WRITES]:
            if rules[LIVES]:
                born = _bear(state, lives, path, born, now)
            found = _write(state, path, rules, head, now, event)
            members[actor, SIZE] += found
            _make_room(state, lives, members, groups, rules, actor, now)
            cached = members[:, SIZE].sum()
        else:
            found = _read(state, lives, path, head, now, rules[TAIL_FIRST])
        outcomes[event, 0], outcomes[event, 1], outcomes[event, 2] = found, members[actor, SIZE], cached
    return outcomes, state, lives[:born]


@njit(cache=True, nogil=True)
def oldest_first(state: IntArray, head: int, size: int) -> IntArray:
    """Blocks of a recency list, the least recent first."""
    order, block = np.empty(size, np.int64), state[head, PREVIOUS]
    for at in range(size):
        order[at] = block
        block = state[block, PREVIOUS]
    return order
