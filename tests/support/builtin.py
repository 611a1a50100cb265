"""The built-in server inside a test's own event loop, and the pages and streams it answers with."""

from __future__ import annotations

import contextlib
import functools
import json
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from foreword.config.server import ServerConfig
from foreword.server.running import start
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


@functools.cache
def builtin_tokenizer() -> LoadedTokenizer:
    """The built-in tokenizer, loaded once."""
    return load_tokenizer("builtin")


@contextlib.asynccontextmanager
async def served(tokenizer: LoadedTokenizer | None = None, **settings: object) -> AsyncIterator[ClientSession]:
    """A client of a built-in server on a free port; fast unless the settings say otherwise."""
    fast: dict[str, object] = {"port": 0, "prefill_tokens_per_s": 1e9, "decode_tokens_per_s": None}
    server = await start(ServerConfig.model_validate(fast | settings), tokenizer or builtin_tokenizer())
    async with ClientSession(server.url) as client:
        try:
            yield client
        finally:
            await client.close()
            await server.close()


async def ask(client: ClientSession, path: str = COMPLETIONS, **body: object) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    async with client.post(path, json=body) as reply:
        assert reply.status == 200, await reply.text()
        answer: dict[str, Any] = await reply.json()
        return answer


async def stream(client: ClientSession, path: str = COMPLETIONS, **body: object) -> list[dict[str, Any]]:
    """The events of a streamed answer, which must end with the end mark."""
    async with client.post(path, json={**body, "stream": True}) as reply:
        assert reply.status == 200, await reply.text()
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        events = (await reply.text()).split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


async def metrics(client: ClientSession) -> dict[str, float]:
    """Samples of the metrics page by name, labels beyond engine and model appended as ``{value}``."""
    async with client.get("/metrics") as reply:
        page = await reply.text()
    return {
        sample.name
        + "".join(f"{{{value}}}" for label, value in sample.labels.items() if label in {"source", "finished_reason"}): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "le" not in sample.labels
    }


def cached_of(answer: dict[str, Any]) -> int:
    """The reported cached tokens of an answer."""
    cached: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return cached
