"""Server-sent events from bytes: no socket, no clock, no JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_LIMIT_BYTES = 16 * 1024 * 1024


class SseOverflowError(ValueError):
    """One event is longer than the parser may keep."""


class SseParser:
    r"""Turn chunks of bytes, cut anywhere, into the data payloads of events.

    Lines end in LF, CRLF or CR. Comments and fields other than ``data`` are dropped, several data lines are joined by
    LF, events without data vanish. Payloads stay bytes, so a chunk may end inside a UTF-8 character. An event that
    outgrows ``limit_bytes`` raises ``SseOverflowError``: a server that never ends a line cannot fill the memory.

    >>> parser = SseParser()
    >>> list(parser.feed(b'data: {"a":')), list(parser.feed(b" 1}\r\n\r\n"))
    ([], [b'{"a": 1}'])
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._tail = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Payloads of the events that this chunk completes."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        buffer = self._tail + chunk
        if self._first and buffer:
            if len(buffer) < 3 and b"\xef\xbb\xbf".startswith(buffer):  # noqa: PLR2004 - a BOM has three bytes
                self._tail = buffer
                return
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        self._after_cr = buffer.endswith(b"\r")
        *lines, self._tail = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            payload = self._line(line)
            if payload is not None:
                yield payload
        self._check(len(self._tail))

    def close(self) -> Iterator[bytes]:
        """Payload of a last event that lacks its blank line."""
        last = self._line(self._tail) if self._tail else None
        self._tail = b""
        if last is None and self._data:
            last = self._line(b"")
        if last is not None:
            yield last

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            payload = b"\n".join(self._data) if self._data else None
            self._data, self._data_bytes = [], 0
            return payload
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value)
            self._check(0)
        return None

    def _check(self, tail_bytes: int) -> None:
        if self._data_bytes + tail_bytes > self._limit_bytes:
            raise SseOverflowError(f"an event of the stream is longer than {self._limit_bytes} bytes")
