"""Plans worked by hand: the RFC's own numbers and the edges of what may be shared."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from foreword.errors import ConfigError
from foreword.terms import IntArray, Shape
from foreword.workload.plan import Aim, Prompts, check_prompts, plan_prefixes

HALF = Fraction(1, 2)


def _prompts(lengths: list[int], *, block: int = 16, private: int = 16, head: int = 0, tail: int = 0) -> Prompts:
    size = np.asarray(lengths, dtype=np.int64)
    one = np.zeros_like(size)
    return Prompts(size, one, one, one, block, private, head, tail)


def _grouped(prompts: Prompts, groups: list[int]) -> Prompts:
    group = np.asarray(groups, dtype=np.int64)
    return replace(prompts, group=group, lane=group)


def _planned(prompts: Prompts, target: Fraction, **aim: object) -> IntArray:
    order = np.arange(len(prompts.input_len))
    wanted = replace(Aim((target,), per_group=False, warm=False), **aim)  # type: ignore[arg-type] # fields by name
    return plan_prefixes(prompts, wanted, order=order).prefix_len


def test_four_requests_of_the_rfc_share_at_most_5936_tokens() -> None:
    """RFC 2.4: M = 976, 1984, 2976, 3984; the ceiling is all but the largest."""
    prompts = _prompts([1000, 2000, 3000, 4000])

    assert prompts.max_prefix_len.tolist() == [976, 1984, 2976, 3984]
    prefix_len = _planned(prompts, Fraction(6, 10))
    assert int(prefix_len.sum() - prefix_len.max()) == 5936


@pytest.mark.parametrize(
    ("size", "private", "head", "tail", "most"),
    [
        (4096, 16, 0, 0, 4080),
        (4096, 0, 0, 0, 4080),  # the last token is always private: 0 means 1
        (4096, 1, 0, 0, 4080),
        (4097, 0, 0, 0, 4096),
        (4097, 16, 0, 0, 4080),
        (4112, 16, 0, 0, 4096),
        (4096, 17, 0, 0, 4064),
        (4096, 100, 0, 0, 3984),
        (10, 16, 0, 0, 0),
        (4096, 1, 0, 16, 4064),  # the tail and one token before it are private
        (4096, 40, 0, 16, 4048),
        (20, 16, 17, 0, 16),  # a head of a whole block is shared even where nothing else fits
        (33, 16, 17, 3, 16),
    ],
)
def test_what_a_prompt_may_share(size: int, private: int, head: int, tail: int, most: int) -> None:
    """M is what is left of the private end, in whole blocks, and never less than the head's blocks."""
    assert _prompts([size], private=private, head=head, tail=tail).max_prefix_len.tolist() == [most]


def test_half_of_the_first_example_is_half_of_each_prompt() -> None:
    """1,000 warmed prompts of 4,096 tokens share exactly 2,048 each."""
    assert set(_planned(_prompts([4096] * 1000), HALF, warm=True).tolist()) == {2048}


def test_a_target_of_zero_shares_nothing() -> None:
    """0 % is a legal target, cold and warm."""
    for warm in (False, True):
        assert _planned(_prompts([100, 200, 300]), Fraction(0), warm=warm).tolist() == [0, 0, 0]


def test_a_single_cold_request_cannot_hit() -> None:
    """One request in a group has nobody to learn from, whatever is asked."""
    prefix_len = _planned(_prompts([4096]), Fraction(9, 10))

    assert int(prefix_len.sum() - prefix_len.max()) == 0


@pytest.mark.parametrize(("n", "reachable"), [(10, False), (11, True)])
def test_ninety_percent_of_one_fixed_group_needs_eleven_requests(n: int, reachable: bool) -> None:  # noqa: FBT001 - a table's column
    """With one private block of 4,096 tokens, 0.9 is reached from n = 11 on (X12)."""
    prefix_len = _planned(_prompts([4096] * n), Fraction(9, 10))

    total = int(prefix_len.sum() - prefix_len.max())
    assert (abs(total - Fraction(9, 10) * 4096 * n) <= 8) is reachable
    assert reachable or total == 9 * 4080


def test_ties_go_to_the_smaller_total() -> None:
    """A target exactly between two totals takes the lower."""
    prefix_len = _planned(_prompts([160, 160]), Fraction(24, 320))

    assert int(prefix_len.sum() - prefix_len.max()) == 16


def test_short_prompts_lower_the_warm_bias_by_carrying() -> None:
    """Prompts of 64 tokens at 50 % in blocks of 16 are exact; at 45 % they alternate instead of rounding down."""
    assert set(_planned(_prompts([64] * 10), HALF, warm=True).tolist()) == {32}
    carried = _planned(_prompts([64] * 10), Fraction(45, 100), warm=True)
    down = _planned(_prompts([64] * 10), Fraction(45, 100), warm=True, calibrate=False)

    assert int(carried.sum()) == 288  # 0.45 * 640
    assert int(down.sum()) == 160


def test_a_cap_moves_the_remainder_to_prompts_with_room() -> None:
    """Warm: what short prompts cannot share is placed on the others, still within half a block."""
    prefix_len = _planned(_prompts([20] * 5 + [1000]), Fraction(97, 100), warm=True)

    assert prefix_len[:5].tolist() == [0] * 5
    assert int(prefix_len[5]) == 976  # the ceiling: all that the long one may share
    moderate = _planned(_prompts([20] * 5 + [1000]), Fraction(80, 100), warm=True)
    assert abs(int(moderate.sum()) - Fraction(80, 100) * 1100) <= 8


def test_equal_groups_get_equal_budgets_and_a_full_one_passes_on_its_rest() -> None:
    """Water-filling: budgets follow input tokens; a group of one request can hit nothing, so another takes its part."""
    even = _grouped(_prompts([160] * 20), [0, 1] * 10)
    plan = plan_prefixes(even, Aim((HALF,), per_group=False, warm=False), order=np.arange(20))
    assert plan.group_target_hit_tokens.tolist() == [800, 800]

    lopsided = _grouped(_prompts([160] * 11), [0] * 10 + [1])
    plan = plan_prefixes(lopsided, Aim((HALF,), per_group=False, warm=False), order=np.arange(11))
    assert plan.group_target_hit_tokens.tolist() == [880, 0]
    assert plan.strategy


def test_targets_by_group_are_met_by_group() -> None:
    """Each group's own total is within half a block of its own target."""
    prompts = _grouped(_prompts([1000 + 37 * index for index in range(40)]), [0, 1] * 20)
    aim = Aim((Fraction(2, 10), Fraction(8, 10)), per_group=True, warm=False)

    prefix_len = plan_prefixes(prompts, aim, order=np.arange(40)).prefix_len

    for group, target in enumerate(aim.targets):
        mine = prefix_len[prompts.group == group]
        tokens = int(prompts.input_len[prompts.group == group].sum())
        assert abs(int(mine.sum() - mine.max()) - target * tokens) <= 8


def test_without_nesting_a_group_has_one_length() -> None:
    """``nested_prefix: false``: P is one number, at most the shortest prompt's maximum."""
    prefix_len = _planned(_prompts([100, 400, 900]), HALF, nested=False)

    assert set(prefix_len.tolist()) == {80}  # 2 * 80 = 160 is far below 700: the shortest prompt decides


def test_uniform_caps_share_one_level() -> None:
    """``uniform_cap``: prompts with room share the same length, shorter ones what they have."""
    prefix_len = _planned(_prompts([100, 1000, 1000, 1000, 1000]), HALF, shape=Shape.UNIFORM_CAP)

    levels = set(prefix_len[1:].tolist())
    assert int(prefix_len[0]) == 80
    assert max(levels) - min(levels) <= 16


def test_long_prompts_share_more_under_the_default_shape() -> None:
    """``proportional``: twice the length, twice the prefix, within a block."""
    prefix_len = _planned(_prompts([1000] * 10 + [2000] * 10), HALF)

    assert abs(2 * int(prefix_len[0]) - int(prefix_len[-1])) <= 32


def test_the_head_is_shared_before_anything_is_planned() -> None:
    """Every P starts at the head's whole blocks and is a multiple of the block in engine space."""
    prompts = _prompts([200] * 6, head=35)

    assert _planned(prompts, Fraction(0)).tolist() == [32] * 6
    assert all(int(value) % 16 == 0 and value >= 32 for value in _planned(prompts, HALF))


def test_a_prompt_without_a_token_of_its_own_is_refused_by_name() -> None:
    """L >= head + tail + 1, or a config error that names the request."""
    check_prompts(_prompts([6, 6], head=3, tail=2))

    with pytest.raises(ConfigError, match=r"r0000001 has 5 tokens") as caught:
        check_prompts(_prompts([6, 5], head=3, tail=2))

    assert caught.value.request_id == "r0000001"


def test_targets_with_many_digits_are_exact() -> None:
    """One third as a float, in blocks of 1,024: no overflow, and the same miss as any other target."""
    third = Fraction(str(1 / 3))
    for warm in (False, True):
        prefix_len = _planned(_prompts([100_000, 70_000, 30_000] * 100, block=1024), third, warm=warm)
        total = int(prefix_len.sum()) - (0 if warm else int(prefix_len.max()))
        assert abs(total - third * 20_000_000) <= 512


def test_very_long_prompts_are_planned_exactly() -> None:
    """Lengths near 2**31 leave no room for rounding either."""
    prompts = _prompts([2**31 - 1, 2**31 - 5, 2**30] * 3)

    prefix_len = _planned(prompts, HALF)

    assert abs(int(prefix_len.sum() - prefix_len.max()) - HALF * int(prompts.input_len.sum())) <= 8
