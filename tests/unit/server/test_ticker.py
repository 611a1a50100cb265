"""The pacemaker, with a clock and a loop that the test moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from foreword.server.engine import Engine, Job, Service, job_of
from foreword.server.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000


class HandMovedLoop:
    """Records one-shot timers and fires them when the test moves the clock."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.timers: list[tuple[int, Callable[[], None], asyncio.Handle]] = []
        self.most_timers = 0
        self._loop = asyncio.get_running_loop()

    def call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Due at once."""
        return self.call_later(0, callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.Handle:
        """Due after ``delay_s``."""
        handle = asyncio.Handle(callback, (), self._loop)
        self.timers.append((self.now_ns + round(delay_s * 1e9), callback, handle))
        self.most_timers = max(self.most_timers, len(self.pending()))
        return handle

    def pending(self) -> list[tuple[int, Callable[[], None]]]:
        """Timers that are neither fired nor cancelled."""
        return [(due, callback) for due, callback, handle in self.timers if not handle.cancelled()]

    def move_to(self, now_ns: int) -> None:
        """Let time pass and fire what is due by then."""
        while due := sorted(one for one in self.pending() if one[0] <= now_ns):
            self.now_ns, callback = max(self.now_ns, due[0][0]), due[0][1]
            self.timers = [one for one in self.timers if (one[0], one[1]) != due[0]]
            callback()
        self.now_ns = now_ns


@pytest.fixture
async def loop() -> HandMovedLoop:
    """A loop at time 0."""
    return HandMovedLoop()


@pytest.fixture
async def ticker(loop: HandMovedLoop, monkeypatch: pytest.MonkeyPatch) -> Ticker:
    """A ticker over an engine with 100,000 prefill and 50 decode tokens a second."""
    service = Service(
        block_size=16,
        capacity_blocks=None,
        prefill_tokens_per_s=100_000,
        decode_tokens_per_s=50,
        slots=64,
        jitter=0,
        seed=0,
        max_model_len=1000,
    )
    made = Ticker(Engine(service), clock=lambda: loop.now_ns)
    monkeypatch.setattr(made, "_loop", loop)
    return made


def job(first: int, prompt_tokens: int, answer_tokens: int) -> Job:
    """A job of distinct prompt ids."""
    return job_of([*range(first, first + prompt_tokens)], [1] * answer_tokens, block_size=16)


async def test_a_stream_is_woken_at_each_of_its_tokens(loop: HandMovedLoop, ticker: Ticker) -> None:
    """First token after 1 ms of prefill, then one every 20 ms."""
    one, waiter = job(0, 100, 3), asyncio.Event()
    ticker.submit([one], waiter)

    woken = []
    for at_ms in range(60):
        loop.move_to(at_ms * MS)
        if waiter.is_set():
            waiter.clear()
            woken.append((at_ms, one.produced))

    assert woken == [(1, 1), (21, 2), (41, 3)]
    assert loop.pending() == []


async def test_all_streams_share_one_timer(loop: HandMovedLoop, ticker: Ticker) -> None:
    """However many streams run, one timer is set at a time."""
    waiters = [asyncio.Event() for _ in range(50)]
    for n, waiter in enumerate(waiters):
        ticker.submit([job(1000 * n, 10 + n, 5)], waiter)

    loop.move_to(1000 * MS)

    assert loop.most_timers == 1
    assert all(waiter.is_set() for waiter in waiters)


async def test_an_earlier_event_moves_the_timer_forward(loop: HandMovedLoop, ticker: Ticker) -> None:
    """A short request after a long one is not kept waiting for the long one's next token."""
    long, short = job(0, 10, 50), job(500, 10, 1)
    ticker.submit([long], asyncio.Event())
    loop.move_to(5 * MS)  # the long one's next token is due at 20.1 ms
    waiter = asyncio.Event()
    ticker.submit([short], waiter)

    loop.move_to(6 * MS)

    assert waiter.is_set()
    assert short.first_token_ns == 5 * MS + 100_000


async def test_an_aborted_stream_is_not_woken_again(loop: HandMovedLoop, ticker: Ticker) -> None:
    """Leaving ends the job, and its timer when nothing else runs."""
    one, waiter = job(0, 100, 50), asyncio.Event()
    ticker.submit([one], waiter)
    loop.move_to(2 * MS)
    waiter.clear()

    ticker.abort([one])
    loop.move_to(1000 * MS)

    assert (one.finish_reason, one.produced, waiter.is_set()) == ("abort", 1, False)
    assert loop.pending() == []


async def test_closing_stops_the_timer(loop: HandMovedLoop, ticker: Ticker) -> None:
    """A closed server leaves no timer behind."""
    ticker.submit([job(0, 100, 5)], asyncio.Event())

    ticker.close()

    assert loop.pending() == []
