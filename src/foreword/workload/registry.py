"""Which private blocks of a cache domain are alike, looked up as prompts come (RFC 3.3.14, 3.5.2; decisions 7 and 9).

What has to be unique depends on how an engine matches: under ``chained_prefix`` only the first block behind the shared
prefix, together with everything before it; under ``independent_block`` every full block behind it, wherever it stands;
under ``content_defined_chunk`` every chunk that ends behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from foreword.cache.blocks import block_keys, next_key, root_key
from foreword.terms import MatchSemantics
from foreword.workload.window_digests import CHUNK_WINDOW_TOKENS, window_digests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.config.dataset import ChunkConfig
    from foreword.terms import BoolArray, IntArray, UInt64Array

_FEWEST_KEPT_APART = 4_096


@dataclass(frozen=True, slots=True)
class Chunking:
    """Where content-defined chunks end: where the digest of the last tokens is 0 modulo ``modulus``, within bounds."""

    modulus: int = 64
    least_tokens: int = 32
    most_tokens: int = 256

    @classmethod
    def of(cls, config: ChunkConfig) -> Chunking:
        """As a config says."""
        return cls(config.modulus, config.least_tokens, config.most_tokens)


class KeySet:
    """A growing set of 64-bit digests in 8 bytes each: sorted arrays, the smaller ones merged as they come.

    >>> keys = KeySet()
    >>> keys.add(np.array([5, 9], np.uint64))
    >>> keys.contains(np.array([9, 7], np.uint64)).tolist(), len(keys)
    ([True, False], 2)
    """

    def __init__(self) -> None:
        self._runs: list[UInt64Array] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def contains(self, digests: UInt64Array) -> BoolArray:
        """Which of the digests are in the set."""
        found = np.zeros(len(digests), dtype=np.bool_)
        for run in self._runs:
            place = np.searchsorted(run, digests)
            found |= (place < len(run)) & (run[np.minimum(place, len(run) - 1)] == digests)
        return found

    def add(self, digests: UInt64Array) -> None:
        """Take in digests, each once."""
        fresh = np.unique(digests)
        fresh = fresh[~self.contains(fresh)]
        if not len(fresh):
            return
        while self._runs and len(self._runs[-1]) <= max(len(fresh), _FEWEST_KEPT_APART):
            fresh = np.sort(np.concatenate([fresh, self._runs.pop()]), kind="stable")
        self._runs.append(fresh)


@dataclass(frozen=True, slots=True)
class Collisions:
    """What a prompt shares beyond its prefix: tokens of the prefix, units that had to be unique, and who was not.

    ``conflicts`` are the first tokens of the blocks or chunks that another prompt, a master or the prompt itself
    has too.
    """

    shared_tokens: int
    checked: int
    conflicts: tuple[int, ...]

    @property
    def unique(self) -> bool:
        """Whether everything that had to be unique is."""
        return not self.conflicts


@dataclass(slots=True)
class BlockRegistry:
    """Digests of what one cache domain holds, 8 bytes a block.

    Masters are put in first; ``check`` and ``add`` take whole prompts in engine-space token ids.
    """

    block_size: int
    semantics: MatchSemantics = MatchSemantics.CHAINED_PREFIX
    chunking: Chunking = Chunking()
    _shared: set[int] = field(default_factory=set)
    _seen: KeySet = field(default_factory=KeySet)

    def __len__(self) -> int:
        """Digests of masters and private content."""
        return len(self._seen) + len(self._shared)

    def add_master(self, token_ids: Sequence[int] | IntArray) -> None:
        """Take in a group's shared prefix; its whole blocks may be hit."""
        self._shared.update(block_keys(token_ids, self.block_size, parent=root_key()))
        if self.semantics is not MatchSemantics.CHAINED_PREFIX:
            self._seen.add(self._units(np.asarray(token_ids, dtype=np.int64), 0)[1])

    def shared_tokens(self, token_ids: Sequence[int] | IntArray) -> int:
        """Tokens of the leading blocks that a master has."""
        blocks = 0
        for key in block_keys(token_ids, self.block_size, parent=root_key()):
            if key not in self._shared:
                break
            blocks += 1
        return blocks * self.block_size

    def check(self, token_ids: Sequence[int] | IntArray, *, shared_tokens: int | None = None) -> Collisions:
        """What of a prompt is in the domain already; ``shared_tokens`` is found by its masters if not given."""
        ids = np.asarray(token_ids, dtype=np.int64)
        shared = self.shared_tokens(ids) if shared_tokens is None else shared_tokens
        starts, digests = self._units(ids, shared)
        _, first = np.unique(digests, return_index=True)
        twice = np.ones(len(digests), dtype=np.bool_)
        twice[first] = False
        taken = self._seen.contains(digests) | twice | self._in_masters(digests)
        return Collisions(shared, len(digests), tuple(starts[taken].tolist()))

    def add(self, token_ids: Sequence[int] | IntArray, *, shared_tokens: int | None = None) -> None:
        """Let a prompt's private content count from now on."""
        ids = np.asarray(token_ids, dtype=np.int64)
        shared = self.shared_tokens(ids) if shared_tokens is None else shared_tokens
        self._seen.add(self._units(ids, shared)[1])

    def _in_masters(self, digests: UInt64Array) -> BoolArray:
        """Which chained keys continue some master; keys of other semantics are among what is seen."""
        chained = self.semantics is MatchSemantics.CHAINED_PREFIX
        return np.asarray([chained and int(key) in self._shared for key in digests], dtype=np.bool_)

    def _units(self, ids: IntArray, shared: int) -> tuple[IntArray, UInt64Array]:
        """First tokens and digests of what has to be unique in a prompt."""
        if self.semantics is not MatchSemantics.CHAINED_PREFIX:
            rule = UnitRule(self.semantics, self.block_size, self.chunking)
            return rule.units(ids, shared)
        parent = block_keys(ids[:shared], self.block_size, parent=root_key())[-1] if shared else root_key()
        key = first_private_key(ids, shared, block_size=self.block_size, parent=parent)
        if key is None:
            return np.zeros(0, np.int64), np.zeros(0, np.uint64)
        return np.array([shared], np.int64), np.array([key], np.uint64)


@dataclass(frozen=True, slots=True)
class UnitRule:
    """Blocks or chunks that have to be unique behind the shared prefix; none for chained keys beyond the first."""

    semantics: MatchSemantics
    block_size: int
    chunking: Chunking = Chunking()

    def units(self, ids: IntArray, shared: int) -> tuple[IntArray, UInt64Array]:
        """First tokens and digests; parents count in none of them."""
        match self.semantics:
            case MatchSemantics.CHAINED_PREFIX:
                return np.zeros(0, np.int64), np.zeros(0, np.uint64)
            case MatchSemantics.INDEPENDENT_BLOCK:
                return private_blocks(ids, shared, block_size=self.block_size)
            case MatchSemantics.CONTENT_DEFINED_CHUNK:
                return private_chunks(ids, shared, chunking=self.chunking)


def first_private_key(ids: Sequence[int] | IntArray, shared_tokens: int, *, block_size: int, parent: int) -> int | None:
    """Key of the first block behind the shared prefix; ``None`` where it is not full, which no engine caches.

    ``parent`` is the key of the last shared block, or the root.
    """
    block = ids[shared_tokens : shared_tokens + block_size]
    return next_key(parent, block) if len(block) == block_size else None


def private_blocks(ids: IntArray, shared: int, *, block_size: int) -> tuple[IntArray, UInt64Array]:
    """First tokens and digests, parents left out, of the full blocks behind the shared prefix."""
    starts = np.arange(-(-shared // block_size) * block_size, len(ids) - block_size + 1, block_size)
    return starts, _digests(ids, starts, starts + block_size)


def private_chunks(ids: IntArray, shared: int, *, chunking: Chunking) -> tuple[IntArray, UInt64Array]:
    """First tokens and digests of the chunks of a prompt that end behind the shared prefix.

    The last chunk, which nothing but the prompt's end closes, counts too.
    """
    ends = chunk_ends(ids, chunking)
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]])
    private = ends > shared
    return starts[private], _digests(ids, starts[private], ends[private])


def chunk_ends(ids: IntArray, chunking: Chunking) -> IntArray:
    """Where each chunk of a prompt ends (exclusive): behind a token that closes it, or after the most tokens."""
    closing = np.flatnonzero(_closes(ids, chunking.modulus)) + 1
    ends, start = [], 0
    while start < len(ids):
        place = int(np.searchsorted(closing, start + chunking.least_tokens))
        natural = int(closing[place]) if place < len(closing) else len(ids)
        start = min(natural, start + chunking.most_tokens, len(ids))
        ends.append(start)
    return np.asarray(ends, dtype=np.int64)


def _closes(ids: IntArray, modulus: int) -> BoolArray:
    """Tokens whose window of the last ``CHUNK_WINDOW_TOKENS`` digests to 0 modulo ``modulus``."""
    closes = np.zeros(len(ids), dtype=np.bool_)
    if len(ids) >= CHUNK_WINDOW_TOKENS:
        closes[CHUNK_WINDOW_TOKENS - 1 :] = window_digests(ids) % np.uint64(modulus) == 0
    return closes


def _digests(ids: IntArray, starts: IntArray, ends: IntArray) -> UInt64Array:
    words = np.ascontiguousarray(ids, dtype="<i4").tobytes()
    spans = zip((4 * starts).tolist(), (4 * ends).tolist(), strict=True)
    return np.asarray([xxhash.xxh3_64_intdigest(words[start:end]) for start, end in spans], dtype=np.uint64)
