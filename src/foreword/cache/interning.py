"""The compiled path index: dense ids for the blocks of whole traces, masks, walks over what a compiled cache leaves.

The plain twins are ``paths.py`` and ``masks.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from foreword.cache.jit import kernel

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    IntArray = NDArray[Any]

_FIRST_SLOTS = 1 << 10


@kernel
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
    and their ids are -1 from the first block that is never written. The block that came behind another last time is
    tried before the table is: most paths go on as they did.
    """
    room = 0
    for span in range(written):
        room += spans[span, 1] - spans[span, 0]
    own_keys, parents, followed = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32)
    slots = np.full(_FIRST_SLOTS, -1, np.int32)
    blocks = 0
    for span in range(len(spans)):
        parent, block = -1, -1
        for at in range(spans[span, 0], spans[span, 1]):
            if block < 0 or own_keys[block] != keys[at]:
                place = _slot(slots, own_keys, parents, keys[at], parent)
                block = slots[place]
                if block < 0 and span >= written:
                    ids[at : spans[span, 1]] = -1
                    break
                if block < 0:
                    block = slots[place] = blocks
                    own_keys[block], parents[block], followed[block] = keys[at], parent, -1
                    blocks += 1
            ids[at] = first + block
            if parent >= 0:
                followed[parent] = block
            parent, block = block, followed[block]
            if 2 * blocks > slots.size:
                slots = _grown(slots, own_keys, parents, blocks)
    return own_keys[:blocks].copy(), parents[:blocks].copy()


@njit(cache=True, nogil=True)
def _grown(slots: IntArray, keys: IntArray, parents: IntArray, blocks: int) -> IntArray:
    """A table of twice the size with the same blocks."""
    grown = np.full(2 * slots.size, -1, np.int32)
    for block in range(blocks):
        grown[_slot(grown, keys, parents, keys[block], parents[block])] = block
    return grown


@njit(cache=True, nogil=True)
def stranded_blocks(parents: IntArray, held: IntArray) -> int:
    """Held blocks that cannot be hit, since a block before them is not held; parents stand before their children."""
    reachable, stranded = np.zeros(len(held), np.bool_), 0
    for block in range(len(held)):
        if held[block]:
            reachable[block] = parents[block] < 0 or reachable[parents[block]]
            stranded += not reachable[block]
    return stranded


@njit(cache=True, nogil=True)
def oldest_first(rows: IntArray, head: int, newer: int, size: int) -> IntArray:
    """The blocks of a recency list, at most ``size``, the least recent first; ``newer`` is the column to follow."""
    order, block, count = np.empty(size, np.int64), rows[head, newer], 0
    while block != head:
        order[count] = block
        count += 1
        block = rows[block, newer]
    return order[:count]


@kernel
def is_masked(mask: int, index: int, bits: IntArray, ends: IntArray) -> bool:
    """Whether a mask names the block at this index."""
    if mask >= 0:
        return index < mask
    start, stop = ends[-1 - mask], ends[-mask]
    return bool(index < stop - start and bits[start + index] != 0)
