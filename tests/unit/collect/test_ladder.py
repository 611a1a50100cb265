from __future__ import annotations

import itertools
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cache.rules import HitRule
from foreword.collect.ladder import (
    Ladder,
    Remainder,
    Requests,
    Rung,
    RungName,
    ServerModel,
    classify_remainder,
    climb,
    concurrency_floor,
    make_rung,
    max_in_flight,
    predicted_hits,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

Prompt = tuple[int, ...]

RULE = HitRule.CAP_THEN_FLOOR


def plan(
    prefixes: Sequence[int], lanes: Sequence[int], *, private: int = 20, domains: Sequence[int] | None = None
) -> Requests:
    """Counted requests with ``private`` tokens after their prefix."""
    prefix = np.array(prefixes, dtype=np.int64)
    return Requests(
        input_len=prefix + private,
        prefix_len=prefix,
        lane=np.array(lanes, dtype=np.int64),
        domain=np.array(domains or [0] * len(prefixes), dtype=np.int64),
        counted=np.ones(len(prefixes), dtype=np.bool_),
    )


def prompts_of(requests: Requests, head: int) -> list[Prompt]:
    """Token ids that mean the plan: a common head, the master of the lane, then tokens that nobody else has."""
    fresh = itertools.count(1_000_000)
    masters = {lane: range(10_000 * (lane + 1), 10_000 * (lane + 1) + 500) for lane in requests.lane.tolist()}
    prompts = []
    for length, prefix, lane in zip(requests.input_len, requests.prefix_len, requests.lane, strict=True):
        shared = list(range(1, head + 1)) + list(masters[int(lane)][: max(0, prefix - head)])
        prompts.append(tuple(shared + [next(fresh) for _ in range(int(length) - len(shared))]))
    return prompts


def hits_of_tokens(prompts: Sequence[Prompt], domains: Sequence[int], served: Sequence[bool], block: int) -> list[int]:
    """Hits by comparing tokens block by block with everything that was served before."""
    cached: set[tuple[int, Prompt]] = set()
    hits = []
    for prompt, domain, ok in zip(prompts, domains, served, strict=True):
        full = [prompt[:end] for end in range(block, len(prompt) + 1, block)]
        if not ok:
            hits.append(0)
            continue
        found = 0
        for start in full:
            if (domain, start) not in cached or len(start) > len(prompt) - 1:
                break
            found = len(start)
        hits.append(found)
        cached.update((domain, start) for start in full)
    return hits


@st.composite
def replays(draw: DrawFn) -> tuple[Requests, int, int, list[bool]]:
    """A plan in blocks of 4, a head, a server's block size and which requests are served."""
    n = draw(st.integers(1, 12))
    head = draw(st.integers(0, 7))
    trunk = head // 4 * 4
    prefixes = [trunk + 4 * draw(st.integers(0, 9)) for _ in range(n)]
    groups = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    domains = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    lanes = [group * 2 + domain for group, domain in zip(groups, domains, strict=True)]
    served = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    private = draw(st.integers(9, 15))
    return plan(prefixes, lanes, private=private, domains=domains), head, draw(st.sampled_from([1, 2, 4, 8])), served


@given(replays())
def test_prediction_is_what_comparing_tokens_gives(case: tuple[Requests, int, int, list[bool]]) -> None:
    """The replay of lengths equals a replay of real tokens, for any head, block size and set of failures."""
    requests, head, block, served = case
    server = ServerModel(rule=RULE, block_size=block, head_len=head)

    predicted = predicted_hits(requests, server, served=np.array(served))

    prompts = prompts_of(requests, head)
    assert predicted.tolist() == hits_of_tokens(prompts, requests.domain.tolist(), served, block)


@pytest.mark.parametrize(("added", "hit"), [(0, 32), (15, 32), (16, 48)])
def test_tokens_in_front_of_every_prompt_are_shared_in_whole_blocks(added: int, hit: int) -> None:
    """Tokens that the server adds lengthen the shared part, but only a full block more is a hit."""
    requests = plan([32, 32], [0, 0])

    hits = predicted_hits(requests, ServerModel(RULE, 16, added_tokens=added), served=np.array([True, True]))

    assert hits.tolist() == [0, hit]


def test_a_failed_first_request_moves_the_loss_to_the_next_one() -> None:
    """What a failed request would have written is missing for the one after it."""
    requests = plan([64, 64, 64], [0, 0, 0])

    hits = predicted_hits(requests, ServerModel(RULE, 16), served=np.array([False, True, True]))

    assert hits.tolist() == [0, 0, 64]


def test_nothing_served_predicts_nothing() -> None:
    """A run in which every request failed has no predicted hit."""
    requests = plan([64, 64], [0, 0])

    assert predicted_hits(requests, ServerModel(RULE, 16), served=np.zeros(2, np.bool_)).tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), min_size=1, max_size=14), st.integers(1, 4), st.integers()
)
def test_no_schedule_falls_below_the_concurrency_floor(rows: list[tuple[int, int]], k: int, seed: int) -> None:
    """Whatever finishes first among k requests in flight, no request hits less than the floor says."""
    requests = plan([16 * blocks for blocks, _ in rows], [lane for _, lane in rows])
    served = np.ones(len(rows), dtype=np.bool_)

    floor = concurrency_floor(requests, ServerModel(RULE, 16), served=served, in_flight=k)

    chance, flying = Random(seed), list[int]()  # noqa: S311 - a schedule, not a secret
    cached = [0, 0]
    for at, (blocks, lane) in enumerate(rows):
        assert min(16 * blocks, cached[lane]) >= floor[at]
        flying.append(at)
        while len(flying) >= k:
            done = flying.pop(chance.randrange(len(flying)))
            cached[rows[done][1]] = max(cached[rows[done][1]], 16 * rows[done][0])


def test_one_request_at_a_time_has_the_serial_floor() -> None:
    """With one request in flight the floor is the serial prediction itself."""
    requests = plan([16, 48, 32, 64], [0, 0, 0, 0])
    server, served = ServerModel(RULE, 16), np.ones(4, np.bool_)

    floor = concurrency_floor(requests, server, served=served, in_flight=1)

    assert floor.tolist() == predicted_hits(requests, server, served=served).tolist() == [0, 16, 32, 48]


def test_warmed_lanes_keep_their_floor() -> None:
    """A warm-up is over before the pass, so concurrency takes nothing away."""
    counted = np.array([False, True, True])
    requests = Requests(
        input_len=np.array([100, 64, 64]),
        prefix_len=np.array([48, 48, 32]),
        lane=np.zeros(3, np.int64),
        domain=np.zeros(3, np.int64),
        counted=counted,
    )

    floor = concurrency_floor(requests, ServerModel(RULE, 16), served=np.ones(3, np.bool_), in_flight=8)

    assert floor[counted].tolist() == [48, 32]


def test_requests_that_meet_at_one_instant_are_not_in_flight_together() -> None:
    """A request sent when another ends follows it."""
    assert max_in_flight(np.array([0, 10]), np.array([10, 20])) == 1
    assert max_in_flight(np.array([0, 9, 9]), np.array([10, 20, 11])) == 3
    assert max_in_flight(np.array([], np.int64), np.array([], np.int64)) == 0


@given(st.lists(st.fractions(0, 1), min_size=2, max_size=7))
def test_steps_sum_exactly_to_measured_minus_target(ratios: list[Fraction]) -> None:
    """No rounding gets lost between the rungs."""
    names = [RungName.TARGET, *[RungName.SERVED] * (len(ratios) - 2), RungName.MEASURED]
    ladder = climb([Rung(name, ratio) for name, ratio in zip(names, ratios, strict=True)])

    assert sum((step.change for step in ladder.steps), Fraction(0)) == ratios[-1] - ratios[0]
    assert ladder.remainder == ratios[-1] - ratios[-2]


def test_a_rung_without_tokens_is_left_out() -> None:
    """When nothing was served there is nothing to divide by."""
    ladder = climb([Rung(RungName.TARGET, Fraction(1, 2)), make_rung(RungName.SERVED, 0, input_tokens=0)])

    assert [rung.name for rung in ladder.rungs] == [RungName.TARGET]
    assert ladder.remainder is None


def _ladder(last_replay: str, measured: str) -> Ladder:
    return climb([Rung(RungName.SERVED, Fraction(last_replay)), Rung(RungName.MEASURED, Fraction(measured))])


@pytest.mark.parametrize(
    ("measured", "concurrent", "floor", "expected"),
    [
        ("0.5", True, None, Remainder.NONE),
        ("0.4", True, None, Remainder.NOT_SIMULATED),
        ("0.4", True, "0.3", Remainder.NOT_SIMULATED),
        ("0.4", True, "0.45", Remainder.UNEXPLAINED),
        ("0.4", False, None, Remainder.UNEXPLAINED),
        ("0.6", True, "0.3", Remainder.UNEXPLAINED),
    ],
)
def test_only_losses_of_concurrent_runs_are_put_down_to_what_is_not_simulated(
    measured: str, *, concurrent: bool, floor: str | None, expected: Remainder
) -> None:
    """Gains, losses of a serial run and losses below the concurrency floor stay unexplained."""
    bound = None if floor is None else Fraction(floor)

    assert classify_remainder(_ladder("0.5", measured), concurrent=concurrent, floor_ratio=bound) is expected
