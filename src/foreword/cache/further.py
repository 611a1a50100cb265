"""Compiled: the orders of ``fifo``, ``lfu``, ``s3fifo`` and ``optimal`` in a tier, as ``policies`` has them.

The arrays that only these need stand in ``Further``. Helpers of ``tiered.py``; see there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel
from foreword.cache.lists import drop, link, unlink
from foreword.cache.tables import (
    BLOCK_BITS,
    BOUND,
    FIFO,
    FIXED,
    GHOST,
    GHOST_RATIO,
    GHOSTS,
    HEAD,
    HELD,
    HIGHER,
    LEVEL,
    LEVEL_FREE,
    LEVELS,
    LFU,
    LOWER,
    NEWER,
    NEWEST,
    OLDER,
    POLICY,
    QUEUE,
    QUEUED,
    S3FIFO,
    SIZE,
    SMALL,
    SMALL_RATIO,
    TOUCHES,
    WIDTH,
    Further,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array

_MOST_TOUCHES = 3
_BLOCK_MASK = (1 << BLOCK_BITS) - 1


@kernel
def enter_further(w: World, x: Further, owner: int, block: int, tier: int) -> None:
    """Place a block in the order of one of these policies; its size does not count the block yet."""
    policy, at = w.members[owner, POLICY], FIXED + WIDTH * tier
    if policy == FIFO:
        link(w.rows, w.members[owner, HEAD], block, at)
    elif policy == LFU:
        _count_from_nothing(w, x, owner, block, tier)
    elif policy == S3FIFO:
        _enter_queue(w, x, owner, block, tier)
    elif policy == BOUND:
        push(x, owner, block)


@kernel
def touch_further(w: World, x: Further, owner: int, block: int, tier: int) -> None:
    """Note a use of a block in a tier that holds it."""
    policy = w.members[owner, POLICY]
    if policy == LFU:
        _count_one_more(w, x, owner, block, tier)
    elif policy == S3FIFO:
        x.marks[block, tier, TOUCHES] = min(x.marks[block, tier, TOUCHES] + 1, _MOST_TOUCHES)


@kernel
def evict_further(w: World, x: Further, owner: int, tier: int, count: int, first: int) -> int:
    """Victims, from place ``first`` on; how many."""
    taken = 0
    while taken < count and w.tallies[owner, tier, SIZE] > taken:
        policy = w.members[owner, POLICY]
        if policy == FIFO:
            block = w.rows[w.members[owner, HEAD], FIXED + WIDTH * tier + NEWER]
            unlink(w.rows, block, FIXED + WIDTH * tier)
        elif policy == LFU:
            block = w.rows[w.members[owner, HEAD], FIXED + WIDTH * tier + NEWER]
            _uncount(w, x, owner, block, tier)
        elif policy == S3FIFO:
            block = _next_of_queues(w, x, owner, tier, w.tallies[owner, tier, SIZE] - taken)
        else:
            block = _read_last(w, x, owner)
        drop(w.rows, w.nodes, block, tier)
        w.victims[first + taken] = block
        taken += 1
    return taken


@kernel
def _new_level(x: Further, touches: int, lower: int, higher: int) -> int:
    """A level of use between two others, of which either may be -1."""
    level = x.further[LEVEL_FREE]
    if level >= 0:
        x.further[LEVEL_FREE] = x.levels[level, HIGHER]
    else:
        level = x.further[LEVELS]
        x.further[LEVELS] += 1
    x.levels[level, TOUCHES], x.levels[level, LOWER], x.levels[level, HIGHER] = touches, lower, higher
    if lower >= 0:
        x.levels[lower, HIGHER] = level
    if higher >= 0:
        x.levels[higher, LOWER] = level
    return int(level)


@kernel
def _count_from_nothing(w: World, x: Further, owner: int, block: int, tier: int) -> None:
    rows, at, lowest = w.rows, FIXED + WIDTH * tier, x.lowest[owner, tier]
    if lowest >= 0 and x.levels[lowest, TOUCHES] == 0:
        newer = rows[x.levels[lowest, NEWEST], at + NEWER]
    else:
        newer = rows[w.members[owner, HEAD], at + NEWER]
        lowest = _new_level(x, 0, -1, lowest)
        x.lowest[owner, tier] = lowest
    link(rows, newer, block, at)
    x.levels[lowest, NEWEST] = block
    x.marks[block, tier, LEVEL] = lowest


@kernel
def _count_one_more(w: World, x: Further, owner: int, block: int, tier: int) -> None:
    """Move a block behind all that were used as often as it is now."""
    rows, levels, at = w.rows, x.levels, FIXED + WIDTH * tier
    level = x.marks[block, tier, LEVEL]
    touches, higher = levels[level, TOUCHES] + 1, levels[level, HIGHER]
    if higher >= 0 and levels[higher, TOUCHES] == touches:
        newer = rows[levels[higher, NEWEST], at + NEWER]
    else:
        newer = rows[levels[level, NEWEST], at + NEWER]
        higher = _new_level(x, touches, level, higher)
    _uncount(w, x, owner, block, tier)
    link(rows, newer, block, at)
    levels[higher, NEWEST] = block
    x.marks[block, tier, LEVEL] = higher


@kernel
def _uncount(w: World, x: Further, owner: int, block: int, tier: int) -> None:
    """Take a block out of its list and its level, and the level out if that was its last."""
    rows, levels, at = w.rows, x.levels, FIXED + WIDTH * tier
    level, older = x.marks[block, tier, LEVEL], rows[block, at + OLDER]
    unlink(rows, block, at)
    if levels[level, NEWEST] != block:
        return
    if older != w.members[owner, HEAD] and x.marks[older, tier, LEVEL] == level:
        levels[level, NEWEST] = older
        return
    lower, higher = levels[level, LOWER], levels[level, HIGHER]
    if lower >= 0:
        levels[lower, HIGHER] = higher
    else:
        x.lowest[owner, tier] = higher
    if higher >= 0:
        levels[higher, LOWER] = lower
    levels[level, HIGHER], x.further[LEVEL_FREE] = x.further[LEVEL_FREE], level


@kernel
def _enter_queue(w: World, x: Further, owner: int, block: int, tier: int) -> None:
    """Join the small queue, or the main one if the ghost remembers the block."""
    resident = w.tallies[owner, tier, SIZE]
    room, number = int(x.ratios[owner, GHOST_RATIO] * resident), x.marks[block, tier, GHOST]
    remembered = number > 0 and x.queues[owner, tier, GHOSTS] - number < room
    x.marks[block, tier, GHOST] = x.marks[block, tier, TOUCHES] = 0
    x.queues[owner, tier, SMALL] += not remembered
    link(w.rows, w.members[owner, HEAD] + remembered, block, FIXED + WIDTH * tier)


@kernel
def _next_of_queues(w: World, x: Further, owner: int, tier: int, resident: int) -> int:
    """The next victim of ``resident`` blocks, out of its queue."""
    rows, at, small, main = w.rows, FIXED + WIDTH * tier, w.members[owner, HEAD], w.members[owner, HEAD] + 1
    while True:
        in_small = x.queues[owner, tier, SMALL]
        if in_small >= x.ratios[owner, SMALL_RATIO] * resident or in_small == resident:
            while rows[small, at + NEWER] != small:
                block = rows[small, at + NEWER]
                unlink(rows, block, at)
                x.queues[owner, tier, SMALL] -= 1
                if x.marks[block, tier, TOUCHES] < x.moves_at[owner]:
                    x.queues[owner, tier, GHOSTS] += 1
                    x.marks[block, tier, GHOST] = x.queues[owner, tier, GHOSTS]
                    return int(block)
                link(rows, main, block, at)
                x.marks[block, tier, TOUCHES] = 0
        else:
            while True:
                block = rows[main, at + NEWER]
                unlink(rows, block, at)
                if x.marks[block, tier, TOUCHES] == 0:
                    return int(block)
                link(rows, main, block, at)
                x.marks[block, tier, TOUCHES] -= 1


@kernel
def pass_read(w: World, x: Further, owner: int, start: int, path: Array) -> None:
    """Look from a read to the next one of each of its blocks; ``start`` is the place of the path among all ids."""
    for index in range(path.size):
        block = path[index]
        if block < 0:
            break
        x.upcoming[block] = x.next_read[start + index]
        if w.rows[block, HELD]:
            push(x, owner, block)


@kernel
def push(x: Further, owner: int, block: int) -> None:
    """Queue a block by its next read, the last one first, of equal ones the greatest block."""
    base, hole, entry = x.heaps[owner, QUEUE], x.heaps[owner, QUEUED], x.upcoming[block] << BLOCK_BITS | block
    x.heaps[owner, QUEUED] += 1
    while hole:
        above = (hole - 1) // 2
        if x.latest[base + above] >= entry:
            break
        x.latest[base + hole] = x.latest[base + above]
        hole = above
    x.latest[base + hole] = entry


@kernel
def _read_last(w: World, x: Further, owner: int) -> int:
    """The block that is read again last, out of the queue, past entries that no longer hold."""
    while True:
        entry = _pop(x, owner)
        block = entry & _BLOCK_MASK
        if w.rows[block, HELD] and x.upcoming[block] == entry >> BLOCK_BITS:
            return int(block)


@kernel
def _pop(x: Further, owner: int) -> int:
    latest, base = x.latest, x.heaps[owner, QUEUE]
    first = latest[base]
    x.heaps[owner, QUEUED] -= 1
    size = x.heaps[owner, QUEUED]
    moved, hole, child = latest[base + size], 0, 1
    while child < size:
        if child + 1 < size and latest[base + child + 1] > latest[base + child]:
            child += 1
        if latest[base + child] <= moved:
            break
        latest[base + hole] = latest[base + child]
        hole, child = child, 2 * child + 1
    latest[base + hole] = moved
    return int(first)
