"""Instances that share capacities: what a read and a write do, and who makes room (spec: replay B2.4 to B2.8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.cache.instance import InstanceCache, PolicyOptions
from foreword.cache.masks import masked
from foreword.cache.table import NEVER
from foreword.cache.tiers import edges_of, tiers_of, written_tiers
from foreword.config.replay import EvictionMode, MaskSemantics, TouchOrder, WriteMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.cache.instance import Tracking
    from foreword.cache.masks import BlockMask
    from foreword.cache.table import State
    from foreword.config.replay import InstanceGroup, ReplayConfig

_NS_PER_S, _NS_PER_US = 10**9, 10**3

Victims = list[tuple[InstanceCache, int]]
"""Blocks that were evicted from one tier, in that order."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A read at a time in nanoseconds, of a prompt of so many tokens."""

    keys: Sequence[int]
    mask: BlockMask
    now: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class ReadOutcome:
    """Hits of a read in blocks, local and remote and by tier, and what each tier holds of the instance after it."""

    local_blocks: int
    remote_blocks: int
    tier_blocks: tuple[int, ...]
    cached_blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write found: blocks that it brought in, and blocks that were there."""

    written_blocks: int
    present_blocks: int


class CacheGroup:
    """A group of instances under shared quotas."""

    def __init__(self, group: InstanceGroup, config: ReplayConfig, *, tracking: Tracking) -> None:
        self.name = group.group_name
        self.tiers = tiers_of(group)
        self.edges = edges_of(group)
        self.over_quota_checks = 0
        eviction = config.eviction_params
        options = PolicyOptions(
            eviction.eviction_batch_size_per_instance, config.trace_replay.random_seed, self.tiers[0].quota_bytes
        )
        self.instances = [
            InstanceCache(instance, len(self.tiers), options, tracking=tracking) for instance in group.instances
        ]
        self._mode, self._batch = eviction.eviction_mode, eviction.eviction_batch_size_per_instance
        self._tail_first = config.trace_replay.touch_order is TouchOrder.TAIL_FIRST
        self._write_refresh = config.trace_replay.write_refresh
        self._trusted = config.trace_replay.block_mask_semantics is MaskSemantics.TRUSTED
        self._default_ttl_s, self.ttl_refresh = group.default_block_ttl_seconds, group.ttl_refresh_on_read
        self.written_tiers = written_tiers(self.edges)
        self._counts_node_reads = tracking.tree
        self._clock_ns = 0

    def read(self, instance: InstanceCache, lookup: Lookup) -> ReadOutcome:
        """Match a path, make what it hits recent, and copy between tiers."""
        self._begin(instance, lookup.now)
        if instance.foresight is not None:
            instance.foresight.advance()
        hits, local, remote = self._match(instance, lookup)
        tiers = [0] * len(self.tiers)
        copied = False
        for block in reversed(hits) if self._tail_first else hits:
            tier = instance.table.first_tier(block)
            tiers[tier] += 1
            copied |= self._hit(instance, block, tier, now=lookup.now)
        if self._counts_node_reads:
            instance.tree.count_read(hits)
        if copied:
            self._make_room(instance, lookup.now)
        return ReadOutcome(local, remote, tuple(tiers), instance.cached_blocks)

    def write(
        self,
        instance: InstanceCache,
        keys: Sequence[int],
        *,
        now: int,
        ttl_us: int = 0,
        input_tokens: int = 0,  # noqa: ARG002 - a pool needs to know
    ) -> WriteOutcome:
        """Bring in the blocks of a path that no tier has, and make room for them."""
        self._begin(instance, now)
        path = instance.path_for_write(keys)
        absent = {block for block in path if not instance.table.held[block]}
        ttl_ns = self.ttl_ns(ttl_us)
        for block in path:
            if block in absent:
                instance.begin_life(block, now=now, ttl_ns=ttl_ns)
        for block in reversed(path) if self._tail_first else path:
            if block in absent:
                self._bring_in(instance, block, now)
            elif self._write_refresh:
                for tier in instance.table.tiers_of(block):
                    instance.touch(block, tier, now=now)
        self._make_room(instance, now)
        return WriteOutcome(len(absent), len(path) - len(absent))

    def save(self) -> State:
        """Everything that a later read or write depends on."""
        return {
            "group_name": self.name,
            "clock_ns": self._clock_ns,
            "over_quota_checks": self.over_quota_checks,
            "instances": [instance.save() for instance in self.instances],
        }

    def load(self, state: State) -> None:
        """Become the group that was saved under the same config."""
        self._clock_ns = state["clock_ns"]
        self.over_quota_checks = state["over_quota_checks"]
        for instance, saved in zip(self.instances, state["instances"], strict=True):
            instance.load(saved)

    def _begin(self, instance: InstanceCache, now: int) -> None:
        """Let what has expired go, in the whole group, by the latest time that it has seen."""
        self._clock_ns = max(self._clock_ns, now)
        instance.last_seen_ns = max(instance.last_seen_ns, now)
        for each in self.instances:
            if each.expires:
                each.expire(self._clock_ns)

    def _match(self, instance: InstanceCache, lookup: Lookup) -> tuple[list[int], int, int]:
        """Held blocks of the leading hits, and local and remote hits; trusted ones need not be held."""
        held, known = instance.table.held, instance.table.index.known(lookup.keys)
        hits: list[int] = []
        local = remote = 0
        for index in range(len(lookup.keys)):
            block = next(known, None)
            is_local = masked(lookup.mask, index)
            if block is not None and held[block]:
                hits.append(block)
            elif not (self._trusted and is_local):
                break
            local += is_local
            remote += not is_local
        return hits, local, remote

    def _hit(self, instance: InstanceCache, block: int, tier: int, *, now: int) -> bool:
        """What one hit sets off in its tier and the others; whether a copy was made."""
        instance.read_hit(block, tier, now=now, refresh=self.ttl_refresh)
        self._propagate(instance, block, tier, now=now)
        went_down = self._copy_down(instance, block, tier, now=now)
        return self._promote(instance, block, tier, now=now) or went_down

    def _propagate(self, instance: InstanceCache, block: int, tier: int, *, now: int) -> None:
        """Refresh farther copies, until an edge that does not propagate is crossed."""
        for below in range(tier + 1, len(self.tiers)):
            if not self.edges[below - 1].propagates_access:
                return
            if instance.table.holds(block, below):
                instance.touch(block, below, now=now)

    def _copy_down(self, instance: InstanceCache, block: int, tier: int, *, now: int) -> bool:
        """Copy a block that has been read often enough across the selective edge below its tier."""
        edge = self.edges[tier] if tier < len(self.edges) else None
        if edge is None or edge.write_mode is not WriteMode.SELECTIVE:
            return False
        if instance.table.tier_reads[tier][block] < edge.threshold:
            return False
        targets = [t for t in self._reached_below(tier) if not instance.table.holds(block, t)]
        for target in targets:
            instance.copy(block, target, now=now)
            instance.traffic[target].copied_down += 1
        return bool(targets)

    def _promote(self, instance: InstanceCache, block: int, tier: int, *, now: int) -> bool:
        """Copy a block to nearer tiers, until an edge that does not promote is met."""
        promoted = False
        for above in range(tier - 1, -1, -1):
            if not self.edges[above].promotes:
                break
            instance.copy(block, above, now=now)
            instance.traffic[above].promoted += 1
            promoted = True
        return promoted

    def _bring_in(self, instance: InstanceCache, block: int, now: int) -> None:
        for tier in range(self.written_tiers):
            instance.enter(block, tier, now=now)
            instance.traffic[tier].written += 1

    def _reached_below(self, tier: int) -> Iterator[int]:
        """The next tier, and on across write-through edges."""
        yield tier + 1
        for below in range(tier + 1, len(self.edges)):
            if self.edges[below].write_mode is not WriteMode.WRITE_THROUGH:
                return
            yield below + 1

    def ttl_ns(self, ttl_us: int) -> int:
        """TTL of a write: none where the group has none, else the write's own or the group's; negative is never."""
        if self._default_ttl_s == 0 or ttl_us < 0:
            return NEVER
        ttl_ns = ttl_us * _NS_PER_US if ttl_us > 0 else self._default_ttl_s * _NS_PER_S
        return max(ttl_ns, NEVER)

    def _make_room(self, actor: InstanceCache, now: int) -> None:
        """Check each tier from the nearest; what a cascading edge takes over counts in the next tier's check."""
        for tier in range(len(self.tiers)):
            victims = self._evict(tier, actor)
            for instance, _ in victims:
                instance.traffic[tier].evicted += 1
            if tier < len(self.edges) and self.edges[tier].write_mode is WriteMode.CASCADING:
                self._demote(victims, tier, now)
            for instance in self.instances:
                instance.bury([block for owner, block in victims if owner is instance], now=now)

    def _demote(self, victims: Victims, tier: int, now: int) -> None:
        for instance, block in victims:
            for target in self._reached_below(tier):
                if not instance.table.holds(block, target):
                    instance.copy(block, target, now=now)
                    instance.traffic[target].demoted += 1

    def _evict(self, tier: int, actor: InstanceCache) -> Victims:
        """Evict from a tier until its quota holds, or nobody has anything left to give."""
        excess = self._excess_bytes(tier)
        if excess <= 0:
            return []
        victims: Victims = []
        givers = self.instances if self._mode is EvictionMode.GROUP_ROUGH else [actor]
        freed = 0
        while freed < excess:
            chosen = [pair for giver in givers for pair in self._give(giver, tier, excess - freed)]
            if not chosen:
                self.over_quota_checks += any(giver.policies[tier].yields_to_pressure for giver in givers)
                break
            victims.extend(chosen)
            freed += sum(giver.bytes_per_block for giver, _ in chosen)
        return victims

    def _give(self, instance: InstanceCache, tier: int, missing_bytes: int) -> Victims:
        """One batch of an instance; no more than what is missing in the precise mode."""
        policy = instance.policies[tier]
        if not policy.yields_to_pressure:
            return []
        count = self._batch
        if self._mode is EvictionMode.INSTANCE_PRECISE:
            count = min(count, -(-missing_bytes // instance.bytes_per_block))
        return [(instance, block) for block in policy.evict(count)]

    def _excess_bytes(self, tier: int) -> int:
        quota = self.tiers[tier].quota_bytes
        if quota is None:
            return 0
        return sum(len(each.policies[tier]) * each.bytes_per_block for each in self.instances) - quota
