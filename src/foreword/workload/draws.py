"""Counter-based draws: a number depends on its key and its counter alone (theory Law 7)."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from foreword.terms import below, draw_key

if TYPE_CHECKING:
    from foreword.terms import IntArray, UInt64Array

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mixed(values: UInt64Array) -> UInt64Array:
    """One splitmix64 step of each value."""
    z = values + _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def keyed(key: int, counters: IntArray) -> UInt64Array:
    """64 random bits for each counter under the key."""
    return mixed(mixed(np.asarray(counters).astype(np.uint64)) ^ np.uint64(key))


def drawn(key: int, counters: IntArray, *, limit: int) -> IntArray:
    """A number in ``[0, limit)`` for each counter under the key."""
    return below(keyed(key, counters), limit)


def drawn_table(key: int, rows: IntArray, *, columns: int, limit: int) -> IntArray:
    """Numbers in ``[0, limit)``, one row for each counter; a wider table has the narrower one at its left."""
    bits = keyed(key, rows)[:, None] + mixed(np.arange(columns, dtype=np.uint64))[None, :]
    return below(mixed(bits), limit)


def coprime_step(limit: int, purpose: str, *parts: object) -> int:
    """A keyed step that visits all of ``range(limit)`` before it repeats."""
    if limit <= 1:
        return 1
    step = 1 + draw_key(purpose, *parts) % (limit - 1)
    while gcd(step, limit) != 1:
        step = step % (limit - 1) + 1
    return step
