"""The cache in plain Python: written to be believed, not to be fast.

``UnboundedCache`` never forgets and stores chains compactly; ``BlockCache`` has a capacity, evicts the least recently
used block and never one that a running request holds.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.cache.rules import hit_limit_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


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


@dataclass(slots=True)
class Lease:
    """Blocks that a running request holds: keyed ones in prompt order, and ones without a key yet."""

    keys: list[int]
    hit_blocks: int
    private_blocks: int


class BlockCache:
    """A bounded cache of chained blocks, least recently used first out.

    ``capacity_blocks`` of ``None`` never evicts. A finished request's tail becomes evictable before its head, so
    that chains shrink from the end. Blocks are matchable from the moment a request is admitted.
    """

    def __init__(self, capacity_blocks: int | None = None) -> None:
        self.capacity_blocks = capacity_blocks
        self.evicted_blocks = 0
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._private_blocks = 0

    @property
    def cached_blocks(self) -> int:
        """Keyed blocks, held or idle."""
        return len(self._holders) + len(self._idle)

    @property
    def pinned_blocks(self) -> int:
        """Blocks that running requests hold, keyed or not."""
        return len(self._holders) + self._private_blocks

    def match(self, keys: Iterable[int]) -> int:
        """Leading keys that are cached; changes nothing."""
        count = 0
        for key in keys:
            if key not in self._holders and key not in self._idle:
                break
            count += 1
        return count

    def acquire(self, keys: Sequence[int], *, hit_limit_blocks: int, private_blocks: int = 0) -> Lease | None:
        """Admit a request: pin what it hits, make room for the rest.

        ``hit_limit_blocks`` caps the hit (the last prompt token is always computed); ``private_blocks`` are blocks
        that cannot be matched, such as a prompt's unfilled last one. Returns ``None``, and changes nothing, while
        running requests leave too little room.
        """
        hit = self.match(keys[:hit_limit_blocks])
        idle_wanted = sum(key in self._idle for key in keys)
        absent = sum(key not in self._holders and key not in self._idle for key in keys)
        if not self._fits(self.pinned_blocks + idle_wanted + absent + private_blocks):
            return None
        for key in keys:
            self._idle.pop(key, None)
            self._holders[key] = self._holders.get(key, 0) + 1
        self._private_blocks += private_blocks
        self._evict()
        return Lease(keys=list(keys), hit_blocks=hit, private_blocks=private_blocks)

    def reserve(self, lease: Lease) -> bool:
        """Give a running request one more block without a key; ``False`` when there is no room."""
        if not self._fits(self.pinned_blocks + 1):
            return False
        self._private_blocks += 1
        lease.private_blocks += 1
        self._evict()
        return True

    def extend(self, lease: Lease, key: int) -> bool:
        """Key a block that decoding filled; takes one of the lease's private blocks, or a new one.

        ``False`` when there is no room for it.
        """
        if lease.private_blocks == 0 and not self.reserve(lease):
            return False
        lease.private_blocks -= 1
        self._private_blocks -= 1
        self._idle.pop(key, None)
        self._holders[key] = self._holders.get(key, 0) + 1
        lease.keys.append(key)
        return True

    def release(self, lease: Lease) -> None:
        """End a request: its blocks stay cached, the tail first in line for eviction."""
        self._private_blocks -= lease.private_blocks
        for key in reversed(lease.keys):
            self._holders[key] -= 1
            if self._holders[key] == 0:
                del self._holders[key]
                self._idle[key] = None
        lease.keys, lease.private_blocks = [], 0

    def clear(self) -> bool:
        """Forget everything; ``False``, and nothing happens, while requests run."""
        if self._holders or self._private_blocks:
            return False
        self._idle.clear()
        return True

    def _fits(self, needed_blocks: int) -> bool:
        return self.capacity_blocks is None or needed_blocks <= self.capacity_blocks

    def _evict(self) -> None:
        while self.capacity_blocks is not None and self.pinned_blocks + len(self._idle) > self.capacity_blocks:
            self._idle.popitem(last=False)
            self.evicted_blocks += 1


def replay_hits(
    requests: Iterable[tuple[int, Sequence[int]]], *, block_size: int, capacity_blocks: int | None = None
) -> Iterator[int]:
    """Hit tokens of requests served one after another under ``cap_then_floor``.

    Each request is its prompt's token count and the keys of its full blocks. A prompt that no empty cache could
    hold hits nothing and leaves the cache as it is.
    """
    cache = BlockCache(capacity_blocks)
    for prompt_tokens, keys in requests:
        partial = int(prompt_tokens % block_size > 0)
        lease = cache.acquire(
            keys, hit_limit_blocks=hit_limit_blocks(prompt_tokens, block_size), private_blocks=partial
        )
        yield 0 if lease is None else lease.hit_blocks * block_size
        if lease is not None:
            cache.release(lease)
