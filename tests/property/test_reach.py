"""Law 2: all prefixes at their maximum is the true ceiling, and every suggestion is true."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foreword.workload.plan import Aim, Prompts
from foreword.workload.reach import reach_of, suggestions
from tests.support.planning import bounds_of, hits_of, maxima, prompt_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.terms import IntArray

_MOST_PLANS = 400


@settings(max_examples=150)
@given(drawn=prompt_sets(most=5), warm=st.booleans())
def test_no_plan_beats_the_ceiling_or_undercuts_the_floor(*, drawn: tuple[Prompts, IntArray], warm: bool) -> None:
    """Of all plans there are, the best total is the ceiling and the worst the floor."""
    prompts, order = drawn
    ladders = [range(prompts.trunk_len, most + 1, prompts.block_size) for most in maxima(prompts)]
    assume(prod(map(len, ladders)) <= _MOST_PLANS)

    reach = reach_of(prompts, warm=warm)

    totals = [int(hits_of(prompts, plan, order, warm=warm).sum()) for plan in itertools.product(*ladders)]
    assert reach.ceiling_tokens == max(totals)
    assert reach.floor_tokens == min(totals)


@settings(max_examples=150)
@given(drawn=prompt_sets(most=8), warm=st.booleans())
def test_no_common_prefix_beats_the_ceiling_without_nesting(*, drawn: tuple[Prompts, IntArray], warm: bool) -> None:
    """Of all ways to give each group one length, the best total is the ceiling, and no plan of the kind exceeds it."""
    prompts, order = drawn
    groups = sorted(set(prompts.group.tolist()))
    tops = [int(np.asarray(maxima(prompts))[prompts.group == group].min()) for group in groups]
    ladders = [range(prompts.trunk_len, top + 1, prompts.block_size) for top in tops]
    assume(prod(map(len, ladders)) <= _MOST_PLANS)

    reach = reach_of(prompts, warm=warm, nested=False)

    plans = [dict(zip(groups, levels, strict=True)) for levels in itertools.product(*ladders)]
    totals = [
        int(hits_of(prompts, [plan[group] for group in prompts.group.tolist()], order, warm=warm).sum())
        for plan in plans
    ]
    assert (reach.floor_tokens, reach.ceiling_tokens) == (min(totals), max(totals))


@settings(max_examples=150)
@given(drawn=prompt_sets(), warm=st.booleans())
def test_floor_and_ceiling_are_those_of_real_blocks(*, drawn: tuple[Prompts, IntArray], warm: bool) -> None:
    """Replaying the lowest and the highest plan gives the floor and the ceiling, as exact ratios."""
    prompts, order = drawn

    reach = reach_of(prompts, warm=warm)

    _, floor, ceiling = bounds_of(prompts, order, warm=warm)
    tokens = int(prompts.input_len.sum())
    assert (reach.floor, reach.ceiling) == (Fraction(floor, tokens), Fraction(ceiling, tokens))


def _sets(group: int, sizes: list[int], domains: int) -> Prompts:
    index = np.arange(len(sizes), dtype=np.int64)
    mine, domain = index % group, index // group % domains
    return Prompts(np.asarray(sizes, dtype=np.int64), mine, domain * group + mine, domain, 16, 48, 5, 2)


def _changed(prompts: Prompts, field: str, text: str) -> Prompts | None:
    """The prompts that a suggestion speaks of, rebuilt from its sentence."""
    number = int("".join(character for character in text if character.isdigit()) or 0)
    groups = int(prompts.group.max()) + 1
    index = np.arange(number) % len(prompts.input_len)
    changes: dict[str, Callable[[], dict[str, Any]]] = {
        "request_count": lambda: {
            name: getattr(prompts, name)[index] for name in ("input_len", "group", "lane", "domain")
        },
        "prefix.groups": lambda: {
            "group": prompts.group % number,
            "lane": prompts.domain * groups + prompts.group % number,
        },
        "routing.cache_scope": lambda: {"domain": np.zeros_like(prompts.domain), "lane": prompts.group},
        "prefix.minimum_non_shared_length": lambda: {"minimum_non_shared": number},
        "input_length": lambda: {"input_len": _lengths_of(prompts, text, number)},
        "block_size": lambda: {"block_size": number},
    }
    return replace(prompts, **changes[field]()) if field in changes else None


def _lengths_of(prompts: Prompts, text: str, number: int) -> IntArray:
    if "times" not in text:
        return np.full_like(prompts.input_len, number)
    factor = Fraction(text.split()[2])
    return np.asarray([int(length * factor) for length in prompts.input_len.tolist()], dtype=np.int64)


@settings(max_examples=40)
@given(
    st.integers(1, 5),
    st.lists(st.integers(60, 400), min_size=2, max_size=20),
    st.integers(1, 3),
    st.integers(500, 990),
)
def test_every_suggestion_is_true(groups: int, sizes: list[int], domains: int, thousandths: int) -> None:
    """The set that a suggestion describes has the ceiling that it promises, and reaches the target."""
    prompts, target = _sets(groups, sizes, domains), Fraction(thousandths, 1000)
    assume(reach_of(prompts, warm=False).ceiling < target <= reach_of(prompts, warm=True).ceiling)

    offered = suggestions(prompts, target, aim=Aim((target,), per_group=False, warm=False))

    for offer in offered:
        changed = _changed(prompts, offer.field, offer.text)
        warm = changed is None
        other = prompts if changed is None else changed
        _, _, ceiling = bounds_of(other, range(len(other.input_len)), warm=warm)
        assert offer.ceiling == ceiling / int(other.input_len.sum())
        assert Fraction(ceiling, int(other.input_len.sum())) >= target
