"""Planned requests as an engine's cache sees them: shared blocks, own blocks, and when others can match them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from foreword.cache.pool import BlockPool
from foreword.cache.rules import HitRule, hit_limit_blocks, usable_hit_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.cache.pool import Lease
    from foreword.terms import IntArray

_LANE_BLOCKS = 1 << 40
"""Keys that each lane has for the blocks of its master prefix; the trunk has the first ones."""


@dataclass(frozen=True, slots=True)
class Load:
    """Requests in send order; arrays are aligned.

    ``lane`` tells which requests share a master prefix, ``domain`` which share a cache, numbered from 0. ``prefix_len``
    counts from the first token of the prompt, so it is at least ``trunk_len`` where a whole block of head is shared.
    Caches hold the longest prefix of each of the ``warm_lanes`` before the first request.
    """

    input_len: IntArray
    prefix_len: IntArray
    output_len: IntArray
    lane: IntArray
    domain: IntArray
    block_size: int
    rule: HitRule = HitRule.CAP_THEN_FLOOR
    trunk_len: int = 0
    warm_lanes: frozenset[int] = frozenset()

    @property
    def blocks_needed(self) -> IntArray:
        """Blocks that each request holds at its end; its last sampled token has no KV."""
        needed: IntArray = -(-(self.input_len + np.maximum(self.output_len, 1) - 1) // self.block_size)
        return needed


@dataclass(slots=True, eq=False)
class Job:
    """A request on its way: what it asks for, and how far it is.

    ``computed`` are prompt tokens that are cached or scheduled, ``chunk`` those of the present step. One that ``grows``
    takes the blocks of its answer one by one, else it has them from the start.
    """

    index: int
    lane: int
    prompt_tokens: int
    answer_tokens: int
    prefix_blocks: int
    trunk_blocks: int
    own_from: int
    load: Load
    grows: bool = False
    hit_tokens: int = 0
    computed: int = 0
    chunk: int = 0
    produced: int = 0
    lease: Lease | None = None
    keys: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Prompt tokens that are not scheduled yet."""
        return self.prompt_tokens - self.computed

    @property
    def blocks_needed(self) -> int:
        """Blocks to hold from the start; the last sampled token has no KV."""
        tokens = self.prompt_tokens + (0 if self.grows else self.answer_tokens - 1)
        return -(-tokens // self.load.block_size)

    @property
    def computed_blocks(self) -> int:
        """Full blocks of the prompt that are scheduled."""
        return self.computed // self.load.block_size

    def found(self, blocks: int) -> None:
        """Take over what the cache had of the prompt."""
        size = self.load.block_size
        self.hit_tokens = self.computed = usable_hit_tokens(
            self.load.rule, prompt_tokens=self.prompt_tokens, shared_tokens=blocks * size, block_size=size
        )

    def block_keys(self) -> list[int]:
        """Keys of the prompt's full blocks: the trunk's, its lane's, its own."""
        first = (self.lane + 1) * _LANE_BLOCKS
        own = self.prompt_tokens // self.load.block_size - self.prefix_blocks
        return [
            *range(self.trunk_blocks),
            *range(first + self.trunk_blocks, first + self.prefix_blocks),
            *range(-self.own_from - 1, -self.own_from - own - 1, -1),
        ]


class Cache(Protocol):
    """What an engine asks of its cache."""

    def admit(self, job: Job) -> bool:
        """Look a prompt up and hold what it needs; ``False``, and nothing happens, while there is no room."""

    def publish(self, job: Job) -> None:
        """Let others match the blocks that are scheduled."""

    def grow(self, job: Job) -> None:
        """Hold one more block for the answer."""

    def release(self, job: Job) -> None:
        """Let go of a request that has ended."""


@dataclass(slots=True)
class EndlessCache:
    """A cache that never evicts: of every lane it only matters how long a prefix others can match."""

    _marks: dict[int, int] = field(default_factory=dict)
    _trunk_blocks: int = 0

    def admit(self, job: Job) -> bool:
        """Find the longest prefix that was published."""
        seen = max(self._marks.get(job.lane, 0), self._trunk_blocks)
        job.found(min(job.prefix_blocks, seen))
        return True

    def publish(self, job: Job) -> None:
        """Raise the marks of the lane and of the trunk."""
        blocks = min(job.prefix_blocks, job.computed_blocks)
        self._marks[job.lane] = max(self._marks.get(job.lane, 0), blocks)
        self._trunk_blocks = max(self._trunk_blocks, min(job.trunk_blocks, blocks))

    def grow(self, job: Job) -> None:
        """There is always room."""

    def release(self, job: Job) -> None:
        """Nothing is ever let go."""


@dataclass(slots=True)
class PooledCache:
    """A cache of so many blocks under vLLM's rules of eviction."""

    pool: BlockPool

    def admit(self, job: Job) -> bool:
        """Take all blocks that the request needs from the start."""
        job.keys = job.block_keys()
        limit = len(job.keys)
        if job.load.rule is HitRule.CAP_THEN_FLOOR:
            limit = hit_limit_blocks(job.prompt_tokens, job.load.block_size)
        hit = self.pool.match(job.keys[:limit])
        job.lease = self.pool.acquire(job.keys[:hit], hit_limit_blocks=hit, private_blocks=job.blocks_needed - hit)
        if job.lease is None:
            return False
        job.found(hit)
        return True

    def publish(self, job: Job) -> None:
        """Give scheduled blocks their keys."""
        if job.lease is not None:
            for key in job.keys[len(job.lease.keys) : job.computed_blocks]:
                self.pool.extend(job.lease, key)

    def grow(self, job: Job) -> None:
        """Take a block, if there is one; a server would preempt somebody."""
        if job.lease is not None:
            self.pool.reserve(job.lease)

    def release(self, job: Job) -> None:
        """Leave the blocks to whoever needs room."""
        if job.lease is not None:
            self.pool.release(job.lease)
        job.keys = []


def caches_of(load: Load, capacity_blocks: int | None) -> list[Cache]:
    """An empty cache for each domain."""
    domains = range(int(load.domain.max(initial=-1)) + 1)
    if capacity_blocks is None:
        return [EndlessCache() for _ in domains]
    return [PooledCache(BlockPool(capacity_blocks)) for _ in domains]


def jobs_of(load: Load) -> Iterator[Job]:
    """All requests in order, made when they are asked for."""
    prefix, size = load.prefix_len // load.block_size, load.block_size
    own = load.input_len // size - prefix
    starts = np.cumsum(own) - own
    trunk = load.trunk_len // size
    columns = (load.lane, load.input_len, np.maximum(load.output_len, 1), prefix, starts)
    for index, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        lane, tokens, answer, blocks, own_from = row
        yield Job(index, lane, tokens, answer, blocks, min(trunk, blocks), own_from, load)


def warm_up(load: Load, caches: Sequence[Cache]) -> None:
    """Serve the longest prefix of every lane, one after another, to caches that are to be warm."""
    for domain, job in warm_jobs(load):
        if caches[domain].admit(job):
            job.computed = job.prompt_tokens
            caches[domain].publish(job)
            caches[domain].release(job)


def warm_jobs(load: Load) -> Iterator[tuple[int, Job]]:
    """The longest prefix of each warm lane, lanes in the order of their first requests, and its domain."""
    size = load.block_size
    tops = np.zeros(int(load.lane.max(initial=-1)) + 1, np.int64)
    np.maximum.at(tops, load.lane, load.prefix_len)
    first = np.unique(load.lane, return_index=True)[1]
    for at in np.sort(first).tolist():
        lane = int(load.lane[at])
        if lane not in load.warm_lanes:
            continue
        blocks = int(tops[lane]) // size
        trunk = min(load.trunk_len // size, blocks)
        yield int(load.domain[at]), Job(-1, lane, blocks * size, 1, blocks, trunk, 0, load)
