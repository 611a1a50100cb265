"""What a tier asks of a policy. There is one policy object for each instance and tier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State


class Policy(ABC):
    """An order over the blocks of one instance in one tier; block times are read from the table."""

    yields_to_pressure = True
    """Whether a capacity that is exceeded makes blocks leave."""

    def __init__(self, table: BlockTable, tier: int) -> None:
        self._table = table
        self._tier = tier

    @abstractmethod
    def __len__(self) -> int:
        """Blocks that use room in the tier."""

    @abstractmethod
    def enter(self, block: int) -> None:
        """Take in a block that has just been placed in the tier, as the most recent."""

    @abstractmethod
    def touch(self, block: int) -> None:
        """Make a block that is in the tier the most recent."""

    @abstractmethod
    def leave(self, block: int) -> None:
        """Forget a block that leaves for another reason than pressure."""

    @abstractmethod
    def evict(self, count: int) -> list[int]:
        """Choose up to ``count`` blocks and take them out of the tier, in order; possibly fewer than there are."""

    @abstractmethod
    def save(self) -> State:
        """The order, as a document."""

    @abstractmethod
    def load(self, state: State) -> None:
        """Take over an order that was saved."""

    def _time(self, block: int) -> int:
        return self._table.tier_time[self._tier][block]
