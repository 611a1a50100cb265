"""Differences of counters: restarts, ranks that come and go, and what is absent."""

from __future__ import annotations

import pytest

from foreword.collect.counters import Snapshot, absent_metrics, cache_counters, difference
from foreword.engines.model import Logical
from foreword.engines.page import Page, parse_page
from foreword.engines.registry import PROFILES
from foreword.terms import Engine

VLLM = PROFILES[Engine.VLLM]


def page(ranks: dict[int, tuple[float, float]], created: dict[int, float] | None = None) -> Page:
    """A vLLM page: queries and hits by rank, and when the series were created."""
    lines = [
        f'vllm:prefix_cache_{what}_total{{engine="{rank}"}} {values[index]}\n'
        for rank, values in ranks.items()
        for index, what in enumerate(("queries", "hits"))
    ]
    lines += [
        f'vllm:prefix_cache_{what}_created{{engine="{rank}"}} {at}\n'
        for rank, at in (created or {}).items()
        for what in ("queries", "hits")
    ]
    return parse_page("".join(lines))


def counted(before: list[Page | None], after: list[Page | None]) -> dict[str, object]:
    """Counters over endpoints."""
    return cache_counters(Snapshot(1, tuple(before)), Snapshot(2, tuple(after)), profile=VLLM, block_size=16)


def test_a_restart_is_no_negative_growth() -> None:
    """One of two ranks restarts: what it counted since is a lower bound, and the restart is told."""
    told = counted([page({0: (1000, 500), 1: (1000, 500)})], [page({0: (1100, 550), 1: (40, 10)})])

    assert (told["queries_delta"], told["hits_delta"]) == (140, 60)
    assert told["restarts"] == [
        {"url_index": 0, "rank": "1", "metric": "queries"},
        {"url_index": 0, "rank": "1", "metric": "hits"},
    ]


def test_a_restart_that_has_caught_up() -> None:
    """A larger value of a younger series is a restart too."""
    told = counted([page({0: (100, 50)}, {0: 1.79e9})], [page({0: (120, 60)}, {0: 1.80e9})])

    assert (told["queries_delta"], told["hits_delta"]) == (120, 60)
    assert len(told["restarts"]) == 2  # type: ignore[arg-type] # a list


def test_creation_times_on_one_page_only() -> None:
    """A creation time that appears or disappears says nothing."""
    for before, after in (({0: 1.79e9}, None), (None, {0: 1.79e9})):
        told = counted([page({0: (100, 50)}, before)], [page({0: (120, 60)}, after)])

        assert (told["queries_delta"], told["restarts"]) == (20, [])


def test_a_rank_that_is_gone() -> None:
    """A rank missing on the second page counts nothing and is named."""
    told = counted([page({0: (100, 50), 1: (100, 50)})], [page({0: (200, 100)})])

    assert (told["queries_delta"], told["hits_delta"]) == (100, 50)
    assert {entry["rank"] for entry in told["missing"]} == {"1"}  # type: ignore[attr-defined] # a list of dicts


def test_an_endpoint_that_does_not_answer() -> None:
    """The others still count; the missing one is named."""
    told = counted([page({0: (0, 0)}), page({0: (0, 0)})], [page({0: (64, 32)}), None])

    assert (told["queries_delta"], told["actual_hit_rate"]) == (64, 0.5)
    assert told["missing"] == [{"url_index": 1}]


def test_endpoints_are_weighted_by_their_tokens() -> None:
    """90 of 100 and 0 of 900 is 9 %, not the mean of 90 % and 0 %."""
    told = counted([page({0: (0, 0)}), page({0: (0, 0)})], [page({0: (100, 90)}), page({0: (900, 0)})])

    assert told["actual_hit_rate"] == pytest.approx(0.09)


def test_nothing_was_looked_up() -> None:
    """No queries is no rate; a zero that was counted stays a zero."""
    told = counted([page({0: (100, 50)})], [page({0: (100, 50)})])

    assert (told["queries_delta"], told["hits_delta"], told["actual_hit_rate"]) == (0, 0, None)


def test_absent_is_not_zero() -> None:
    """A metric that no page shows has no growth, and is listed."""
    empty = parse_page("vllm:num_requests_running 0\n")

    assert difference(empty, empty, metric=Logical.HITS, profile=VLLM) is None
    assert absent_metrics([empty], VLLM) == [metric.value for metric in Logical if metric is not Logical.RUNNING]
    assert counted([None], [None])["actual_hit_rate"] is None
