"""vLLM's pool as the policy of an instance; ``cache/pooled.py`` reads and writes through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy
from foreword.cache.pool import BlockPool

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State


class VllmPolicy(Policy):
    """Blocks by path in a pool that makes room by itself, whatever asks for it."""

    yields_to_pressure = False

    def __init__(self, table: BlockTable, tier: int, capacity_blocks: int | None) -> None:
        super().__init__(table, tier)
        self.evicted: list[int] = []
        """Blocks that made room since this list was last emptied, once for each time."""
        self.pool = BlockPool(capacity_blocks, on_eviction=self.evicted.append)

    def __len__(self) -> int:
        return self.pool.cached_blocks

    def enter(self, block: int) -> None:
        """Nothing: the pool has it."""

    def touch(self, block: int) -> None:
        """Nothing: the pool has put it in its place with the rest of its path."""

    def leave(self, block: int) -> None:
        """Forget the block."""
        self.pool.discard(block)

    def evict(self, count: int) -> list[int]:  # noqa: ARG002 - the pool is never too full
        """Nothing: the pool keeps to its capacity."""
        return []

    def save(self) -> State:
        """The pool."""
        return self.pool.save()

    def load(self, state: State) -> None:
        """Take over the pool."""
        self.pool.load(state)
