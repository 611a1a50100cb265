"""What a run notices about old cache content."""

from __future__ import annotations

import msgspec
import pytest

from foreword.collect.records import RequestRow
from foreword.run.watch import Watch
from foreword.store.requests import SendRequest
from foreword.terms import ExecutionMode, Pass


def request(request_id: str, group: str) -> SendRequest:
    """A request that can hit nothing."""
    return SendRequest(
        request_id=request_id,
        order_index=0,
        prefix_group_id=group,
        planned_dp_id=0,
        prompt=msgspec.Raw(b"[1]"),
        max_tokens=1,
        input_len=64,
        expected_cold=0,
        expected_hot=32,
    )


def row(request_id: str, cached: int, expected: int = 0) -> RequestRow:
    """Its answer."""
    return RequestRow(
        request_id=request_id,
        pass_=Pass.COLD,
        order_index=0,
        prefix_group_id="a",
        planned_dp_id=0,
        url_index=0,
        ok=True,
        input_len=64,
        prompt_tokens=64,
        cached_tokens=cached,
        expected_hit_len=expected,
        max_tokens=1,
    )


@pytest.mark.parametrize(
    ("block_size", "cached", "noticed"),
    [(16, 16, True), (16, 0, False), (1, 1, False), (1, 7, False), (1, 40, True)],
)
def test_residue_is_a_block_or_more_than_chance(block_size: int, cached: int, *, noticed: bool) -> None:
    """A block in the cache is residue; a few single tokens are a head that all prompts share, or chance."""
    watch = Watch(Pass.COLD, ExecutionMode.COLD, block_size)
    list(watch.sending([request("r0", "a")]))

    watch.ended(row("r0", cached))

    assert bool(watch.findings()) is noticed


def test_only_the_first_of_a_lane_is_judged() -> None:
    """A later request that hits more than planned is no residue: concurrency and eviction move hits about."""
    watch = Watch(Pass.COLD, ExecutionMode.COLD, 16)
    list(watch.sending([request("r0", "a"), request("r1", "a"), request("r2", "b")]))

    watch.ended(row("r1", 48))
    assert watch.findings() == []

    watch.ended(row("r2", 16))
    assert "request r2" in watch.findings()[0]
