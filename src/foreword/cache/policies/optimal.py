"""Belady's bound: evict what is read again last (Belady 1966; Mattson et al. 1970).

A read of a block is a read of all blocks before it in its path, so that the block that goes is never one that a cached
one needs: the bound holds for prefix hits as for single blocks. Of blocks that are never read again, or by the same
read, the end of a path goes first.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from foreword.cache.foresight import Foresight
from foreword.cache.policies.base import Policy

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State


class OptimalPolicy(Policy):
    """A heap of next reads; an entry whose read has passed is met by a newer one of the same block."""

    def __init__(self, table: BlockTable, tier: int) -> None:
        super().__init__(table, tier)
        self.foresight = Foresight()
        self._blocks: set[int] = set()
        self._latest: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._blocks)

    def enter(self, block: int) -> None:
        """Take its place by the next read."""
        self._blocks.add(block)
        self._push(block)

    def touch(self, block: int) -> None:
        """Nothing: what is read is known already."""

    def leave(self, block: int) -> None:
        """Forget the block."""
        self._blocks.remove(block)

    def evict(self, count: int) -> list[int]:
        """Take what is read again last."""
        for block in self.foresight.passed():
            if block in self._blocks:
                self._push(block)
        victims: list[int] = []
        while len(victims) < count and self._blocks:
            next_read, block = heapq.heappop(self._latest)
            if block_of(block) in self._blocks and -next_read == self.foresight.next_read(block_of(block)):
                victims.append(block_of(block))
                self.leave(victims[-1])
                self._table.drop(victims[-1], self._tier)
        return victims

    def save(self) -> State:
        """The blocks; what comes is not part of a state."""
        return {"blocks": sorted(self._blocks)}

    def load(self, state: State) -> None:
        """Take over the blocks."""
        self._blocks, self._latest = set(state["blocks"]), []

    def _push(self, block: int) -> None:
        heapq.heappush(self._latest, (-self.foresight.next_read(block), -block))


def block_of(entry: int) -> int:
    """The block of an entry, in which the end of a path, the greater number, comes first."""
    return -entry
