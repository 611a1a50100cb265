"""A recency list in which a block can be put in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_END = -1


class RecencyList:
    """Blocks from the most recent, the head, to the least recent, the tail.

    >>> listed = RecencyList([3, 2, 1])
    >>> listed.insert_behind(3, 9)
    >>> listed.push(1)
    >>> list(listed), listed.tail
    ([1, 3, 9, 2], 2)
    """

    def __init__(self, blocks: Iterable[int] = ()) -> None:
        self._older: dict[int, int] = {_END: _END}
        self._newer: dict[int, int] = {_END: _END}
        for block in blocks:
            self._link(self._newer[_END], block)

    def __contains__(self, block: int) -> bool:
        return block in self._older

    def __iter__(self) -> Iterator[int]:
        block = self._older[_END]
        while block != _END:
            yield block
            block = self._older[block]

    @property
    def head(self) -> int | None:
        """The most recent block."""
        block = self._older[_END]
        return None if block == _END else block

    @property
    def tail(self) -> int | None:
        """The least recent block."""
        block = self._newer[_END]
        return None if block == _END else block

    def from_tail(self) -> Iterator[int]:
        """Blocks from the least recent."""
        block = self._newer[_END]
        while block != _END:
            yield block
            block = self._newer[block]

    def push(self, block: int) -> None:
        """Make a block the head, wherever it was."""
        if block in self:
            self.remove(block)
        self._link(_END, block)

    def insert_behind(self, newer: int, block: int) -> None:
        """Put a block directly on the older side of another."""
        self._link(newer, block)

    def remove(self, block: int) -> None:
        """Take a block out."""
        newer, older = self._newer.pop(block), self._older.pop(block)
        self._older[newer], self._newer[older] = older, newer

    def _link(self, newer: int, block: int) -> None:
        older = self._older[newer]
        self._older[newer] = self._newer[older] = block
        self._older[block], self._newer[block] = older, newer
