"""First in, first out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State


class FifoPolicy(Policy):
    """A queue in the order in which blocks came into the tier."""

    def __init__(self, table: BlockTable, tier: int) -> None:
        super().__init__(table, tier)
        self._queue: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def enter(self, block: int) -> None:
        """Join the end of the queue."""
        self._queue[block] = None

    def touch(self, block: int) -> None:
        """Use changes nothing."""

    def leave(self, block: int) -> None:
        """Forget the block."""
        del self._queue[block]

    def evict(self, count: int) -> list[int]:
        """Take what came first."""
        victims = list(self._queue)[:count]
        for block in victims:
            self.leave(block)
            self._table.drop(block, self._tier)
        return victims

    def save(self) -> State:
        """The queue from its front."""
        return {"queue": list(self._queue)}

    def load(self, state: State) -> None:
        """Take over the queue."""
        self._queue = dict.fromkeys(state["queue"])
