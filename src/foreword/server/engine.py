"""The engine behind the built-in server: a scheduler and a service model over the block cache.

Time is an argument, in nanoseconds of the caller's clock; nothing here sleeps. A request waits in order of arrival
until a slot is free and its blocks fit, prompt and answer together, so that nothing is preempted later. Its blocks are
matchable from that moment (vLLM's visibility). One prefill runs at a time and costs its uncached tokens; decoding
streams run beside each other.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from foreword.cache.blocks import block_keys, next_key, root_key
from foreword.cache.pool import BlockPool
from foreword.cache.rules import hit_limit_blocks
from foreword.server.metrics import EngineCounters, Gauges
from foreword.terms import below, draw_key, raw_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.cache.pool import Lease

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Service:
    """How fast the engine pretends to be, and how much runs at once."""

    block_size: int
    capacity_blocks: int | None
    prefill_tokens_per_s: float
    decode_tokens_per_s: float | None
    slots: int
    jitter: float
    seed: int
    max_model_len: int


@dataclass(slots=True, eq=False)
class Job:
    """One prompt: what was asked, then how far it is."""

    prompt_tokens: int
    keys: list[int]
    tail: Sequence[int]
    """Prompt ids behind the last full block."""
    root: int
    answer: list[int]
    """The ids that will be generated, all of them."""
    arrival_ns: int
    serial: int = -1
    lease: Lease | None = None
    cached_tokens: int = 0
    produced: int = 0
    """Tokens generated so far."""
    scheduled_ns: int = -1
    first_token_ns: int = -1
    last_token_ns: int = -1
    finish_reason: str | None = None
    open_ids: list[int] = field(default_factory=list)
    """Ids of the block that decoding is filling; all of them have KV."""
    with_kv: int = 0
    """Generated tokens whose KV exists: every one but the last sampled."""


def job_of(ids: Sequence[int], answer: list[int], *, block_size: int, salt: str = "", arrival_ns: int = 0) -> Job:
    """A job for a prompt, with the keys of its full blocks; a salt keeps it apart from the first block on."""
    root = root_key(salt)
    return Job(
        prompt_tokens=len(ids),
        keys=block_keys(ids, block_size, parent=root),
        tail=ids[len(ids) - len(ids) % block_size :],
        root=root,
        answer=answer,
        arrival_ns=arrival_ns,
    )


class Engine:
    """FIFO scheduler over a block cache, driven by ``submit``, ``advance`` and ``abort``."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.counters = EngineCounters(service.max_model_len)
        self._cache = BlockPool(service.capacity_blocks)
        self._waiting: deque[Job] = deque()
        self._prefills: deque[Job] = deque()
        self._running = 0
        self._events: list[tuple[int, int, Job]] = []
        self._progressed: dict[Job, None] = {}
        self._submitted = 0

    def gauges(self) -> Gauges:
        """Running and waiting requests, and the share of blocks that running requests hold."""
        capacity = self.service.capacity_blocks
        usage = 0.0 if capacity is None else self._cache.pinned_blocks / capacity
        return Gauges(running=self._running, waiting=len(self._waiting), kv_cache_usage=usage)

    def blocks_needed(self, prompt_tokens: int, answer_tokens: int) -> int:
        """Blocks that a request holds at its end; its last sampled token has no KV."""
        return math.ceil((prompt_tokens + answer_tokens - 1) / self.service.block_size)

    def next_event_ns(self) -> int | None:
        """When something happens next: 0 while progress waits for ``advance``, ``None`` while nothing runs."""
        if self._progressed:
            return 0
        return self._events[0][0] if self._events else None

    def submit(self, job: Job, now_ns: int) -> None:
        """Queue a job; it may be scheduled at once."""
        self._run_until(now_ns)
        job.serial = self._submitted
        self._submitted += 1
        self._waiting.append(job)
        self._admit(now_ns)

    def advance(self, now_ns: int) -> list[Job]:
        """Let time pass; returns the jobs that produced tokens since the last call."""
        self._run_until(now_ns)
        progressed = list(self._progressed)
        self._progressed.clear()
        return progressed

    def abort(self, job: Job, now_ns: int) -> None:
        """End a job that its client left; does nothing to one that is finished."""
        self._run_until(now_ns)
        if job.finish_reason is not None:
            return
        if job.lease is None:
            self._waiting.remove(job)
            job.finish_reason = "abort"
            self.counters.finished["abort"] += 1
        else:
            self._events = [event for event in self._events if event[2] is not job]
            heapify(self._events)
            self._leave_prefill(job, now_ns)
            self._finish(job, "abort", now_ns)
        self._admit(now_ns)

    def reset_prefix_cache(self) -> bool:
        """Forget all cached blocks; ``False``, and nothing happens, while requests run."""
        return self._cache.clear()

    def _run_until(self, now_ns: int) -> None:
        while self._events and self._events[0][0] <= now_ns:
            due_ns, _, job = heappop(self._events)
            self._step(job, due_ns)

    def _admit(self, at_ns: int) -> None:
        while self._waiting and self._running < self.service.slots:
            job = self._waiting[0]
            private = self.blocks_needed(job.prompt_tokens, len(job.answer)) - len(job.keys)
            limit = hit_limit_blocks(job.prompt_tokens, self.service.block_size)
            lease = self._cache.acquire(job.keys, hit_limit_blocks=limit, private_blocks=private)
            if lease is None:
                return
            self._waiting.popleft()
            self._start(job, lease, at_ns)

    def _start(self, job: Job, lease: Lease, at_ns: int) -> None:
        job.lease = lease
        job.cached_tokens = lease.hit_blocks * self.service.block_size
        job.scheduled_ns = at_ns
        job.open_ids = list(job.tail)
        self._running += 1
        self.counters.prefix_queries += job.prompt_tokens
        self.counters.prefix_hits += job.cached_tokens
        self._prefills.append(job)
        if len(self._prefills) == 1:
            self._begin_prefill(at_ns)

    def _begin_prefill(self, at_ns: int) -> None:
        if self._prefills:
            job = self._prefills[0]
            cost = (job.prompt_tokens - job.cached_tokens) / self.service.prefill_tokens_per_s
            self._at(at_ns + self._lasting(cost, job, 0), job)

    def _leave_prefill(self, job: Job, at_ns: int) -> None:
        if job not in self._prefills:
            return
        was_active = self._prefills[0] is job
        self._prefills.remove(job)
        if was_active:
            self._begin_prefill(at_ns)

    def _step(self, job: Job, at_ns: int) -> None:
        """A job's next token, or all of its tokens when decoding takes no time."""
        before = job.produced
        if before == 0:
            self._first_token(job, at_ns)
        speed = self.service.decode_tokens_per_s
        job.produced = len(job.answer) if speed is None else before + 1
        self._count_gaps(job, before, at_ns)
        self._key_full_blocks(job)
        self._progressed[job] = None
        if job.produced == len(job.answer):
            self._finish(job, "length", at_ns)
            self._admit(at_ns)
        elif speed is not None:
            self._at(at_ns + self._lasting(1 / speed, job, job.produced), job)

    def _first_token(self, job: Job, at_ns: int) -> None:
        job.first_token_ns = job.last_token_ns = at_ns
        self._prefills.popleft()
        self._begin_prefill(at_ns)
        now = self.counters
        now.prompt += job.prompt_tokens
        now.prompt_cached += job.cached_tokens
        now.step.observe(job.prompt_tokens - job.cached_tokens)
        now.first_token_s.observe((at_ns - job.arrival_ns) / _NS_PER_S)

    def _count_gaps(self, job: Job, before: int, at_ns: int) -> None:
        self.counters.generation += job.produced - before
        gaps = job.produced - max(before, 1)
        if gaps > 0:
            self.counters.gap_s.observe((at_ns - job.last_token_ns) / _NS_PER_S / gaps, gaps)
            self.counters.step.observe(1, gaps)
        job.last_token_ns = at_ns

    def _key_full_blocks(self, job: Job) -> None:
        """Give blocks that decoding filled their keys, so that the next turn hits them."""
        size = self.service.block_size
        if job.lease is None or len(job.open_ids) + job.produced - 1 - job.with_kv < size:
            return
        job.open_ids.extend(job.answer[job.with_kv : job.produced - 1])
        job.with_kv = job.produced - 1
        while len(job.open_ids) >= size:
            parent = job.lease.keys[-1] if job.lease.keys else job.root
            self._cache.extend(job.lease, next_key(parent, job.open_ids[:size]))
            del job.open_ids[:size]

    def _finish(self, job: Job, reason: str, at_ns: int) -> None:
        job.finish_reason = reason
        if job.lease is not None:
            self._cache.release(job.lease)
        self._running -= 1
        now = self.counters
        now.finished[reason] += 1
        if job.produced:
            self._observe_finished(job, at_ns)

    def _observe_finished(self, job: Job, at_ns: int) -> None:
        now = self.counters
        now.request_prompt.observe(job.prompt_tokens)
        now.request_computed.observe(job.prompt_tokens - job.cached_tokens)
        now.request_generation.observe(job.produced)
        now.request_limit.observe(len(job.answer))
        now.samples_per_request.observe(1)
        now.preemptions_per_request.observe(0)
        decode_s = (job.last_token_ns - job.first_token_ns) / _NS_PER_S
        now.queue_s.observe((job.scheduled_ns - job.arrival_ns) / _NS_PER_S)
        now.prefill_s.observe((job.first_token_ns - job.scheduled_ns) / _NS_PER_S)
        now.decode_s.observe(decode_s)
        now.inference_s.observe((at_ns - job.scheduled_ns) / _NS_PER_S)
        now.e2e_s.observe((at_ns - job.arrival_ns) / _NS_PER_S)
        if job.produced > 1:
            now.per_token_s.observe(decode_s / (job.produced - 1))

    def _at(self, due_ns: int, job: Job) -> None:
        heappush(self._events, (due_ns, job.serial, job))

    def _lasting(self, seconds: float, job: Job, step: int) -> int:
        """Nanoseconds of a step, with its jitter: a keyed draw, so that a replayed run has the same times."""
        if self.service.jitter:
            bits = raw_bits(draw_key("server jitter", self.service.seed, job.serial, step), 1)
            share = int(below(bits, _JITTER_STEPS)[0]) / (_JITTER_STEPS - 1)
            seconds *= 1 + self.service.jitter * (2 * share - 1)
        return round(seconds * _NS_PER_S)


_JITTER_STEPS = 1 << 20
