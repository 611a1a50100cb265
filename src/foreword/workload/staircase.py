"""The exact search behind every plan: integer steps that sum to a wanted total (Law 3).

Requests hold ``blocks`` each, between 0 and a cap. They are sorted so that cells (what has a budget) and, inside
them, lanes are contiguous. A cell's total is the sum of its blocks; where lanes start cold, each lane's largest
holder does not count, because somebody has to pay for every block once.

From any two plans ``low <= high`` around the wanted totals, ``close`` finds one between them that meets the totals
exactly, with changes of one block spread evenly over the requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.terms import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Staircase:
    """Sorted requests: where lanes start, where cells start, and whether a lane's largest holder is free."""

    lane_starts: IntArray
    cell_starts: IntArray
    n: int
    cold: bool

    def totals(self, blocks: IntArray) -> IntArray:
        """Total of each cell, in blocks."""
        sums = np.add.reduceat(blocks, self.lane_starts)
        if self.cold:
            sums = sums - np.maximum.reduceat(blocks, self.lane_starts)
        totals: IntArray = np.add.reduceat(sums, np.searchsorted(self.lane_starts, self.cell_starts))
        return totals

    def spread(self, per_cell: IntArray) -> IntArray:
        """A value for each cell, repeated for its requests."""
        return np.repeat(per_cell, np.diff(np.append(self.cell_starts, self.n)))

    def spread_lanes(self, per_lane: IntArray) -> IntArray:
        """A value for each lane, repeated for its requests."""
        return np.repeat(per_lane, self.lane_sizes)

    @property
    def lane_sizes(self) -> IntArray:
        """Requests of each lane."""
        return np.diff(np.append(self.lane_starts, self.n))


def bisect(
    at: Callable[[IntArray], IntArray], stairs: Staircase, *, want: IntArray, top: IntArray, max_iterations: int
) -> tuple[IntArray, IntArray]:
    """Narrow each cell's parameter, from ``[0, top]``, around its wanted total.

    ``at`` maps parameters to blocks and grows with them; of parameters with the same total the smallest is taken.
    Returns plans ``low <= high`` with
    ``totals(low) <= want <= totals(high)``, provided that the caps allow ``want``.
    """
    low, high = np.zeros_like(top), top
    for _ in range(min(max_iterations, int(top.max(initial=0)).bit_length())):
        middle = (low + high) >> 1
        short = stairs.totals(at(middle)) < want
        low, high = np.where(short, middle, low), np.where(short, high, middle)
        if (high - low <= 1).all():
            break
    return at(low), at(high)


def close(stairs: Staircase, low: IntArray, *, high: IntArray, want: IntArray) -> IntArray:
    """Find a plan between two that meets every wanted total exactly."""
    reach = np.maximum.reduceat(high - low, stairs.cell_starts)
    if int(reach.max(initial=0)) > 1:

        def lifted(step: IntArray) -> IntArray:
            blocks: IntArray = np.minimum(high, low + stairs.spread(step))
            return blocks

        low, high = bisect(lifted, stairs, want=want, top=reach, max_iterations=64)
    return _raise_evenly(stairs, low, high, want - stairs.totals(low))


def _raise_evenly(stairs: Staircase, low: IntArray, high: IntArray, missing: IntArray) -> IntArray:
    """Raise some of the requests that differ by one block, so that each cell gains what it misses."""
    may_rise = high > low
    free = _free_risers(stairs, low, high) if stairs.cold else np.zeros(stairs.n, dtype=bool)
    chosen = _evenly(stairs, may_rise & ~free, missing)
    if stairs.cold:
        tops = stairs.spread_lanes(np.maximum.reduceat(low, stairs.lane_starts))
        lifts = np.logical_or.reduceat(chosen & (low == tops), stairs.lane_starts)
        chosen |= free & np.repeat(lifts, stairs.lane_sizes)
    return low + chosen


def _free_risers(stairs: Staircase, low: IntArray, high: IntArray) -> BoolArray:
    """One request of each lane whose largest may rise: raising it moves the lane's maximum, and no total."""
    tops = stairs.spread_lanes(np.maximum.reduceat(low, stairs.lane_starts))
    candidates = np.flatnonzero((high > tops) & (low == tops))
    lane_of = np.searchsorted(stairs.lane_starts, candidates, side="right")
    free = np.zeros(stairs.n, dtype=bool)
    free[candidates[np.unique(lane_of, return_index=True)[1]]] = True
    return free


def _evenly(stairs: Staircase, candidates: BoolArray, wanted: IntArray) -> BoolArray:
    """Choose ``wanted`` of each cell's candidates at even distances."""
    counted = np.cumsum(candidates)
    before_cell = np.concatenate(([0], counted))[stairs.cell_starts]
    available = np.append(before_cell[1:], counted[-1]) - before_cell
    rank = counted - stairs.spread(before_cell)
    share, of = stairs.spread(wanted), np.maximum(stairs.spread(available), 1)
    chosen: BoolArray = candidates & (rank * share // of > (rank - 1) * share // of)
    return chosen
