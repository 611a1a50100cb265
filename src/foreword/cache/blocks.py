"""Block keys: a block is its tokens and everything before them.

Two requests share a cached block exactly if their keys are equal, because a key digests the parent's key together
with the block's tokens (theory section 5).
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.terms import IntArray

_KEY_BYTES = 8
_TOKEN_BYTES = 4


def root_key(salt: str = "") -> int:
    """Parent of a first block; requests with different salts share nothing."""
    return xxhash.xxh3_64_intdigest(f"root\x1f{salt}".encode())


def block_keys(token_ids: Sequence[int] | IntArray, block_size: int, *, parent: int) -> list[int]:
    """Keys of the full blocks of a prompt, in order, starting below ``parent``.

    A tail shorter than a block has no key: engines never match it.

    >>> same = block_keys([1, 2, 3, 4, 5], 2, parent=root_key())
    >>> same == block_keys([1, 2, 3, 4, 6], 2, parent=root_key())
    True
    """
    data = _token_bytes(token_ids)
    width = block_size * _TOKEN_BYTES
    keys = []
    for start in range(0, len(data) - width + 1, width):
        parent = _digest(parent, data[start : start + width])
        keys.append(parent)
    return keys


def next_key(parent: int, token_ids: Sequence[int] | IntArray) -> int:
    """Key of one block below ``parent``, whatever its length."""
    return _digest(parent, _token_bytes(token_ids))


def _digest(parent: int, data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(parent.to_bytes(_KEY_BYTES, "little") + data)


def _token_bytes(token_ids: Sequence[int] | IntArray) -> bytes:
    """Token ids as little-endian 32-bit words, so that keys are equal on every machine."""
    if isinstance(token_ids, np.ndarray):
        return token_ids.astype("<i4").tobytes()
    words = array("i", token_ids)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()
