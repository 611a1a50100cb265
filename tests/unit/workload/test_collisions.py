"""Accidental repetition: counted, sampled by content."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foreword.workload.collisions import SAMPLED_OF, Repetition, longest_common_prefix, repetition, sampled_windows


def test_a_text_that_comes_twice_repeats_all_its_windows() -> None:
    """Half of what is seen was seen before, whatever the sample is."""
    ids = np.arange(40_000)

    one = sampled_windows(ids, 64, block_size=16, window_blocks=2)
    both = repetition([one, one])

    assert both == Repetition(2 * len(one), len(one))
    assert both.ratio == 0.5
    assert repetition([one]).repeated == 0


def test_about_one_window_in_sixteen_is_kept() -> None:
    """Memory stays small for data sets of any size."""
    windows = (160_000 - 32) // 16 + 1

    kept = len(sampled_windows(np.arange(160_000), 0, block_size=16, window_blocks=2))

    assert 0.8 < kept * SAMPLED_OF / windows < 1.2


def test_shared_tokens_and_short_tails_have_no_windows() -> None:
    """Windows begin after the prefix and are whole."""
    assert len(sampled_windows(np.arange(1_000), 990, block_size=16, window_blocks=2)) == 0
    assert repetition([]) == Repetition(0, 0)
    assert repetition([]).ratio == 0.0


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=6))
def test_the_most_alike_masters_are_neighbours_when_sorted(masters: list[list[int]]) -> None:
    """The longest common start is that of the best of all pairs."""
    kept = [master for master in masters if master]
    every_pair = [
        next((at for at in range(min(len(a), len(b))) if a[at] != b[at]), min(len(a), len(b)))
        for place, a in enumerate(kept)
        for b in kept[place + 1 :]
    ]

    assert longest_common_prefix([np.array(master, dtype=np.int64) for master in masters]) == max(every_pair, default=0)
