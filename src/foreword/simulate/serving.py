"""Event simulation of an engine under load: what requests hit when several are under way (theory section 4).

An engine works in steps. In each, streams that decode get one token, and what is left of the step's tokens goes to
prompts in order of arrival, long ones in chunks. A prompt is looked up once, when its first chunk is scheduled; its
blocks, and those that its answer will fill, are its own until its end, so nothing is preempted. Time is in nanoseconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from foreword.simulate.jobs import Job, Load, caches_of, jobs_of, warm_up
from foreword.terms import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.simulate.jobs import Cache
    from foreword.terms import IntArray

_NS_PER_S = 1_000_000_000
_LATER_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Service:
    """What one engine does at once and how fast; ``decode_tokens_per_s`` is that of one stream, ``None`` for no time.

    ``capacity_blocks`` of ``None`` never evicts.
    """

    visibility: Visibility = Visibility.SCHEDULED
    slots: int = 256
    step_tokens: int = 8192
    prefill_tokens_per_s: float = 10_000.0
    decode_tokens_per_s: float | None = 50.0
    capacity_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """How requests are sent: each when one of ``concurrency`` before it has ended, or so many a second."""

    concurrency: int = 1
    requests_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """What a simulated run came to, by request in send order: hit tokens, and when it was sent and ended."""

    hit_tokens: IntArray
    sent_ns: IntArray
    first_token_ns: IntArray
    done_ns: IntArray


def serve(load: Load, service: Service, *, client: Client) -> Served:
    """Send all requests to engines that start empty, or warmed; each cache domain has an engine of its own."""
    ranks = [_Rank(service, cache) for cache in caches_of(load, service.capacity_blocks)]
    warm_up(load, [rank.cache for rank in ranks])
    run = _Run(load, client, ranks)
    run.go()
    return Served(run.hit_tokens, run.sent_ns, run.first_ns, run.done_ns)


class _Rank:
    """One engine."""

    def __init__(self, service: Service, cache: Cache) -> None:
        self.cache = cache
        self.waiting: deque[Job] = deque()
        self.busy = False
        self._service = service
        self._running: list[Job] = []
        self._steps = 1

    def begin(self, now_ns: int, *, until_ns: int) -> int | None:
        """Start a step; when it ends, ``None`` if there is nothing to do. Equal steps run as one ``until_ns``."""
        decoding = sum(job.left == 0 for job in self._running)
        prefilled = self._schedule(self._service.step_tokens - decoding)
        self.busy = bool(self._running)
        if not self.busy:
            return None
        prefill_s = prefilled / self._service.prefill_tokens_per_s
        token_s = 1 / self._service.decode_tokens_per_s if self._service.decode_tokens_per_s and decoding else 0.0
        self._steps = 1 if prefilled else self._steps_until(now_ns, until_ns, token_s=token_s)
        return now_ns + max(1, round((prefill_s + self._steps * token_s) * _NS_PER_S))

    def end(self) -> Iterator[tuple[Job, bool]]:
        """Finish the step; jobs that have their first token by now, and whether they ended."""
        still = []
        for job in self._running:
            first = job.produced == 0
            if job.chunk and self._service.visibility is Visibility.FORWARD:
                self.cache.publish(job)
            if job.left == 0:
                job.produced = self._produced(job)
            job.chunk = 0
            ended = job.produced >= job.answer_tokens
            if ended:
                self.cache.release(job)
            else:
                still.append(job)
            if ended or (first and job.produced):
                yield job, ended
        self._running = still

    def _produced(self, job: Job) -> int:
        """Tokens of the answer after the step: the first comes with the end of the prompt."""
        if self._service.decode_tokens_per_s is None:
            return job.answer_tokens
        return 1 if job.chunk else job.produced + self._steps

    def _schedule(self, budget: int) -> int:
        """Give the tokens of a step to prompts, begun ones first; how many were given."""
        given = 0
        for job in self._running:
            if job.left:
                given += self._advance(job, budget - given)
        while self.waiting and len(self._running) < self._service.slots and given < budget:
            if not self.cache.admit(self.waiting[0]):
                break
            self._running.append(self.waiting.popleft())
            given += self._advance(self._running[-1], budget - given)
        return given

    def _advance(self, job: Job, budget: int) -> int:
        """Compute the next chunk of a prompt; its tokens."""
        job.chunk = max(0, min(job.left, budget))
        job.computed += job.chunk
        if job.chunk and self._service.visibility is Visibility.SCHEDULED:
            self.cache.publish(job)
        return job.chunk

    def _steps_until(self, now_ns: int, until_ns: int, *, token_s: float) -> int:
        """How many steps go by before a stream ends or something comes in."""
        least = min(job.answer_tokens - job.produced for job in self._running)
        if token_s == 0.0:
            return least
        return max(1, min(least, int((until_ns - now_ns) / _NS_PER_S / token_s)))


class _Run:
    """A client and the engines that it sends to."""

    def __init__(self, load: Load, client: Client, ranks: list[_Rank]) -> None:
        total = len(load.input_len)
        self.hit_tokens, self.sent_ns, self.first_ns, self.done_ns = (np.zeros(total, np.int64) for _ in range(4))
        self._client = client
        self._ranks = ranks
        self._jobs = jobs_of(load)
        self._domain = load.domain.tolist()
        self._arrivals = _arrivals(client, total)
        self._events: list[tuple[int, int, int]] = []
        self._serial = count()

    def go(self) -> None:
        """Run until every request has ended."""
        arrival = self._next_arrival()
        while self._events or arrival is not None:
            now = min(self._events[0][0] if self._events else _LATER_NS, _LATER_NS if arrival is None else arrival)
            while arrival is not None and arrival <= now:
                self._send(arrival)
                arrival = self._next_arrival()
            while self._events and self._events[0][0] <= now:
                self._end_step(heappop(self._events)[2], now)
            until = _LATER_NS if arrival is None else arrival
            for number, rank in enumerate(self._ranks):
                if not rank.busy:
                    self._begin_step(number, rank, now, until)

    def _next_arrival(self) -> int | None:
        return next(self._arrivals, None)

    def _send(self, now_ns: int) -> None:
        job = next(self._jobs, None)
        if job is not None:
            self.sent_ns[job.index] = now_ns
            self._ranks[self._domain[job.index]].waiting.append(job)

    def _begin_step(self, number: int, rank: _Rank, now_ns: int, until_ns: int) -> None:
        bound = min(until_ns, self._events[0][0] if self._events else _LATER_NS)
        end_ns = rank.begin(now_ns, until_ns=bound)
        if end_ns is not None:
            heappush(self._events, (end_ns, next(self._serial), number))

    def _end_step(self, number: int, now_ns: int) -> None:
        self._ranks[number].busy = False
        for job, ended in self._ranks[number].end():
            if self.first_ns[job.index] == 0:
                self.first_ns[job.index] = now_ns
            if ended:
                self.hit_tokens[job.index], self.done_ns[job.index] = job.hit_tokens, now_ns
                if self._client.requests_per_s is None:
                    self._send(now_ns)


def _arrivals(client: Client, total: int) -> Iterator[int]:
    """When requests come of themselves: the first ones of a closed loop at 0, those of an open one at its rate."""
    if client.requests_per_s is None:
        yield from (0 for _ in range(min(client.concurrency, total)))
    else:
        yield from (round(index * _NS_PER_S / client.requests_per_s) for index in range(total))
