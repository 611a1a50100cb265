"""Block identity in a replay: a block is its path, the keys from the root to it (spec: replay B2.3).

Each distinct path gets a dense id when it is first written, and keeps it; columns over these ids hold all other state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = -1
"""Parent of the first block of every path."""


class PathIndex:
    """Dense ids of paths. Equal keys behind different prefixes, or twice in one request, are different blocks.

    >>> index = PathIndex()
    >>> index.intern([7, 7, 8]), index.intern([7, 8])
    ([0, 1, 2], [0, 3])
    """

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.parents: list[int] = []
        self._found: dict[tuple[int, int], int] | None = {}

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, keys: Iterable[int], parents: Iterable[int]) -> PathIndex:
        """The index whose blocks have these keys and parents, in the order of their ids."""
        index = cls()
        index.keys, index.parents, index._found = list(keys), list(parents), None
        return index

    def add(self, parent: int, key: int) -> int:
        """Id of the block with this key below a parent, a new one if there is none yet."""
        known = self._ids().setdefault((parent, key), len(self.keys))
        if known == len(self.keys):
            self.keys.append(key)
            self.parents.append(parent)
        return known

    def intern(self, keys: Iterable[int]) -> list[int]:
        """Ids of all blocks of a path."""
        block, path = ROOT, []
        for key in keys:
            block = self.add(block, key)
            path.append(block)
        return path

    def known(self, keys: Iterable[int]) -> Iterator[int]:
        """Ids along a path, up to its first block that has none."""
        block, ids = ROOT, self._ids()
        for key in keys:
            below = ids.get((block, key))
            if below is None:
                return
            yield below
            block = below

    def _ids(self) -> dict[tuple[int, int], int]:
        """Ids by parent and key; after ``of`` they are collected when first asked for."""
        if self._found is None:
            self._found = dict(zip(zip(self.parents, self.keys, strict=True), range(len(self.keys)), strict=True))
        return self._found
