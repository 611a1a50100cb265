"""The one pacemaker of all streams: a single timer that lets the engine's time pass and wakes who got tokens."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foreword.server.engine import Engine, Job

_NS_PER_S = 1_000_000_000


class Ticker:
    """Drives an engine by the clock; a handler submits its jobs with the event that wakes it."""

    def __init__(self, engine: Engine, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.engine = engine
        self.clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiters: dict[Job, asyncio.Event] = {}
        self._timer: asyncio.Handle | None = None
        self._armed_ns = 0

    def submit(self, jobs: Sequence[Job], waiter: asyncio.Event) -> None:
        """Queue jobs; ``waiter`` is set whenever one of them has new tokens."""
        now_ns = self.clock()
        for job in jobs:
            self._waiters[job] = waiter
            self.engine.submit(job, now_ns)
        self._arm(now_ns)

    def abort(self, jobs: Sequence[Job]) -> None:
        """End the jobs of a client that left; finished ones stay as they are."""
        now_ns = self.clock()
        for job in jobs:
            if self._waiters.pop(job, None) is not None:
                self.engine.abort(job, now_ns)
        self._arm(now_ns)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, now_ns: int) -> None:
        """Set the timer to the engine's next event, unless it rings before that anyway."""
        due_ns = self.engine.next_event_ns()
        if due_ns is None or (self._timer is not None and self._armed_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ns = due_ns
        if due_ns <= now_ns:
            self._timer = self._loop.call_soon(self._tick)
        else:
            self._timer = self._loop.call_later((due_ns - now_ns) / _NS_PER_S, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_ns = self.clock()
        for job in self.engine.advance(now_ns):
            waiter = self._waiters.get(job)
            if waiter is not None:
                waiter.set()
            if job.finish_reason is not None:
                self._waiters.pop(job, None)
        self._arm(now_ns)
