"""The event-stream parser against the rules of the format."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.run.sse import SseOverflowError, SseParser


def read(*chunks: bytes) -> list[bytes]:
    """Payloads of a whole stream."""
    parser = SseParser()
    return [payload for chunk in chunks for payload in parser.feed(chunk)] + list(parser.close())


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b": keep-alive\n\ndata: a\n\n: again\n\n", [b"a"]),
        (b"event: token\nid: 7\ndata: a\nretry: 1\n\n", [b"a"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"data:tight\n\n", [b"tight"]),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"\xef\xbb\xbfdata: after a byte order mark\n\n", [b"after a byte order mark"]),
        (b"data: no blank line at the end", [b"no blank line at the end"]),
        (b"data: no blank line at the end\n", [b"no blank line at the end"]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_payloads_of_a_stream(stream: bytes, payloads: list[bytes]) -> None:
    """Line ends, comments, other fields and several data lines mean what the format says."""
    assert read(stream) == payloads


STREAM = 'data: {"text": "héllo 世界"}\r\n\r\n: ping\n\ndata: x\ndata: y\r\rdata: [DONE]\n\n'.encode()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_cutting_a_stream_changes_nothing(cuts: list[int]) -> None:
    """However a stream is cut, inside characters and between CR and LF too, its payloads are the same."""
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(edges)]

    assert read(*chunks) == ['{"text": "héllo 世界"}'.encode(), b"x\ny", b"[DONE]"]


@pytest.mark.parametrize("piece", [b"x" * 10, b"data: xxxx\n"])
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    """A server that never ends a line or an event cannot fill the memory."""
    parser = SseParser(limit_bytes=100)

    with pytest.raises(SseOverflowError, match="longer than 100 bytes"):
        list(chain.from_iterable(parser.feed(piece) for _ in range(50)))
