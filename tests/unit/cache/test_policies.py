"""Who leaves first, policy by policy, on a table of single-block paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from foreword.cache.policies.leaf_aware_lru import LeafAwareLruPolicy
from foreword.cache.policies.lru import LruPolicy
from foreword.cache.policies.random_lru import FIRST_STATE, RandomLruPolicy, Xorshift64
from foreword.cache.policies.ttl import TtlPolicy
from foreword.cache.radix import RadixTree
from foreword.cache.table import BlockTable
from foreword.config.replay import LruParams, RandomLruParams, TtlParams

if TYPE_CHECKING:
    from foreword.cache.policies.base import Policy


def filled(policy: Policy, table: BlockTable, times: list[int]) -> list[int]:
    """Let single-block paths with keys 0, 1, ... enter one after another at given times."""
    blocks = [table.intern([key])[0] for key in range(len(times))]
    for block, time in zip(blocks, times, strict=True):
        table.put(block, 0, now=time)
        policy.enter(block)
    return blocks


def test_exact_lru_evicts_in_order_of_use() -> None:
    """By default, the least recently touched block leaves first, and leaves the tier."""
    table = BlockTable(1)
    policy = LruPolicy(table, 0, LruParams())
    filled(policy, table, [1, 2, 3, 4])

    policy.touch(0)

    assert policy.evict(2) == [1, 2]
    assert (len(policy), table.holds(1, 0), table.holds(0, 0)) == (2, False, True)
    assert policy.evict(9) == [3, 0]
    assert policy.evict(1) == []


def test_shards_give_their_tails_by_age() -> None:
    """The shard with the oldest tail is visited first; ``sample_times`` bounds the visits."""
    table = BlockTable(1)
    policy = LruPolicy(table, 0, LruParams(shard_count=2, sample_times=1))
    filled(policy, table, [5, 1, 6, 2])

    assert policy.evict(2) == [1, 3]
    assert policy.evict(1) == [0]


def test_a_shard_that_runs_dry_ends_a_visit() -> None:
    """Fewer blocks than asked for may leave; the caller asks again."""
    table = BlockTable(1)
    policy = LruPolicy(table, 0, LruParams(shard_count=2, sample_times=1))
    filled(policy, table, [1, 9])

    assert policy.evict(2) == [0]


def test_a_negative_key_belongs_to_the_shard_of_its_bits() -> None:
    """Shards go by the unsigned key: -1 is 2**64 - 1, which is 0 modulo 3."""
    table = BlockTable(1)
    policy = LruPolicy(table, 0, LruParams(shard_count=3))
    blocks = [table.intern([key])[0] for key in (-1, 1, 2)]
    for block in blocks:
        table.put(block, 0, now=1)
        policy.enter(block)

    assert policy.save() == {"shards": [[0], [1], [2]]}


def test_amplification_takes_more_candidates_and_returns_the_younger() -> None:
    """Of twice as many candidates the older half leaves; the rest are again next in line."""
    table = BlockTable(1)
    policy = LruPolicy(table, 0, LruParams(shard_count=2, eviction_amplification_factor=2.0))
    filled(policy, table, [1, 8, 2, 9, 3, 10])

    assert policy.evict(2) == [0, 2]
    assert policy.save() == {"shards": [[4], [1, 3, 5]]}


def test_xorshift_is_marsaglias() -> None:
    """Three steps from 1 with shifts 13, 7, 17, as published for the 64-bit generator."""
    random = Xorshift64(1)

    assert [random.below(2**64) for _ in range(3)] == [1082269761, 1152992998833853505, 11177516664432764457]


def test_a_random_sample_gives_its_oldest() -> None:
    """With a sample as large as the array, what leaves is among what was drawn, oldest first, each once."""
    table = BlockTable(1)
    policy = RandomLruPolicy(table, 0, RandomLruParams(), batch=4)
    filled(policy, table, [4, 3, 2, 1])
    random = Xorshift64(FIRST_STATE)
    drawn = [random.below(4) for _ in range(4)]

    victims = policy.evict(4)

    assert victims == sorted(set(drawn), reverse=True)
    assert len(policy) == 4 - len(victims)


def test_the_last_block_fills_the_gap() -> None:
    """The array stays dense."""
    table = BlockTable(1)
    policy = RandomLruPolicy(table, 0, RandomLruParams(sample_rate=0), batch=1)
    filled(policy, table, [1, 2, 3])

    policy.leave(0)

    assert policy.save()["blocks"] == [2, 1]


def test_a_large_rate_is_a_sample_of_nothing() -> None:
    """The sample is batch / rate, rounded down: with none drawn, none leaves."""
    table = BlockTable(1)
    policy = RandomLruPolicy(table, 0, RandomLruParams(sample_rate=3), batch=2)
    filled(policy, table, [1, 2])

    assert policy.evict(2) == []


def test_ttl_without_fallback_does_not_yield() -> None:
    """Pressure alone evicts nothing from a pure TTL cache."""
    table = BlockTable(1)

    assert TtlPolicy(table, 0, TtlParams()).yields_to_pressure
    assert not TtlPolicy(table, 0, TtlParams(fallback_on_pressure=False)).yields_to_pressure


class Chains:
    """A leaf-aware policy over written paths."""

    def __init__(self) -> None:
        self.table = BlockTable(1)
        self.tree = RadixTree(self.table)
        self.policy = LeafAwareLruPolicy(self.table, 0, self.tree)

    def write(self, path: str, *, now: int) -> list[int]:
        """Write a path of letters."""
        blocks = self.table.intern([ord(letter) for letter in path])
        self.tree.insert(blocks)
        for block in blocks:
            if not self.table.holds(block, 0):
                self.table.put(block, 0, now=now)
                self.policy.enter(block)
        return blocks

    def evict(self, count: int) -> str:
        """Last letters of the victims."""
        return "".join(chr(self.table.index.keys[block]) for block in self.policy.evict(count))


def test_leaves_go_before_what_they_hang_on() -> None:
    """Inner nodes are not evictable; they become so, by their age, when their last cached child goes."""
    chains = Chains()
    chains.write("ab", now=1)
    chains.write("abcd", now=2)
    chains.write("abx", now=3)

    assert chains.evict(3) == "cdx"
    assert chains.evict(9) == "ab"
    assert len(chains.policy) == 0


def test_a_parent_is_listed_again_where_its_time_belongs() -> None:
    """A younger parent stands in front of older leaves, an older one behind younger leaves."""
    chains = Chains()
    a, _ = chains.write("ab", now=1)
    chains.write("ax", now=2)
    chains.write("z", now=4)
    chains.table.tier_time[0][a] = 3

    assert chains.evict(4) == "bxaz"


def test_a_leaf_that_got_children_is_unlisted() -> None:
    """A block that was listed as a leaf is passed over once its node has a cached child."""
    chains = Chains()
    chains.write("a", now=1)
    chains.write("q", now=1)
    chains.write("ab", now=2)
    chains.write("ac", now=3)

    assert chains.evict(1) == "q"


@pytest.mark.parametrize("kind", ["lru", "random", "leaf"])
def test_what_leaves_for_another_reason_is_forgotten(kind: str) -> None:
    """A block that expired or was cleared does not use room any more."""
    table = BlockTable(1)
    tree = RadixTree(table)
    tree.insert(table.intern([0]))
    tree.insert(table.intern([1]))
    policies: dict[str, Policy] = {
        "lru": LruPolicy(table, 0, LruParams()),
        "random": RandomLruPolicy(table, 0, RandomLruParams(), batch=2),
        "leaf": LeafAwareLruPolicy(table, 0, tree),
    }
    policy = policies[kind]
    filled(policy, table, [1, 2])

    policy.leave(0)

    assert len(policy) == 1
    assert policy.evict(2) == [1]
