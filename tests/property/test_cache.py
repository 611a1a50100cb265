"""The cache model against models that are too simple to be wrong, and Law 4: replay of a plan gives its hits."""

from __future__ import annotations

from collections import Counter, OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from foreword.cache import watermark
from foreword.cache.blocks import block_keys, root_key
from foreword.cache.reference import BlockCache, Lease, UnboundedCache, replay_hits
from foreword.cache.rules import HitRule, usable_hit_tokens
from tests.support.planning import maxima, prompt_sets, prompt_tokens

if TYPE_CHECKING:
    from foreword.terms import IntArray
    from foreword.workload.plan import Prompts

TOKENS = st.lists(st.integers(0, 2), max_size=12)


class LruModel:
    """A plain LRU of blocks with pins: an ordered dictionary of idle blocks, and counts of who holds what."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.idle: OrderedDict[int, None] = OrderedDict()
        self.held: Counter[int] = Counter()
        self.private = 0

    def used(self) -> int:
        """Blocks that cannot be evicted."""
        return len(+self.held) + self.private

    def admit(self, keys: list[int], private: int) -> bool:
        """Hold all keys, each first as the most recent; evict from the old end."""
        after = set(+self.held) | set(keys)
        if len(after) + self.private + private > self.capacity:
            return False
        for key in keys:
            self.idle.pop(key, None)
        self.held.update(keys)
        self.private += private
        self.shrink()
        return True

    def finish(self, keys: list[int], private: int) -> None:
        """Let go of keys from the tail; the head is the most recent then."""
        self.private -= private
        for key in reversed(keys):
            self.held[key] -= 1
            if not self.held[key]:
                self.idle[key] = None

    def shrink(self) -> None:
        """Evict the oldest idle blocks beyond the capacity."""
        while self.used() + len(self.idle) > self.capacity:
            self.idle.popitem(last=False)

    def present(self) -> set[int]:
        """Blocks that can be matched."""
        return set(self.idle) | set(+self.held)


class BlockCacheMachine(RuleBasedStateMachine):
    """Random admissions, growth and ends of requests, with the model beside the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = BlockCache(6)
        self.model = LruModel(6)
        self.leases: list[tuple[Lease, list[int], int]] = []
        self.fresh = iter(range(10**6))

    @rule(tokens=TOKENS, limit=st.integers(0, 6), private=st.integers(0, 2))
    def admit(self, tokens: list[int], limit: int, private: int) -> None:
        """A request is admitted when it fits, and hits what the model holds of its leading blocks."""
        keys = block_keys(tokens, 2, parent=root_key())
        present = self.model.present()
        hit = 0
        while hit < min(limit, len(keys)) and keys[hit] in present:
            hit += 1

        lease = self.cache.acquire(keys, hit_limit_blocks=limit, private_blocks=private)

        assert (lease is not None) == self.model.admit(keys, private)
        if lease is not None:
            assert (lease.hit_blocks, lease.private_blocks, lease.keys) == (hit, private, keys)
            self.leases.append((lease, keys, private))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """A request ends: its blocks stay, evictable."""
        lease, keys, private = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))

        self.cache.release(lease)

        self.model.finish(keys, private)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def grow(self, data: st.DataObject) -> None:
        """Decoding fills a block: one of the private ones gets a key, or a new block is taken if there is room."""
        index = data.draw(st.integers(0, len(self.leases) - 1))
        lease, keys, private = self.leases[index]
        key = 10**9 + next(self.fresh)
        room = private > 0 or self.model.used() < self.model.capacity

        assert self.cache.extend(lease, key) == room

        if room:
            taken = min(private, 1)
            self.model.private -= taken
            self.model.held[key] += 1
            self.model.shrink()
            self.leases[index] = (lease, [*keys, key], private - taken)

    @rule()
    def clear(self) -> None:
        """Clearing works exactly when nothing runs."""
        busy = bool(self.leases) and self.model.used() > 0

        assert self.cache.clear() is not busy

        if not busy:
            self.model.idle.clear()

    @invariant()
    def agree(self) -> None:
        """The same blocks are cached, none beyond the capacity, and nothing that runs was evicted."""
        present = self.model.present()
        assert self.cache.cached_blocks == len(present)
        assert self.cache.pinned_blocks == self.model.used()
        assert self.cache.cached_blocks + self.model.private <= 6
        for _, keys, _ in self.leases:
            assert self.cache.match(keys) == len(keys)
        for key in present:
            assert self.cache.match([key]) == 1


TestBlockCache = BlockCacheMachine.TestCase
TestBlockCache.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


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
def test_serial_replay_is_a_plain_lru(prompts: list[list[int]], capacity: int) -> None:
    """One request after another through a bounded cache hits what a plain LRU model holds."""
    model, expected, requests = LruModel(capacity), [], []
    for tokens in prompts:
        keys = block_keys(tokens, 2, parent=root_key())
        requests.append((len(tokens), keys))
        present = model.present()
        limit = max(0, (len(tokens) - 1) // 2)
        leading = next((place for place, key in enumerate(keys) if key not in present), len(keys))
        fits = model.admit(keys, len(tokens) % 2)
        expected.append(2 * min(leading, limit) if fits else 0)
        if fits:
            model.finish(keys, len(tokens) % 2)

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
