"""Where single tokens are matched, plans keep their total while no place is left by more requests than words (X16)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cache import watermark
from foreword.workload.plan import Aim, Prompts, plan_prefixes


def _prompts(lengths: list[int], *, groups: int, domains: int, head: int, fixed: bool) -> Prompts:
    input_len = np.array([lengths[0]] * len(lengths) if fixed else lengths, dtype=np.int64) + head
    place = np.arange(len(lengths))
    group, domain = place % groups, place // groups % domains
    return Prompts(input_len, group, domain * groups + group, domain, 1, 1, head_len=head)


def _hits(prompts: Prompts, prefix_len: np.ndarray, *, warm: bool) -> int:
    """Total by serving the plan, not by the closed form."""
    if warm:
        return int(watermark.warm(prefix_len, prompts.lane).hit.sum())
    return int(watermark.cold(prefix_len, prompts.lane, domain=prompts.domain, trunk_len=prompts.trunk_len).hit.sum())


@given(
    lengths=st.lists(st.integers(150, 400), min_size=20, max_size=120),
    groups=st.integers(1, 3),
    domains=st.integers(1, 2),
    head=st.sampled_from([0, 5]),
    fixed=st.booleans(),
    warm=st.booleans(),
    percent=st.integers(25, 70),
    branches=st.integers(2, 12),
)
def test_spreading_keeps_the_total_and_the_limits(  # noqa: PLR0913 - each is a case to vary
    *,
    lengths: list[int],
    groups: int,
    domains: int,
    head: int,
    fixed: bool,
    warm: bool,
    percent: int,
    branches: int,
) -> None:
    """The same hits as without, prefixes within their bounds, and no place that is left too often."""
    prompts = _prompts(lengths, groups=groups, domains=domains, head=head, fixed=fixed)
    order = np.arange(len(lengths))
    aim = Aim((Fraction(percent, 100),), per_group=False, warm=warm)
    crowded = plan_prefixes(prompts, aim, order=order).prefix_len

    found = plan_prefixes(
        prompts, Aim((Fraction(percent, 100),), per_group=False, warm=warm, branches=branches), order=order
    ).prefix_len

    assert _hits(prompts, found, warm=warm) == _hits(prompts, crowded, warm=warm)
    assert (found <= prompts.max_prefix_len).all()
    assert (found >= prompts.trunk_len).all()
    for group in range(groups):
        mine = found[(prompts.group == group) & (found > head)]
        assert np.bincount(mine).max(initial=0) <= branches


def test_ten_thousand_equal_prompts_leave_at_many_places() -> None:
    """With 2,000 words, 10,000 prompts of one length leave their master at six or more neighbouring places."""
    prompts = _prompts([512] * 10_000, groups=1, domains=1, head=0, fixed=True)
    aim = Aim((Fraction(1, 2),), per_group=False, warm=False, branches=2_000)

    found = plan_prefixes(prompts, aim, order=np.arange(10_000)).prefix_len

    counts = np.bincount(found)
    assert counts.max() <= 2_000
    assert _hits(prompts, found, warm=False) == 512 * 10_000 // 2
    left = np.flatnonzero(counts > 1)
    assert left[-1] - left[0] <= 12


@pytest.mark.parametrize("branches", [1, 5])
def test_what_cannot_be_spread_stays(branches: int) -> None:
    """All at their maximum have nowhere to go: the plan stands, and generating refuses it with the figure."""
    prompts = _prompts([60] * 30, groups=1, domains=1, head=0, fixed=True)
    aim = Aim((Fraction(1),), per_group=False, warm=False, branches=branches)

    found = plan_prefixes(prompts, aim, order=np.arange(30)).prefix_len

    assert (found == 59).all()
