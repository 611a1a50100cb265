"""The compiled twin of ``selection.py``: the same heap moves, so that equal times fall the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@kernel
def _sift(heap: Array, hole: int, length: int, value: int, info: Array, column: int) -> None:
    """As ``selection.py`` does it: let the hole fall to a leaf, then let the value rise from there to its place."""
    top = hole
    child = 2 * hole + 2
    while child < length:
        if info[heap[child], column] < info[heap[child - 1], column]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
        child = 2 * hole + 2
    if child == length:
        heap[hole] = heap[child - 1]
        hole = child - 1
    while hole > top and info[heap[(hole - 1) // 2], column] < info[value, column]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = value


@kernel
def partial_sort_by(items: Array, middle: int, info: Array, column: int) -> None:
    """The ``middle`` items with the smallest times first, ascending, in the order of ``selection.py``."""
    for parent in range(middle // 2 - 1, -1, -1):
        _sift(items, parent, middle, items[parent], info, column)
    for later in range(middle, len(items)):
        if middle and info[items[later], column] < info[items[0], column]:
            value, items[later] = items[later], items[0]
            _sift(items, 0, middle, value, info, column)
    for last in range(middle - 1, 0, -1):
        value, items[last] = items[last], items[0]
        _sift(items, 0, last, value, info, column)
