"""Digests of all windows of a prompt at once: XXH3-64 of eight tokens of four bytes, for whole arrays.

A call of a digest library for each token would take longer than everything else that is done to a prompt. The steps are
those of XXH3 for inputs of 32 bytes without a seed (xxHash's specification, "XXH3 for medium inputs").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foreword.terms import IntArray, UInt64Array

CHUNK_WINDOW_TOKENS = 8

_SECRET = tuple(map(np.uint64, (0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072)))
_LENGTH_START = np.uint64(32 * 0x9E3779B185EBCA87 % 2**64)
_AVALANCHE = np.uint64(0x165667919E3779F9)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def window_digests(ids: IntArray) -> UInt64Array:
    """XXH3-64 of each eight consecutive tokens as little-endian int32; ``ids`` holds at least eight."""
    words = np.ascontiguousarray(ids, dtype="<i4").view("<u4").astype(np.uint64)
    pairs = words[:-1] | words[1:] << _HALF
    count = len(words) - CHUNK_WINDOW_TOKENS + 1
    mixed = [pairs[place : place + count] ^ key for place, key in zip((0, 2, 4, 6), _SECRET, strict=True)]
    digest = _LENGTH_START + _folded_product(mixed[0], mixed[1]) + _folded_product(mixed[2], mixed[3])
    digest = (digest ^ digest >> np.uint64(37)) * _AVALANCHE
    finished: UInt64Array = digest ^ digest >> _HALF
    return finished


def _folded_product(left: UInt64Array, right: UInt64Array) -> UInt64Array:
    """Both halves of the 128-bit products, one XOR the other."""
    left_low, left_high, right_low, right_high = left & _LOW, left >> _HALF, right & _LOW, right >> _HALF
    low = left_low * right_low
    middle = left_high * right_low + (low >> _HALF)
    crossed = left_low * right_high + (middle & _LOW)
    high = left_high * right_high + (middle >> _HALF) + (crossed >> _HALF)
    folded: UInt64Array = high ^ (left * right)
    return folded
