"""A scripted OpenAI-compatible server with a small prefix cache, for tests of the client.

The cache is a set of prefixes in blocks of 4 tokens, one set a salt: written apart from the product's own cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.support.run_data import BLOCK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    Answer = Callable[["FakeOpenAI", web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]

HTML = "<!doctype html><html><body>hello</body></html>"


@dataclass
class FakeOpenAI:
    """State and behaviour of the server; tests change the attributes they are about."""

    owned_by: str = "vllm"
    models: tuple[str, ...] = ("tiny",)
    honours_salt: bool = True
    refuses_salt: bool = False
    reports: str = "always"  # always | unless_zero | never
    metrics: str = "vllm"  # vllm | html | json | missing | empty | other
    reset: str = "none"  # none | success | failure | empty
    answer: Answer | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    broken_status: int | None = None
    drains_after: int = 10**9
    resets: int = 0
    reset_queries: list[str] = field(default_factory=list)
    outer_tier: int | None = None
    queries: int = 0
    hits: int = 0
    cached: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)
    sampled: asyncio.Event = field(default_factory=asyncio.Event)

    def app(self) -> web.Application:
        """Routes of the server."""
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/version", self._version)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/reset_prefix_cache", self._reset)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        return app

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Bodies of the data set's requests, without the probe's."""
        return [body for body in self.bodies if not is_probe(body)]

    def hit(self, body: dict[str, Any]) -> tuple[int, int]:
        """Prompt tokens, and those already cached; then everything is cached."""
        prompt = body["prompt"] if "prompt" in body else body["messages"][0]["content"]
        ids = prompt if isinstance(prompt, list) else [hash_word(word) for word in prompt.split()]
        salt = body.get("cache_salt", "") if self.honours_salt else ""
        blocks = [(salt, tuple(ids[:end])) for end in range(BLOCK, len(ids) + 1, BLOCK)]
        known = 0
        while known < min(len(blocks), (len(ids) - 1) // BLOCK) and blocks[known] in self.cached:
            known += 1
        self.cached.update(blocks)
        self.queries, self.hits = self.queries + len(ids), self.hits + known * BLOCK
        return len(ids), known * BLOCK

    def usage(self, prompt: int, cached: int, completion: int) -> dict[str, Any]:
        """Usage object as this server reports it."""
        told: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
        if self.reports == "always" or (self.reports == "unless_zero" and cached):
            told["prompt_tokens_details"] = {"cached_tokens": cached}
        return told

    async def _models(self, request: web.Request) -> web.Response:
        cards = [{"id": name, "owned_by": self.owned_by, "max_model_len": 4096} for name in self.models]
        return web.json_response({"object": "list", "data": cards})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.99.0"})

    async def _metrics(self, request: web.Request) -> web.Response:
        if "urllib" in request.headers.get("User-Agent", ""):
            self.sampled.set()  # the sampler's, not the run's own
        match self.metrics:
            case "html":
                return web.Response(text=HTML, content_type="text/html")
            case "json":
                return web.json_response([{"kvCacheStats": {}}])
            case "missing":
                raise web.HTTPNotFound
            case "empty":
                return web.Response(text="")
            case "other":
                return web.Response(text="node_load1 0.5\n")
            case _:
                return web.Response(text=vllm_page(self.queries, self.hits) + outer_page(self.outer_tier))

    async def _reset(self, request: web.Request) -> web.Response:
        if self.reset == "none":
            raise web.HTTPNotFound
        self.resets += 1
        self.reset_queries.append(request.query_string)
        done = self.reset != "failure" or self.resets >= self.drains_after
        if done:
            self.cached.clear()
        return web.Response(text="" if self.reset == "empty" else json.dumps({"success": done}))

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self.refuses_salt and "cache_salt" in body:
            return web.json_response({"error": {"message": "Unsupported parameter(s): cache_salt"}}, status=400)
        if self.broken_status is not None:
            return web.json_response({"error": {"message": "no room"}}, status=self.broken_status)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        if self.answer is not None and not is_probe(body):
            return await self.answer(self, request, body)
        return await self.stream(request, body)

    async def stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        """Ordinary answer: one token a chunk, then usage."""
        prompt, cached = self.hit(body)
        if self.outer_tier is not None:
            self.outer_tier += 1
        response = await begin(request)
        for number in range(body["max_tokens"]):
            last = number == body["max_tokens"] - 1
            await say(response, {"choices": [{"text": f" t{number}", "finish_reason": "length" if last else None}]})
        await say(response, {"choices": [], "usage": self.usage(prompt, cached, body["max_tokens"])})
        await response.write(b"data: [DONE]\n\n")
        return response


def is_probe(body: dict[str, Any]) -> bool:
    """Whether a request is the salt probe's: only that asks for one token here."""
    return bool(body["max_tokens"] == 1)


def hash_word(word: str) -> int:
    """Token id of a word."""
    return int(word) if word.isdecimal() else int.from_bytes(word.encode(), "big")


async def begin(request: web.Request) -> web.StreamResponse:
    """Start an event stream."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


async def say(response: web.StreamResponse, document: dict[str, Any]) -> None:
    """Send one event."""
    await response.write(f"data: {json.dumps(document)}\n\n".encode())


def vllm_page(queries: int, hits: int) -> str:
    """Metrics page with vLLM's current names, as one engine prints them."""
    label = '{engine="0",model_name="tiny"}'
    return (
        "# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.\n"
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f"vllm:prefix_cache_queries_total{label} {float(queries)}\n"
        "# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.\n"
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        f"vllm:prefix_cache_hits_total{label} {float(hits)}\n"
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f"vllm:kv_cache_usage_perc{label} 0.25\n"
        "# TYPE vllm:cache_config_info gauge\n"
        f'vllm:cache_config_info{{block_size="{BLOCK}",cache_hit_alignment_tokens="None",engine="0"}} 1.0\n'
    )


def outer_page(tokens: int | None) -> str:
    """Counters of a tier outside the device, if there is one."""
    if tokens is None:
        return ""
    return "".join(f'vllm:external_prefix_cache_{what}_total{{engine="0"}} {tokens}\n' for what in ("queries", "hits"))


@contextlib.asynccontextmanager
async def serving(server: FakeOpenAI) -> AsyncIterator[str]:
    """Serve in this event loop; base URL."""
    runner = web.AppRunner(server.app(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def served(server: FakeOpenAI) -> Iterator[str]:
    """Serve in a thread, for code that has no event loop or is another process; base URL."""
    loop, ready, urls = asyncio.new_event_loop(), threading.Event(), list[str]()
    done = asyncio.Event()

    async def serve() -> None:
        async with serving(server) as url:
            urls.append(url)
            ready.set()
            await done.wait()

    def work() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(serve())

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
