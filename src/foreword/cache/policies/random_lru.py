"""The oldest of a random sample first (spec: replay B2.7, random_lru)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy
from foreword.cache.selection import partial_sort

if TYPE_CHECKING:
    from foreword.cache.table import BlockTable, State
    from foreword.config.replay import RandomLruParams

FIRST_STATE = 0x12345678ABCDEF01
"""Where the reference's generator starts."""

_UINT64_MASK = 2**64 - 1
_LEAST_RATE = 0.1


def sample_size(params: RandomLruParams, batch: int) -> int:
    """Blocks that are drawn for a batch: the smaller the rate, the more."""
    return int(batch / (params.sample_rate if params.sample_rate > 0 else _LEAST_RATE))


class Xorshift64:
    """Marsaglia's 64-bit xorshift with the triple 13, 7, 17."""

    def __init__(self, state: int) -> None:
        self.state = state

    def below(self, limit: int) -> int:
        """Advance, and reduce the state modulo the limit."""
        state = self.state
        state ^= state << 13 & _UINT64_MASK
        state ^= state >> 7
        state ^= state << 17 & _UINT64_MASK
        self.state = state
        return state % limit


class RandomLruPolicy(Policy):
    """A dense array of blocks, sampled with replacement; the last block fills the gap of one that goes."""

    def __init__(
        self, table: BlockTable, tier: int, params: RandomLruParams, *, batch: int, seed: int = FIRST_STATE
    ) -> None:
        super().__init__(table, tier)
        self._sample_size = sample_size(params, batch)
        self._random = Xorshift64(seed)
        self._blocks: list[int] = []
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def enter(self, block: int) -> None:
        """Take the last place."""
        self._places[block] = len(self._blocks)
        self._blocks.append(block)

    def touch(self, block: int) -> None:
        """Nothing moves: the tier's time of the block is all that counts."""

    def leave(self, block: int) -> None:
        """Give the place to the last block."""
        place = self._places.pop(block)
        last = self._blocks.pop()
        if last != block:
            self._blocks[place] = last
            self._places[last] = place

    def evict(self, count: int) -> list[int]:
        """Draw a sample and evict its oldest; what was drawn twice goes once."""
        resident = len(self._blocks)
        drawn = [self._blocks[self._random.below(resident)] for _ in range(min(self._sample_size, resident))]
        wanted = min(count, len(drawn))
        partial_sort(drawn, wanted, time=self._time)
        victims = list(dict.fromkeys(drawn[:wanted]))
        for block in victims:
            self.leave(block)
            self._table.drop(block, self._tier)
        return victims

    def save(self) -> State:
        """The array and the generator."""
        return {"blocks": list(self._blocks), "random": self._random.state}

    def load(self, state: State) -> None:
        """Take over the array and the generator."""
        self._blocks = list(state["blocks"])
        self._places = {block: place for place, block in enumerate(self._blocks)}
        self._random = Xorshift64(state["random"])
