"""S3-FIFO: three queues (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023).

The sizes of the queues are shares of what is resident, since a policy does not know its capacity. A block stands in the
ghost queue as long as fewer blocks than fit into it were put there after it, as in the paper's implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State
    from foreword.config.replay import S3FifoParams

MOST_TOUCHES = 3


class S3FifoPolicy(Policy):
    """New blocks enter the small queue, those that the ghost remembers the main one."""

    def __init__(self, table: BlockTable, tier: int, params: S3FifoParams) -> None:
        super().__init__(table, tier)
        self._params = params
        self._small: dict[int, None] = {}
        self._main: dict[int, None] = {}
        self._touches: dict[int, int] = {}
        self._ghost: dict[int, int] = {}
        self._ghosts = 0

    def __len__(self) -> int:
        return len(self._small) + len(self._main)

    def enter(self, block: int) -> None:
        """Join the small queue, or the main one where the block was evicted from the small one not long ago."""
        room = int(self._params.ghost_ratio * len(self))
        number = self._ghost.pop(block, None)
        remembered = number is not None and self._ghosts - number < room
        (self._main if remembered else self._small)[block] = None
        self._touches[block] = 0

    def touch(self, block: int) -> None:
        """Count up to three."""
        self._touches[block] = min(self._touches[block] + 1, MOST_TOUCHES)

    def leave(self, block: int) -> None:
        """Forget the block."""
        del (self._small if block in self._small else self._main)[block]
        del self._touches[block]

    def evict(self, count: int) -> list[int]:
        """One after another: from the small queue while it has its share, else from the main one."""
        victims: list[int] = []
        while len(victims) < count and len(self):
            from_small = len(self._small) >= self._params.small_ratio * len(self) or not self._main
            victim = self._evict_small() if from_small else self._evict_main()
            if victim is not None:
                del self._touches[victim]
                self._table.drop(victim, self._tier)
                victims.append(victim)
        return victims

    def save(self) -> State:
        """Queues from their fronts, with the touches of each block, and the ghost."""
        queues = {
            name: [[block, self._touches[block]] for block in queue]
            for name, queue in (("small", self._small), ("main", self._main))
        }
        return {
            **queues,
            "ghost": sorted([number, block] for block, number in self._ghost.items()),
            "ghosts": self._ghosts,
        }

    def load(self, state: State) -> None:
        """Take over the queues."""
        self._small = dict.fromkeys(block for block, _ in state["small"])
        self._main = dict.fromkeys(block for block, _ in state["main"])
        self._touches = dict([*state["small"], *state["main"]])
        self._ghost = {block: number for number, block in state["ghost"]}
        self._ghosts = state["ghosts"]

    def _evict_small(self) -> int | None:
        """The first that was not touched often enough; those before it move to the main queue."""
        while self._small:
            block = next(iter(self._small))
            del self._small[block]
            if self._touches[block] < self._params.move_threshold:
                self._ghosts += 1
                self._ghost[block] = self._ghosts
                return block
            self._main[block] = None
            self._touches[block] = 0
        return None

    def _evict_main(self) -> int:
        """The first that was not touched; those before it go round with one touch less."""
        while True:
            block = next(iter(self._main))
            del self._main[block]
            if not self._touches[block]:
                return block
            self._main[block] = None
            self._touches[block] -= 1
