"""Least frequently used first; of equal counts, the least recently used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State


class LfuPolicy(Policy):
    """Blocks by the number of touches since they came into the tier, each number in the order of use."""

    def __init__(self, table: BlockTable, tier: int) -> None:
        super().__init__(table, tier)
        self._touches: dict[int, int] = {}
        self._by_touches: dict[int, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._touches)

    def enter(self, block: int) -> None:
        """Count from nothing."""
        self._place(block, 0)

    def touch(self, block: int) -> None:
        """Count one more."""
        touches = self._touches[block]
        self.leave(block)
        self._place(block, touches + 1)

    def leave(self, block: int) -> None:
        """Forget the block and its count."""
        touches = self._touches.pop(block)
        del self._by_touches[touches][block]
        if not self._by_touches[touches]:
            del self._by_touches[touches]

    def evict(self, count: int) -> list[int]:
        """Take the least used, of these the least recent."""
        victims: list[int] = []
        while len(victims) < count and self._touches:
            victims.append(next(iter(self._by_touches[min(self._by_touches)])))
            self.leave(victims[-1])
            self._table.drop(victims[-1], self._tier)
        return victims

    def save(self) -> State:
        """Counts, the next to go first."""
        return {"touches": [[block, n] for n, blocks in sorted(self._by_touches.items()) for block in blocks]}

    def load(self, state: State) -> None:
        """Take over the counts."""
        self._touches, self._by_touches = {}, {}
        for block, touches in state["touches"]:
            self._place(block, touches)

    def _place(self, block: int, touches: int) -> None:
        self._touches[block] = touches
        self._by_touches.setdefault(touches, {})[block] = None
