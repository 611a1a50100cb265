"""What the built-in server refuses, and how; one server for all tests of this module."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.support.builtin import CHAT, COMPLETIONS, ask, served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientSession

pytestmark = pytest.mark.asyncio(loop_scope="module")

MESSAGES = [{"role": "user", "content": "good day"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[ClientSession]:
    """A client of the server."""
    async with served() as session:
        yield session


BAD_COMPLETIONS = {
    "not JSON": (b"{", 400),
    "not an object": (b"[]", 400),
    "empty body": (b"", 400),
    "no prompt": (b"{}", 400),
    "unknown model": (b'{"model":"other","prompt":"a"}', 404),
    "prompt of a wrong type": (b'{"prompt":5}', 400),
    "fractions as ids": (b'{"prompt":[1.5]}', 400),
    "mixed prompt": (b'{"prompt":[1,"a"]}', 400),
    "mixed lists": (b'{"prompt":[[1],["a"]]}', 400),
    "empty list": (b'{"prompt":[]}', 400),
    "empty ids": (b'{"prompt":[[]]}', 400),
    "empty text": (b'{"prompt":""}', 400),
    "negative id": (b'{"prompt":[-1]}', 400),
    "id outside the vocabulary": (b'{"prompt":[1000000]}', 400),
    "id of many digits": (b'{"prompt":[1' + b"0" * 40 + b"]}", 400),
    "half a character": (b'{"prompt":"\\ud800"}', 400),
    "max_tokens 0": (b'{"prompt":"a","max_tokens":0}', 400),
    "max_tokens as text": (b'{"prompt":"a","max_tokens":"5"}', 400),
    "min_tokens above max_tokens": (b'{"prompt":"a","max_tokens":2,"min_tokens":3}', 400),
    "negative min_tokens": (b'{"prompt":"a","min_tokens":-1}', 400),
    "too long": (b'{"prompt":[1],"max_tokens":131072}', 400),
    "several samples": (b'{"prompt":"a","n":2}', 400),
    "echo": (b'{"prompt":"a","echo":true}', 400),
    "empty salt": (b'{"prompt":"a","cache_salt":""}', 400),
    "long salt": (b'{"prompt":"a","cache_salt":"' + b"s" * 1025 + b'"}', 400),
    "stream as text": (b'{"prompt":"a","stream":"yes"}', 400),
    "stream options without a stream": (b'{"prompt":"a","stream_options":{"include_usage":true}}', 400),
}


@pytest.mark.parametrize(("body", "status"), BAD_COMPLETIONS.values(), ids=BAD_COMPLETIONS)
async def test_a_bad_completion_gets_an_openai_error(client: ClientSession, body: bytes, status: int) -> None:
    """The status is in the body too, the message is one line, and the server goes on."""
    async with client.post(COMPLETIONS, data=body) as reply:
        answer = await reply.json()

    assert reply.status == answer["error"]["code"] == status
    assert answer["error"]["type"] == ("NotFoundError" if status == 404 else "BadRequestError")
    assert answer["error"]["message"]
    assert "\n" not in answer["error"]["message"]
    assert (await ask(client, prompt="a"))["usage"]["completion_tokens"] == 16


BAD_CHATS: dict[str, dict[str, object]] = {
    "no messages": {},
    "empty messages": {"messages": []},
    "message without role": {"messages": [{"content": "a"}]},
    "content of a wrong type": {"messages": [{"role": "user", "content": 5}]},
    "an image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
    "no tokens": {"messages": MESSAGES, "max_completion_tokens": 0},
}


@pytest.mark.parametrize("body", BAD_CHATS.values(), ids=BAD_CHATS)
async def test_a_bad_chat_gets_an_openai_error(client: ClientSession, body: dict[str, object]) -> None:
    """Chats are refused like completions."""
    async with client.post(CHAT, json=body) as reply:
        answer = await reply.json()

    assert (reply.status, answer["error"]["type"]) == (400, "BadRequestError")


@pytest.mark.parametrize("body", [{}, {"prompt": "a", "messages": MESSAGES}, {"prompt": [1]}, {"messages": []}])
async def test_tokenize_needs_one_input(client: ClientSession, body: dict[str, object]) -> None:
    """A text or messages, not both and not neither."""
    async with client.post("/tokenize", json=body) as reply:
        assert reply.status == 400
        assert (await reply.json())["error"]["code"] == 400


@pytest.mark.parametrize(("rank", "status"), [("0", 200), ("1", 400), ("-1", 400), ("x", 400), ("", 400)])
async def test_the_rank_header_knows_rank_0(client: ClientSession, rank: str, status: int) -> None:
    """There is one data-parallel rank."""
    async with client.post(COMPLETIONS, json={"prompt": "a"}, headers={"X-data-parallel-rank": rank}) as reply:
        assert reply.status == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("POST", "/v1/embeddings", 404), ("GET", COMPLETIONS, 405), ("POST", "/health", 405)],
)
async def test_unknown_paths_and_methods_get_openai_errors(
    client: ClientSession, method: str, path: str, status: int
) -> None:
    """Even what is not served answers in JSON."""
    async with client.request(method, path) as reply:
        assert reply.status == json.loads(await reply.text())["error"]["code"] == status
