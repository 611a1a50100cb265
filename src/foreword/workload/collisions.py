"""Repetition where chained caches do not look, and what masters have in common: diagnoses (RFC 3.3.14)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.terms import IntArray

_ODD = np.uint64(0x9E3779B97F4A7C15)


def window_digests(private: IntArray, *, block_size: int, blocks: int) -> IntArray:
    """Digest of every run of ``blocks`` whole blocks of a private part, starting at each block; none for 0 blocks.

    A digest is a sum of tokens times powers of an odd constant, modulo 2**64: equal windows have equal digests.
    """
    width = block_size * blocks
    if blocks == 0 or len(private) < width:
        return np.zeros(0, dtype=np.int64)
    powers = np.multiply.accumulate(np.full(width, _ODD, dtype=np.uint64))
    windows = np.lib.stride_tricks.sliding_window_view(private.astype(np.uint64) + np.uint64(1), width)[::block_size]
    digests: IntArray = (windows * powers).sum(axis=1, dtype=np.uint64).view(np.int64)
    return digests


def common_prefix_tokens(masters: Sequence[IntArray]) -> int:
    """Longest common beginning of any two masters, in tokens: neighbours in sorted order share the most."""
    ordered = sorted(tuple(master.tolist()) for master in masters)
    longest = 0
    for left, right in itertools.pairwise(ordered):
        same = next(
            (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
        )
        longest = max(longest, same)
    return longest
