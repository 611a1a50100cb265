"""The event simulation against closed forms, bounds, and a pool that serves one request after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from foreword.cache import watermark
from foreword.cache.pool import replay_hits
from foreword.cache.rules import HitRule, usable_hit_tokens
from foreword.config.replay import ReplayConfig
from foreword.simulate.forecast import certain_prefix
from foreword.simulate.happened import Times, hits_at
from foreword.simulate.jobs import Load, jobs_of
from foreword.simulate.serving import Client, Service, serve
from foreword.simulate.tiered_forecast import tiered_hits
from foreword.terms import IntArray, Visibility

BLOCK = 4
HUGE = 100_000


@st.composite
def loads(draw: st.DrawFn, *, rule: HitRule | None = None, domains: int = 2, warm: bool | None = None) -> Load:
    """Up to 14 requests of a few lanes in one or two caches, with or without a head of whole blocks."""
    count, trunk = draw(st.integers(1, 14)), draw(st.integers(0, 2))
    groups, caches = draw(st.integers(1, 3)), draw(st.integers(1, domains))
    rows = [
        (
            trunk + draw(st.integers(0, 4)),
            draw(st.integers(1, 3 * BLOCK)),
            draw(st.integers(1, 9)),
            draw(st.integers(0, groups - 1)),
            draw(st.integers(0, caches - 1)),
        )
        for _ in range(count)
    ]
    prefix, own, answer, group, domain = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    domain = np.unique(domain, return_inverse=True)[1].astype(np.int64)
    lane = domain * groups + group
    is_warm = draw(st.booleans()) if warm is None else warm
    return Load(
        input_len=prefix * BLOCK + own,
        prefix_len=prefix * BLOCK,
        output_len=answer,
        lane=lane,
        domain=domain,
        block_size=BLOCK,
        rule=rule or draw(st.sampled_from(HitRule)),
        trunk_len=trunk * BLOCK,
        warm_lanes=frozenset(lane.tolist()) if is_warm else frozenset(),
    )


SPEEDS = st.sampled_from([(7, 3.0, 2.0), (16, 1000.0, 50.0), (1000, 10.0, None), (3, 1.0, 100.0)])


@st.composite
def services(draw: st.DrawFn, *, visibility: Visibility | None = None) -> Service:
    """Engines with few slots, short steps, slow and fast phases."""
    step, prefill, decode = draw(SPEEDS)
    seen = visibility or draw(st.sampled_from(Visibility))
    return Service(seen, draw(st.integers(1, 5)), step, prefill, decode)


CLIENTS = st.one_of(
    st.integers(1, 6).map(Client), st.sampled_from([0.1, 1.0, 5.0, 1000.0]).map(lambda rate: Client(1, rate))
)


def serial_hits(load: Load) -> IntArray:
    """The closed form of theory section 2."""
    if load.warm_lanes:
        shared = watermark.warm(load.prefix_len, load.lane).hit
    else:
        shared = watermark.cold(load.prefix_len, load.lane, domain=load.domain, trunk_len=load.trunk_len).hit
    return usable_hit_tokens(load.rule, prompt_tokens=load.input_len, shared_tokens=shared, block_size=BLOCK)


@given(loads(), services(), st.sampled_from([None, HUGE]))
def test_one_at_a_time_is_the_design(load: Load, service: Service, capacity: int | None) -> None:
    """Whatever the speeds and the visibility, and whether blocks or watermarks are kept."""
    service = replace(service, capacity_blocks=capacity)

    assert serve(load, service, client=Client(1)).hit_tokens.tolist() == serial_hits(load).tolist()


@given(loads(), services(visibility=Visibility.SCHEDULED), CLIENTS, st.sampled_from([None, HUGE]))
def test_blocks_that_are_seen_at_once_lose_nothing(
    load: Load, service: Service, client: Client, capacity: int | None
) -> None:
    """With vLLM's visibility any number of requests under way finds what one after the other would."""
    service = replace(service, capacity_blocks=capacity)

    assert serve(load, service, client=client).hit_tokens.tolist() == serial_hits(load).tolist()


@given(loads(warm=False), services(visibility=Visibility.FORWARD), st.integers(1, 6))
def test_blocks_that_are_seen_late_stay_within_the_bounds(load: Load, service: Service, together: int) -> None:
    """Never more than one after the other, never less than what is certain (theory section 4)."""
    hits = serve(load, service, client=Client(together)).hit_tokens
    none_warm = np.zeros(len(hits), np.bool_)
    certain = certain_prefix(load.prefix_len, load.lane, warmed=none_warm, in_flight=together)
    least = usable_hit_tokens(load.rule, prompt_tokens=load.input_len, shared_tokens=certain, block_size=BLOCK)

    assert (hits <= serial_hits(load)).all()
    assert (hits >= least).all()


@given(loads(), services(), CLIENTS)
def test_watermarks_stand_for_blocks(load: Load, service: Service, client: Client) -> None:
    """A pool in which everything fits gives what the endless cache gives, at the same times."""
    endless = serve(load, service, client=client)
    pooled = serve(load, replace(service, capacity_blocks=HUGE), client=client)

    assert endless.hit_tokens.tolist() == pooled.hit_tokens.tolist()
    assert endless.done_ns.tolist() == pooled.done_ns.tolist()


@given(loads(rule=HitRule.CAP_THEN_FLOOR, domains=1, warm=False), st.integers(0, 12), services())
def test_a_small_pool_evicts_as_vllm_does(load: Load, spare: int, service: Service) -> None:
    """One after the other with one answer token each: the block manager's own replay, which equals the real one."""
    load = replace(load, output_len=np.ones_like(load.output_len))
    capacity = int(load.blocks_needed.max()) + spare
    rows = [(job.prompt_tokens, job.block_keys()) for job in jobs_of(load)]

    hits = serve(load, replace(service, capacity_blocks=capacity), client=Client(1)).hit_tokens

    assert hits.tolist() == list(replay_hits(rows, block_size=BLOCK, capacity_blocks=capacity))


@given(loads(), services(), CLIENTS, st.integers(0, 6))
def test_every_request_ends_in_a_small_cache(load: Load, service: Service, client: Client, spare: int) -> None:
    """Nobody waits for ever, and nothing hits more than in an endless cache."""
    capacity = int(load.blocks_needed.max()) + spare + int(load.prefix_len.max()) // BLOCK
    served = serve(load, replace(service, capacity_blocks=capacity), client=client)

    assert (served.done_ns >= served.first_token_ns).all()
    assert (served.first_token_ns > served.sent_ns).all()
    assert int(served.hit_tokens.sum()) <= int(serial_hits(load).sum())


@given(loads(), services(visibility=Visibility.SCHEDULED), CLIENTS)
def test_the_times_of_a_run_give_its_hits(load: Load, service: Service, client: Client) -> None:
    """Replaying the stamps of a simulated run finds what the run found, where blocks are seen at once."""
    served = serve(load, service, client=client)
    times = Times(served.sent_ns, served.first_token_ns, served.done_ns)

    assert hits_at(load, times, visibility=Visibility.SCHEDULED).tolist() == served.hit_tokens.tolist()


@given(loads(), st.sampled_from(Visibility), st.sampled_from([None, HUGE]))
def test_times_without_overlap_are_the_design(load: Load, visibility: Visibility, capacity: int | None) -> None:
    """Requests of which each was over before the next was sent."""
    sent = np.arange(len(load.input_len)) * 10
    times = Times(sent, sent + 4, sent + 9)

    assert hits_at(load, times, visibility=visibility, capacity_blocks=capacity).tolist() == serial_hits(load).tolist()


def test_requests_that_wait_for_the_same_prompt_miss_or_hit_by_visibility() -> None:
    """Sixteen at once over one cold prefix: one miss where blocks are seen when scheduled, sixteen where later."""
    load = _alike(16)
    fast = Service(slots=16, step_tokens=100_000)

    seen_at_once = serve(load, fast, client=Client(16)).hit_tokens
    seen_late = serve(load, replace(fast, visibility=Visibility.FORWARD), client=Client(16)).hit_tokens

    assert seen_at_once.tolist() == [0] + [40] * 15
    assert seen_late.tolist() == [0] * 16


def test_steps_that_hold_one_prompt_let_the_next_one_hit() -> None:
    """Where a step is as long as a prompt, only those miss that are scheduled beside the first."""
    service = Service(Visibility.FORWARD, slots=16, step_tokens=50, decode_tokens_per_s=None)

    assert serve(_alike(4), service, client=Client(4)).hit_tokens.tolist() == [0, 40, 40, 40]


def _alike(count: int) -> Load:
    whole = np.ones(count, np.int64)
    return Load(50 * whole, 40 * whole, whole, 0 * whole, 0 * whole, BLOCK)


@given(loads())
def test_tiers_without_a_limit_are_the_design(load: Load) -> None:
    """A replay config without capacities gives the serial hits, cold and warm."""
    assert tiered_hits(load, TIERS).tolist() == serial_hits(load).tolist()


TIERS = ReplayConfig.from_document(
    {
        "trace_file_path": "",
        "output_result_path": "",
        "eviction_params": {"eviction_mode": 3, "eviction_batch_size_per_instance": 1},
        "instance_groups": [
            {
                "group_name": "g",
                "quota_capacity": -1,
                "used_percentage": 1.0,
                "tier_strategy": {"hierarchical_eviction_enabled": False},
                "storages": [],
                "instances": [
                    {
                        "instance_id": "a",
                        "block_size": BLOCK,
                        "bytes_per_token": 1,
                        "eviction_policy_type": "lru",
                        "eviction_policy_params": {},
                    }
                ],
            }
        ],
    }
)
