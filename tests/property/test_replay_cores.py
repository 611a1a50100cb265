"""The compiled core against the reference: the same state after the same rows, wherever it says that it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.config.replay import ReplayConfig
from foreword.errors import UsageError
from foreword.simulate.compiled import replay_compiled
from foreword.simulate.cores import WORTH_COMPILING_KEYS, Core, chosen_core, misfit
from foreword.simulate.replay import Replay
from foreword.simulate.summary import TraceFacts, summarise
from foreword.trace.columns import columns_from
from foreword.trace.schema import RowError, RowRefused
from tests.support.replaying import POLICIES, SIZES, by_time, configs, document, group, instance, mixed_rows, requests

if TYPE_CHECKING:
    from foreword.trace.schema import TraceRow


NO_FACTS = TraceFacts(0, 0, {})


@st.composite
def fitting(draw: st.DrawFn) -> dict[str, Any]:
    """Exact LRU in one tier or pool: two groups, blocks of several sizes, every mode, batch and switch."""
    sizes = st.one_of(SIZES, st.none())
    pools = []
    for members in draw(st.sampled_from(["a", "ab", "a,b", "ab,c", "abc"])).split(","):
        size = draw(sizes)
        pools.append(
            group(
                size,
                tiers=draw(st.sampled_from([(), (size,)])),
                instances=[instance(name, block_size=draw(st.sampled_from([2, 4, 8]))) for name in members],
                name=members,
                default_block_ttl_seconds=draw(st.sampled_from([0, -1, 1])),
                ttl_refresh_on_read=draw(st.booleans()),
            )
        )
    return document(
        *pools,
        mode=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 4)),
        write_delay_ns=draw(st.integers(1, 900)),
        touch_order=draw(st.sampled_from(["head_first", "tail_first"])),
        write_refresh=draw(st.booleans()),
    )


@st.composite
def pools_and_bounds(draw: st.DrawFn) -> dict[str, Any]:
    """Pools of vLLM beside instances that evict what is read last, alone and with others in one room."""
    sizes = st.one_of(SIZES, st.none())
    others = st.sampled_from([{"policy": "optimal"}, *POLICIES])
    return document(
        group(
            draw(sizes), instances=[instance("a", policy="vllm", block_size=draw(st.sampled_from([2, 4])))], name="p"
        ),
        group(draw(sizes), instances=[instance("b", policy="optimal"), instance("c", **draw(others))], name="q"),
        mode=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 4)),
        write_delay_ns=draw(st.integers(1, 900)),
        touch_order=draw(st.sampled_from(["head_first", "tail_first"])),
        write_refresh=draw(st.booleans()),
    )


def on_reference(config: ReplayConfig, rows: list[TraceRow], *, lifecycle: bool) -> tuple[Replay, list[RowError]]:
    """A replay fed row by row, and the rows that it refused."""
    replay = Replay(config, lifecycle=lifecycle)
    refused: list[RowError] = []
    if replay.foresees:
        replay.foresee(rows)
    for row in rows:
        try:
            replay.feed(row)
        except RowRefused as caught:
            refused.append(caught.error)
    replay.finish()
    return replay, refused


@settings(max_examples=100)
@given(fitting(), mixed_rows(names="abcx"), st.booleans())
def test_both_cores_end_in_the_same_state(document: dict[str, Any], rows: list[TraceRow], lifecycle: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    """Series, tables, orders, traffic, lives, counts and refused rows are equal, and so is what a saved state holds."""
    config = ReplayConfig.from_document(document)
    refused: list[RowError] = []
    by_time(rows)

    compiled = Replay(config, lifecycle=lifecycle)
    assert misfit(compiled) is None
    replay_compiled(compiled, columns_from(rows), refuse=refused.append)

    plain, refused_there = on_reference(config, rows, lifecycle=lifecycle)
    assert compiled.save() == plain.save()
    assert refused == refused_there


@settings(max_examples=250)
@given(st.one_of(configs(names="abc"), pools_and_bounds()), mixed_rows(names="abcx"), st.booleans())
def test_both_cores_end_in_the_same_state_whatever_the_config(
    document: dict[str, Any],
    rows: list[TraceRow],
    lifecycle: bool,  # noqa: FBT001 - hypothesis gives it
) -> None:
    """Every policy, tier set, write mode, mask and switch that the compiled core takes, mixed in one group."""
    config = ReplayConfig.from_document(document)
    compiled = Replay(config, lifecycle=lifecycle)
    assert misfit(compiled) is None
    refused: list[RowError] = []
    by_time(rows)

    replay_compiled(compiled, columns_from(rows), refuse=refused.append)

    plain, refused_there = on_reference(config, rows, lifecycle=lifecycle)
    assert summarise(compiled, NO_FACTS) == {**summarise(plain, NO_FACTS), "core": "compiled"}
    assert compiled.save() == plain.save()
    assert refused == refused_there


@settings(max_examples=40)
@given(fitting(), mixed_rows(names="abc"), mixed_rows(names="abc"))
def test_a_replay_goes_on_after_the_compiled_core(
    document: dict[str, Any], first: list[TraceRow], later: list[TraceRow]
) -> None:
    """Rows fed after it find the caches as they would after the reference."""
    config = ReplayConfig.from_document(document)
    by_time(first)
    by_time(later)

    compiled, (plain, _) = Replay(config), on_reference(config, first, lifecycle=False)
    replay_compiled(compiled, columns_from(first), refuse=lambda _error: None)
    for replay in (compiled, plain):
        for row in later:
            try:
                replay.feed(row)
            except RowRefused:
                continue
        replay.finish()

    assert compiled.save() == plain.save()


def test_short_traces_do_not_wait_for_a_compiler() -> None:
    """By itself the program takes the compiled core for long traces only; what is asked for is taken."""
    replay = Replay(ReplayConfig.from_document(document()))

    assert chosen_core(replay, WORTH_COMPILING_KEYS - 1, asked=Core.AUTO) is Core.REFERENCE
    assert chosen_core(replay, WORTH_COMPILING_KEYS, asked=Core.AUTO) is Core.COMPILED
    assert chosen_core(replay, 1, asked=Core.COMPILED) is Core.COMPILED
    assert chosen_core(replay, 10**6, asked=Core.REFERENCE) is Core.REFERENCE


def test_a_replay_that_has_begun_stays_with_the_reference() -> None:
    """The compiled core starts from empty caches only; templates need the tree."""
    config = ReplayConfig.from_document(document())
    begun = Replay(config)
    begun.feed(requests("a")[0])

    assert misfit(begun) == "the replay has already begun"
    refused = Replay(config, templates=True)
    assert misfit(refused) == "templates need the prefix tree"
    assert chosen_core(refused, 10**6, asked=Core.AUTO) is Core.REFERENCE
    with pytest.raises(UsageError, match="the compiled core cannot replay this"):
        chosen_core(refused, 10**6, asked=Core.COMPILED)
