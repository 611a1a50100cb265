"""Watermarks: hits of nested prefixes in closed form (Laws 1 and 2, with the trunk).

A lane is what one group's requests share in one cache domain. Arrays are aligned by request and stand in send order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foreword.terms import IntArray


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Longest cached prefix of each request's lane around its turn, and what it finds, in tokens."""

    before: IntArray
    hit: IntArray
    after: IntArray


def cold(prefix_len: IntArray, lane: IntArray, *, domain: IntArray, trunk_len: int) -> Watermarks:
    """Serve requests in array order from empty caches.

    ``H = min(P, C)``, then ``C = max(C, P)`` in each lane; every request after the first of its cache domain also
    finds the trunk, the whole blocks of the head that all prompts start with.
    """
    order = np.argsort(lane, kind="stable")
    before = np.empty_like(prefix_len)
    before[order] = _running_max_before(prefix_len[order], lane[order])
    served = np.ones(len(prefix_len), dtype=bool)
    served[np.unique(domain, return_index=True)[1]] = False
    seen = np.maximum(before, np.where(served, trunk_len, 0))
    return Watermarks(before=seen, hit=np.minimum(prefix_len, seen), after=np.maximum(seen, prefix_len))


def warm(prefix_len: IntArray, lane: IntArray) -> Watermarks:
    """Serve requests from caches that hold each lane's longest prefix already."""
    top = np.zeros(int(lane.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(top, lane, prefix_len)
    level = top[lane]
    return Watermarks(before=level, hit=prefix_len.copy(), after=level)


def cold_total(prefix_len: IntArray, lane: IntArray, *, domain: IntArray, trunk_len: int) -> int:
    """Total hit tokens of a cold pass in any send order (Law 1, trunk form)."""
    if len(prefix_len) == 0:
        return 0
    top = np.full(int(lane.max()) + 1, trunk_len, dtype=np.int64)
    np.maximum.at(top, lane, prefix_len)
    return int(prefix_len.sum() - trunk_len * len(np.unique(domain)) - (top - trunk_len).sum())


def _running_max_before(values: IntArray, lane: IntArray) -> IntArray:
    """Largest earlier value of the same lane, 0 for a lane's first; lanes are contiguous."""
    if len(values) == 0:
        return values.copy()
    rank = np.concatenate(([0], np.cumsum(lane[1:] != lane[:-1])))
    step = int(values.max()) + 1
    lifted = np.maximum.accumulate(values + rank * step)
    shifted = np.concatenate(([0], lifted[:-1]))
    earlier: IntArray = np.maximum(shifted - rank * step, 0)
    return earlier
