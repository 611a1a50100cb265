"""The transport against raw sockets that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from foreword.run.transport import ErrorKind, Exchange, HttpTransport, Post

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Script = Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def piece(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def read_request(reader: asyncio.StreamReader) -> None:
    """Take one request off the wire; the end of the connection is an ``IncompleteReadError``."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.lower().splitlines() if line.startswith(b"content-length"))
    await reader.readexactly(length)


@contextlib.asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    """A server that runs a script for each connection (numbered from 0); its URL."""
    count = 0
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        number, count = count, count + 1
        if (task := asyncio.current_task()) is not None:
            tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await script(number, reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/completions"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)  # lets closed connections close


async def send(transport: HttpTransport, url: str) -> Exchange:
    """Send one small request."""
    exchange = Exchange()
    await transport.send(Post(url, b'{"prompt":"x"}'), exchange)
    return exchange


async def answer(writer: asyncio.StreamWriter) -> None:
    """A whole answer that leaves the connection open."""
    writer.write(HEAD + piece(b"data: a\n\n") + b"0\r\n\r\n")
    await writer.drain()


async def test_each_piece_has_its_own_time() -> None:
    """Stamps are taken as pieces come: later pieces have later stamps, between sending and the end."""
    arrived = asyncio.Event()

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(b"data: a\n\n"))
        await writer.drain()
        await arrived.wait()
        writer.write(piece(b"data: b\n\n") + b"0\r\n\r\n")
        await writer.drain()

    async with scripted(script) as url, HttpTransport(5) as transport:
        exchange = Exchange()
        sending = asyncio.create_task(transport.send(Post(url, b"{}"), exchange))
        while not exchange.chunks:  # noqa: ASYNC110 - the transport tells nobody of a piece
            await asyncio.sleep(0)
        arrived.set()
        await sending

    assert exchange.chunks == [b"data: a\n\n", b"data: b\n\n"]
    assert exchange.failure is None
    assert exchange.sent_ns is not None
    assert exchange.done_ns is not None
    assert exchange.sent_ns < exchange.stamps_ns[0] < exchange.stamps_ns[1] <= exchange.done_ns


@pytest.mark.parametrize("reset", [False, True])
async def test_a_reused_connection_that_dies_is_tried_again_once(*, reset: bool) -> None:
    """A connection that was called persistent and closes on the next request costs a retry, not a request."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await answer(writer)
        await read_request(reader)
        if reset:
            writer.transport.abort()

    async with scripted(script) as url, HttpTransport(5) as transport:
        first, second = await send(transport, url), await send(transport, url)

    assert (first.failure, first.retries) == (None, 0)
    assert (second.failure, second.retries) == (None, 1)
    assert second.chunks == [b"data: a\n\n"]


async def test_a_fresh_connection_that_dies_is_a_failure() -> None:
    """Nothing is tried again on a connection of its own: the failure is the server's."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with scripted(script) as url, HttpTransport(5) as transport:
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.retries) == (ErrorKind.CONNECT, 0)


async def test_an_answer_that_had_begun_is_not_tried_again() -> None:
    """A reused connection that dies after the first byte of an answer is a failure: the server may have worked."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await answer(writer)
        await read_request(reader)
        writer.write(HEAD + piece(b"data: a\n\n"))
        await writer.drain()

    async with scripted(script) as url, HttpTransport(5) as transport:
        await send(transport, url)
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.retries) == (ErrorKind.STREAM, 0)
    assert exchange.chunks == [b"data: a\n\n"]


async def test_half_a_head_is_not_tried_again() -> None:
    """A head that is cut off is part of an answer."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await answer(writer)
        await read_request(reader)
        writer.write(HEAD[:40])
        await writer.drain()

    async with scripted(script) as url, HttpTransport(5) as transport:
        await send(transport, url)
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert exchange.retries == 0


async def test_a_stalled_stream_ends_by_timeout() -> None:
    """A server that stops after one piece costs the timeout, not the run (case 29)."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(b"data: a\n\n"))
        await writer.drain()
        await asyncio.Event().wait()

    async with scripted(script) as url, HttpTransport(0.1) as transport:
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert exchange.failure.kind is ErrorKind.TIMEOUT
    assert "stalled" in exchange.failure.message
    assert exchange.chunks == [b"data: a\n\n"]


async def test_keep_alive_comments_do_not_hide_a_stall() -> None:
    """A server that only says that it is still there has stalled all the same."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(b"data: a\n\n"))
        while True:
            writer.write(piece(b": ping\n\n"))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with scripted(script) as url, HttpTransport(0.1) as transport:
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert exchange.failure.kind is ErrorKind.TIMEOUT
    assert exchange.chunks[0].startswith(b"data: a")


async def test_no_answer_at_all_is_a_timeout() -> None:
    """A server that takes a request and says nothing is told apart from one that stalls."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with scripted(script) as url, HttpTransport(0.1) as transport:
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.status) == (ErrorKind.TIMEOUT, None)


async def test_nobody_listens() -> None:
    """A refused connection is a connect failure, in the system's words and without the address."""
    async with scripted(lambda *_: asyncio.sleep(0)) as url:
        pass

    async with HttpTransport(5) as transport:
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert (exchange.failure.kind, exchange.failure.message) == (ErrorKind.CONNECT, "connection refused")


async def test_no_http() -> None:
    """A server that speaks something else is a protocol failure."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"220 smtp ready\r\n\r\n")
        await writer.drain()

    async with scripted(script) as url, HttpTransport(5) as transport:
        exchange = await send(transport, url)

    assert exchange.failure is not None
    assert exchange.failure.kind is ErrorKind.PROTOCOL


async def test_an_http_error_keeps_its_body() -> None:
    """The body of an error is kept for its words, and stamps nothing."""

    async def script(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy")
        await writer.drain()

    async with scripted(script) as url, HttpTransport(5) as transport:
        exchange = await send(transport, url)

    assert (exchange.status, exchange.chunks, exchange.stamps_ns) == (503, [b"busy"], [])
