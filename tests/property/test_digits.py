"""CSV by the column against formatting every cell by itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from foreword.config.replay import ReplayConfig
from foreword.simulate.columns import columns
from foreword.simulate.replay import Replay
from foreword.store.digits import csv_rows
from tests.support.replaying import BLOCK_SIZE, document, group

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST = 2**63 - 1
QUOTIENTS = st.tuples(st.integers(0, 2**40), st.integers(1, 2**40)).map(lambda pair: min(pair) / max(pair))
MIDDLES = st.tuples(st.integers(10**5, 10**6 - 1), st.integers(6, 9)).map(lambda pair: (pair[0] + 0.5) / 10 ** pair[1])
RATIOS = st.one_of(QUOTIENTS, MIDDLES, st.floats(0, 1), st.floats(allow_nan=False, allow_infinity=False))
INTEGERS = st.one_of(st.integers(0, LARGEST), st.integers(0, 20_000), st.integers(-LARGEST, -1))
EDGES = [0.0, 1.0, 0.1, 0.01, 0.001, 1e-4, 0.099999949, 0.0999999501, 0.99999949, 0.9999995, 9.999995e-5, 5e-324, 1e300]


def plain(columns: Sequence[Sequence[int | float]]) -> bytes:
    """Rows as C++ streams print them, by Python's own formatting."""
    texts = [[f"{value:g}" if isinstance(value, float) else str(value) for value in column] for column in columns]
    return "".join(",".join(cells) + "\n" for cells in zip(*texts, strict=True)).encode()


@given(st.lists(st.tuples(INTEGERS, RATIOS, st.integers(0, 12_000)), min_size=1, max_size=40))
@example([(0, ratio, at) for at, ratio in enumerate(EDGES)])
@example([(10**power, -(0.1**power), 10**power - 1) for power in range(19)])
def test_columns_of_digits_are_what_plain_formatting_says(rows: list[tuple[int, float, int]]) -> None:
    """Integers of any size and doubles of any size come out to the byte."""
    whole, ratios, small = zip(*rows, strict=True)

    fast = b"".join(csv_rows([np.array(whole, np.int64), np.array(ratios), np.array(small, np.int64)]))

    assert fast == plain([whole, ratios, small])


def test_pieces_of_a_long_table_join() -> None:
    """Rows beyond the first piece have their own widths and lose nothing."""
    numbers = np.arange(20_000) ** 3
    ratios = numbers / numbers[-1]

    assert b"".join(csv_rows([numbers, ratios])) == plain([numbers.tolist(), ratios.tolist()])


@given(st.lists(st.integers(20, 2**62), min_size=1, max_size=5), st.integers(0, 5))
def test_sums_beyond_64_bits_stay_exact(lengths: list[int], blocks: int) -> None:
    """Running token counts and their ratios are those of unbounded integers."""
    replay = Replay(ReplayConfig.from_document(document(group())))
    replay.write("a", 1, keys=range(blocks))
    for length in lengths:
        replay.read("a", 2, keys=range(blocks), input_len=length)

    table = [column.tolist() for column in columns(replay.instances["a"])]

    totals = list(accumulate(lengths))
    hits = [blocks * BLOCK_SIZE * reads for reads in range(1, len(lengths) + 1)]
    assert (table[16], table[19]) == (totals, hits)
    assert table[22] == [float(Fraction(part, whole)) for part, whole in zip(hits, totals, strict=True)]
