"""The partial sort whose ties are visible in hit rates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cache.selection import partial_sort

FROM_LIBSTDCXX = [
    (2, "5 6 6 0 1 0 4 7 6 3 0 6", "5 3 2 1 0 4 6 7 8 9 10 11"),
    (4, "8 5 8 7 2 8 7 3 3 7 8 5 5", "4 8 7 1 2 5 0 3 6 9 10 11 12"),
    (3, "8 1 7 4 8 10 9 0 11 7 2 4 5 6 6", "7 1 10 0 4 5 6 2 8 9 3 11 12 13 14"),
    (2, "4 3 1 4 2 3 4 1 4 0 2 7", "9 7 0 3 1 5 6 4 8 2 10 11"),
    (4, "9 9 3 9 1 1 2 2 6 1 0 2 3 0 3 1", "10 13 5 4 3 1 0 2 8 6 7 11 12 9 14 15"),
    (10, "0 0 1 2 1 2 0 2 1 2 1 0 1 1", "1 11 0 6 10 8 12 4 13 2 5 9 7 3"),
    (5, "2 6 5 6 2 7 7 0 3 4 7 5 1 6 3 7", "7 12 0 4 8 5 6 3 1 2 10 11 9 13 14 15"),
    (2, "11 7 6 1 5 11 9 6 3 6 3 6 6 8", "3 8 0 1 2 5 6 7 4 9 10 11 12 13"),
]
"""How many, times of items 0, 1, ..., and the order in which ``std::partial_sort`` of libstdc++ leaves the items."""


@pytest.mark.parametrize(("middle", "times", "order"), FROM_LIBSTDCXX)
def test_ties_fall_as_in_libstdcxx(middle: int, times: str, order: str) -> None:
    """Sorted part and rest have the library's order, taken from a compiled program."""
    time_of = list(map(int, times.split()))
    items = list(range(len(time_of)))

    partial_sort(items, middle, time=time_of.__getitem__)

    assert items == list(map(int, order.split()))


@given(st.lists(st.integers(0, 9), max_size=30), st.data())
def test_the_first_are_the_smallest(times: list[int], data: st.DataObject) -> None:
    """The first part ascends, holds nothing larger than the rest, and no item is lost."""
    middle = data.draw(st.integers(0, len(times)))
    items = list(range(len(times)))

    partial_sort(items, middle, time=times.__getitem__)

    assert [times[item] for item in items[:middle]] == sorted(times)[:middle]
    assert sorted(items) == list(range(len(times)))
