"""vLLM's pool of blocks as a list of single blocks: slow, and too simple to be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

K = TypeVar("K", bound=Hashable)


class PoolModel(Generic[K]):
    """vLLM's blocks one by one: a list that is the free queue, the key of each block, and how many hold it."""

    def __init__(self, capacity: int) -> None:
        self.queue = list(range(capacity))
        self.keyed: list[tuple[int, K]] = []
        self.held: Counter[int] = Counter()

    def with_key(self, key: K) -> list[int]:
        """Blocks that have a key, from the one that got it first."""
        return [block for block, own in self.keyed if own == key]

    def admit(self, keys: Sequence[K], limit: int, private: int) -> tuple[int, list[int]] | None:
        """Hit blocks, and all blocks that the request holds; nothing if it does not fit."""
        blocks: list[int] = []
        for key in keys[:limit]:
            if not self.with_key(key):
                break
            blocks.append(self.with_key(key)[0])
        hit, wanted = len(blocks), len(keys) - len(blocks) + private
        free = [block for block in self.queue if block not in blocks]
        if wanted > len(free):
            return None
        self.queue = free[wanted:]
        blocks += free[:wanted]
        self.keyed = [pair for pair in self.keyed if pair[0] not in free[:wanted]]
        self.keyed += zip(blocks[hit:], keys[hit:], strict=False)
        self.held.update(blocks)
        return hit, blocks

    def grow(self) -> int | None:
        """One more block for a running request."""
        admitted = self.admit([], 0, 1)
        return None if admitted is None else admitted[1][0]

    def finish(self, blocks: list[int]) -> None:
        """Keyed blocks go to the end of the queue, the last of the chain first; the others to its front."""
        self.held.subtract(blocks)
        free = [block for block in reversed(blocks) if not self.held[block]]
        has_key = dict(self.keyed)
        self.queue = [block for block in free if block not in has_key] + self.queue
        self.queue += [block for block in free if block in has_key]

    def used(self) -> int:
        """Blocks that are held."""
        return len(+self.held)
