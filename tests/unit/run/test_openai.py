"""Bodies that are sent, and the meaning of streams that come back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from foreword.run.openai import Answer, read_answer, request_body
from foreword.run.transport import ErrorKind, Exchange
from foreword.terms import PromptFormat

MS = 1_000_000


def exchange(*events: tuple[int, object], status: int = 200) -> Exchange:
    """An ended exchange: each event is (milliseconds, document or raw bytes)."""
    made = Exchange(sent_ns=0, done_ns=1, status=status, content_type="text/event-stream")
    for at_ms, event in events:
        made.stamps_ns.append(at_ms * MS)
        made.chunks.append(event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode())
    return made


def text(content: str, finish: str | None = None) -> dict[str, Any]:
    """Chunk of a text completion."""
    return {"choices": [{"index": 0, "text": content, "finish_reason": finish}]}


def delta(finish: str | None = None, **fields: object) -> dict[str, Any]:
    """Chunk of a chat completion."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def usage(prompt: int, completion: int, **details: object) -> dict[str, Any]:
    """Usage chunk, as vLLM sends it: no choices."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **details}}


DONE = (99, b"data: [DONE]\n\n")


def times_ms(answer: Answer) -> list[float]:
    """Token times in milliseconds."""
    return [at_ns / MS for at_ns in answer.token_ns]


def test_a_role_is_no_token() -> None:
    """The role-only first chunk at 1 ms is none; the token at 200 ms is (case 21)."""
    answer = read_answer(
        exchange(
            (1, delta(role="assistant", content="")),
            (200, delta(content="Hi")),
            (201, delta("stop")),
            (202, usage(8, 1)),
            DONE,
        )
    )

    assert times_ms(answer) == [200]
    assert answer.failure is None


def test_an_empty_first_chunk_is_no_token() -> None:
    """A stream that opens with empty text has its first token where text begins."""
    answer = read_answer(
        exchange((1, text("")), (200, text("a")), (210, text("b", "length")), (211, usage(8, 2)), DONE)
    )

    assert times_ms(answer) == [200, 210]


def test_reasoning_is_a_token() -> None:
    """The first token may be reasoning; the first answer is told apart (case 22)."""
    answer = read_answer(
        exchange(
            (1, delta(role="assistant", content="")),
            (50, delta(reasoning_content="hm")),
            (60, delta(reasoning="hm")),
            (90, delta(content="42")),
            (91, delta("stop")),
            DONE,
        )
    )

    assert times_ms(answer) == [50, 60, 90]
    assert answer.first_answer_ns == 90 * MS


def test_a_usage_chunk_extends_nothing() -> None:
    """Usage that comes late is neither a token nor a new first token (case 24)."""
    answer = read_answer(exchange((10, text("a")), (20, text("b", "length")), (900, usage(8, 2)), DONE))

    assert times_ms(answer) == [10, 20]


def test_one_token_without_text() -> None:
    """One token, empty text, usage 1: its chunk is the token (case 23)."""
    answer = read_answer(exchange((30, text("", "length")), (31, usage(8, 1)), DONE))

    assert times_ms(answer) == [30]
    assert answer.first_answer_ns is None
    assert answer.failure is None


def test_no_text_and_no_usage() -> None:
    """Nothing tells whether an empty chunk was a token: there is no first token, and no crash."""
    answer = read_answer(exchange((30, text("", "length")), DONE))

    assert answer.token_ns == ()
    assert answer.failure is None


def test_a_token_whose_text_is_not_complete() -> None:
    """An empty chunk amid others is a token where the server's count says that every chunk was one."""
    answer = read_answer(
        exchange((10, text("a")), (20, text("")), (30, text("\u4e16")), (40, text("", "stop")), (41, usage(8, 4)), DONE)
    )

    assert times_ms(answer) == [10, 20, 30, 40]


def test_several_tokens_a_chunk() -> None:
    """Two chunks of four tokens stay two chunks; usage counts eight (case 26)."""
    answer = read_answer(exchange((10, text("aaaa")), (30, text("bbbb", "length")), (31, usage(8, 8)), DONE))

    assert times_ms(answer) == [10, 30]
    assert answer.usage.completion_tokens == 8
    assert answer.chunk_tokens is None


def test_tokens_of_a_chunk_where_the_server_counts_along() -> None:
    """Usage on every chunk says how many tokens each one carried."""

    def counted(content: str, so_far: int, finish: str | None = None) -> dict[str, Any]:
        return text(content, finish) | {"usage": {"prompt_tokens": 8, "completion_tokens": so_far}}

    answer = read_answer(exchange((10, counted("a", 1)), (20, counted("bcd", 4)), (30, counted("e", 5, "stop")), DONE))

    assert answer.chunk_tokens == (1, 3, 1)


@pytest.mark.parametrize(
    ("details", "cached"),
    [
        ({}, None),
        ({"prompt_tokens_details": None}, None),
        ({"prompt_tokens_details": {}}, None),
        ({"prompt_tokens_details": {"cached_tokens": None}}, None),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, 0),
        ({"prompt_tokens_details": {"cached_tokens": 8}}, 8),
    ],
)
def test_absent_is_not_zero(details: dict[str, Any], cached: int | None) -> None:
    """Missing, null and empty details are unknown; a reported zero is zero (case 34)."""
    answer = read_answer(exchange((10, text("a", "length")), (11, usage(8, 1, **details)), DONE))

    assert answer.usage.cached_tokens == cached
    assert answer.failure is None


@pytest.mark.parametrize("cached", [9, -1, 2**70])
def test_impossible_usage_is_a_failure(cached: int) -> None:
    """More cached tokens than prompt tokens, fewer than none, or a number beyond all bounds, is no measurement."""
    answer = read_answer(
        exchange((10, text("a", "length")), (11, usage(8, 1, prompt_tokens_details={"cached_tokens": cached})), DONE)
    )

    assert answer.failure is not None
    assert answer.failure.kind is ErrorKind.PROTOCOL
    assert answer.usage.cached_tokens is None


def test_usage_on_the_last_chunk() -> None:
    """MindIE puts usage on the chunk that ends the answer."""
    last = text("b", "length") | {
        "usage": {"prompt_tokens": 8, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    }

    answer = read_answer(exchange((10, text("a")), (20, last), DONE))

    assert times_ms(answer) == [10, 20]
    assert answer.usage.cached_tokens == 4


def test_the_end_mark_may_be_missing() -> None:
    """A finish reason ends an answer without ``[DONE]``; nothing after ``[DONE]`` counts."""
    ended = read_answer(exchange((10, text("a", "stop"))))
    longer = read_answer(exchange((10, text("a", "stop")), (11, b"data: [DONE]\n\n"), (12, text("b"))))

    assert ended.failure is None
    assert times_ms(longer) == [10]


def test_a_stream_that_just_stops_is_a_failure() -> None:
    """Without a finish reason, usage or ``[DONE]`` an answer is cut off; what came is kept."""
    answer = read_answer(exchange((10, text("a")), (20, text("b"))))

    assert answer.failure is not None
    assert answer.failure.kind is ErrorKind.STREAM
    assert times_ms(answer) == [10, 20]


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "KV cache is gone", "type": "server_error"}},
        {"error": "KV cache is gone"},
        {"object": "error", "message": "KV cache is gone", "code": 500},
    ],
)
def test_an_error_object_in_the_stream(error: dict[str, Any]) -> None:
    """An error amid a stream with HTTP 200 is a failure with the server's words."""
    answer = read_answer(exchange((10, text("a")), (20, error)))

    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == (ErrorKind.STREAM, "KV cache is gone")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "too long"}}', "HTTP 400: too long"),
        (b'{"detail": "too long"}', "HTTP 400: too long"),
        (b"too long", "HTTP 400: too long"),
        (b"<html><title>502</title></html>", "HTTP 400: an HTML page"),
        (b"", "HTTP 400"),
    ],
)
def test_an_http_error_says_what_the_server_said(body: bytes, message: str) -> None:
    """Error bodies in their usual shapes become one line."""
    answer = read_answer(exchange((10, body), status=400))

    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.message) == (ErrorKind.HTTP, message)


def test_an_error_that_repeats_the_prompt_is_withheld() -> None:
    """Servers that echo their input do not bring prompts, ids or keys into the results."""
    told = json.dumps({"error": {"message": "bad input [12345, 67890, 13579]"}}).encode()
    keyed = json.dumps({"error": {"message": "key sk-123 is unknown"}}).encode()

    echo = read_answer(exchange((1, told), status=400), body=b'{"prompt":[12345,67890,13579]}')
    key = read_answer(exchange((1, keyed), status=401), secrets=("sk-123",))

    for answer in (echo, key):
        assert answer.failure is not None
        assert "withheld" in answer.failure.message
        assert "12345" not in answer.failure.message
        assert "sk-123" not in answer.failure.message


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"choices": []}', b""])
def test_an_answer_that_is_no_stream(body: bytes) -> None:
    """HTML, plain JSON and nothing at all are protocol failures, not empty successes."""
    answer = read_answer(exchange((10, body)))

    assert answer.failure is not None
    assert answer.failure.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize("chunk", [b"data: {broken\n\n", b'data: {"choices": 7}\n\n', b'data: "\xff"\n\n'])
def test_a_chunk_that_makes_no_sense(chunk: bytes) -> None:
    """Broken JSON and wrong types are protocol failures."""
    answer = read_answer(exchange((10, text("a")), (20, chunk)))

    assert answer.failure is not None
    assert answer.failure.kind is ErrorKind.PROTOCOL


def test_the_prompt_is_sent_as_it_stands() -> None:
    """The bytes of a prompt reach the body unchanged, in the form of each endpoint."""
    prompt = msgspec.Raw(b'"caf\\u00e9 \\ud83d\\ude00"')
    ids = msgspec.Raw(b"[1,2,3]")

    as_text = request_body(PromptFormat.COMPLETIONS_TEXT, prompt, model="m", max_tokens=4, extra={"cache_salt": "s"})
    as_ids = json.loads(request_body(PromptFormat.COMPLETIONS_IDS, ids, model="m", max_tokens=4, extra={}))
    as_chat = json.loads(request_body(PromptFormat.CHAT, prompt, model="m", max_tokens=4, extra={}))

    assert b'"prompt":"caf\\u00e9 \\ud83d\\ude00"' in as_text
    assert json.loads(as_text) == {
        "model": "m",
        "prompt": "café 😀",
        "max_tokens": 4,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "cache_salt": "s",
    }
    assert as_ids["prompt"] == [1, 2, 3]
    assert as_chat["messages"] == [{"role": "user", "content": "café 😀"}]
