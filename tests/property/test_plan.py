"""Law 3: every block is reachable, so a plan misses its target by half a block over the whole set at most."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from foreword.terms import IntArray, Shape
from foreword.workload.plan import Aim, Prompts, plan_prefixes
from tests.support.planning import (
    aims,
    at_least,
    bounds_of,
    goals,
    group_bounds,
    hits_of,
    maxima,
    miss,
    prompt_sets,
    ratios,
)

HALF = Fraction(1, 2)


def _one_lane(lengths: list[int], block: int) -> tuple[Prompts, IntArray]:
    """Prompts of one lane without head or tail, in generation order."""
    size = np.asarray(lengths, dtype=np.int64)
    one = np.zeros_like(size)
    return Prompts(size, one, one, one, block, 1), np.arange(len(size))


def _short_and_long(block: int) -> tuple[Prompts, IntArray]:
    """Two groups, of which one holds a prompt that can share hardly anything."""
    size = np.asarray([block + 1, 60 * block, 60 * block, 60 * block, 60 * block, 60 * block], dtype=np.int64)
    group = np.asarray([1, 1, 1, 0, 0, 0], dtype=np.int64)
    return Prompts(size, group, group, np.zeros_like(group), block, 1), np.arange(len(size))


def _mine(prompts: Prompts, group: int | None) -> IntArray:
    everyone = np.arange(len(prompts.input_len))
    return everyone if group is None else everyone[prompts.group == group]


def _family_step(prompts: Prompts, group: int, *, warm: bool) -> int:
    """Blocks that a group's total gains when its one common prefix grows by a block."""
    mine = prompts.group == group
    return int(mine.sum()) - (0 if warm else len(set(prompts.lane[mine].tolist())))


@at_least(400)
@given(st.data())
def test_a_plan_misses_by_half_a_block_at_most(data: st.DataObject) -> None:
    """The served total is within half a block of the target, or of the bound that the target lies beyond."""
    prompts, order = data.draw(prompt_sets())
    aim = data.draw(aims(prompts))

    plan = plan_prefixes(prompts, aim, order=order)

    hits = hits_of(prompts, plan.prefix_len, order, warm=aim.warm)
    lowest, floor, ceiling = bounds_of(prompts, order, warm=aim.warm)
    for group, goal in goals(prompts, aim):
        bounds = (floor, ceiling) if group is None else group_bounds(prompts, lowest, group, warm=aim.warm)
        got = int(hits[_mine(prompts, group)].sum())
        assert miss(got, goal, bounds) <= HALF * prompts.block_size
        assert got - goal != HALF * prompts.block_size or not bounds[0] <= goal <= bounds[1], "ties go down"


@settings(max_examples=200)
@given(st.data())
def test_planned_prefixes_are_whole_blocks_between_trunk_and_maximum(data: st.DataObject) -> None:
    """Every P is a multiple of the block, at least the trunk and at most what the request may share."""
    prompts, order = data.draw(prompt_sets())
    aim = data.draw(aims(prompts))
    aim = replace(aim, nested=data.draw(st.booleans()), calibrate=data.draw(st.booleans()))

    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    trunk = prompts.head_len // prompts.block_size * prompts.block_size
    assert all(int(planned) % prompts.block_size == 0 for planned in prefix_len)
    assert all(trunk <= int(planned) <= most for planned, most in zip(prefix_len, maxima(prompts), strict=True))


@settings(max_examples=150)
@given(drawn=prompt_sets(most=5), warm=st.booleans())
def test_every_multiple_of_the_block_is_reachable(*, drawn: tuple[Prompts, IntArray], warm: bool) -> None:
    """Each block count between floor and ceiling is the total of the plan that asks for it."""
    prompts, order = drawn
    _, floor, ceiling = bounds_of(prompts, order, warm=warm)
    wanted = range(floor, ceiling + 1, prompts.block_size)
    tokens = int(prompts.input_len.sum())

    plans = [
        plan_prefixes(prompts, Aim((Fraction(total, tokens),), per_group=False, warm=warm), order=order)
        for total in wanted
    ]

    totals = [int(hits_of(prompts, plan.prefix_len, order, warm=warm).sum()) for plan in plans]
    assert totals == list(wanted)
    assert wanted[-1] == ceiling


@settings(max_examples=150)
@given(drawn=prompt_sets(), target=ratios, warm=st.booleans())
@example(drawn=_one_lane([18, 19, 20], 3), target=Fraction(87, 500), warm=False)
@example(drawn=_one_lane([11, 11], 3), target=Fraction(699, 1000), warm=True)
@example(drawn=_short_and_long(16), target=Fraction(1, 4), warm=False)
@example(drawn=_short_and_long(16), target=Fraction(1, 4), warm=True)
def test_one_prefix_a_group_stays_within_its_wider_bound(
    *, drawn: tuple[Prompts, IntArray], target: Fraction, warm: bool
) -> None:
    """Without nesting all of a group share one length, and the miss is half a step of each group at most."""
    prompts, order = drawn
    aim = Aim((target,), per_group=False, warm=warm, nested=False)

    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    lowest, floor, _ = bounds_of(prompts, order, warm=warm)
    present = sorted(set(prompts.group.tolist()))
    assert all(len(set(prefix_len[prompts.group == group].tolist())) == 1 for group in present)
    steps = {group: _family_step(prompts, group, warm=warm) * prompts.block_size for group in present}
    trunk = prompts.trunk_len
    shortest = {group: int(np.asarray(maxima(prompts))[prompts.group == group].min()) - trunk for group in present}
    ceiling = floor + sum(steps[group] * shortest[group] // prompts.block_size for group in present)
    got = int(hits_of(prompts, prefix_len, order, warm=warm).sum())
    goal = target * int(prompts.input_len.sum())
    assert floor == int(lowest.sum())
    assert miss(got, goal, (floor, ceiling)) <= HALF * sum(steps.values())


@settings(max_examples=150)
@given(drawn=prompt_sets(), targets=st.tuples(ratios, ratios, ratios, ratios), warm=st.booleans())
@example(drawn=_one_lane([155, 83], 16), targets=(Fraction(619, 1000),) * 4, warm=True)
def test_one_prefix_a_group_is_the_nearest_for_its_own_target(
    *, drawn: tuple[Prompts, IntArray], targets: tuple[Fraction, ...], warm: bool
) -> None:
    """With a target for each group, trying every common length finds none that comes nearer."""
    prompts, order = drawn

    aim = Aim(targets, per_group=True, warm=warm, nested=False)
    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    lowest, _, _ = bounds_of(prompts, order, warm=warm)
    hits = hits_of(prompts, prefix_len, order, warm=warm)
    for group in sorted(set(prompts.group.tolist())):
        mine = prompts.group == group
        goal = targets[group] * int(prompts.input_len[mine].sum())
        step = _family_step(prompts, group, warm=warm)
        most = int(np.asarray(maxima(prompts))[mine].min()) - prompts.trunk_len
        totals = [int(lowest[mine].sum()) + step * above for above in range(0, most + 1, prompts.block_size)]
        assert abs(int(hits[mine].sum()) - goal) == min(abs(total - goal) for total in totals)


@settings(max_examples=100)
@given(prompt_sets(), ratios, st.sampled_from(list(Shape)))
def test_without_calibration_the_shape_stands_at_its_nearest(
    drawn: tuple[Prompts, IntArray], target: Fraction, shape: Shape
) -> None:
    """One lane, cold, no calibration: no other parameter of the shape gives a nearer total."""
    prompts, order = drawn
    one = np.zeros_like(prompts.lane)
    prompts = replace(prompts, lane=one, group=one, domain=one)
    aim = Aim((target,), per_group=False, warm=False, shape=shape, calibrate=False)

    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    _, floor, ceiling = bounds_of(prompts, order, warm=False)
    goal = min(max(target * int(prompts.input_len.sum()), Fraction(floor)), Fraction(ceiling))
    totals = {int(hits_of(prompts, shaped, order, warm=False).sum()) for shaped in _shaped_plans(prompts, shape)}
    got = int(hits_of(prompts, prefix_len, order, warm=False).sum())
    assert got in totals
    assert abs(got - goal) <= min(abs(total - goal) for total in totals) + prompts.block_size


def _shaped_plans(prompts: Prompts, shape: Shape) -> list[list[int]]:
    """All plans of a one-lane shape: at each ratio where some request gains a block, or at each cap."""
    block, caps = prompts.block_size, maxima(prompts)
    if shape is Shape.UNIFORM_CAP:
        return [[min(cap, level) for cap in caps] for level in range(prompts.trunk_len, max(caps) + block, block)]
    lengths = [int(size) for size in prompts.input_len]
    jumps = {Fraction(step, size) for size in set(lengths) for step in range(0, size + 1, block)}
    plans = []
    for ratio in sorted(jumps):
        raw = [int(ratio * size) // block * block for size in lengths]
        plans.append([min(max(value, prompts.trunk_len), cap) for value, cap in zip(raw, caps, strict=True)])
    return plans


@settings(max_examples=200)
@given(prompt_sets(), st.data())
def test_proportional_plans_stay_within_a_block_of_one_ratio(
    drawn: tuple[Prompts, IntArray], data: st.DataObject
) -> None:
    """For each group there is an r with every P within one block of align_down(r * L), bounds aside."""
    prompts, order = drawn
    aim = replace(data.draw(aims(prompts)), warm=False, shape=Shape.PROPORTIONAL, max_iterations=1000)

    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    block, caps = prompts.block_size, maxima(prompts)
    for group in set(prompts.group.tolist()):
        lows, highs = [Fraction(0)], [Fraction(10**9)]
        for index in _mine(prompts, group):
            planned, size = int(prefix_len[index]), int(prompts.input_len[index])
            if planned - block > prompts.trunk_len:
                lows.append(Fraction(planned - block, size))
            if planned + block < caps[index]:
                highs.append(Fraction(planned + 2 * block, size))
        assert max(lows) < min(highs)


@settings(max_examples=200)
@given(prompt_sets(), st.data())
def test_uniform_cap_plans_stay_within_a_block_of_one_level(
    drawn: tuple[Prompts, IntArray], data: st.DataObject
) -> None:
    """For each group there is an x with every P within one block of min(M, x)."""
    prompts, order = drawn
    aim = replace(data.draw(aims(prompts)), warm=False, shape=Shape.UNIFORM_CAP, max_iterations=1000)

    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    block, caps = prompts.block_size, maxima(prompts)
    for group in set(prompts.group.tolist()):
        lows, highs = [0], [10**9]
        for index in _mine(prompts, group):
            planned = int(prefix_len[index])
            lows.append(planned - block)
            if planned + block < caps[index]:
                highs.append(planned + block)
        assert max(lows) <= min(highs)


@settings(max_examples=150)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), ratios, st.sampled_from([1, 4, 16]))
def test_a_warm_plan_carries_its_remainder_along_the_send_order(
    lengths: list[int], target: Fraction, block: int
) -> None:
    """Where no cap binds, every first k requests of the order together are within one block of their share."""
    assume(all(size - target * size >= 2 * block for size in lengths))
    size = np.asarray(lengths, dtype=np.int64)
    one, order = np.zeros_like(size), np.argsort(-size, kind="stable")
    prompts = Prompts(size, one, one, one, block, 1)

    prefix_len = plan_prefixes(prompts, Aim((target,), per_group=False, warm=True), order=order).prefix_len

    shares = [target * int(tokens) for tokens in np.cumsum(size[order])]
    reached = [int(tokens) for tokens in np.cumsum(prefix_len[order])]
    assert all(abs(got - share) < block + HALF * block for got, share in zip(reached, shares, strict=True))


@settings(max_examples=100)
@given(prompt_sets(), ratios)
@example(_one_lane([8000, 1000], 16), Fraction("0.3333333333333333"))
@example(_one_lane([8000, 1000], 1024), Fraction("0.3333333333333333"))
@example(_one_lane([8000, 1000], 16), Fraction("1e-300"))
def test_an_uncalibrated_warm_plan_rounds_each_request_down(drawn: tuple[Prompts, IntArray], target: Fraction) -> None:
    """P is align_down(T * L) within trunk and maximum, request by request."""
    prompts, order = drawn
    aim = Aim((target,), per_group=False, warm=True, calibrate=False)

    prefix_len = plan_prefixes(prompts, aim, order=order).prefix_len

    block = prompts.block_size
    raw = [int(target * int(size)) // block * block for size in prompts.input_len]
    bounded = [min(max(value, prompts.trunk_len), most) for value, most in zip(raw, maxima(prompts), strict=True)]
    assert prefix_len.tolist() == bounded


@settings(max_examples=60)
@given(st.integers(2, 40), st.integers(2, 30), st.integers(0, 10_000))
def test_closing_changes_are_spread_evenly(n: int, blocks: int, ten_thousandths: int) -> None:
    """Equal prompts of one lane get two neighbouring lengths, and the longer ones stand at even distances."""
    size = np.full(n, blocks * 16, dtype=np.int64)
    one = np.zeros_like(size)
    prompts = Prompts(size, one, one, one, 16, 16)
    aim = Aim((Fraction(ten_thousandths, 10_000),), per_group=False, warm=False)

    prefix_len = plan_prefixes(prompts, aim, order=np.arange(n)).prefix_len

    assert int(prefix_len.max() - prefix_len.min()) in {0, 16}
    longer = np.flatnonzero(prefix_len > prefix_len.min()).tolist()
    gaps = [after - before for before, after in itertools.pairwise(longer)]
    between = [gap for gap in gaps[1:] if gap]  # the lane's largest holder, which costs nothing, may stand at the start
    assert not between or max(between) - min(between) <= 2 or len(longer) in {0, n}


def test_two_settings_of_the_iteration_limit_give_the_same_total() -> None:
    """``max_iterations`` bounds the bisection, never the closing step."""
    size = np.arange(100, 4100, 37, dtype=np.int64)
    one = np.zeros_like(size)
    prompts = Prompts(size, one, one, one, 16, 16)

    plans = [
        plan_prefixes(
            prompts, Aim((HALF,), per_group=False, warm=False, max_iterations=limit), order=np.arange(len(size))
        ).prefix_len
        for limit in (1, 1000)
    ]

    totals = [int(plan.sum() - plan.max()) for plan in plans]
    assert totals[0] == totals[1]
    assert abs(totals[0] - HALF * int(size.sum())) <= 8


@pytest.mark.parametrize("lanes", [1, 3, 1000])
@pytest.mark.parametrize("spread", [False, True], ids=["fixed", "spread"])
def test_a_large_set_is_planned_exactly(*, lanes: int, spread: bool) -> None:
    """20,000 prompts in one lane or a thousand are within half a block of their target."""
    n = 20_000
    size = 1024 + (np.arange(n, dtype=np.int64) * 7919 % 4000 if spread else np.zeros(n, dtype=np.int64))
    lane = np.arange(n, dtype=np.int64) % lanes
    prompts = Prompts(size, lane, lane, np.zeros_like(lane), 16, 16)

    prefix_len = plan_prefixes(prompts, Aim((HALF,), per_group=False, warm=False), order=np.arange(n)).prefix_len

    tops = sum(int(prefix_len[lane == index].max()) for index in range(lanes))
    assert abs(int(prefix_len.sum()) - tops - HALF * int(size.sum())) <= 8
