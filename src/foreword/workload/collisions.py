"""What text shares by accident: diagnostics beside the guarantee that first private blocks are unique (RFC 3.3.14).

Under ``chained_prefix`` a block deep in a prompt can only be hit through all blocks before it, so repeated windows do
no harm; they tell how repetitive the private text is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foreword.terms import IntArray, UInt64Array

SAMPLED_OF = 16
"""One window in so many is kept, chosen by its content, so that equal windows are kept or left out together."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Repetition:
    """Windows of private tokens seen (a sample by content), and those of them that had been seen before."""

    windows: int
    repeated: int

    @property
    def ratio(self) -> float:
        """Share of windows that repeat an earlier one, 0 to 1."""
        return self.repeated / self.windows if self.windows else 0.0


def sampled_windows(ids: IntArray, start: int, *, block_size: int, window_blocks: int) -> UInt64Array:
    """Digests of the sampled windows of one prompt: runs of whole blocks after ``start`` engine-space tokens.

    A digest is the sum of tokens times powers of an odd constant, modulo 2**64; its highest bits choose the sample.
    """
    width = block_size * window_blocks
    private = ids[start:].astype(np.uint64) + np.uint64(1)
    if width == 0 or len(private) < width:
        return np.zeros(0, np.uint64)
    powers = np.multiply.accumulate(np.full(width, _ODD, dtype=np.uint64))
    windows = np.lib.stride_tricks.sliding_window_view(private, width)[::block_size]
    digests = (windows * powers).sum(axis=1, dtype=np.uint64) * _ODD
    sampled: UInt64Array = digests[digests < np.uint64(2**64 // SAMPLED_OF)]
    return sampled


def repetition(digests: Iterable[UInt64Array]) -> Repetition:
    """How often windows repeat over all prompts, in any order of prompts."""
    everything = np.concatenate([np.zeros(0, np.uint64), *digests])
    return Repetition(len(everything), len(everything) - len(np.unique(everything)))


def longest_common_prefix(masters: Sequence[IntArray]) -> int:
    """Tokens that the two most alike masters have in common at their start; 0 with fewer than two."""
    ordered = sorted(master.tolist() for master in masters if len(master))
    pairs = pairwise(ordered)
    return max((_common(one, other) for one, other in pairs), default=0)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)
