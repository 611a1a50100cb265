"""Send orders and lanes: every strategy of the RFC, on sets small enough to read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.config.dataset import OrderConfig, RoutingConfig
from foreword.errors import ConfigError
from foreword.workload.groups import Groups
from foreword.workload.order import arrange, lanes, routing, send_order

LENGTHS = [50, 20, 40, 10, 30, 60]
SHARED = [16, 0, 32, 0, 16, 32]


def _groups(letters: str, weights: tuple[float, ...] | None = None) -> Groups:
    ids = tuple(sorted(set(letters)))
    members = np.asarray([ids.index(letter) for letter in letters], dtype=np.int64)
    return Groups(ids, members, weights or (1.0,) * len(ids))


def _sent(letters: str, *, progressive: bool = True, weights: tuple[float, ...] | None = None, **order: Any) -> Any:  # noqa: ANN401 - config values
    how = send_order(OrderConfig.model_validate(order), progressive=progressive)
    n = len(letters)
    sizes = np.asarray((LENGTHS * n)[:n], dtype=np.int64)
    shared = np.asarray((SHARED * n)[:n], dtype=np.int64)
    return arrange(how, _groups(letters, weights), input_len=sizes, prefix_len=shared, key=5).tolist()


def _letters(letters: str, order: list[int]) -> str:
    return "".join(letters[index] for index in order)


@pytest.mark.parametrize(
    ("mode", "order"),
    [
        ("sequential", [0, 1, 2, 3, 4, 5]),
        ("input_len_asc", [3, 1, 4, 2, 0, 5]),
        ("input_len_desc", [5, 0, 2, 4, 1, 3]),
        ("prefix_len_asc", [1, 3, 0, 4, 2, 5]),
        ("prefix_len_desc", [2, 5, 0, 4, 1, 3]),
    ],
)
def test_a_mode_sorts_the_whole_set_and_ties_keep_generation_order(mode: str, order: list[int]) -> None:
    """Groups play no part; equal lengths stay in the order in which they were generated."""
    assert _sent("ababab", mode=mode) == order


def test_groups_follow_each_other_or_take_turns() -> None:
    """``grouped`` sends a group after the other, ``interleave`` one of each in turn; finished groups drop out."""
    assert _letters("abcabbb", _sent("abcabbb", mode="grouped")) == "aabbbbc"
    assert _letters("abcabbb", _sent("abcabbb", mode="interleave")) == "abcabbb"
    assert _letters("aabbbbc", _sent("aabbbbc", mode="interleave")) == "abcabbb"


def test_weighted_turns_of_the_third_example() -> None:
    """Weights 5:3:2 repeat abcaabacba: smooth weighted round robin, ties to the earlier group."""
    letters = "a" * 50 + "b" * 30 + "c" * 20

    sent = _letters(letters, _sent(letters, weights=(0.5, 0.3, 0.2), across_group="weighted_interleave"))

    assert sent == "abcaabacba" * 10


@settings(max_examples=60)
@given(st.lists(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 3.0, 7.0]), min_size=1, max_size=4), st.data())
def test_weighted_turns_are_sorted_by_odd_halves_of_the_weight(weights: list[float], data: st.DataObject) -> None:
    """Request j of group g stands at (2j + 1) / (2 w_g), in exact arithmetic, ties by group order."""
    sizes = [data.draw(st.integers(1, 25)) for _ in weights]
    letters = "".join("abcd"[group] * size for group, size in enumerate(sizes))
    slots = [
        (Fraction(2 * j + 1) / (2 * Fraction(str(weight))), group)
        for group, (weight, size) in enumerate(zip(weights, sizes, strict=True))
        for j in range(size)
    ]

    sent = _letters(letters, _sent(letters, weights=tuple(weights), across_group="weighted_interleave"))

    assert sent == "".join("abcd"[group] for _, group in sorted(slots))


@pytest.mark.parametrize("across", ["grouped", "interleave", "weighted_interleave", "shuffle"])
def test_groups_keep_their_inner_order(across: str) -> None:
    """Whatever the merge, each group's own requests go from short to long."""
    letters = "abcabcabcaab"

    order = _sent(letters, within_group="input_len_asc", across_group=across)

    for letter in "abc":
        own = [index for index in order if letters[index] == letter]
        assert own == sorted(own, key=lambda index: ((LENGTHS * 2)[index], index))


def test_a_free_shuffle_may_break_inner_order_and_a_kept_one_may_not() -> None:
    """``preserve_group_dependency: false`` is a permutation of everything."""
    letters = "ab" * 20
    free = _sent(letters, within_group="sequential", across_group="shuffle", preserve_group_dependency=False)
    kept = _sent(letters, within_group="sequential", across_group="shuffle")

    assert sorted(free) == sorted(kept) == list(range(40))
    assert [index for index in free if index % 2 == 0] != list(range(0, 40, 2))
    assert [index for index in kept if index % 2 == 0] == list(range(0, 40, 2))
    assert _letters(letters, kept) != "ab" * 20


def test_a_shuffle_is_keyed() -> None:
    """``mode: shuffle`` is a permutation that the key decides."""
    assert sorted(_sent("a" * 30, mode="shuffle")) == list(range(30))
    assert _sent("a" * 30, mode="shuffle") == _sent("a" * 30, mode="shuffle") != list(range(30))


def test_defaults_send_short_prompts_first_only_in_progressive_runs() -> None:
    """Progressive runs fill caches from short to long with groups taking turns; others send in generation order."""
    assert _sent("aaaaaa", progressive=True) == [3, 1, 4, 2, 0, 5]
    assert _sent("aaaaaa", progressive=False) == [0, 1, 2, 3, 4, 5]
    assert _letters("aabb", _sent("aabb", progressive=True)) == "abab"
    assert _sent("aabb", progressive=False) == [0, 1, 2, 3]
    assert _sent("aabb", progressive=False, across_group="interleave") == [0, 2, 1, 3]


def _lanes(letters: str, order: list[int], **config: Any) -> Any:  # noqa: ANN401 - config values
    how = send_order(OrderConfig(mode="sequential"), progressive=False)
    route = routing(RoutingConfig.model_validate(config), order=how)
    return lanes(route, _groups(letters), order=np.asarray(order, dtype=np.int64))


def test_bound_groups_go_to_the_rank_of_their_number() -> None:
    """Group k is sent to rank k mod dp_size."""
    found = _lanes("abcabc", [0, 1, 2, 3, 4, 5], cache_scope="dp_local", dp_size=2, bind_prefix_group_to_dp=True)

    assert found.dp.tolist() == [0, 1, 0, 0, 1, 0]
    assert found.domain.tolist() == [0, 1, 0, 0, 1, 0]
    assert len(set(found.lane.tolist())) == 3


def test_round_robin_counts_within_a_group_in_generation_order() -> None:
    """A group's requests take the ranks in turn, whatever the send order (decision 3)."""
    found = _lanes("aabab", [4, 3, 2, 1, 0], cache_scope="dp_local", dp_size=2, assignment="round_robin")

    assert found.dp.tolist() == [0, 1, 0, 0, 1]
    assert len(set(found.lane.tolist())) == 4


def test_a_server_that_routes_by_arrival_follows_the_send_order() -> None:
    """``by_send_order``: the i-th request sent goes to rank i mod dp_size."""
    found = _lanes("aaaa", [3, 1, 0, 2], cache_scope="dp_local", dp_size=2, assignment="by_send_order")

    assert found.dp.tolist() == [0, 1, 1, 0]


def test_sticky_groups_take_ranks_in_turn_as_they_first_come() -> None:
    """Group c comes first and gets rank 0, then a, then b; each stays where it is."""
    found = _lanes("cabcab", [5, 4, 3, 2, 1, 0], cache_scope="dp_local", dp_size=2, assignment="sticky")

    assert found.dp.tolist() == [0, 1, 0, 0, 1, 0]
    assert len(set(found.lane.tolist())) == 3


@pytest.mark.parametrize("ranks", [{"a": 2, "b": 0}, (2, 0, 2, 0)])
def test_explicit_ranks_are_those_that_are_given(ranks: Any) -> None:  # noqa: ANN401 - either form
    """By group, or one a request in generation order; there are as many ranks as they name."""
    found = _lanes("abab", [0, 1, 2, 3], cache_scope="dp_local", assignment="explicit", ranks=ranks)

    assert found.dp.tolist() == found.domain.tolist() == [2, 0, 2, 0]
    assert RoutingConfig(assignment="explicit", ranks=ranks).rank_count == 3


@pytest.mark.parametrize(
    ("ranks", "words"),
    [({"a": 1}, "b has no rank"), ({"a": 1, "b": 0, "c": 0}, "c is no group"), ((0, 1), "2 ranks for 4 requests")],
)
def test_explicit_ranks_that_do_not_fit_are_named(ranks: Any, words: str) -> None:  # noqa: ANN401 - either form
    """A group without a rank, a name that is no group, another number of requests."""
    with pytest.raises(ConfigError, match=words):
        _lanes("abab", [0, 1, 2, 3], assignment="explicit", ranks=ranks)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"assignment": "explicit"}, "belong together"),
        ({"ranks": {"a": 0}}, "belong together"),
        ({"assignment": "explicit", "ranks": {"a": 3}, "dp_size": 2}, "rank 3, but there are 2"),
        ({"instances": ["http://a", "http://b"], "dp_size": 3}, "dp_size is 3, but 2 instances"),
        ({"assignment": "sticky", "sticky_routing": False}, "contradicts sticky_routing"),
    ],
)
def test_routing_keys_that_contradict_each_other_are_refused(config: dict[str, Any], words: str) -> None:
    """The message has both."""
    with pytest.raises(ValueError, match=words):
        RoutingConfig.model_validate(config)


def test_a_shared_cache_has_one_domain_whatever_the_ranks() -> None:
    """Ranks are planned, but a group is one lane."""
    found = _lanes("abab", [0, 1, 2, 3], cache_scope="global", dp_size=2, assignment="round_robin")

    assert found.domain.tolist() == [0, 0, 0, 0]
    assert found.lane.tolist() == [0, 1, 0, 1]
    assert found.dp.tolist() == [0, 0, 1, 1]


def test_routing_by_arrival_with_an_order_that_needs_the_plan_is_refused() -> None:
    """Lanes would depend on prefixes and prefixes on lanes."""
    how = send_order(OrderConfig(mode="prefix_len_asc"), progressive=True)

    with pytest.raises(ConfigError, match="by_send_order") as caught:
        routing(RoutingConfig(assignment="by_send_order", dp_size=2), order=how)

    assert caught.value.field == "routing.assignment"


@pytest.mark.parametrize(
    ("config", "assignment"),
    [
        ({}, "bind"),
        ({"sticky_routing": False}, "round_robin"),
        ({"sticky_routing": False, "bind_prefix_group_to_dp": True}, "bind"),
        ({"assignment": "by_send_order"}, "by_send_order"),
    ],
)
def test_groups_stick_to_a_rank_unless_told_otherwise(config: dict[str, Any], assignment: str) -> None:
    """The assignment that is written wins; else sticky groups are bound; one rank is the default."""
    how = send_order(OrderConfig(), progressive=True)
    route = routing(RoutingConfig.model_validate(config), order=how)

    assert (route.assignment, route.dp_size, route.local) == (assignment, 1, False)


def test_many_requests_of_one_group_keep_their_turns() -> None:
    """Five million weighted turns stay in order: slots do not overflow."""
    n = 5_000_000
    how = send_order(OrderConfig(mode="weighted_interleave"), progressive=False)
    one = np.zeros(n, dtype=np.int64)

    order = arrange(how, Groups(("a",), one, (1.0,)), input_len=one, prefix_len=one, key=1)

    assert order[:3].tolist() == [0, 1, 2]
    assert int(order[-1]) == n - 1
