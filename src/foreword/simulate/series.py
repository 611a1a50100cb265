"""What an instance's reads came to, row by row, as integer columns; rates and tokens are derived from them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from foreword.cache.group import ReadOutcome
    from foreword.cache.table import State

_COLUMNS = ("timestamp_ns", "read_blocks", "local_blocks", "remote_blocks", "input_tokens", "all_cached_blocks")
_WRITES = ("write_ns", "write_blocks")
_TIERED = ("tier_blocks", "tier_cached_blocks")


def total_of(column: array[int]) -> int:
    """The sum of a column."""
    return int(np.frombuffer(column, np.int64).sum()) if column else 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over reads, and the ratios that they give; sums of instances add up."""

    reads: int = 0
    read_blocks: int = 0
    local_hit_blocks: int = 0
    remote_hit_blocks: int = 0
    input_tokens: int = 0
    local_hit_tokens: int = 0
    remote_hit_tokens: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, name) + getattr(other, name) for name in Totals.__slots__))

    @property
    def hit_blocks(self) -> int:
        """Local and remote hits."""
        return self.local_hit_blocks + self.remote_hit_blocks

    @property
    def hit_tokens(self) -> int:
        """Tokens of local and remote hits."""
        return self.local_hit_tokens + self.remote_hit_tokens

    @property
    def hit_ratio(self) -> float:
        """Hit tokens ÷ input tokens; 0 without input."""
        return ratio(self.hit_tokens, self.input_tokens)


class Series:
    """The reads and writes of one instance. Columns hold int64; a tier's columns come by tier, then by row."""

    def __init__(self, tiers: int) -> None:
        self.timestamp_ns = array("q")
        self.read_blocks = array("q")
        self.local_blocks = array("q")
        self.remote_blocks = array("q")
        self.input_tokens = array("q")
        self.all_cached_blocks = array("q")
        self.tier_blocks = [array("q") for _ in range(tiers)]
        self.tier_cached_blocks = [array("q") for _ in range(tiers)]
        self.write_ns = array("q")
        self.write_blocks = array("q")
        self.new_blocks = 0

    def __len__(self) -> int:
        return len(self.timestamp_ns)

    def add_read(
        self, now: int, outcome: ReadOutcome, *, blocks: int, input_tokens: int, all_cached_blocks: int
    ) -> None:
        """Note a read of so many blocks and input tokens."""
        self.timestamp_ns.append(now)
        self.read_blocks.append(blocks)
        self.input_tokens.append(input_tokens)
        self.local_blocks.append(outcome.local_blocks)
        self.remote_blocks.append(outcome.remote_blocks)
        self.all_cached_blocks.append(all_cached_blocks)
        for tier, hits in enumerate(outcome.tier_blocks):
            self.tier_blocks[tier].append(hits)
            self.tier_cached_blocks[tier].append(outcome.cached_blocks[tier])

    def add_write(self, now: int, blocks: int, *, new_blocks: int) -> None:
        """Note a write of so many keys, some of them new."""
        self.write_ns.append(now)
        self.write_blocks.append(blocks)
        self.new_blocks += new_blocks

    def written_until(self) -> NDArray[np.int64]:
        """For each read, keys of all writes with a time up to its own, later ones of the same time included."""
        times = np.asarray(self.write_ns)
        order = np.argsort(times, kind="stable")
        sums = np.concatenate([[0], np.cumsum(np.asarray(self.write_blocks)[order])])
        written: NDArray[np.int64] = sums[np.searchsorted(times[order], np.asarray(self.timestamp_ns), side="right")]
        return written

    def totals(self, block_size: int) -> Totals:
        """Sums over all reads."""
        local, remote = total_of(self.local_blocks), total_of(self.remote_blocks)
        return Totals(
            len(self),
            total_of(self.read_blocks),
            local,
            remote,
            total_of(self.input_tokens),
            local * block_size,
            remote * block_size,
        )

    def save(self) -> State:
        """All columns, as a document."""
        plain = {name: getattr(self, name).tolist() for name in (*_COLUMNS, *_WRITES)}
        tiered = {name: [column.tolist() for column in getattr(self, name)] for name in _TIERED}
        return {**plain, **tiered, "new_blocks": self.new_blocks}

    def load(self, state: State) -> None:
        """Take over the columns that were saved."""
        for name in (*_COLUMNS, *_WRITES):
            setattr(self, name, array("q", state[name]))
        for name in _TIERED:
            setattr(self, name, [array("q", column) for column in state[name]])
        self.new_blocks = state["new_blocks"]


def ratio(part: int, whole: int) -> float:
    """Part ÷ whole; 0 where there is no whole."""
    return part / whole if whole else 0.0
