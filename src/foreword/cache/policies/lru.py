"""Least recently used first, in shards (spec: replay B2.7, lru)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy
from foreword.cache.selection import partial_sort

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State
    from foreword.config.replay import LruParams

_UINT64_MASK = 2**64 - 1


class LruPolicy(Policy):
    """Recency lists by key modulo shards, least recent first; one shard without amplification is exact LRU."""

    def __init__(self, table: BlockTable, tier: int, params: LruParams) -> None:
        super().__init__(table, tier)
        self._params = params
        self._shards: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(params.shard_count)]

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    def enter(self, block: int) -> None:
        """Join the recent end of its shard."""
        self._shard(block)[block] = None

    def touch(self, block: int) -> None:
        """Move to the recent end of its shard."""
        self._shard(block).move_to_end(block)

    def leave(self, block: int) -> None:
        """Forget the block."""
        del self._shard(block)[block]

    def evict(self, count: int) -> list[int]:
        """Take candidates from the tails of the stalest shards; the oldest go, the others return to their tails."""
        victims = self._candidates(count)
        if len(victims) > count:
            partial_sort(victims, count, time=self._time)
            for block in victims[count:]:
                shard = self._shard(block)
                shard[block] = None
                shard.move_to_end(block, last=False)
            del victims[count:]
        for block in victims:
            self._table.drop(block, self._tier)
        return victims

    def save(self) -> State:
        """The shards, each from its least recent block."""
        return {"shards": [list(shard) for shard in self._shards]}

    def load(self, state: State) -> None:
        """Take over the shards."""
        self._shards = [OrderedDict.fromkeys(shard) for shard in state["shards"]]

    def _candidates(self, count: int) -> list[int]:
        wanted = max(count, int(max(self._params.eviction_amplification_factor, 1.0) * count))
        rounds = min(self._params.sample_times, self._params.shard_count)
        share = -(-wanted // rounds)
        taken: list[int] = []
        for _ in range(rounds):
            shard = self._stalest()
            if shard is None or len(taken) >= wanted:
                break
            taken.extend(shard.popitem(last=False)[0] for _ in range(min(share, len(shard))))
        return taken

    def _stalest(self) -> OrderedDict[int, None] | None:
        """The shard whose least recent block is oldest; of equal ones the first."""
        filled = [shard for shard in self._shards if shard]
        return min(filled, key=lambda shard: self._time(next(iter(shard))), default=None)

    def _shard(self, block: int) -> OrderedDict[int, None]:
        return self._shards[(self._table.index.keys[block] & _UINT64_MASK) % len(self._shards)]
