"""Policies beyond the reference optimizer's, against models of single blocks and against the best that can be done."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.config.replay import ReplayConfig
from foreword.errors import DataError
from foreword.simulate.replay import Replay
from foreword.trace.schema import RowKind, TraceRow
from tests.support.pool_model import PoolModel
from tests.support.replaying import (
    BLOCK_SIZE,
    POLICIES,
    by_time,
    contents,
    document,
    group,
    instance,
    mixed_rows,
    replayed,
    requests,
    row,
    row_hits,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PROMPTS = st.lists(st.tuples(st.text("ab", max_size=6), st.integers(0, BLOCK_SIZE - 1)), max_size=25)
SINGLE = st.lists(st.sampled_from("abcdef"), max_size=40)
CAPACITY = st.integers(0, 6)
BOUNDED = [each for each in (*POLICIES, {"policy": "vllm"}) if each.get("fallback_on_pressure", True)]
"""Policies that keep to a capacity."""


def prompt_rows(prompts: Sequence[tuple[str, int]]) -> list[TraceRow]:
    """Requests of so many full blocks and tokens beyond, one after another; none is empty."""
    return [
        TraceRow(
            RowKind.REQUEST, "a", 10 * at, array("q", map(ord, path)), len(path) * BLOCK_SIZE + more, 0, 0, line=at
        )
        for at, (path, more) in enumerate(prompts, start=1)
        if path or more
    ]


def hits_of(policy: str, rows: list[TraceRow], capacity: int | None, **params: Any) -> list[int]:  # noqa: ANN401 - JSON
    """Hit blocks of each read of one instance in one pool."""
    replay = Replay(
        ReplayConfig.from_document(document(group(capacity, instances=[instance(policy=policy, **params)])))
    )
    if replay.foresees:
        replay.foresee(rows)
    for each in rows:
        replay.feed(each)
    replay.finish()
    return row_hits(replay)


@settings(max_examples=100)
@given(PROMPTS, st.integers(0, 9))
def test_vllm_is_the_pool_block_by_block(prompts: list[tuple[str, int]], capacity: int) -> None:
    """Unfilled blocks take room, the last token is computed, equal blocks are stored twice, tails go first."""
    pool, expected = PoolModel[str](capacity), []
    rows = prompt_rows(prompts)
    for each in rows:
        path = "".join(map(chr, each.keys))
        keys = [path[: end + 1] for end in range(len(path))]
        limit = (each.input_len - 1) // BLOCK_SIZE
        held = next((n for n, key in enumerate(keys[:limit]) if not pool.with_key(key)), len(keys[:limit]))
        expected.append(held)
        touched = pool.admit(keys[:held], held, 0)
        assert touched is not None
        pool.finish(touched[1])
        admitted = pool.admit(keys, limit, int(each.input_len % BLOCK_SIZE > 0))
        if admitted is not None:
            pool.finish(admitted[1])

    assert hits_of("vllm", rows, capacity) == expected


def test_vllm_by_hand() -> None:
    """Four usable blocks: a repeated prompt computes and stores its last block again, and both copies go first."""
    rows = prompt_rows([("ab", 0), ("ab", 0), ("cd", 1), ("ab", 0)])

    replay = replayed(document(group(4, instances=[instance(policy="vllm")])), rows)

    assert row_hits(replay) == [0, 1, 0, 1]
    assert contents(replay) == {"a", "ab", "c", "cd"}
    traffic = replay.instances["a"].cache.traffic[0]
    assert (traffic.written, traffic.evicted) == (6, 2)
    assert replay.instances["a"].cached_blocks == (4,)


def test_a_request_that_the_pool_cannot_hold_changes_nothing() -> None:
    """It is counted as a check that ended above the quota."""
    rows = prompt_rows([("a", 0), ("bcd", 1), ("a", 1)])

    replay = replayed(document(group(3, instances=[instance(policy="vllm")])), rows)

    assert row_hits(replay) == [0, 0, 1]
    assert replay.groups[0].over_quota_checks == 1


@given(mixed_rows(), st.one_of(st.integers(0, 6), st.none()), st.integers(0, 40))
def test_a_pool_goes_on_from_a_saved_state(rows: list[TraceRow], capacity: int | None, cut: int) -> None:
    """Saving in the middle and loading into a new replay changes nothing; lives end as blocks leave."""
    by_time(rows)
    config = ReplayConfig.from_document(document(group(capacity, instances=[instance(policy="vllm")])))
    whole, first, second = (Replay(config, lifecycle=True) for _ in range(3))
    for each in rows:
        whole.feed(each)
    for each in rows[:cut]:
        first.feed(each)
    second.load(first.save())
    for each in rows[cut:]:
        second.feed(each)

    assert second.save() == whole.save()
    at = whole.instances["a"].cache
    alive = {life.block for life in at.lifecycle or () if life.death_ns is None}
    assert alive == {block for block, held in enumerate(at.table.held) if held}
    assert capacity is None or at.cached_blocks[0] <= capacity


def fifo(path: str, capacity: int) -> list[int]:
    """First in, first out, with a list."""
    queue: list[str] = []
    hits = []
    for key in path:
        hits.append(int(key in queue))
        if key not in queue:
            queue.append(key)
        del queue[: max(len(queue) - capacity, 0)]
    return hits


def lfu(path: str, capacity: int) -> list[int]:
    """Counts since a key came in, and when it was last used, in a dictionary."""
    used: dict[str, tuple[int, int]] = {}
    hits = []
    for now, key in enumerate(path):
        hits.append(int(key in used))
        used[key] = (used[key][0] + 1 if key in used else 0, now)
        while len(used) > capacity:
            del used[min(used, key=lambda each: used[each])]
    return hits


def s3fifo(path: str, capacity: int, *, small_ratio: float, ghost_ratio: float, move_threshold: int) -> list[int]:
    """Three lists, as the paper draws them; the ghost is cut when it is looked at."""
    small: list[list[object]] = []
    main: list[list[object]] = []
    ghost: list[object] = []
    hits = []
    for key in path:
        found = next((each for each in (*small, *main) if each[0] == key), None)
        hits.append(int(found is not None))
        if found is not None:
            found[1] = min(int(str(found[1])) + 1, 3)
            continue
        room = int(ghost_ratio * (len(small) + len(main)))
        recent = ghost[max(len(ghost) - room, 0) :]
        (main if key in recent else small).append([key, 0])
        ghost = [None if each == key else each for each in ghost]
        while len(small) + len(main) > capacity:
            if len(small) >= small_ratio * (len(small) + len(main)) or not main:
                first = small.pop(0)
                if int(str(first[1])) >= move_threshold:
                    main.append([first[0], 0])
                else:
                    ghost.append(first[0])
            else:
                first = main.pop(0)
                if first[1]:
                    main.append([first[0], int(str(first[1])) - 1])
    return hits


@settings(max_examples=80)
@given(SINGLE, CAPACITY)
def test_fifo_and_lfu_on_single_blocks(path: list[str], capacity: int) -> None:
    """Paths of one block make the cache one of keys, which a list can model."""
    rows = requests(*path)

    assert hits_of("fifo", rows, capacity) == fifo("".join(path), capacity)
    assert hits_of("lfu", rows, capacity) == lfu("".join(path), capacity)


@settings(max_examples=100)
@given(SINGLE, CAPACITY, st.sampled_from([0.1, 0.4]), st.integers(1, 3))
def test_s3fifo_on_single_blocks(path: list[str], capacity: int, small_ratio: float, move_threshold: int) -> None:
    """Whatever the queues hold, a block leaves the ghost when it comes back."""
    path_text, rows = "".join(path), requests(*path)
    for ghost_ratio in (0.5, 0.9, 4.0):
        params: dict[str, Any] = {"small_ratio": small_ratio, "ghost_ratio": ghost_ratio}
        expected = s3fifo(path_text, capacity, **params, move_threshold=move_threshold)

        assert hits_of("s3fifo", rows, capacity, **params, move_threshold=move_threshold) == expected


def test_s3fifo_by_hand() -> None:
    """One-hit wonders leave the small queue before what is used twice; the ghost brings a key back into main."""
    rows = requests("a", "a", "b", "c", "d", "a", "b", "e", "b")

    assert hits_of("s3fifo", rows, 2, small_ratio=0.5, move_threshold=1) == [0, 1, 0, 0, 0, 1, 0, 0, 0]


def best(path: str, capacity: int) -> int:
    """The most hits that any choice of victims gives, by trying all."""
    reached: dict[frozenset[str], int] = {frozenset(): 0}
    for key in path:
        after: dict[frozenset[str], int] = {}
        for held, hits in reached.items():
            whole = held | {key}
            keep = [whole] if len(whole) <= capacity else [whole - {victim} for victim in whole]
            for choice in keep:
                after[choice] = max(after.get(choice, 0), hits + (key in held))
        reached = after
    return max(reached.values())


@settings(max_examples=60)
@given(st.lists(st.sampled_from("abcde"), max_size=14), st.integers(0, 4))
def test_optimal_is_the_best_of_all_choices(path: list[str], capacity: int) -> None:
    """Belady's choice against a search over every choice of victims."""
    assert sum(hits_of("optimal", requests(*path), capacity)) == best("".join(path), capacity)


@settings(max_examples=80)
@given(PROMPTS, CAPACITY, st.sampled_from(BOUNDED))
def test_no_policy_beats_optimal(prompts: list[tuple[str, int]], capacity: int, policy: dict[str, Any]) -> None:
    """Hits of prefixes, too, are at most those of the bound."""
    rows = prompt_rows(prompts)

    assert sum(hits_of(rows=rows, capacity=capacity, **policy)) <= sum(hits_of("optimal", rows, capacity))


@given(PROMPTS, st.sampled_from(["fifo", "lfu", "s3fifo", "optimal", "vllm"]))
def test_without_a_limit_all_policies_are_one(prompts: list[tuple[str, int]], policy: str) -> None:
    """What fits is hit, but for the block of the last token, which vLLM computes."""
    rows = prompt_rows([(path, more or 1) for path, more in prompts])

    assert hits_of(policy, rows, None) == hits_of("lru", rows, None)


@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=12))
def test_optimal_counts_rows_as_they_will_run(paths: list[str]) -> None:
    """Rows of other instances, reads that are refused and plain writes are no reads of the future."""
    rows = requests(*paths)
    late = 10 * len(paths) + 5
    others = [row("get", "ab", at=late, name="x"), row("write", "ba", at=late), row("get", "ab", at=late + 1)]

    assert (
        hits_of("optimal", [*rows, *others], 3)[: len(paths)] == hits_of("optimal", [*rows, others[2]], 3)[: len(paths)]
    )


def test_optimal_cannot_be_fed_row_by_row() -> None:
    """A read that was not expected is an error that says so."""
    replay = Replay(ReplayConfig.from_document(document(group(3, instances=[instance(policy="optimal")]))))

    with pytest.raises(DataError, match="has to know the whole trace"):
        replay.feed(requests("a")[0])
