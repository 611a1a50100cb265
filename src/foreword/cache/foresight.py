"""What an instance will be asked for: the blocks of each of its reads, in order."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from foreword.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEVER_READ = 2**63 - 1


class Foresight:
    """Reads are numbered from 0; before a trace has been looked through, nothing is known and nothing can be read."""

    def __init__(self) -> None:
        self._reads: list[Sequence[int]] = []
        self._of: dict[int, list[int]] = {}
        self._done = 0
        self._told = 0

    def expect(self, path: Sequence[int]) -> None:
        """Add the blocks of the next read; those that are never written are left out."""
        for block in path:
            self._of.setdefault(block, []).append(len(self._reads))
        self._reads.append(path)

    def advance(self) -> None:
        """Go past a read; ``DataError`` where it was not expected."""
        if self._done == len(self._reads):
            raise DataError("policy optimal has to know the whole trace before it", field="eviction_policy_type")
        self._done += 1

    def passed(self) -> Iterator[int]:
        """Blocks of the reads that passed since this was last asked."""
        for read in self._reads[self._told : self._done]:
            yield from read
        self._told = self._done

    def next_read(self, block: int) -> int:
        """Number of the next read of a block."""
        reads = self._of.get(block, ())
        index = bisect_right(reads, self._done - 1)
        return reads[index] if index < len(reads) else NEVER_READ
