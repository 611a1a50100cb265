"""Watermarks of small lanes, worked by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.cache import watermark

if TYPE_CHECKING:
    from foreword.terms import IntArray


def _ints(*values: int) -> IntArray:
    return np.asarray(values, dtype=np.int64)


def test_an_ascending_lane_hits_what_came_before() -> None:
    """H_1 = 0 and H_i = P_(i-1) when prefixes grow (RFC 3.3.4)."""
    lane = _ints(0, 0, 0, 0)

    found = watermark.cold(_ints(16, 32, 64, 128), lane, domain=lane, trunk_len=0)

    assert found.before.tolist() == [0, 16, 32, 64]
    assert found.hit.tolist() == [0, 16, 32, 64]
    assert found.after.tolist() == [16, 32, 64, 128]


def test_a_short_request_hits_all_it_has_and_a_long_one_raises_the_mark() -> None:
    """H = min(P, C) and C = max(C, P), in any order of lengths."""
    lane = _ints(0, 0, 0, 0)

    found = watermark.cold(_ints(64, 16, 128, 96), lane, domain=lane, trunk_len=0)

    assert found.hit.tolist() == [0, 16, 64, 96]
    assert found.after.tolist() == [64, 64, 128, 128]


def test_lanes_do_not_see_each_other() -> None:
    """Groups taking turns keep a watermark each, and the first of each hits nothing (RFC 2.5)."""
    lane = _ints(0, 1, 2, 0, 1, 2)

    found = watermark.cold(_ints(32, 16, 48, 32, 32, 16), lane, domain=_ints(0, 0, 0, 0, 0, 0), trunk_len=0)

    assert found.hit.tolist() == [0, 0, 0, 32, 16, 16]


def test_the_trunk_is_paid_once_a_domain() -> None:
    """Every request but the first of its domain finds the head's whole blocks, whatever its group."""
    lane, domain = _ints(0, 1, 2, 3), _ints(0, 0, 1, 1)

    found = watermark.cold(_ints(16, 32, 16, 48), lane, domain=domain, trunk_len=16)

    assert found.hit.tolist() == [0, 16, 0, 16]
    assert watermark.cold_total(_ints(16, 32, 16, 48), lane, domain=domain, trunk_len=16) == 32


def test_warm_lanes_serve_the_whole_prefix() -> None:
    """Each lane holds its longest prefix already."""
    found = watermark.warm(_ints(16, 64, 32), _ints(0, 0, 3))

    assert found.before.tolist() == [64, 64, 32]
    assert found.hit.tolist() == [16, 64, 32]


def test_lanes_may_have_any_numbers() -> None:
    """Gaps between lane numbers cost nothing."""
    assert watermark.cold_total(_ints(16, 32, 48), _ints(7, 7, 900), domain=_ints(0, 0, 0), trunk_len=0) == 16


def test_a_million_tokens_do_not_overflow() -> None:
    """Long lanes with long prefixes keep exact totals."""
    n = 100_000
    shared = np.full(n, 2**30, dtype=np.int64)
    lane = np.arange(n, dtype=np.int64) % 50_000

    total = watermark.cold_total(shared, lane, domain=np.zeros(n, dtype=np.int64), trunk_len=0)

    assert total == 50_000 * 2**30
    assert int(watermark.cold(shared, lane, domain=np.zeros(n, dtype=np.int64), trunk_len=0).hit.sum()) == total
