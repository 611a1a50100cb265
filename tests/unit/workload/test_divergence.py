"""Divergence words: unique by construction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.workload.divergence import ROOT, Children, Spelling, ranks


def _children(count: int, *, free: int, root: bool = False, forbidden: int = ROOT) -> Children:
    numbers = np.arange(count)
    return Children(
        numbers, numbers, np.full(count, root), np.full(count, forbidden, np.int64), np.full(count, free, np.int64)
    )


@pytest.mark.parametrize("words", [64, 65, 71])
def test_two_words_tell_all_numbers_apart_under_any_parents(words: int) -> None:
    """H*W requests have different pairs even when each has its own forbidden word, and none uses it first."""
    count = words // 2 * words
    forbidden = np.random.default_rng(1).integers(ROOT, words, count)
    children = Children(np.arange(count), np.arange(count), np.zeros(count, bool), forbidden, np.full(count, 16))

    table = Spelling(words, 9, by_rank=False, seed_key=4).places(children, 16)

    assert len({(first, second) for first, second, *_ in table.tolist()}) == count
    assert not (table[:, 0] == forbidden).any()
    assert (table >= 0).all()
    assert (table < words).all()


@pytest.mark.parametrize("forbidden", [ROOT, 0, 40, 63])
def test_siblings_of_one_parent_differ_in_their_only_token(forbidden: int) -> None:
    """With one free token, as many siblings as there are other words are told apart."""
    spelling = Spelling(64, 9, by_rank=False, seed_key=2)

    firsts = spelling.places(_children(63, free=1, forbidden=forbidden), 1)[:, 0].tolist()

    assert len(set(firsts)) == 63
    assert forbidden not in firsts


def test_more_siblings_than_words_are_told_apart_by_the_second_word() -> None:
    """Token-granular numbering goes on into word 1 when first words run out."""
    spelling = Spelling(64, 9, by_rank=True, seed_key=2)

    table = spelling.places(_children(63 * 5, free=2, forbidden=7), 2)

    assert len({tuple(row) for row in table.tolist()}) == 63 * 5


def test_requests_that_share_nothing_begin_with_different_start_words_while_they_last() -> None:
    """At the root, start words differ first; then the word after them."""
    table = Spelling(64, 9, by_rank=False, seed_key=2).places(_children(9 * 64, free=2, root=True), 2)

    assert len(set(table[:9, 0].tolist())) == 9
    assert len({tuple(row) for row in table.tolist()}) == 9 * 64


@given(st.lists(st.integers(-1, 4), max_size=40))
def test_ranks_count_earlier_siblings(parents: list[int]) -> None:
    """A rank is the number of earlier elements with the same parent."""
    found = ranks(np.array(parents, dtype=np.int64))

    assert found.tolist() == [parents[:place].count(parent) for place, parent in enumerate(parents)]
