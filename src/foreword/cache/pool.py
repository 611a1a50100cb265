"""vLLM's pool of blocks: a free queue, and keys that stay with free blocks until these are used again.

It equals the real block manager request by request (vLLM 0.32, ``v1/core``; ``tests/real`` holds it to that). A hit
takes blocks out of the queue; new blocks come from its head and lose their key; a request that ends puts its keyed
blocks at the tail, the end of its chain first, and the others at the head. Blocks of equal content are not merged: what
is computed again is stored again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foreword.cache.rules import hit_limit_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


@dataclass(slots=True)
class Lease:
    """Blocks that a running request holds: keyed ones in prompt order, and ones without a key yet."""

    keys: list[int]
    hit_blocks: int
    private_blocks: int
    copies: list[int] = field(default_factory=list)
    """Which block has each of the keys."""


def _unheard(_key: int) -> None:
    """An eviction that nobody waits for."""


class BlockPool:
    """Blocks by key. A block has a number as long as it has a key; free ones without a key are only counted.

    ``capacity_blocks`` of ``None`` never evicts, and merges blocks of equal content. Of vLLM's ``num_gpu_blocks`` one
    is its null block: a server with N of them is a pool of N - 1. Blocks are matchable from the moment a request is
    admitted. ``on_eviction`` hears the key of each block that loses it to make room.
    """

    def __init__(self, capacity_blocks: int | None = None, *, on_eviction: Callable[[int], None] = _unheard) -> None:
        self.capacity_blocks = capacity_blocks
        self.evicted_blocks = 0
        self._on_eviction = on_eviction
        self._blank_blocks = 0 if capacity_blocks is None else capacity_blocks
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._private_blocks = 0
        self._key_of: dict[int, int] = {}
        self._copies: dict[int, dict[int, None]] = {}
        self._numbered = 0

    def __contains__(self, key: int) -> bool:
        return key in self._copies

    @property
    def cached_blocks(self) -> int:
        """Keyed blocks, held or idle."""
        return len(self._key_of)

    @property
    def pinned_blocks(self) -> int:
        """Blocks that running requests hold, keyed or not."""
        return len(self._holders) + self._private_blocks

    def match(self, keys: Iterable[int]) -> int:
        """Leading keys that are cached; changes nothing."""
        count = 0
        for key in keys:
            if key not in self._copies:
                break
            count += 1
        return count

    def touch(self, keys: Sequence[int]) -> None:
        """Put idle blocks of cached keys where a request that hits them and ends leaves them."""
        for key in reversed(keys):
            copy = self._first_copy(key)
            if copy in self._idle:
                self._idle.move_to_end(copy)

    def acquire(self, keys: Sequence[int], *, hit_limit_blocks: int, private_blocks: int = 0) -> Lease | None:
        """Admit a request: hold what it hits, make room for the rest.

        ``hit_limit_blocks`` caps the hit (the last prompt token is always computed); ``private_blocks`` are blocks
        that cannot be matched, such as a prompt's unfilled last one. Returns ``None``, and changes nothing, while
        running requests leave too little room.
        """
        hit = self.match(keys[:hit_limit_blocks])
        copies = [self._first_copy(key) for key in keys[:hit]]
        idle = sum(copy in self._idle for copy in copies)
        if not self._fits(len(keys) - hit + private_blocks, beside=idle):
            return None
        for copy in copies:
            self._hold(copy)
        copies += [self._new_copy(key) for key in keys[hit:]]
        for _ in range(private_blocks):
            self._take_blank()
        self._private_blocks += private_blocks
        return Lease(list(keys), hit, private_blocks, copies)

    def reserve(self, lease: Lease) -> bool:
        """Give a running request one more block without a key; ``False`` when there is no room."""
        if not self._fits(1):
            return False
        self._take_blank()
        self._private_blocks += 1
        lease.private_blocks += 1
        return True

    def extend(self, lease: Lease, key: int) -> bool:
        """Key a block that decoding filled; takes one of the lease's private blocks, or a new one.

        ``False`` when there is no room for it.
        """
        if lease.private_blocks == 0 and not self.reserve(lease):
            return False
        lease.private_blocks -= 1
        self._private_blocks -= 1
        self._give_blank()
        lease.keys.append(key)
        lease.copies.append(self._new_copy(key))
        return True

    def release(self, lease: Lease) -> None:
        """End a request: its blocks stay cached, the tail first in line for eviction."""
        for copy in reversed(lease.copies):
            self._holders[copy] -= 1
            if self._holders[copy] == 0:
                del self._holders[copy]
                self._idle[copy] = None
        for _ in range(lease.private_blocks):
            self._give_blank()
        self._private_blocks -= lease.private_blocks
        lease.keys, lease.copies, lease.private_blocks = [], [], 0

    def clear(self) -> bool:
        """Forget everything; ``False``, and nothing happens, while requests run."""
        if self.pinned_blocks:
            return False
        for _ in range(len(self._idle)):
            self._give_blank()
        self._idle.clear()
        self._key_of.clear()
        self._copies.clear()
        return True

    def discard(self, key: int) -> None:
        """Take a key from all idle blocks that have it."""
        for copy in [copy for copy in self._copies.get(key, ()) if copy in self._idle]:
            del self._idle[copy]
            self._forget(copy)
            self._give_blank()

    def save(self) -> dict[str, Any]:
        """A pool in which nothing runs, as a document: its blocks from the next to be used again."""
        return {"idle": [[copy, self._key_of[copy]] for copy in self._idle], "numbered": self._numbered}

    def load(self, state: dict[str, Any]) -> None:
        """Become the pool that was saved under the same capacity."""
        self.clear()
        self._numbered = state["numbered"]
        self._idle = OrderedDict.fromkeys(copy for copy, _ in state["idle"])
        self._key_of = dict(state["idle"])
        for copy in sorted(self._key_of):
            self._copies.setdefault(self._key_of[copy], {})[copy] = None
        if self.capacity_blocks is not None:
            self._blank_blocks = self.capacity_blocks - len(self._idle)

    def _fits(self, wanted: int, *, beside: int = 0) -> bool:
        return self.capacity_blocks is None or wanted <= self._blank_blocks + len(self._idle) - beside

    def _first_copy(self, key: int) -> int:
        """The block that got a key first."""
        return next(iter(self._copies[key]))

    def _hold(self, copy: int) -> None:
        self._idle.pop(copy, None)
        self._holders[copy] = self._holders.get(copy, 0) + 1

    def _new_copy(self, key: int) -> int:
        if self.capacity_blocks is None and key in self._copies:
            copy = self._first_copy(key)
        else:
            self._take_blank()
            copy = self._numbered
            self._numbered += 1
            self._key_of[copy] = key
            self._copies.setdefault(key, {})[copy] = None
        self._hold(copy)
        return copy

    def _take_blank(self) -> None:
        """Use the block at the head of the queue."""
        if self.capacity_blocks is None:
            return
        if self._blank_blocks:
            self._blank_blocks -= 1
            return
        copy, _ = self._idle.popitem(last=False)
        self.evicted_blocks += 1
        self._on_eviction(self._forget(copy))

    def _give_blank(self) -> None:
        """Put a block without a key at the head of the queue."""
        if self.capacity_blocks is not None:
            self._blank_blocks += 1

    def _forget(self, copy: int) -> int:
        key = self._key_of.pop(copy)
        del self._copies[key][copy]
        if not self._copies[key]:
            del self._copies[key]
        return key


def replay_hits(
    requests: Iterable[tuple[int, Sequence[int]]], *, block_size: int, capacity_blocks: int | None = None
) -> Iterator[int]:
    """Hit tokens of requests served one after another under ``cap_then_floor``.

    Each request is its prompt's token count and the keys of its full blocks. A prompt that no empty cache could
    hold hits nothing and leaves the cache as it is.
    """
    pool = BlockPool(capacity_blocks)
    for prompt_tokens, keys in requests:
        partial = int(prompt_tokens % block_size > 0)
        lease = pool.acquire(keys, hit_limit_blocks=hit_limit_blocks(prompt_tokens, block_size), private_blocks=partial)
        yield 0 if lease is None else lease.hit_blocks * block_size
        if lease is not None:
            pool.release(lease)
