"""What is found out about a server before the first request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from foreword.errors import ServerError
from foreword.run.web import Web
from foreword.terms import ExecutionMode
from tests.support.fake_openai import FakeOpenAI, serving
from tests.support.stored_run import load_run
from tests.unit.run.runs import make_run

if TYPE_CHECKING:
    from pathlib import Path

COLD = ExecutionMode.COLD


class Bare(FakeOpenAI):
    """A server without model cards, whose answers to an empty body a test chooses."""

    card_status = 404
    empty_status = 400

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"error": "no"}, status=self.card_status)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if await request.json() == {}:
            return web.json_response({"error": {"message": "prompt is missing"}}, status=self.empty_status)
        return await super()._complete(request)


async def test_a_server_without_model_cards(tmp_path: Path) -> None:
    """With ``model`` given it can be used; without, the message says to give it."""
    outcome = await make_run(Bare(), tmp_path, mode=COLD, model="mine")

    assert outcome.passes[0].ok == 5
    assert load_run(outcome.folder).run["model"] == "mine"
    with pytest.raises(ServerError, match="--model"):
        await make_run(Bare(), tmp_path, mode=COLD)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("where", ["cards", "endpoint"])
async def test_a_server_that_wants_a_key(tmp_path: Path, status: int, where: str) -> None:
    """Refused model cards or a refused endpoint point to ``--api-key-env``."""
    server = Bare()
    server.card_status, server.empty_status = (status, 400) if where == "cards" else (404, status)

    with pytest.raises(ServerError, match="--api-key-env"):
        await make_run(server, tmp_path, mode=COLD, model="mine")


async def test_a_server_that_fails_even_a_small_request(tmp_path: Path) -> None:
    """When the probe fails with and without a salt the run does not begin."""
    with pytest.raises(ServerError, match="fails a small request: HTTP 503: no room"):
        await make_run(FakeOpenAI(broken_status=503), tmp_path, mode=COLD)


async def test_a_server_that_does_not_answer() -> None:
    """A connection that is taken and never answered is a one-line failure after the timeout."""
    ended = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Web({}, timeout_s=0.05) as web_client:
        with pytest.raises(ServerError, match=r"does not answer within 0\.05 s"):
            await web_client.get(f"http://127.0.0.1:{port}/v1/models")
        await ended.wait()


async def test_a_server_that_speaks_no_http() -> None:
    """Something else on the port is named as such, without a traceback."""
    ended = asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp ready\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Web({}) as web_client:
        with pytest.raises(ServerError, match="does not speak HTTP"):
            await web_client.get(f"http://127.0.0.1:{port}/")
        await ended.wait()


async def test_what_is_known_of_the_server(tmp_path: Path) -> None:
    """Engine, version, block size and context are written down."""
    outcome = await make_run(FakeOpenAI(), tmp_path, mode=COLD)

    assert load_run(outcome.folder).run["server"] == {
        "engine": "vllm",
        "version": "0.99.0",
        "server": None,
        "detected_by": "metrics",
        "max_model_len": 4096,
        "block_size": 4,
        "ranks": 1,
    }


async def test_an_unknown_server_gets_plain_requests(tmp_path: Path) -> None:
    """Fields of some engines are not sent to a server that is none of them."""
    server = FakeOpenAI(owned_by="me", metrics="missing", refuses_salt=True)

    await make_run(server, tmp_path, mode=COLD)

    assert set(server.sent[0]) == {"model", "prompt", "max_tokens", "temperature", "stream", "stream_options"}


async def test_a_page_is_asked_for_in_plain_text_and_without_the_key() -> None:
    """Metrics pages may be another program's: they do not get the server's key."""
    seen: list[dict[str, str]] = []

    async def metrics(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.Response(text="a 1\n")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    server = FakeOpenAI()
    server.app = lambda: app  # type: ignore[method-assign] # a page of its own
    async with serving(server) as url, Web({"Authorization": "Bearer k3y"}) as web_client:
        await web_client.get(f"{url}/metrics", plain=True)

    assert "Authorization" not in seen[0]
    assert seen[0]["Accept"].startswith("text/plain")
