"""Requests that fail, and runs that are stopped."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from foreword.errors import Interrupted
from foreword.run.session import run_dataset
from foreword.run.spec import RunSpec, Silent
from foreword.run.transport import ErrorKind, Exchange, Failure, HttpTransport, Post
from foreword.run.worker import Stop
from foreword.terms import ExecutionMode
from tests.support.fake_openai import FakeOpenAI, begin, say, serving
from tests.support.run_data import Planned, write_dataset
from tests.support.stored_run import load_run
from tests.unit.run.runs import make_run

if TYPE_CHECKING:
    from pathlib import Path

COLD = ExecutionMode.COLD


def failing(behaviours: dict[int, str]) -> FakeOpenAI:
    """A server whose n-th request of the data set (from 0) misbehaves as named."""
    server, count = FakeOpenAI(), iter(range(10**6))

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        match behaviours.get(next(count)):
            case "500":
                return error_response(500, f"cannot serve {body['prompt']}")
            case "stall":
                response = await begin(request)
                await say(response, {"choices": [{"text": "a", "finish_reason": None}]})
                await asyncio.Event().wait()
                return response
            case "error":
                response = await begin(request)
                await say(response, {"error": {"message": "out of blocks"}})
                return response
            case "reset":
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError
            case "impossible":
                response = await begin(request)
                await say(
                    response,
                    {"choices": [{"text": "a", "finish_reason": "stop"}], "usage": fake.usage(16, 17, 1)},
                )
                return response
            case _:
                return await fake.stream(request, body)

    server.answer = answer
    return server


def error_response(status: int, message: str) -> web.Response:
    """An error as OpenAI-compatible servers send it."""
    return web.json_response({"error": {"message": message}}, status=status)


async def test_a_failed_request_is_a_row(tmp_path: Path) -> None:
    """Each kind of failure is recorded with its kind and the run goes on; no prompt gets into the results."""
    server = failing({0: "500", 1: "stall", 2: "error", 3: "impossible"})

    outcome = await make_run(server, tmp_path, mode=COLD, timeout_s=0.2)

    rows = list(load_run(outcome.folder).rows())
    assert [(row.ok, row.error_kind) for row in rows] == [
        (False, "http"),
        (False, "timeout"),
        (False, "stream"),
        (False, "protocol"),
        (True, None),
    ]
    assert rows[0].http_status == 500
    assert rows[0].error == "HTTP 500: (the server's message is withheld: it repeats parts of the request)"
    assert rows[1].token_ns != []
    assert (outcome.passes[0].ok, outcome.passes[0].failed) == (1, 4)
    figures = load_run(outcome.folder).performance["passes"][0]
    assert figures["counts"]["errors_by_kind"] == {"http": 1, "protocol": 1, "stream": 1, "timeout": 1}
    assert figures["timeout_rate"] == 0.2
    assert figures["TTFT"]["count"] == 1


async def test_a_connection_that_breaks_is_a_row(tmp_path: Path) -> None:
    """A reset connection is tried once more, then recorded."""
    outcome = await make_run(failing({1: "reset", 2: "reset"}), tmp_path, mode=COLD)

    rows = list(load_run(outcome.folder).rows())
    assert [row.error_kind for row in rows] == [None, "connect", None, None, None]
    assert rows[1].connection_retries == 1


async def test_every_request_fails(tmp_path: Path) -> None:
    """The run is written all the same, and says so."""
    outcome = await make_run(failing(dict.fromkeys(range(5), "error")), tmp_path, mode=COLD)

    assert outcome.server_failed
    assert (outcome.passes[0].failures_by_kind, outcome.passes[0].first_error) == ({"stream": 5}, "out of blocks")
    assert load_run(outcome.folder).run["state"] == "complete"


@pytest.mark.parametrize(("failing_ones", "failed"), [(2, False), (3, True)])
async def test_most_requests_fail(tmp_path: Path, failing_ones: int, failed: bool) -> None:  # noqa: FBT001 - a case
    """More than half of a pass decides, whatever the other passes did."""
    outcome = await make_run(failing(dict.fromkeys(range(failing_ones), "error")), tmp_path)

    assert [one.failed for one in outcome.passes] == [failing_ones, 0, 0]
    assert outcome.server_failed is failed


class Vanishing(HttpTransport):
    """A transport whose server refuses everything after some answers, but for one request in between."""

    answered = 0

    async def send(self, post: Post, exchange: Exchange) -> None:
        """Answer the first three requests of the data set and the tenth one."""
        type(self).answered += b"cache_salt" in post.body
        if self.answered <= 3 + PROBES or self.answered == 10 + PROBES:
            await super().send(post, exchange)
            return
        exchange.sent_ns = exchange.done_ns = time.monotonic_ns()
        exchange.failure = Failure(ErrorKind.CONNECT, "connection refused")


PROBES = 3


async def test_a_server_that_is_gone_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty refused connections in a row end the pass and the run; what was not sent has no row."""
    monkeypatch.setattr("foreword.run.session.HttpTransport", Vanishing)
    dataset = write_dataset(tmp_path / "many", tuple(Planned("a", 8, 16, cold=8) for _ in range(50)))

    outcome = await make_run(FakeOpenAI(), tmp_path, dataset)

    assert [(one.name, one.requests, one.ok) for one in outcome.passes] == [("cold", 30, 4)]
    assert outcome.server_failed
    assert load_run(outcome.folder).run["state"] == "server_gone"
    assert outcome.warnings[0] == "20 connections in a row were refused: the cold pass and the run end here"


@pytest.mark.parametrize("times", [1, 2])
async def test_stopping_keeps_what_was_done(tmp_path: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop ends the run within the grace (asked twice, at once) and writes the summaries of what is there."""
    monkeypatch.setattr("foreword.run.worker.GRACE_S", 0.1 if times == 1 else 60)
    stop, server = Stop(), failing({2: "stall"})
    stalling = server.answer

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) == 3:
            for _ in range(times):
                stop.request()
        assert stalling is not None
        return await stalling(fake, request, body)

    server.answer = answer
    async with serving(server) as url:
        spec = RunSpec(write_dataset(tmp_path / "dataset"), (url,), outputs=tmp_path)
        outcome = await asyncio.wait_for(run_dataset(spec, Silent(), stop=stop), 20)

    stored = load_run(outcome.folder)
    assert outcome.interrupted
    assert stored.run["state"] == "interrupted"
    assert stored.run["passes"] == [{"pass": "cold", "requests": 2, "abandoned": 1, "reset": None}]
    assert [row.request_id for row in stored.rows()] == ["r0", "r1"]


async def test_a_stop_lets_requests_in_flight_end(tmp_path: Path) -> None:
    """A request that ends within the grace is kept; none is sent after the stop."""
    stop, server = Stop(), FakeOpenAI()

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) == 3:
            stop.request()
        return await fake.stream(request, body)

    server.answer = answer
    async with serving(server) as url:
        spec = RunSpec(write_dataset(tmp_path / "dataset"), (url,), outputs=tmp_path)
        outcome = await run_dataset(spec, Silent(), stop=stop)

    assert (outcome.passes[0].requests, outcome.passes[0].ok, len(server.sent)) == (3, 3, 3)


async def test_stopped_before_the_first_request(tmp_path: Path) -> None:
    """A stop while the server is looked at leaves nothing behind."""
    stop = Stop()
    stop.request()
    async with serving(FakeOpenAI()) as url:
        spec = RunSpec(write_dataset(tmp_path / "dataset"), (url,), outputs=tmp_path / "outputs")
        with pytest.raises(Interrupted):
            await run_dataset(spec, Silent(), stop=stop)

    assert not (tmp_path / "outputs").exists()
