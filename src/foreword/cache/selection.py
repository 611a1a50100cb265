"""The n smallest of a list, in the order in which libstdc++'s ``std::partial_sort`` leaves it.

Equal times are common, and which of them is evicted is visible in a hit rate; so the heap moves are the library's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def partial_sort(items: list[int], middle: int, *, time: Callable[[int], int]) -> None:
    """Sort in place so that the first ``middle`` items are the ones with the smallest times, ascending."""
    if middle == 0:
        return
    for parent in range(middle // 2 - 1, -1, -1):
        _sift(items, parent, middle, value=items[parent], time=time)
    for later in range(middle, len(items)):
        if time(items[later]) < time(items[0]):
            value, items[later] = items[later], items[0]
            _sift(items, 0, middle, value=value, time=time)
    for last in range(middle - 1, 0, -1):
        value, items[last] = items[last], items[0]
        _sift(items, 0, last, value=value, time=time)


def _sift(heap: list[int], hole: int, length: int, *, value: int, time: Callable[[int], int]) -> None:
    """Let the hole fall to a leaf along the larger children, then let the value rise from there to its place."""
    top = hole
    while (child := 2 * hole + 2) < length:
        if time(heap[child]) < time(heap[child - 1]):
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if child == length:
        heap[hole] = heap[child - 1]
        hole = child - 1
    while hole > top and time(heap[parent := (hole - 1) // 2]) < time(value):
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = value
