"""Ceilings and suggestions on sets whose numbers can be worked by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from foreword.workload.plan import Aim, Prompts
from foreword.workload.reach import Suggestion, group_reaches, reach_of, suggestions


def _prompts(lengths: list[int], *, groups: int = 1, domains: int = 1, private: int = 16, head: int = 0) -> Prompts:
    size = np.asarray(lengths, dtype=np.int64)
    group = np.arange(len(size), dtype=np.int64) % groups
    domain = np.arange(len(size), dtype=np.int64) // groups % domains
    return Prompts(size, group, domain * groups + group, domain, 16, private, head)


def _offers(prompts: Prompts, target: Fraction, *, warm: bool = False) -> dict[str, Suggestion]:
    offered = suggestions(prompts, target, aim=Aim((target,), per_group=False, warm=warm))
    assert all(offer.ceiling >= target for offer in offered)
    return {offer.field: offer for offer in offered}


def test_the_four_requests_of_the_rfc() -> None:
    """RFC 2.4: at most 5,936 of 10,000 tokens, cold; 9,920 warmed."""
    prompts = _prompts([1000, 2000, 3000, 4000])

    cold, warm = reach_of(prompts, warm=False), reach_of(prompts, warm=True)
    assert (cold.floor, cold.ceiling, cold.input_tokens) == (Fraction(0), Fraction(5936, 10_000), 10_000)
    assert warm.ceiling == Fraction(9920, 10_000)


def test_the_first_example() -> None:
    """1,000 x 4,096: 0.99609375 warmed, 0.99509765625 cold."""
    prompts = _prompts([4096] * 1000)

    assert float(reach_of(prompts, warm=True).ceiling) == 0.99609375
    assert float(reach_of(prompts, warm=False).ceiling) == 0.99509765625


def test_every_lane_pays_for_itself() -> None:
    """One request a group gives nothing; ranks with caches of their own pay once more each."""
    assert reach_of(_prompts([4096] * 4, groups=4), warm=False).ceiling_tokens == 0
    assert reach_of(_prompts([4096] * 4), warm=False).ceiling_tokens == 3 * 4080
    assert reach_of(_prompts([4096] * 4, domains=2), warm=False).ceiling_tokens == 2 * 4080


def test_a_template_is_a_floor() -> None:
    """A head of two blocks hits from the second request of a domain on, or from the first where it is warm."""
    prompts = _prompts([160] * 5, head=40)

    assert reach_of(prompts, warm=False).floor == Fraction(4 * 32, 800)
    assert reach_of(prompts, warm=True).floor == Fraction(5 * 32, 800)


def test_one_prefix_a_group_is_capped_by_its_shortest_prompt() -> None:
    """Without nesting [17, 1000, 1000] share 16 tokens each: 32 of 2,017 at most."""
    prompts = _prompts([17, 1000, 1000], private=1)

    assert reach_of(prompts, warm=False, nested=False).ceiling == Fraction(32, 2017)
    assert reach_of(prompts, warm=False, nested=True).ceiling == Fraction(16 + 992, 2017)


def test_groups_have_bounds_of_their_own() -> None:
    """The group that sends first pays for the head; a group without requests has no bounds."""
    prompts = _prompts([160] * 4, groups=2, head=20)
    aim = Aim((Fraction(1, 2),) * 3, per_group=True, warm=False)

    first, second, none = group_reaches(prompts, 3, order=np.arange(4), aim=aim)

    assert first is not None
    assert second is not None
    assert (first.floor_tokens, first.ceiling_tokens) == (16, 16 + 128)
    assert (second.floor_tokens, second.ceiling_tokens) == (32, 32 + 128)
    assert none is None
    total = reach_of(prompts, warm=False)
    assert total.ceiling_tokens == first.ceiling_tokens + second.ceiling_tokens


@pytest.mark.parametrize(("n", "ceiling"), [(10, Fraction(9 * 4080, 40_960)), (11, Fraction(10 * 4080, 45_056))])
def test_ninety_percent_needs_eleven_requests(n: int, ceiling: Fraction) -> None:
    """X12: ten prompts of 4,096 tokens stay below 0.9, eleven do not, and that is what is suggested."""
    prompts = _prompts([4096] * n)

    assert reach_of(prompts, warm=False).ceiling == ceiling
    assert (ceiling >= Fraction(9, 10)) is (n == 11)
    if n == 10:
        assert _offers(prompts, Fraction(9, 10))["request_count"].text == "from 11 requests on"


def test_fewer_groups_are_the_most_that_still_do() -> None:
    """100 equal prompts: with 10 groups at most 0.896, with 9 at most 0.906."""
    offers = _offers(_prompts([4096] * 100, groups=10), Fraction(9, 10))

    assert offers["prefix.groups"].text == "with 9 groups"
    assert offers["prefix.groups"].ceiling == pytest.approx(91 * 4080 / 409_600)
    assert offers["target.semantics"].text.startswith("warmed")


def test_one_cache_for_all_ranks_is_suggested_where_ranks_are_the_cost() -> None:
    """Four ranks with caches of their own cost four cold starts."""
    offers = _offers(_prompts([4096] * 40, domains=4), Fraction(93, 100))

    assert offers["routing.cache_scope"].ceiling == pytest.approx(39 * 4080 / 163_840)


def test_a_shorter_private_part_is_the_longest_that_does() -> None:
    """[160] x 10 with 64 private tokens share 96; 0.8 needs 144 shared, that is 16 private."""
    prompts = _prompts([160] * 10, private=64)

    offers = _offers(prompts, Fraction(8, 10))

    assert offers["prefix.minimum_non_shared_length"].text == "with minimum_non_shared_length 16"
    assert reach_of(replace(prompts, minimum_non_shared=17), warm=False).ceiling < Fraction(8, 10)


def test_equal_lengths_help_where_one_long_prompt_pays_alone() -> None:
    """The largest prefix is lost; with equal lengths it is an average one."""
    offers = _offers(_prompts([100] * 9 + [5000]), Fraction(5, 10))

    assert offers["input_length"].text == "with all prompts 590 tokens long"
    assert offers["input_length"].ceiling == pytest.approx(9 * 560 / 5900)


def test_what_no_set_can_reach_is_not_suggested() -> None:
    """A target of 1 needs prompts without private tokens: nothing is offered."""
    assert _offers(_prompts([4096] * 10), Fraction(1)) == {}
    assert _offers(_prompts([4096] * 10), Fraction(1), warm=True) == {}
