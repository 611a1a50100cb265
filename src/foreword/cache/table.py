"""What is known of each block of an instance, as columns over its dense ids.

Times are in nanoseconds. A column of a tier holds old values while the block is not in that tier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreword.cache.paths import PathIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

State = dict[str, Any]
"""A part of a saved replay: JSON without floats."""

NEVER = -1
"""The TTL of a block that does not expire."""

_COLUMNS = ("held", "reads", "last_access", "ttl", "anchor")
_TIERED = ("tier_time", "tier_reads")


class BlockTable:
    """Residency, recency and life of blocks: ``held`` is the set of tiers as bits, ``reads`` counts read hits."""

    def __init__(self, tiers: int) -> None:
        self.tiers = tiers
        self.index = PathIndex()
        self.held: list[int] = []
        self.reads: list[int] = []
        self.last_access: list[int] = []
        self.ttl: list[int] = []
        self.anchor: list[int] = []
        self.tier_time: list[list[int]] = [[] for _ in range(tiers)]
        self.tier_reads: list[list[int]] = [[] for _ in range(tiers)]

    def intern(self, keys: Sequence[int]) -> list[int]:
        """Ids of a path; columns grow with them."""
        path = self.index.intern(keys)
        for _ in range(len(self.index) - len(self.held)):
            for column in self._columns():
                column.append(0)
        return path

    def put(self, block: int, tier: int, *, now: int) -> None:
        """Place a block in a tier; its reads there count from zero."""
        self.held[block] |= 1 << tier
        self.tier_time[tier][block] = now
        self.tier_reads[tier][block] = 0

    def drop(self, block: int, tier: int) -> None:
        """Take a block out of a tier."""
        self.held[block] &= ~(1 << tier)

    def holds(self, block: int, tier: int) -> bool:
        """Whether a tier has the block."""
        return bool(self.held[block] >> tier & 1)

    def tiers_of(self, block: int) -> list[int]:
        """The tiers that hold a block, nearest first."""
        return [tier for tier in range(self.tiers) if self.holds(block, tier)]

    def first_tier(self, block: int) -> int:
        """The nearest tier that holds a block that some tier holds."""
        bits = self.held[block]
        return (bits & -bits).bit_length() - 1

    def save(self) -> State:
        """All columns, as a document."""
        plain = {name: list(getattr(self, name)) for name in _COLUMNS}
        tiered = {name: [list(column) for column in getattr(self, name)] for name in _TIERED}
        return {"keys": list(self.index.keys), "parents": list(self.index.parents), **plain, **tiered}

    def load(self, state: State) -> None:
        """Become the table that was saved."""
        self.index = PathIndex.of(state["keys"], state["parents"])
        for name in _COLUMNS:
            setattr(self, name, list(state[name]))
        for name in _TIERED:
            setattr(self, name, [list(column) for column in state[name]])

    def _columns(self) -> list[list[int]]:
        return [self.held, self.reads, self.last_access, self.ttl, self.anchor, *self.tier_time, *self.tier_reads]
