"""The engine in virtual time: time is an argument, so no test waits."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.server.engine import Engine, Job, Service, job_of
from tests.support.pool_model import PoolModel

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000
FOREVER = 10**18


def engine(  # noqa: PLR0913 - one parameter a setting
    *,
    block_size: int = 16,
    capacity_blocks: int | None = None,
    prefill: float = 100_000.0,
    decode: float | None = 50.0,
    slots: int = 64,
    jitter: float = 0.0,
    seed: int = 0,
) -> Engine:
    """An engine with the server's defaults."""
    return Engine(
        Service(
            block_size=block_size,
            capacity_blocks=capacity_blocks,
            prefill_tokens_per_s=prefill,
            decode_tokens_per_s=decode,
            slots=slots,
            jitter=jitter,
            seed=seed,
            max_model_len=131_072,
        )
    )


def ask(
    target: Engine, ids: Sequence[int], *, tokens: int = 1, at_ms: float = 0, salt: str = "", first_answer: int = 90_000
) -> Job:
    """Submit a prompt; its answer counts up from ``first_answer``."""
    at_ns = round(at_ms * MS)
    answer = list(range(first_answer, first_answer + tokens))
    job = job_of(list(ids), answer, block_size=target.service.block_size, salt=salt, arrival_ns=at_ns)
    target.submit(job, at_ns)
    return job


def serve(target: Engine, ids: Sequence[int], *, tokens: int = 1, salt: str = "", first_answer: int = 90_000) -> int:
    """Serve one prompt alone; its cached tokens."""
    job = ask(target, ids, tokens=tokens, salt=salt, first_answer=first_answer)
    target.advance(FOREVER)
    assert job.finish_reason == "length"
    return job.cached_tokens


# Cache rules


@pytest.mark.parametrize(("prompt_tokens", "hit"), [(1024, 0), (1025, 1024)])
def test_the_last_token_is_always_computed(prompt_tokens: int, hit: int) -> None:
    """Case 14: a repeated prompt of exactly one block hits nothing; one token more hits the block."""
    target = engine(block_size=1024)

    first, again = (serve(target, range(prompt_tokens)) for _ in range(2))

    assert (first, again) == (0, hit)


def test_sixteen_cold_requests_at_once_miss_once() -> None:
    """Blocks are matchable when their request is scheduled: of 16 equal prefixes only the first is computed."""
    target = engine(block_size=32)

    jobs = [ask(target, [*range(900), *range(1000 * n, 1000 * n + 60)]) for n in range(1, 17)]

    assert [job.cached_tokens for job in jobs] == [0] + [896] * 15


def test_answers_are_cached_but_for_their_last_token() -> None:
    """The next turn hits the blocks that the answer filled; the last sampled token has no KV."""
    target = engine(block_size=32)
    serve(target, range(200), tokens=40)  # 239 tokens have KV: 7 blocks of 32

    next_turn = serve(target, [*range(200), *range(90_000, 90_040), *range(500, 560)])

    assert next_turn == 224


@pytest.mark.parametrize(("tokens", "hit"), [(16, 16), (17, 32)])
def test_a_block_that_lacks_one_token_is_not_matched(tokens: int, hit: int) -> None:
    """With 16 prompt tokens an answer of 16 has KV for 31 tokens, one of 17 for 32."""
    target = engine()
    serve(target, range(16), tokens=tokens)

    assert serve(target, [*range(16), *range(90_000, 90_016), 7]) == hit


def test_answers_that_come_one_by_one_are_cached_as_if_they_came_at_once() -> None:
    """The pace of decoding changes no block key."""
    next_turn = [*range(20), *range(90_000, 90_100), 1]

    hits = []
    for decode in (None, 50.0):
        target = engine(decode=decode)
        serve(target, range(20), tokens=100)
        hits.append(serve(target, next_turn))

    assert hits == [112, 112]  # 20 + 99 tokens with KV


def test_a_salt_keeps_prompts_apart() -> None:
    """Equal prompts under different salts share nothing, under one salt all but the last token's block."""
    target = engine()

    hits = [serve(target, range(100), salt=salt) for salt in ("", "a", "a", "")]

    assert hits == [0, 0, 96, 96]


PROMPTS = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=14), st.integers(1, 9)), min_size=1, max_size=25
)


@given(PROMPTS, st.integers(1, 5))
def test_hits_are_what_comparing_tokens_gives(requests: list[tuple[list[int], int]], size: int) -> None:
    """An unbounded cache serves every whole block of the longest common prefix with anything that had KV."""
    target = engine(block_size=size)
    seen: list[tuple[int, ...]] = []

    for ids, tokens in requests:
        common = max((_common(ids, other) for other in seen), default=0)
        expected = min(common, len(ids) - 1) // size * size
        assert serve(target, ids, tokens=tokens, first_answer=0) == expected
        seen.append((*ids, *range(tokens - 1)))


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def served(pool: PoolModel[tuple[int, ...]], size: int, ids: Sequence[int], answer: Sequence[int]) -> int:
    """Hit tokens of one request that runs alone; blocks are keyed by all tokens up to their end."""
    with_kv = [*ids, *answer[:-1]]
    prefixes = [tuple(with_kv[:end]) for end in range(size, len(with_kv) + 1, size)]
    in_prompt = prefixes[: len(ids) // size]
    held = -(-len(with_kv) // size)
    admitted = pool.admit(in_prompt, (len(ids) - 1) // size, held - len(in_prompt))
    assert admitted is not None
    hit, blocks = admitted
    pool.keyed += zip(blocks[len(in_prompt) :], prefixes[len(in_prompt) :], strict=False)
    pool.finish(blocks)
    return hit * size


@given(PROMPTS, st.integers(1, 4), st.integers(0, 12))
def test_a_small_cache_evicts_as_vllm_does(requests: list[tuple[list[int], int]], size: int, spare: int) -> None:
    """Hits under eviction are those of a free queue of single blocks."""
    most = max(len(ids) + tokens - 1 for ids, tokens in requests)
    capacity = -(-most // size) + spare
    target, pool = engine(block_size=size, capacity_blocks=capacity), PoolModel[tuple[int, ...]](capacity)

    for ids, tokens in requests:
        expected = served(pool, size, ids, range(tokens))
        assert serve(target, ids, tokens=tokens, first_answer=0) == expected


# Scheduling


def test_blocks_of_running_requests_are_never_evicted() -> None:
    """While a stream runs, others churn through what is left; its own prefix is still whole afterwards."""
    target = engine(block_size=16, capacity_blocks=20)
    long = ask(target, range(160), tokens=33)  # holds 12 blocks
    for n in range(20):
        ask(target, range(1000 * n + 1000, 1000 * n + 1100), at_ms=1 + n)
        target.advance((1 + n) * MS)

    assert long.finish_reason is None
    target.advance(FOREVER)

    assert ask(target, [*range(160), 5], at_ms=1e6).cached_tokens == 160


def test_requests_that_do_not_fit_wait_in_order() -> None:
    """A small request does not overtake a large one that waits for room."""
    target = engine(block_size=16, capacity_blocks=10)
    running = ask(target, range(112), tokens=1)
    large = ask(target, range(1000, 1100), tokens=1)
    small = ask(target, range(2000, 2016), tokens=1)

    assert (running.lease is not None, large.lease, small.lease) == (True, None, None)
    assert target.gauges().waiting == 2

    target.advance(FOREVER)
    assert running.first_token_ns == large.scheduled_ns == small.scheduled_ns
    assert large.first_token_ns < small.first_token_ns


def test_slots_bound_what_runs() -> None:
    """With one slot the second request is scheduled when the first ends."""
    target = engine(slots=1)
    first = ask(target, range(100), tokens=3)
    second = ask(target, range(500, 600), tokens=3)

    assert (target.gauges().running, target.gauges().waiting) == (1, 1)
    target.advance(FOREVER)

    assert second.scheduled_ns == first.last_token_ns


def test_usage_is_the_share_of_held_blocks() -> None:
    """Cached blocks that nobody holds count as free, as in vLLM."""
    target = engine(block_size=16, capacity_blocks=20)
    ask(target, range(160), tokens=1)

    during = target.gauges().kv_cache_usage
    target.advance(FOREVER)

    assert (during, target.gauges().kv_cache_usage) == (0.5, 0.0)


def test_a_reset_waits_for_running_requests() -> None:
    """The cache is emptied only while nothing runs, and then really."""
    target = engine()
    ask(target, range(100))

    assert not target.reset_prefix_cache()
    target.advance(FOREVER)
    assert target.reset_prefix_cache()

    assert serve(target, range(100)) == 0


# Service times


def test_only_uncached_tokens_cost_prefill_time() -> None:
    """1,000 tokens at 100,000 a second take 10 ms; with 992 of them cached, 0.08 ms."""
    target = engine()

    cold = ask(target, range(1000), at_ms=0)
    target.advance(50 * MS)
    warm = ask(target, range(1000), at_ms=50)
    target.advance(FOREVER)

    assert cold.first_token_ns == 10 * MS
    assert warm.first_token_ns == 50 * MS + 80_000


def test_one_prefill_runs_at_a_time() -> None:
    """Three cold prompts that arrive together get their first tokens one prefill apart."""
    target = engine()

    jobs = [ask(target, range(1000 * n, 1000 * n + 500)) for n in range(3)]
    target.advance(FOREVER)

    assert [job.first_token_ns for job in jobs] == [5 * MS, 10 * MS, 15 * MS]


def test_streams_decode_beside_each_other() -> None:
    """At 50 tokens a second each stream has a token every 20 ms, however many run."""
    target = engine(prefill=1e12)

    jobs = [ask(target, [n], tokens=11) for n in range(40)]
    target.advance(FOREVER)

    assert {round((job.last_token_ns - job.first_token_ns) / MS) for job in jobs} == {200}


def test_without_a_decode_speed_all_tokens_come_with_the_first() -> None:
    """Unlimited decoding ends a request at its first token."""
    target = engine(decode=None)
    job = ask(target, range(1000), tokens=16)

    assert target.advance(10 * MS - 1) == []
    assert target.advance(10 * MS) == [job]
    assert (job.produced, job.first_token_ns, job.last_token_ns) == (16, 10 * MS, 10 * MS)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 6), st.integers(0, 40)), min_size=1, max_size=12),
    st.lists(st.integers(1, 200), max_size=40),
    st.integers(1, 3),
)
def test_late_ticks_change_no_stamp(asked: list[tuple[int, int, int]], ticks: list[int], slots: int) -> None:
    """Stamps are due times: advancing rarely gives the same ones as advancing at every event."""
    arrivals = list(itertools.accumulate(gap for _, _, gap in asked))

    def stamps(tick_times: list[int]) -> list[tuple[int, int, int, int]]:
        target = engine(prefill=1000, slots=slots, block_size=4, capacity_blocks=64)
        jobs = []
        moments = sorted([(at, -1) for at in tick_times] + [(at, n) for n, at in enumerate(arrivals)])
        for at, n in moments:
            if n < 0:
                target.advance(at * MS)
            else:
                jobs.append(ask(target, range(asked[n][0]), tokens=asked[n][1], at_ms=at))
        target.advance(FOREVER)
        return [(job.scheduled_ns, job.first_token_ns, job.last_token_ns, job.cached_tokens) for job in jobs]

    assert stamps(list(itertools.accumulate(ticks))) == stamps([])


def test_jitter_is_keyed_and_bounded() -> None:
    """A seed always gives the same times, another seed others, and none beyond the share."""

    def gaps(seed: int) -> list[int]:
        target = engine(jitter=0.25, seed=seed)
        job = ask(target, range(1000), tokens=30)
        stamps = []
        while (due := target.next_event_ns()) is not None:
            target.advance(due)
            stamps.append(job.last_token_ns)
        return [later - earlier for earlier, later in itertools.pairwise([0, *stamps])]

    prefill, *decode = gaps(1)

    assert gaps(1) == [prefill, *decode] != gaps(2)
    assert 7.5 * MS <= prefill <= 12.5 * MS
    assert all(15 * MS <= gap <= 25 * MS for gap in decode)
    assert max(decode) - min(decode) > MS


# Clients that leave


def test_an_abort_frees_slot_prefill_and_blocks() -> None:
    """When a prefilling request is dropped the next one starts at that moment."""
    target = engine(slots=1, capacity_blocks=100)
    dropped = ask(target, range(1000), tokens=5)
    waiting = ask(target, range(5000, 6000), tokens=1)

    target.abort(dropped, 4 * MS)
    target.advance(FOREVER)

    assert (dropped.finish_reason, dropped.produced) == ("abort", 0)
    assert waiting.first_token_ns == 14 * MS
    assert target.gauges().kv_cache_usage == 0


def test_an_abort_behind_the_active_prefill_leaves_it_alone() -> None:
    """Dropping a request that waits for its prefill moves up only those behind it."""
    target = engine()
    jobs = [ask(target, range(5000 * n, 5000 * n + 1000)) for n in range(3)]

    target.abort(jobs[1], 3 * MS)
    target.advance(FOREVER)

    assert [job.first_token_ns for job in jobs] == [10 * MS, -1, 20 * MS]


def test_an_abort_of_a_waiting_request_lets_the_next_one_in() -> None:
    """A large request that leaves the queue no longer blocks a small one."""
    target = engine(block_size=16, capacity_blocks=10)
    ask(target, range(100), tokens=20)
    large = ask(target, range(1000, 1100))
    small = ask(target, range(2000, 2010))

    target.abort(large, 1 * MS)

    assert small.scheduled_ns == 1 * MS
    assert target.counters.finished["abort"] == 1


def test_an_abort_after_the_end_changes_nothing() -> None:
    """A client that leaves with its whole answer is not an abort."""
    target = engine()
    job = ask(target, range(10))
    target.advance(FOREVER)

    target.abort(job, FOREVER)

    assert target.counters.finished == {"stop": 0, "length": 1, "abort": 0, "error": 0, "repetition": 0}


def test_progress_that_nobody_collected_is_due_at_once() -> None:
    """A submit that lets a stream end leaves an event for its reader, though nothing else is due."""
    target = engine(decode=None, slots=1)
    first = ask(target, range(100))
    second = ask(target, range(500, 510), at_ms=2)
    target.abort(second, 2 * MS)

    assert target.next_event_ns() == 0
    assert target.advance(2 * MS) == [first]
    assert target.next_event_ns() is None


# Counters


def test_counters_add_up() -> None:
    """Queries and hits count at admission, prompt tokens at the first token, requests at the end."""
    target = engine(block_size=16)
    ask(target, range(100), tokens=4)
    ask(target, range(100), tokens=4)
    now = target.counters

    assert (now.prefix_queries, now.prefix_hits, now.prompt, now.generation) == (200, 96, 0, 0)
    target.advance(FOREVER)

    assert (now.prompt, now.prompt_cached, now.generation, now.finished["length"]) == (200, 96, 8, 2)
    assert (sum(now.gap_s.counts), sum(now.first_token_s.counts)) == (6, 2)
    assert now.gap_s.sum == pytest.approx(6 * 0.02)
    assert now.first_token_s.sum == pytest.approx(0.001 + 0.00104)
    assert now.request_computed.sum == 104
