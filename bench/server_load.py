"""Requests per second of the built-in server under the standard load, beside a plain aiohttp handler.

The load: prompts of 64 token ids, 16 tokens out as 16 streamed chunks, 64 in flight, prefix cache and usage on, decode
and prefill speed out of the way, the server alone on one core and this stamping client on another.

    python bench/server_load.py [--requests 6000] [--rounds 3] [--url http://127.0.0.1:8000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import statistics
import time
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from aiohttp import web

from foreword.config.server import ServerConfig
from foreword.server.running import server_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

PROMPT_TOKENS = 64
SHARED_TOKENS = 32
GROUPS = 16
TOKENS_OUT = 16
IN_FLIGHT = 64
END = b"\r\n0\r\n\r\n"
CHUNK_START = b"\r\ndata: "


def request_bytes(number: int, host: str) -> bytes:
    """Request ``number``: 32 ids shared within one of 16 groups, 32 of its own."""
    shared = [1000 + number % GROUPS * SHARED_TOKENS + i for i in range(SHARED_TOKENS)]
    own = [(number * 7919 + i * 104_729) % 4000 for i in range(PROMPT_TOKENS - SHARED_TOKENS)]
    body = json.dumps(
        {
            "model": "foreword",
            "prompt": shared + own,
            "max_tokens": TOKENS_OUT,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Load:
    """What all connections share: the requests left, and the stamps taken."""

    def __init__(self, requests: list[bytes]) -> None:
        self.requests = iter(requests)
        self.open_connections = 0
        self.answered = 0
        self.chunks = 0
        self.first_s: list[float] = []
        self.done = asyncio.get_running_loop().create_future()


class Stream(asyncio.Protocol):
    """One kept-alive connection in a closed loop; a stamp for every read, with the events it held."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._tail = b""
        self._sent_ns = 0
        self._stamps: list[tuple[int, int]] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._load.open_connections += 1
        self._next()

    def data_received(self, data: bytes) -> None:
        """Stamp, count the HTTP chunks that begin an event, and go on when the answer is complete."""
        fresh = self._tail[1 - len(CHUNK_START) :] + data
        self._stamps.append((time.monotonic_ns(), fresh.count(CHUNK_START)))
        self._tail = (self._tail + data)[-len(END) :]
        if self._tail == END:
            self._finish()
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        """The last connection to end ends the run."""
        self._load.open_connections -= 1
        if self._load.open_connections == 0 and not self._load.done.done():
            self._load.done.set_result(None)

    def _finish(self) -> None:
        self._load.answered += 1
        self._load.chunks += sum(count for _, count in self._stamps)
        first_ns = next((stamp for stamp, count in self._stamps if count), self._sent_ns)
        self._load.first_s.append((first_ns - self._sent_ns) / 1e9)

    def _next(self) -> None:
        request = next(self._load.requests, None)
        self._stamps = []
        self._tail = b""
        if request is None:
            self._transport.close()
            return
        self._sent_ns = time.monotonic_ns()
        self._transport.write(request)


async def drive(url: str, count: int) -> dict[str, float]:
    """Send ``count`` requests with 64 in flight; every answer must hold 16 tokens, usage and the end mark."""
    address = urlsplit(url)
    load = Load([request_bytes(number, address.netloc) for number in range(count)])
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    for _ in range(IN_FLIGHT):
        await loop.create_connection(lambda: Stream(load), address.hostname or "", address.port or 80)
    await load.done
    duration = time.monotonic() - started
    if (load.answered, load.chunks) != (count, count * (TOKENS_OUT + 2)):
        raise SystemExit(f"{load.answered} answers of {count}, {load.chunks} events: the server answered wrongly")
    return {"per_s": count / duration, "first_ms": statistics.median(load.first_s) * 1e3}


def _serve_plain(pipe: Connection) -> None:
    """A plain aiohttp handler: 16 canned chunks, usage, end mark; no cache, no engine."""
    chunk = b'data: {"choices":[{"index":0,"text":" word","finish_reason":null}]}\n\n'

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(TOKENS_OUT):
            await response.write(chunk)
        await response.write(b'data: {"choices":[],"usage":{"prompt_tokens":64}}\n\n')
        await response.write_eof(b"data: [DONE]\n\n")
        return response

    async def serve() -> None:
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await asyncio.Event().wait()

    asyncio.run(serve())


@contextlib.contextmanager
def plain_process() -> Iterator[str]:
    """The plain handler in a process of its own."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_serve_plain, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


@contextlib.contextmanager
def on_core(index: int) -> Iterator[None]:
    """Stay on one of the machine's cores; processes started here inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[index % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def main() -> None:
    """Load both servers in turn, and print the best round of each and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", help="load a server that runs already, instead of one of our own")
    options = parser.parse_args()
    config = ServerConfig(port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None, capacity_blocks=100_000)
    server = contextlib.nullcontext(options.url) if options.url else server_process(config)
    with contextlib.ExitStack() as stack:
        with on_core(0):
            urls = {
                "built-in server": stack.enter_context(server),
                "plain handler": stack.enter_context(plain_process()),
            }
        stack.enter_context(on_core(1))
        rounds = [
            {name: asyncio.run(drive(url, options.requests)) for name, url in urls.items()}
            for _ in range(options.rounds)
        ]
    best = {name: max((one[name] for one in rounds), key=lambda figures: figures["per_s"]) for name in urls}
    for name, figures in best.items():
        print(f"{name + ':':<17}{figures['per_s']:>6.0f} req/s, first token p50 {figures['first_ms']:.1f} ms")
    print(f"{'ratio:':<17}{best['built-in server']['per_s'] / best['plain handler']['per_s']:>6.2f}")


if __name__ == "__main__":
    main()
