"""Digests of windows for whole arrays, beside the library's own, a window at a time."""

from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from foreword.workload.registry import Chunking, chunk_ends
from foreword.workload.window_digests import window_digests

_IDS = st.lists(st.one_of(st.integers(0, 300_000), st.integers(0, 2**31 - 1)), min_size=8, max_size=80)


def _one_at_a_time(ids: list[int]) -> list[int]:
    words = [token.to_bytes(4, "little") for token in ids]
    return [xxhash.xxh3_64_intdigest(b"".join(words[last - 8 : last])) for last in range(8, len(ids) + 1)]


@given(_IDS)
def test_all_windows_at_once_digest_as_one_at_a_time(ids: list[int]) -> None:
    """Every id that fits into four bytes, and as many windows as there are."""
    assert window_digests(np.array(ids, np.int64)).tolist() == _one_at_a_time(ids)


@given(st.lists(st.integers(0, 5), max_size=120), st.integers(1, 9), st.integers(1, 12), st.integers(0, 20))
def test_chunks_end_where_a_plain_walk_ends_them(ids: list[int], modulus: int, least: int, more: int) -> None:
    """Token by token: a chunk closes at its most tokens, or from its least on behind a window that closes it."""
    digests = [1] * 7 + _one_at_a_time(ids)
    ends, start = [], 0
    for place in range(len(ids)):
        length, closing = place + 1 - start, place >= 7 and digests[place] % modulus == 0
        if length == least + more or (length >= least and closing) or place + 1 == len(ids):
            ends.append(place + 1)
            start = place + 1

    assert chunk_ends(np.array(ids, np.int64), Chunking(modulus, least, least + more)).tolist() == ends
