"""What requests hit at the times at which a run really sent and ended them (theory section 4)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from foreword.simulate.jobs import caches_of, jobs_of, warm_up
from foreword.terms import Visibility

if TYPE_CHECKING:
    from foreword.simulate.jobs import Cache, Job, Load
    from foreword.terms import IntArray


@dataclass(frozen=True, slots=True)
class Times:
    """Stamps of each request, in nanoseconds of one clock: sent, first token, done."""

    sent_ns: IntArray
    first_token_ns: IntArray
    done_ns: IntArray


class _What(IntEnum):
    """What happens, in the order in which it does at one instant."""

    DONE = 0
    FIRST_TOKEN = 1
    BLOCK_FULL = 2
    SENT = 3


def hits_at(load: Load, times: Times, *, visibility: Visibility, capacity_blocks: int | None = None) -> IntArray:
    """Hit tokens of each request when it is looked up as it is sent, and holds its blocks until it is done.

    The tokens of an answer come evenly between the first one and the end, and take a block whenever one is full. A
    request for which there is no room waits, and those behind it with it, until others are done. ``load`` may stand in
    any order.
    """
    waiting = [_Line(cache) for cache in caches_of(load, capacity_blocks)]
    warm_up(load, [line.cache for line in waiting])
    jobs = [replace(job, grows=True) for job in jobs_of(load)]
    lines = [waiting[domain] for domain in load.domain.tolist()]
    for what, at in _events(load, times):
        line, job = lines[at], jobs[at]
        match what:
            case _What.SENT:
                line.waiting.append(job)
                line.let_in(visibility)
            case _What.FIRST_TOKEN:
                line.publish(job)
            case _What.BLOCK_FULL:
                line.grow(job)
            case _What.DONE:
                line.leave(job)
                line.let_in(visibility)
    return np.array([job.hit_tokens for job in jobs], np.int64)


def _events(load: Load, times: Times) -> list[tuple[_What, int]]:
    """Everything that happens, by time; requests of one instant in their order."""
    everyone = np.arange(len(times.sent_ns))
    done = np.maximum(times.done_ns, times.sent_ns + 1)
    first = np.clip(times.first_token_ns, times.sent_ns, done)
    full_ns, full_at = _blocks_full(load, first, done)
    stamps = np.concatenate([done, first, full_ns, times.sent_ns])
    at = np.concatenate([everyone, everyone, full_at, everyone])
    what = np.repeat(np.array(list(_What), np.int64), [len(done), len(done), len(full_at), len(done)])
    order = np.lexsort((at, what, stamps))
    return [(_What(kind), index) for kind, index in zip(what[order].tolist(), at[order].tolist(), strict=True)]


def _blocks_full(load: Load, first: IntArray, done: IntArray) -> tuple[IntArray, IntArray]:
    """When the answers fill the blocks that they have and need another one, and whose they are."""
    size, have = load.block_size, -(-load.input_len // load.block_size)
    more = np.maximum(load.blocks_needed - have, 0)
    at = np.repeat(np.arange(len(more)), more)
    number = np.arange(len(at)) - np.repeat(np.cumsum(more) - more, more)
    token = (have[at] + number) * size - load.input_len[at]
    share = token / np.maximum(load.output_len[at] - 1, 1)
    return (first[at] + share * (done[at] - first[at])).astype(np.int64), at


@dataclass(slots=True)
class _Line:
    """The requests before one cache."""

    cache: Cache
    waiting: deque[Job] = field(default_factory=deque)

    def let_in(self, visibility: Visibility) -> None:
        """Look up all that there is room for."""
        while self.waiting and self.cache.admit(self.waiting[0]):
            job = self.waiting.popleft()
            job.computed = job.prompt_tokens
            if visibility is Visibility.SCHEDULED:
                self.cache.publish(job)

    def grow(self, job: Job) -> None:
        """An answer takes another block."""
        if job.computed:
            self.cache.grow(job)

    def publish(self, job: Job) -> None:
        """Others can match what has been computed by now."""
        if job.computed:
            self.cache.publish(job)

    def leave(self, job: Job) -> None:
        """A request is done; one that the model still lets wait never had its turn."""
        if job.computed:
            self.cache.publish(job)
            self.cache.release(job)
        else:
            self.waiting.remove(job)
