"""Law 1: a lane pays for each block level once, so its total does not depend on the send order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.cache import watermark
from tests.support.planning import maxima, prompt_sets, served

if TYPE_CHECKING:
    from foreword.terms import IntArray
    from foreword.workload.plan import Prompts


@st.composite
def planned(draw: st.DrawFn) -> tuple[Prompts, IntArray, IntArray]:
    """Prompts, any legal prefix lengths for them, and a send order."""
    prompts, order = draw(prompt_sets())
    block, trunk = prompts.block_size, prompts.head_len // prompts.block_size * prompts.block_size
    shared = [trunk + block * draw(st.integers(0, (most - trunk) // block)) for most in maxima(prompts)]
    return prompts, np.asarray(shared, dtype=np.int64), order


@settings(max_examples=200)
@given(planned(), st.data())
def test_the_total_of_a_cold_pass_is_free_of_the_send_order(
    drawn: tuple[Prompts, IntArray, IntArray], data: st.DataObject
) -> None:
    """Replay of real blocks in two orders gives one total, the closed form's."""
    prompts, shared, order = drawn
    other = data.draw(st.permutations(order.tolist()))

    total = watermark.cold_total(shared, prompts.lane, domain=prompts.domain, trunk_len=prompts.trunk_len)

    assert total == int(served(prompts, shared, order).sum()) == int(served(prompts, shared, other).sum())


@settings(max_examples=100)
@given(planned())
def test_without_a_head_a_lane_loses_its_largest_prefix(drawn: tuple[Prompts, IntArray, IntArray]) -> None:
    """sum(H) = sum(P) - max(P) over each lane, when no head is shared."""
    prompts, shared, _ = drawn

    total = watermark.cold_total(shared, prompts.lane, domain=prompts.domain, trunk_len=0)

    lanes = [shared[prompts.lane == lane] for lane in set(prompts.lane.tolist())]
    assert total == sum(int(lane.sum()) - int(lane.max()) for lane in lanes)


@settings(max_examples=200)
@given(planned())
def test_a_cold_pass_is_predicted_request_by_request(drawn: tuple[Prompts, IntArray, IntArray]) -> None:
    """Hits and watermarks of every request are those of real blocks in that order."""
    prompts, shared, order = drawn

    found = watermark.cold(
        shared[order], prompts.lane[order], domain=prompts.domain[order], trunk_len=prompts.trunk_len
    )

    assert found.hit.tolist() == served(prompts, shared, order)[order].tolist()
    levels: dict[int, int] = {}
    domains: set[int] = set()
    for place, index in enumerate(order):
        lane, domain = int(prompts.lane[index]), int(prompts.domain[index])
        before = max(levels.get(lane, 0), prompts.trunk_len if domain in domains else 0)
        assert int(found.before[place]) == before
        levels[lane] = max(before, int(shared[index]))
        domains.add(domain)
        assert int(found.after[place]) == levels[lane]


@settings(max_examples=100)
@given(planned())
def test_a_warm_pass_hits_every_planned_token(drawn: tuple[Prompts, IntArray, IntArray]) -> None:
    """Lanes that hold their longest prefix serve all of P, and stay where they are."""
    prompts, shared, order = drawn

    found = watermark.warm(shared[order], prompts.lane[order])

    assert found.hit.tolist() == shared[order].tolist()
    tops = [int(shared[prompts.lane == prompts.lane[index]].max()) for index in order]
    assert found.before.tolist() == found.after.tolist() == tops


def test_no_requests_hit_nothing() -> None:
    """An empty pass has empty watermarks and a total of 0."""
    nothing = np.zeros(0, dtype=np.int64)

    assert watermark.cold(nothing, nothing, domain=nothing, trunk_len=16).hit.tolist() == []
    assert watermark.warm(nothing, nothing).hit.tolist() == []
    assert watermark.cold_total(nothing, nothing, domain=nothing, trunk_len=16) == 0
