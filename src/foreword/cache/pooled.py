"""An instance whose blocks are vLLM's pool: requests take blocks and give them back whole (cache/pool.py).

A read touches what it hits as a request that ends at once would; the write of a request is the request itself, with
its unfilled last block and the rule that its last token is computed. A write without a read stores what is absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.group import CacheGroup, Lookup, WriteOutcome
from foreword.cache.policies.vllm import VllmPolicy
from foreword.cache.rules import hit_limit_blocks
from foreword.config.replay import VllmInstance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.cache.instance import InstanceCache, Tracking
    from foreword.config.replay import InstanceGroup, ReplayConfig


class PooledGroup(CacheGroup):
    """A group of one instance, in one tier."""

    def write(
        self, instance: InstanceCache, keys: Sequence[int], *, now: int, ttl_us: int = 0, input_tokens: int = 0
    ) -> WriteOutcome:
        """Run a request to its end; one that the pool cannot hold changes nothing and counts as over quota."""
        self._begin(instance, now)
        path, size, policy = instance.path_for_write(keys), instance.config.block_size, _policy_of(instance)
        limit = hit_limit_blocks(input_tokens, size) if input_tokens else len(path)
        lease = policy.pool.acquire(path, hit_limit_blocks=limit, private_blocks=int(input_tokens % size > 0))
        if lease is None:
            self.over_quota_checks += 1
            return WriteOutcome(0, 0)
        written = len(path) - lease.hit_blocks
        self._bury(instance, policy, now)
        instance.path_for_write(keys)
        for block in path:
            if not instance.table.held[block]:
                instance.begin_life(block, now=now, ttl_ns=self.ttl_ns(ttl_us))
                instance.enter(block, 0, now=now)
        policy.pool.release(lease)
        instance.traffic[0].written += written
        return WriteOutcome(written, lease.hit_blocks)

    def _match(self, instance: InstanceCache, lookup: Lookup) -> tuple[list[int], int, int]:
        """Leading hits without the last token's block, which take their place in the queue."""
        limit = hit_limit_blocks(lookup.input_tokens, instance.config.block_size)
        cut = Lookup(lookup.keys[:limit], lookup.mask, lookup.now, lookup.input_tokens)
        hits, local, remote = super()._match(instance, cut)
        _policy_of(instance).pool.touch(hits)
        return hits, local, remote

    def _bury(self, instance: InstanceCache, policy: VllmPolicy, now: int) -> None:
        """Take blocks out of the tier whose last copy made room; one that the request stores again lives on."""
        instance.traffic[0].evicted += len(policy.evicted)
        gone = [block for block in dict.fromkeys(policy.evicted) if block not in policy.pool]
        for block in gone:
            instance.table.drop(block, 0)
        policy.evicted.clear()
        instance.bury(gone, now=now)


def group_of(group: InstanceGroup, config: ReplayConfig, *, tracking: Tracking) -> CacheGroup:
    """The caches of a group, empty."""
    kind = PooledGroup if isinstance(group.instances[0], VllmInstance) else CacheGroup
    return kind(group, config, tracking=tracking)


def _policy_of(instance: InstanceCache) -> VllmPolicy:
    policy = instance.policies[0]
    if not isinstance(policy, VllmPolicy):
        raise TypeError(f"{instance.config.instance_id} has no pool")
    return policy
