"""The cache model against models that are too simple to be wrong, and Law 4: replay of a plan gives its hits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from foreword.cache import watermark
from foreword.cache.blocks import block_keys, root_key
from foreword.cache.pool import BlockPool, Lease, replay_hits
from foreword.cache.reference import UnboundedCache
from foreword.cache.rules import HitRule, usable_hit_tokens
from tests.support.planning import maxima, prompt_sets, prompt_tokens
from tests.support.pool_model import PoolModel

if TYPE_CHECKING:
    from foreword.terms import IntArray
    from foreword.workload.plan import Prompts

TOKENS = st.lists(st.integers(0, 2), max_size=12)


class BlockPoolMachine(RuleBasedStateMachine):
    """Random admissions, growth and ends of requests, with the model beside the pool."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(6)
        self.model = PoolModel[int](6)
        self.leases: list[tuple[Lease, list[int], int]] = []
        self.fresh = iter(range(10**6))

    @rule(tokens=TOKENS, limit=st.integers(0, 6), private=st.integers(0, 2))
    def admit(self, tokens: list[int], limit: int, private: int) -> None:
        """A request is admitted when it fits, and hits what the model holds of its leading blocks."""
        keys = block_keys(tokens, 2, parent=root_key())

        lease = self.pool.acquire(keys, hit_limit_blocks=limit, private_blocks=private)

        admitted = self.model.admit(keys, limit, private)
        assert (lease is not None) == (admitted is not None)
        if lease is not None and admitted is not None:
            assert (lease.hit_blocks, lease.private_blocks, lease.keys) == (admitted[0], private, keys)
            self.leases.append((lease, admitted[1], private))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """A request ends: its blocks stay, evictable."""
        lease, blocks, _ = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))

        self.pool.release(lease)

        self.model.finish(blocks)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        """Decoding fills a block: one of the private ones gets a key, or a new block is taken if there is room."""
        index = data.draw(st.integers(0, len(self.leases) - 1))
        lease, blocks, private = self.leases[index]
        key = 10**9 + next(self.fresh)
        grown = None if private else self.model.grow()

        assert self.pool.extend(lease, key) == (private > 0 or grown is not None)

        if grown is not None:
            blocks = [*blocks, grown]
        if private or grown is not None:
            private = max(private - 1, 0)
            self.model.keyed.append((blocks[len(blocks) - 1 - private], key))
            self.leases[index] = (lease, blocks, private)

    @rule()
    def clear(self) -> None:
        """Clearing works exactly when nothing runs."""
        busy = self.model.used() > 0

        assert self.pool.clear() is not busy

        if not busy:
            self.model.keyed = []

    @rule()
    def reload(self) -> None:
        """A pool in which nothing runs goes on from what was saved."""
        if not self.model.used():
            saved = self.pool.save()
            self.pool = BlockPool(6)
            self.pool.load(saved)

    @invariant()
    def agree(self) -> None:
        """The same keys are cached in as many blocks, and nothing that runs was evicted."""
        assert self.pool.cached_blocks == len(self.model.keyed)
        assert self.pool.pinned_blocks == self.model.used()
        for lease, _, _ in self.leases:
            assert self.pool.match(lease.keys) == len(lease.keys)
        for _, key in self.model.keyed:
            assert key in self.pool
            assert self.pool.match([key]) == 1


TestBlockPool = BlockPoolMachine.TestCase
TestBlockPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 1), max_size=14), max_size=14), st.integers(1, 3))
def test_the_unbounded_cache_is_a_set_of_prefixes(prompts: list[list[int]], block: int) -> None:
    """It finds as many leading blocks as have been written before, whatever split its runs."""
    cache, written = UnboundedCache(), set[tuple[int, ...]]()
    for tokens in prompts:
        ends = range(block, len(tokens) + 1, block)
        known = [tuple(tokens[:end]) in written for end in ends]

        found = cache.read_and_write(block_keys(tokens, block, parent=root_key()))

        assert found == (known.index(False) if False in known else len(known))
        written.update(tuple(tokens[:end]) for end in ends)


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 1), max_size=14), max_size=14), st.integers(1, 8))
def test_serial_replay_is_the_pool_block_by_block(prompts: list[list[int]], capacity: int) -> None:
    """One request after another through a bounded pool hits what the model of single blocks holds."""
    model, expected, requests = PoolModel[int](capacity), [], []
    for tokens in prompts:
        keys = block_keys(tokens, 2, parent=root_key())
        requests.append((len(tokens), keys))
        admitted = model.admit(keys, max(0, (len(tokens) - 1) // 2), len(tokens) % 2)
        expected.append(2 * admitted[0] if admitted else 0)
        if admitted:
            model.finish(admitted[1])

    assert list(replay_hits(requests, block_size=2, capacity_blocks=capacity)) == expected


@settings(max_examples=150)
@given(prompt_sets(), st.data())
def test_replaying_a_plan_gives_its_hits(drawn: tuple[Prompts, IntArray], data: st.DataObject) -> None:
    """Law 4: the keys of the planned prompts, served without a limit, hit what the watermark says, one by one."""
    prompts, order = drawn
    block = prompts.block_size
    steps = [data.draw(st.integers(0, (most - prompts.trunk_len) // block)) for most in maxima(prompts)]
    shared = prompts.trunk_len + block * np.asarray(steps, dtype=np.int64)
    keys = [
        block_keys(
            prompt_tokens(prompts, index, int(shared[index])), block, parent=root_key(str(prompts.domain[index]))
        )
        for index in order
    ]
    requests = [(int(prompts.input_len[index]), chain) for index, chain in zip(order, keys, strict=True)]

    replayed = list(replay_hits(requests, block_size=block))

    planned = watermark.cold(
        shared[order], prompts.lane[order], domain=prompts.domain[order], trunk_len=prompts.trunk_len
    )
    unbounded = UnboundedCache()
    assert replayed == planned.hit.tolist()
    assert [unbounded.read_and_write(chain) * block for chain in keys] == planned.hit.tolist()


@settings(max_examples=150)
@given(TOKENS, TOKENS, st.integers(1, 4))
def test_keys_are_equal_exactly_where_prefixes_are(one: list[int], other: list[int], block: int) -> None:
    """Two prompts share the keys of their common full blocks, and no others."""
    left, right = (block_keys(tokens, block, parent=root_key()) for tokens in (one, other))

    common = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    same_blocks = (min(len(one), len(other)) if common is None else common) // block
    assert len(left) == len(one) // block
    assert left[:same_blocks] == right[:same_blocks]
    assert not set(left[same_blocks:]) & set(right[same_blocks:])


@settings(max_examples=200)
@given(st.integers(1, 200), st.integers(0, 200), st.integers(1, 33))
def test_every_hit_rule_leaves_a_token_to_compute(total: int, shared: int, block: int) -> None:
    """Hits grow with what is shared, never reach the whole prompt, and are the same for arrays."""
    shared = min(shared, total)
    for hit_rule in HitRule:
        hits = [
            usable_hit_tokens(hit_rule, prompt_tokens=total, shared_tokens=upto, block_size=block)
            for upto in range(shared + 1)
        ]
        array = usable_hit_tokens(
            hit_rule,
            prompt_tokens=np.full(shared + 1, total, dtype=np.int64),
            shared_tokens=np.arange(shared + 1, dtype=np.int64),
            block_size=block,
        )

        assert array.tolist() == hits
        assert max(hits) < total
        assert all(before <= after for before, after in pairwise(hits))
        assert all(0 <= hit <= upto for upto, hit in enumerate(hits))
