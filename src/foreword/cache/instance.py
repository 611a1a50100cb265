"""One instance's blocks in all tiers: entering, touching, leaving, expiring.

What is done to which block, and when, stands with the group; here is how.
"""

from __future__ import annotations

import heapq
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from foreword.cache.lifecycle import Lifecycle
from foreword.cache.policies.fifo import FifoPolicy
from foreword.cache.policies.leaf_aware_lru import LeafAwareLruPolicy
from foreword.cache.policies.lfu import LfuPolicy
from foreword.cache.policies.lru import LruPolicy
from foreword.cache.policies.optimal import OptimalPolicy
from foreword.cache.policies.random_lru import FIRST_STATE, RandomLruPolicy
from foreword.cache.policies.s3fifo import S3FifoPolicy
from foreword.cache.policies.ttl import TtlPolicy
from foreword.cache.policies.vllm import VllmPolicy
from foreword.cache.radix import RadixTree
from foreword.cache.table import NEVER, BlockTable
from foreword.config.replay import (
    FifoInstance,
    LeafAwareLruInstance,
    LfuInstance,
    LruInstance,
    OptimalInstance,
    RandomLruInstance,
    S3FifoInstance,
    TtlInstance,
    VllmInstance,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foreword.cache.foresight import Foresight
    from foreword.cache.policies.base import Policy
    from foreword.cache.table import State
    from foreword.config.replay import Instance


@dataclass(slots=True)
class Traffic:
    """Blocks that came into a tier, were read from it or left it.

    ``evicted`` counts what pressure took out of the tier; of these, ``demoted`` counts in the tier that took them over.
    """

    read: int = 0
    written: int = 0
    promoted: int = 0
    copied_down: int = 0
    demoted: int = 0
    evicted: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class Tracking:
    """What is recorded beyond hits, since it costs memory."""

    lifecycle: bool = False
    tree: bool = False


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What policies take from outside their instance's own parameters."""

    batch: int
    seed: int | None = None
    quota_bytes: int | None = None
    """Of the nearest tier."""


class InstanceCache:
    """Blocks of an instance, with one policy a tier."""

    def __init__(self, config: Instance, tiers: int, options: PolicyOptions, *, tracking: Tracking) -> None:
        self.config = config
        self.table = BlockTable(tiers)
        self.tree = RadixTree(self.table)
        self.keeps_tree = tracking.tree or isinstance(config, LeafAwareLruInstance)
        self.expires = isinstance(config, TtlInstance)
        self.lifecycle = Lifecycle() if tracking.lifecycle else None
        self.policies = [_policy(self, tier, options) for tier in range(tiers)]
        self.traffic = [Traffic() for _ in range(tiers)]
        self.last_seen_ns = 0
        self._expiries: list[tuple[int, int]] = []

    @property
    def foresight(self) -> Foresight | None:
        """What its policy knows of the reads to come, where it needs that; such an instance has one tier."""
        policy = self.policies[0]
        return policy.foresight if isinstance(policy, OptimalPolicy) else None

    @property
    def cached_blocks(self) -> tuple[int, ...]:
        """Blocks in each tier."""
        return tuple(len(policy) for policy in self.policies)

    @property
    def bytes_per_block(self) -> int:
        """Bytes that a block takes."""
        return self.config.bytes_per_block

    def path_for_write(self, keys: Sequence[int]) -> list[int]:
        """Blocks of a path, known to the index and the tree from now on."""
        path = self.table.intern(keys)
        if self.keeps_tree:
            self.tree.insert(path)
        return path

    def begin_life(self, block: int, *, now: int, ttl_ns: int) -> None:
        """Let a block that no tier has be born; it enters tiers after that."""
        self.table.last_access[block] = now
        self.table.ttl[block] = ttl_ns
        self._set_anchor(block, now)
        if self.lifecycle is not None:
            self.lifecycle.begin(block, now)

    def enter(self, block: int, tier: int, *, now: int) -> None:
        """Place a block in a tier that does not hold it, as the most recent."""
        self.table.put(block, tier, now=now)
        self.policies[tier].enter(block)

    def copy(self, block: int, tier: int, *, now: int) -> None:
        """Let a living block enter one more tier; it lives on from its last access."""
        self.enter(block, tier, now=now)
        self._set_anchor(block, self.table.last_access[block])

    def touch(self, block: int, tier: int, *, now: int) -> None:
        """Make a block the most recent of a tier that holds it."""
        self.table.tier_time[tier][block] = now
        self.policies[tier].touch(block)

    def read_hit(self, block: int, tier: int, *, now: int, refresh: bool) -> None:
        """Count a read that the tier answers."""
        self.table.last_access[block] = now
        self.table.reads[block] += 1
        self.table.tier_reads[tier][block] += 1
        self.touch(block, tier, now=now)
        self.traffic[tier].read += 1
        if refresh:
            self._set_anchor(block, now)
        if self.lifecycle is not None:
            self.lifecycle.access(block, now)

    def expire(self, now: int) -> None:
        """Take out of all tiers what has outlived its time: later than anchor + TTL."""
        gone = []
        while self._expiries and self._expiries[0][0] < now:
            _, block = heapq.heappop(self._expiries)
            actual = self.table.anchor[block] + self.table.ttl[block]
            if not self.table.held[block] or self.table.ttl[block] == NEVER:
                continue
            if actual >= now:
                heapq.heappush(self._expiries, (actual, block))
                continue
            gone.append(block)
            for tier in self.table.tiers_of(block):
                self.traffic[tier].expired += 1
            self._remove(block, at=actual)
        self.prune(gone)

    def clear(self) -> None:
        """Take everything out of all tiers; counts stay."""
        cached = [block for block, held in enumerate(self.table.held) if held]
        for block in cached:
            self._remove(block, at=self.last_seen_ns)
        self.prune(cached)

    def bury(self, evicted: Iterable[int], *, now: int) -> None:
        """End the life of blocks that were evicted and are in no tier now."""
        emptied = [block for block in evicted if not self.table.held[block]]
        if self.lifecycle is not None:
            for block in emptied:
                self.lifecycle.end(block, now)
        self.prune(emptied)

    def prune(self, emptied: Iterable[int]) -> None:
        """Let nodes of the tree go that hold nothing any more."""
        if self.keeps_tree:
            self.tree.prune(emptied)

    def stranded_blocks(self) -> int:
        """Blocks that are cached but cannot be hit, since a block before them is not."""
        table, parents = self.table, self.table.index.parents
        reachable = bytearray(len(parents))
        stranded = 0
        for block, parent in enumerate(parents):
            if table.held[block]:
                reachable[block] = parent < 0 or reachable[parent]
                stranded += not reachable[block]
        return stranded

    def save(self) -> State:
        """Everything that a later read or write depends on."""
        return {
            "table": self.table.save(),
            "tree": self.tree.save(),
            "policies": [policy.save() for policy in self.policies],
            "traffic": [asdict(traffic) for traffic in self.traffic],
            "lifecycle": None if self.lifecycle is None else self.lifecycle.save(),
            "last_seen_ns": self.last_seen_ns,
        }

    def load(self, state: State) -> None:
        """Become the instance that was saved under the same config."""
        self.table.load(state["table"])
        self.tree.load(state["tree"])
        for policy, saved in zip(self.policies, state["policies"], strict=True):
            policy.load(saved)
        self.traffic = [Traffic(**saved) for saved in state["traffic"]]
        if self.lifecycle is not None:
            self.lifecycle.load(state["lifecycle"])
        self.last_seen_ns = state["last_seen_ns"]
        self._expiries = []
        for block, held in enumerate(self.table.held if self.expires else ()):
            if held:
                self._schedule(block)

    def _set_anchor(self, block: int, anchor: int) -> None:
        """Count the TTL from a time; an earlier queue entry moves on when it is met."""
        earlier = anchor < self.table.anchor[block] or not self.table.held[block]
        self.table.anchor[block] = anchor
        if earlier:
            self._schedule(block)

    def _schedule(self, block: int) -> None:
        ttl = self.table.ttl[block]
        if self.expires and ttl != NEVER:
            heapq.heappush(self._expiries, (self.table.anchor[block] + ttl, block))

    def _remove(self, block: int, *, at: int) -> None:
        for tier in self.table.tiers_of(block):
            self.policies[tier].leave(block)
            self.table.drop(block, tier)
        if self.lifecycle is not None:
            self.lifecycle.end(block, at)


def _policy(cache: InstanceCache, tier: int, options: PolicyOptions) -> Policy:
    match cache.config:
        case LruInstance(eviction_policy_params=params):
            return LruPolicy(cache.table, tier, params)
        case TtlInstance(eviction_policy_params=timed):
            return TtlPolicy(cache.table, tier, timed)
        case RandomLruInstance(eviction_policy_params=sampled):
            seed = FIRST_STATE if options.seed is None else options.seed
            return RandomLruPolicy(cache.table, tier, sampled, batch=options.batch, seed=seed)
        case LeafAwareLruInstance():
            return LeafAwareLruPolicy(cache.table, tier, cache.tree)
        case VllmInstance():
            quota = options.quota_bytes
            return VllmPolicy(cache.table, tier, None if quota is None else quota // cache.bytes_per_block)
        case other:
            return _policy_for_comparison(cache, other, tier)


def _policy_for_comparison(
    cache: InstanceCache, config: FifoInstance | LfuInstance | S3FifoInstance | OptimalInstance, tier: int
) -> Policy:
    match config:
        case FifoInstance():
            return FifoPolicy(cache.table, tier)
        case LfuInstance():
            return LfuPolicy(cache.table, tier)
        case S3FifoInstance(eviction_policy_params=queues):
            return S3FifoPolicy(cache.table, tier, queues)
        case OptimalInstance():
            return OptimalPolicy(cache.table, tier)
