"""Lives of blocks, from the write that brings one in until no tier has it (spec: replay B1.7, A2.14)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.cache.table import State


@dataclass(slots=True)
class Life:
    """One life of a block; ``death_ns`` is ``None`` while it lasts. Accesses are read hits."""

    block: int
    birth_ns: int
    last_access_ns: int
    accesses: int = 0
    death_ns: int | None = None


class Lifecycle:
    """Lives in order of birth; a block that comes back starts another."""

    def __init__(self) -> None:
        self._lives: list[Life] = []
        self._current: dict[int, Life] = {}

    def __iter__(self) -> Iterator[Life]:
        return iter(self._lives)

    def begin(self, block: int, now: int) -> None:
        """Note a birth."""
        life = Life(block, now, now)
        self._lives.append(life)
        self._current[block] = life

    def access(self, block: int, now: int) -> None:
        """Note a read hit."""
        life = self._current[block]
        life.accesses += 1
        life.last_access_ns = now

    def end(self, block: int, now: int) -> None:
        """Note that no tier has the block any more."""
        self._current.pop(block).death_ns = now

    def save(self) -> State:
        """All lives, as a document."""
        return {"lives": [asdict(life) for life in self._lives]}

    def load(self, state: State) -> None:
        """Take over the lives that were saved."""
        self._lives = [Life(**life) for life in state["lives"]]
        self._current = {life.block: life for life in self._lives if life.death_ns is None}
