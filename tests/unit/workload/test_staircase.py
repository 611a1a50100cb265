"""The exact search: cells, lanes and the free largest holder."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.workload.staircase import Staircase, bisect, close

if TYPE_CHECKING:
    from foreword.terms import IntArray


def _ints(*values: int) -> IntArray:
    return np.asarray(values, dtype=np.int64)


def _stairs(sizes: list[list[int]], *, cold: bool) -> Staircase:
    """Cells of lanes of so many requests."""
    lanes = [0, *itertools.accumulate(size for cell in sizes for size in cell)]
    cells = [0, *itertools.accumulate(sum(cell) for cell in sizes)]
    return Staircase(_ints(*lanes[:-1]), _ints(*cells[:-1]), lanes[-1], cold)


def _total(blocks: list[int], lanes: list[int], *, cold: bool) -> int:
    """Sum over lanes of the sum, less the largest where lanes start cold."""
    parts = [
        blocks[start : start + size] for start, size in zip(itertools.accumulate([0, *lanes]), lanes, strict=False)
    ]
    return sum(sum(part) - (max(part) if cold else 0) for part in parts)


def test_a_cold_lane_does_not_count_its_largest_holder() -> None:
    """Two cells, three lanes: totals are sums less each lane's maximum; warm ones are sums."""
    blocks = _ints(3, 5, 2, 7, 1, 1)

    assert _stairs([[2, 1], [3]], cold=True).totals(blocks).tolist() == [3, 2]
    assert _stairs([[2, 1], [3]], cold=False).totals(blocks).tolist() == [10, 9]


def test_values_spread_over_their_requests() -> None:
    """A value for each cell or lane reaches each of its requests."""
    stairs = _stairs([[2, 1], [3]], cold=True)

    assert stairs.spread(_ints(7, 9)).tolist() == [7, 7, 7, 9, 9, 9]
    assert stairs.spread_lanes(_ints(1, 2, 3)).tolist() == [1, 1, 2, 3, 3, 3]
    assert stairs.lane_sizes.tolist() == [2, 1, 3]


@pytest.mark.parametrize("limit", [1, 2, 64])
def test_bisection_brackets_the_wanted_total(limit: int) -> None:
    """However few steps it has, the plans it returns lie around the wanted totals, and are ordered."""
    stairs = _stairs([[4], [3]], cold=True)
    caps = _ints(9, 4, 7, 2, 5, 5, 5)

    def at(level: IntArray) -> IntArray:
        return np.minimum(caps, stairs.spread(level))

    want = _ints(8, 9)
    low, high = bisect(at, stairs, want=want, top=_ints(9, 5), max_iterations=limit)

    assert (low <= high).all()
    assert (stairs.totals(low) <= want).all()
    assert (want <= stairs.totals(high)).all()
    assert limit < 64 or int((high - low).max()) <= 1


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[int], list[int], bool]:
    """Cells of lanes, two ordered plans, and how far between their totals to go."""
    sizes = draw(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=3))
    n = sum(map(sum, sizes))
    low = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    rise = draw(st.lists(st.integers(0, draw(st.sampled_from([1, 6]))), min_size=n, max_size=n))
    shares = draw(st.lists(st.integers(0, 100), min_size=len(sizes), max_size=len(sizes)))
    return sizes, low, [a + b for a, b in zip(low, rise, strict=True)], shares, draw(st.booleans())


@settings(max_examples=300)
@given(cases())
def test_every_total_between_two_plans_is_met_exactly(
    case: tuple[list[list[int]], list[int], list[int], list[int], bool],
) -> None:
    """Between any two ordered plans there is one for each total between theirs, in all cells at once."""
    sizes, low, high, shares, cold = case
    stairs = _stairs(sizes, cold=cold)
    bottom, top = stairs.totals(_ints(*low)), stairs.totals(_ints(*high))
    want = bottom + (top - bottom) * _ints(*shares) // 100

    plan = close(stairs, _ints(*low), high=_ints(*high), want=want).tolist()

    assert all(a <= p <= b for a, p, b in zip(low, plan, high, strict=True))
    start = 0
    for cell, wanted in zip(sizes, want.tolist(), strict=True):
        assert _total(plan[start : start + sum(cell)], cell, cold=cold) == wanted
        start += sum(cell)
