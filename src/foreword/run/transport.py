"""One method that sends a request and stamps every piece of the answer.

Between two stamps of a stream nothing happens but ``append``: events and JSON are read after the stream has ended.
"""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass, field
from enum import StrEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, Self

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

CONNECT_TIMEOUT_S = 10.0
LONGEST_ERROR_BYTES = 64 * 1024
HTTP_OK = 200
REFUSED = "connection refused"
_COMMENT = ord(":")


class ErrorKind(StrEnum):
    """What kind of failure a request met."""

    TIMEOUT = "timeout"
    CONNECT = "connect"
    HTTP = "http"
    STREAM = "stream"
    PROTOCOL = "protocol"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request has no usable answer; the text holds no prompt and no key."""

    kind: ErrorKind
    message: str


@dataclass(frozen=True, slots=True)
class Post:
    """A request, ready to be written to the wire."""

    url: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Exchange:
    """What happened to one request; times on the monotonic clock in ns, filled while it happens."""

    sent_ns: int | None = None
    done_ns: int | None = None
    status: int | None = None
    content_type: str = ""
    stamps_ns: list[int] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list, repr=False)
    retries: int = 0
    failure: Failure | None = None


class Transport(Protocol):
    """Send a request and fill its exchange; failures end up in ``exchange.failure``, never as exceptions."""

    async def send(self, post: Post, exchange: Exchange) -> None:
        """Return when the answer has ended."""


class HttpTransport:
    """Keep-alive HTTP/1.1 over aiohttp, unlimited connections.

    A request on a *reused* connection that dies before any byte of the answer is sent once more on a fresh connection
    and counted in ``exchange.retries``: some servers close a connection that they called persistent. Anything else
    that fails is a result. A stream that sends nothing, or nothing but keep-alive comments, for ``timeout_s`` has
    stalled.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_ns = int(timeout_s * 1e9)
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        self._pooled = _session(timeout_s, aiohttp.TCPConnector(limit=0), trace)
        self._fresh = _session(timeout_s, aiohttp.TCPConnector(limit=0, force_close=True), None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pooled.close()
        await self._fresh.close()

    async def send(self, post: Post, exchange: Exchange) -> None:
        """Stamp the sending, each piece of the answer and the end."""
        connection = SimpleNamespace(reused=False)
        exchange.sent_ns = time.monotonic_ns()
        try:
            try:
                await self._attempt(self._pooled, post, exchange, connection)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                if not (connection.reused and _nothing_came(exchange, error)):
                    raise
                exchange.retries += 1
                await self._attempt(self._fresh, post, exchange, connection)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            exchange.failure = classify(error, exchange)
        exchange.done_ns = time.monotonic_ns()

    async def _attempt(
        self, session: aiohttp.ClientSession, post: Post, exchange: Exchange, connection: SimpleNamespace
    ) -> None:
        request = session.post(
            post.url, data=post.body, headers=post.headers, allow_redirects=False, trace_request_ctx=connection
        )
        async with request as response:
            exchange.status, exchange.content_type = response.status, response.content_type
            stamps, chunks, clock = exchange.stamps_ns, exchange.chunks, time.monotonic_ns
            if response.status != HTTP_OK:
                chunks.append(await response.content.read(LONGEST_ERROR_BYTES))
                return
            data_ns = clock()
            async for chunk in response.content.iter_any():
                now_ns = clock()
                stamps.append(now_ns)
                chunks.append(chunk)
                if chunk[0] != _COMMENT:
                    data_ns = now_ns
                elif now_ns - data_ns > self._timeout_ns:
                    raise TimeoutError


def _session(
    timeout_s: float, connector: aiohttp.TCPConnector, trace: aiohttp.TraceConfig | None
) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_TIMEOUT_S, timeout_s), sock_read=timeout_s)
    headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
    return aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        headers=headers,
        trace_configs=[trace] if trace else [],
        read_bufsize=2**20,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def _note_reuse(
    session: aiohttp.ClientSession, context: SimpleNamespace, params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    del session, params
    context.trace_request_ctx.reused = True


def _nothing_came(exchange: Exchange, error: aiohttp.ClientOSError | aiohttp.ServerDisconnectedError) -> bool:
    """Whether no byte of an answer had arrived (a head that was cut off is kept in ``error.message``)."""
    if exchange.status is not None or isinstance(error, aiohttp.ClientConnectorError):
        return False
    return not isinstance(error, aiohttp.ServerDisconnectedError) or isinstance(error.message, str)


def classify(error: BaseException, exchange: Exchange) -> Failure:
    """Kind and wording of a network failure; addresses stay out of the text."""
    began = exchange.status is not None
    kind, text = ErrorKind.CONNECT, "the connection was closed before an answer"
    match error:
        case aiohttp.ConnectionTimeoutError():
            text = "no connection in time"
        case TimeoutError():
            kind = ErrorKind.TIMEOUT
            text = "the stream stalled: nothing came until the timeout" if began else "no answer until the timeout"
        case aiohttp.ClientConnectorError():
            text = connect_problem(error)
        case aiohttp.ClientPayloadError() | OSError() if began:
            kind, text = ErrorKind.STREAM, "the connection broke in the middle of the answer"
        case aiohttp.ServerDisconnectedError() | OSError():
            pass
        case _:
            kind, text = ErrorKind.PROTOCOL, f"not a valid HTTP answer ({type(error).__name__})"
    return Failure(kind, text)


def connect_problem(error: aiohttp.ClientConnectorError) -> str:
    """Why no connection came about, without the address."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name cannot be resolved"
    if isinstance(error, aiohttp.ClientSSLError):
        return "no TLS connection that this machine trusts"
    if isinstance(error.os_error, ConnectionRefusedError) or error.os_error.errno == errno.ECONNREFUSED:
        return REFUSED
    return error.os_error.strerror or "cannot connect"
