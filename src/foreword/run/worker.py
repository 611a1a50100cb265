"""The closed loop: a fixed number of slots, each sending the next request when its last one has ended.

Requests start exactly in the order of the file at any concurrency: between taking a request and stamping it as sent
nothing yields. A slot's request is *due* when the slot is free.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from foreword.collect.records import RequestRow
from foreword.run.openai import Answer, read_answer, request_body
from foreword.run.transport import Exchange, Post
from foreword.terms import Pass

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Mapping

    from foreword.run.targets import Router
    from foreword.run.transport import Transport
    from foreword.store.requests import SendRequest
    from foreword.terms import PromptFormat

GRACE_S = 3.0
_LAG_STEP_S = 0.02
_NS_PER_MS = 1e6


class Stop:
    """A wish to stop: the first lets requests in flight end for a moment, the second does not."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._now = asyncio.Event()

    @property
    def requested(self) -> bool:
        """Whether no further request may start."""
        return self._asked.is_set()

    def request(self) -> None:
        """Ask to stop; asked again, to stop at once."""
        (self._now if self._asked.is_set() else self._asked).set()

    async def wait(self) -> None:
        """Return when stopping is asked for."""
        await self._asked.wait()

    async def wait_for_haste(self, tasks: set[asyncio.Task[None]]) -> None:
        """Give tasks a moment to end, less when asked again."""
        haste = asyncio.ensure_future(self._now.wait())
        ended = asyncio.ensure_future(asyncio.wait(tasks, timeout=GRACE_S))
        await asyncio.wait({haste, ended}, return_when=asyncio.FIRST_COMPLETED)
        for waiter in (haste, ended):
            waiter.cancel()


@dataclass(frozen=True, slots=True)
class Sending:
    """How requests of one pass are written: where to, as what, with which extra fields.

    ``save_prompts`` puts prompts into the rows of results.
    """

    name: Pass
    router: Router
    prompt_format: PromptFormat
    model: str
    headers: Mapping[str, str] = field(repr=False)
    extra: Mapping[str, object] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    origin_ns: int
    save_prompts: bool = False

    def post(self, request: SendRequest) -> Post:
        """Write one request."""
        body = request_body(
            self.prompt_format,
            request.prompt,
            model=self.model,
            max_tokens=request.max_tokens,
            extra=self.extra,
        )
        target = self.router.targets[self.router.url_index(request.planned_dp_id)]
        return Post(target.endpoint, body, {**self.headers, **self.router.headers(request.planned_dp_id)})


async def send_one(sending: Sending, request: SendRequest, *, transport: Transport, due_ns: int) -> RequestRow:
    """Send one request and read what came of it; never raises for what a server does."""
    post, exchange = sending.post(request), Exchange()
    await transport.send(post, exchange)
    answer = read_answer(exchange, body=post.body, secrets=sending.secrets)
    return make_row(sending, request, exchange=exchange, answer=answer, due_ns=due_ns)


def make_row(sending: Sending, request: SendRequest, *, exchange: Exchange, answer: Answer, due_ns: int) -> RequestRow:
    """Row of one request, its times moved to the run's start."""
    origin, failure, usage = sending.origin_ns, answer.failure, answer.usage
    tokens = [at_ns - origin for at_ns in answer.token_ns]
    expected = {Pass.COLD: request.expected_cold, Pass.HOT: request.expected_hot}
    return RequestRow(
        request_id=request.request_id,
        pass_=sending.name,
        order_index=request.order_index,
        prefix_group_id=request.prefix_group_id,
        planned_dp_id=request.planned_dp_id,
        url_index=sending.router.url_index(request.planned_dp_id),
        ok=failure is None,
        error=failure.message if failure else None,
        error_kind=failure.kind.value if failure else None,
        http_status=exchange.status,
        due_ns=due_ns - origin,
        sent_ns=_moved(exchange.sent_ns, origin),
        first_token_ns=tokens[0] if tokens else None,
        first_answer_ns=_moved(answer.first_answer_ns, origin),
        last_token_ns=tokens[-1] if tokens else None,
        done_ns=_moved(exchange.done_ns, origin),
        token_ns=tokens,
        chunk_tokens=list(answer.chunk_tokens) if answer.chunk_tokens is not None else None,
        input_len=request.input_len,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        expected_hit_len=expected.get(sending.name),
        max_tokens=request.max_tokens,
        finish_reason=answer.finish_reason,
        connection_retries=exchange.retries,
        prompt=request.prompt if sending.save_prompts else msgspec.UNSET,
    )


def _moved(at_ns: int | None, origin_ns: int) -> int | None:
    return None if at_ns is None else at_ns - origin_ns


async def closed_loop(
    sending: Sending,
    requests: Iterator[SendRequest],
    *,
    transport: Transport,
    slots: int,
    sink: Callable[[RequestRow], None],
    stop: Stop,
) -> int:
    """Send all requests with ``slots`` in flight; how many were begun and then abandoned by a stop.

    Errors of the source (a damaged row) end the loop and are raised when the other slots have been stopped.
    """

    async def slot() -> None:
        while not stop.requested:
            due_ns = time.monotonic_ns()
            request = next(requests, None)
            if request is None:
                return
            sink(await send_one(sending, request, transport=transport, due_ns=due_ns))

    ended = await _until_done({asyncio.create_task(slot()) for _ in range(slots)}, stop)
    broken = next((end for end in ended if isinstance(end, Exception)), None)
    if broken is not None:
        raise broken
    return sum(isinstance(end, asyncio.CancelledError) for end in ended)


async def _until_done(tasks: set[asyncio.Task[None]], stop: Stop) -> list[BaseException | None]:
    """How the slots ended: by themselves, or all of them for a stop or the first error."""
    stopped = asyncio.create_task(stop.wait())
    pending = tasks
    try:
        while pending and not stop.requested:
            done, _ = await asyncio.wait({*pending, stopped}, return_when=asyncio.FIRST_COMPLETED)
            pending = pending - done
            if any(task.exception() for task in done - {stopped}):
                break
        if pending and stop.requested:
            await stop.wait_for_haste(pending)
    finally:
        for task in (stopped, *tasks):
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    return ended


async def watch_loop(lags_ms: array[float]) -> None:
    """Record how late the event loop wakes up, until cancelled: the client's own delay."""
    while True:
        before_ns = time.monotonic_ns()
        await asyncio.sleep(_LAG_STEP_S)
        lags_ms.append(max(0.0, (time.monotonic_ns() - before_ns) / _NS_PER_MS - _LAG_STEP_S * 1000))
