"""Compiled: the queue of a group's blocks by the time at which they expire, a binary heap with the earliest first.

Helpers of ``tiered.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel
from foreword.cache.table import NEVER
from foreword.cache.tables import ANCHOR, BIRTH, DUE, END_OF_TIME, HEAP, HEAP_SIZE, WHOM, World

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@kernel
def expiry_ns(w: World, block: int) -> int:
    """When a block's time is over; the end of time where that lies behind it."""
    anchor, ttl = w.times[w.rows[block, ANCHOR]], w.ttl_ns[w.rows[block, BIRTH]]
    return int(anchor + ttl if anchor <= END_OF_TIME - ttl else END_OF_TIME)


@kernel
def schedule(heap: Array, group: Array, block: int, time: int) -> None:
    """Queue a block."""
    base, hole = group[HEAP], group[HEAP_SIZE]
    group[HEAP_SIZE] += 1
    while hole:
        above = (hole - 1) // 2
        if heap[base + above, DUE] <= time:
            break
        heap[base + hole, DUE], heap[base + hole, WHOM] = heap[base + above, DUE], heap[base + above, WHOM]
        hole = above
    heap[base + hole, DUE], heap[base + hole, WHOM] = time, block


@kernel
def earliest(heap: Array, group: Array) -> int:
    """Take the first block out of the queue."""
    base, first = group[HEAP], heap[group[HEAP], WHOM]
    group[HEAP_SIZE] -= 1
    size = group[HEAP_SIZE]
    time, moved, hole, child = heap[base + size, DUE], heap[base + size, WHOM], 0, 1
    while child < size:
        if child + 1 < size and heap[base + child + 1, DUE] < heap[base + child, DUE]:
            child += 1
        if heap[base + child, DUE] >= time:
            break
        heap[base + hole, DUE], heap[base + hole, WHOM] = heap[base + child, DUE], heap[base + child, WHOM]
        hole, child = child, 2 * child + 1
    heap[base + hole, DUE], heap[base + hole, WHOM] = time, moved
    return int(first)


@kernel
def queue(w: World, group: Array, block: int) -> None:
    """Queue a block by its own time, unless it never expires."""
    if w.ttl_ns[w.rows[block, BIRTH]] != NEVER:
        schedule(w.heap, group, block, expiry_ns(w, block))
