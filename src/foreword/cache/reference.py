"""The cache without a limit, in plain Python: it never forgets, and stores chains compactly."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class UnboundedCache:
    """Chains of block keys, each stored once, as runs that split where chains part.

    Keys are chained, so a key alone names its path and equal keys on different paths do not occur.
    """

    def __init__(self) -> None:
        self._keys = array("Q")
        self._runs: dict[int, tuple[int, int]] = {}

    def read_and_write(self, keys: Sequence[int]) -> int:
        """Return the number of leading blocks that are cached already; then cache all of them."""
        position = 0
        while position < len(keys):
            run = self._runs.get(keys[position])
            if run is None:
                self._append(keys, position)
                return position
            position += self._follow(run, keys, position)
        return position

    def _append(self, keys: Sequence[int], position: int) -> None:
        start = len(self._keys)
        self._keys.extend(keys[position:])
        self._runs[keys[position]] = (start, len(self._keys))

    def _follow(self, run: tuple[int, int], keys: Sequence[int], position: int) -> int:
        """Walk along a run; split it where the request leaves it in the middle."""
        start, end = run
        stored = self._keys[start:end]
        wanted = keys[position : position + len(stored)]
        common = next((i for i, (a, b) in enumerate(zip(stored, wanted, strict=False)) if a != b), len(wanted))
        if common < len(stored):
            self._runs[stored[0]] = (start, start + common)
            self._runs[stored[common]] = (start + common, end)
        return common
