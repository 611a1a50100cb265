"""Laws of the replay (spec: replay A3), each with the counterexample that bounds it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.replaying import (
    PATHS,
    SIZES,
    contents,
    document,
    group,
    instance,
    mixed_rows,
    replayed,
    requests,
    row_hits,
)

if TYPE_CHECKING:
    from foreword.trace.schema import TraceRow

PATH_LISTS = st.lists(PATHS, max_size=14)
TOUCH_ORDERS = st.sampled_from(["head_first", "tail_first"])
UNLIMITED = st.sampled_from(
    [
        group(None),
        group(None, instances=[instance(policy="random_lru")]),
        group(None, instances=[instance(policy="leaf_aware_lru")]),
        group(tiers=[2, None]),
        group(tiers=[0, 3, None], strategy={"write_mode": "cascading"}),
        group(tiers=[None, 1], strategy={"write_mode": "write_through_selective", "selective_write_threshold": 1}),
        group(tiers=[None, 2, 1], strategy={"write_mode": "cascading", "promote_enabled": False}),
    ]
)


def written_prefix_hits(rows: list[TraceRow], *, delay_ns: int) -> list[int]:
    """Hits of each read where nothing is ever forgotten: paths are remembered in a plain set."""
    seen: set[tuple[int, ...]] = set()
    waiting: list[tuple[int, tuple[int, ...]]] = []
    hits = []
    for row in sorted(rows, key=lambda row: row.timestamp_ns):
        for due, keys in sorted(waiting, key=lambda write: write[0]):
            if due <= row.timestamp_ns:
                seen |= {keys[:n] for n in range(1, len(keys) + 1)}
        waiting = [write for write in waiting if write[0] > row.timestamp_ns]
        keys = tuple(row.keys)
        if row.kind != "write":
            hits.append(next((n for n in range(len(keys)) if keys[: n + 1] not in seen), len(keys)))
        if row.kind != "get":
            waiting.append((row.timestamp_ns + (delay_ns if row.kind == "request" else 0), keys))
        if row.kind == "write":
            seen |= {keys[:n] for n in range(1, len(keys) + 1)}
    return hits


@given(mixed_rows(), UNLIMITED, st.integers(1, 4), TOUCH_ORDERS)
def test_without_a_limit_a_read_hits_what_was_written_before_it(
    rows: list[TraceRow], unlimited: dict[str, Any], delay_ns: int, touch_order: str
) -> None:
    """L1: where the last tier of a write-through or cascading chain, or tier 0, is unlimited, nothing is forgotten."""
    replay = replayed(document(unlimited, write_delay_ns=delay_ns, touch_order=touch_order), rows)

    assert row_hits(replay) == written_prefix_hits(rows, delay_ns=delay_ns)


@given(PATH_LISTS)
def test_sequential_requests_hit_all_but_first_occurrences(paths: list[str]) -> None:
    """L1: total hits are the accesses less the first occurrences of each path."""
    occurrences = [path[:n] for path in paths for n in range(1, len(path) + 1)]

    assert sum(row_hits(replayed(document(), requests(*paths)))) == len(occurrences) - len(set(occurrences))


def test_a_selective_chain_may_forget_though_its_last_tier_is_unlimited() -> None:
    """L1's bound: what leaves a limited tier 0 before it was read often enough is lost."""
    selective = group(tiers=[1, None], strategy={"write_mode": "write_through_selective"})

    assert row_hits(replayed(document(selective), requests("a", "b", "a"))) == [0, 0, 0]


@settings(max_examples=80)
@given(PATH_LISTS, TOUCH_ORDERS, st.sampled_from([(3, 100), (3, 2), (2, 1), (1, 1)]))
def test_more_capacity_never_means_fewer_hits(paths: list[str], touch_order: str, eviction: tuple[int, int]) -> None:
    """L2: with ``write_refresh``, rows hit no less and contents are nested as an exact LRU grows."""
    mode, batch = eviction
    runs = [
        replayed(
            document(group(size), mode=mode, batch=batch, write_refresh=True, touch_order=touch_order),
            requests(*paths),
        )
        for size in range(7)
    ]

    for small, large in pairwise(runs):
        assert all(a <= b for a, b in zip(row_hits(small), row_hits(large), strict=True))
        assert contents(small) <= contents(large)


@settings(max_examples=80)
@given(mixed_rows())
def test_tail_first_is_monotone_for_any_mix_and_strands_nothing(rows: list[TraceRow]) -> None:
    """L2: under ``tail_first`` with ``write_refresh``, the law holds for gets and writes too; contents are prefixes."""
    config: dict[str, Any] = {"write_refresh": True, "touch_order": "tail_first"}
    runs = [replayed(document(group(size), **config), rows) for size in range(7)]

    for small, large in pairwise(runs):
        assert all(a <= b for a, b in zip(row_hits(small), row_hits(large), strict=True))
        assert contents(small) <= contents(large)
    for run in runs:
        assert {path[:-1] for path in contents(run)} <= contents(run) | {""}
        assert run.instances["a"].cache.stranded_blocks() == 0


@pytest.mark.parametrize(
    ("touch_order", "paths"), [("head_first", ["abbb", "ab", "ab"]), ("tail_first", ["bc", "aa", "bccb", "bc"])]
)
def test_without_refresh_more_capacity_can_mean_fewer_hits(touch_order: str, paths: list[str]) -> None:
    """L2's bound: a write that leaves present blocks where they are breaks the law, under both orders."""
    config: dict[str, Any] = {"touch_order": touch_order}
    hits = {size: sum(row_hits(replayed(document(group(size), **config), requests(*paths)))) for size in (2, 3)}

    assert hits == {2: 2, 3: 1}


def test_cascading_is_not_one_cache_of_the_summed_capacity() -> None:
    """L3: promotion copies, so tiers of 1 and 2 blocks hit once where one cache of 3 hits twice."""
    paths = requests("bb", "baa", "b")
    cascading = group(tiers=[1, 2], strategy={"write_mode": "cascading"})

    assert sum(row_hits(replayed(document(cascading), paths))) == 1
    assert sum(row_hits(replayed(document(group(3)), paths))) == 2


@settings(max_examples=120)
@given(PATH_LISTS, st.lists(SIZES, min_size=2, max_size=3))
def test_cascading_is_one_cache_until_a_lower_tier_is_hit(paths: list[str], sizes: list[int]) -> None:
    """L3: with ``write_refresh: false``, rows equal one LRU of the summed capacity through the first lower hit."""
    tiered = replayed(document(group(tiers=sizes, strategy={"write_mode": "cascading"})), requests(*paths))
    single = replayed(document(group(sum(sizes))), requests(*paths))

    lower = [sum(hits) for hits in zip(*tiered.instances["a"].series.tier_blocks[1:], strict=True)]
    end = next((index + 1 for index, hits in enumerate(lower) if hits), len(lower))
    assert row_hits(tiered)[:end] == row_hits(single)[:end]


@settings(max_examples=120)
@given(
    PATH_LISTS, st.lists(SIZES, min_size=1, max_size=3), st.sampled_from([(True, False), (False, True)]), TOUCH_ORDERS
)
def test_write_through_hits_as_its_largest_tier(
    paths: list[str], sizes: list[int], switches: tuple[bool, bool], touch_order: str
) -> None:
    """L4: with propagation or ``write_refresh``, total hits equal one LRU of the largest tier."""
    propagation, refresh = switches
    config: dict[str, Any] = {"write_refresh": refresh, "touch_order": touch_order}
    tiers = group(tiers=sizes, strategy={"access_propagation_enabled": propagation})

    tiered = replayed(document(tiers, **config), requests(*paths))
    single = replayed(document(group(max(sizes)), **config), requests(*paths))

    assert sum(row_hits(tiered)) == sum(row_hits(single))


@settings(max_examples=120)
@given(PATH_LISTS, st.lists(SIZES, min_size=1, max_size=3).map(sorted))
def test_write_through_tiers_share_hits_as_caches_of_their_sizes_would(paths: list[str], sizes: list[int]) -> None:
    """L4: under ``tail_first`` with ``write_refresh`` and promotion, a tier hits H(its size) - H(the size above)."""
    config: dict[str, Any] = {"write_refresh": True, "touch_order": "tail_first"}

    tiered = replayed(document(group(tiers=sizes), **config), requests(*paths))
    alone = [sum(row_hits(replayed(document(group(size), **config), requests(*paths)))) for size in sizes]

    by_tier = [sum(column) for column in tiered.instances["a"].series.tier_blocks]
    assert by_tier == [b - a for a, b in pairwise([0, *alone])]
