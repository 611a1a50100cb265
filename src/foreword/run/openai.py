"""OpenAI-compatible requests and answers: bodies out, the meaning of chunks and usage in. No I/O.

A chunk stands for a token when it carries text, reasoning, a tool call or token ids. A chunk with a role only, an
empty first chunk and a usage chunk are none, so none of them starts or extends a latency. An empty chunk after the
first token may be a token whose text is not complete yet (or the end-of-text token): it counts when the server's own
``completion_tokens`` says that every chunk was one.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from foreword.collect.records import Integer
from foreword.run.privacy import server_words
from foreword.run.sse import SseOverflowError, SseParser
from foreword.run.transport import HTTP_OK, ErrorKind, Exchange, Failure
from foreword.terms import PromptFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PATHS = {
    PromptFormat.COMPLETIONS_TEXT: "/v1/completions",
    PromptFormat.COMPLETIONS_IDS: "/v1/completions",
    PromptFormat.CHAT: "/v1/chat/completions",
}
_DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the server reports them; ``None`` is absent, 0 is a reported zero."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a stream said. Times are those of the chunks that carried tokens, on the exchange's clock in ns."""

    token_ns: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    first_answer_ns: int | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    failure: Failure | None = None


def request_body(
    prompt_format: PromptFormat, prompt: msgspec.Raw, *, model: str, max_tokens: int, extra: Mapping[str, object]
) -> bytes:
    """JSON body of a streamed, greedy request. The prompt's JSON is spliced in as it stands in the data set."""
    asked: dict[str, object] = {"model": model}
    match prompt_format:
        case PromptFormat.CHAT:
            asked["messages"] = [{"role": "user", "content": prompt}]
        case PromptFormat.COMPLETIONS_TEXT | PromptFormat.COMPLETIONS_IDS:
            asked["prompt"] = prompt
    fixed = {"max_tokens": max_tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(asked | fixed | dict(extra))


class _Delta(msgspec.Struct):
    role: str | None = None
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None
    function_call: Any = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class _Details(msgspec.Struct):
    cached_tokens: Integer | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Integer | None = None
    completion_tokens: Integer | None = None
    prompt_tokens_details: _Details | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None
    message: str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


@dataclass(slots=True)
class _Reading:
    """Running state over the chunks of one stream."""

    tokens: list[tuple[int, int | None]] = field(default_factory=list)
    silent_ns: list[int] = field(default_factory=list)
    first_answer_ns: int | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None
    counted: int = 0
    events: int = 0
    done: bool = False

    def take(self, chunk: _Chunk, at_ns: int) -> None:
        """Add one chunk; raises ``_StreamError`` for an error object."""
        self.events += 1
        if chunk.error is not None or chunk.object == "error":
            raise _StreamError(ErrorKind.STREAM, _error_text(chunk.error if chunk.error is not None else chunk.message))
        step = self._usage_step(chunk.usage)
        for choice in chunk.choices or ():
            self._take_choice(choice, at_ns, step)

    def _usage_step(self, usage: _Usage | None) -> int | None:
        if usage is None:
            return None
        self.usage = usage
        if usage.completion_tokens is None:
            return None
        step, self.counted = usage.completion_tokens - self.counted, usage.completion_tokens
        return step

    def _take_choice(self, choice: _Choice, at_ns: int, step: int | None) -> None:
        delta = choice.delta
        answer = bool(choice.text or (delta and (delta.content or delta.tool_calls or delta.function_call)))
        thought = bool(delta and (delta.reasoning_content or delta.reasoning))
        if answer or thought or choice.token_ids:
            self.tokens.append((at_ns, len(choice.token_ids) if choice.token_ids else step))
        elif not (delta and delta.role):
            self.silent_ns.append(at_ns)
        if answer and self.first_answer_ns is None:
            self.first_answer_ns = at_ns
        self.finish_reason = choice.finish_reason or self.finish_reason


class _StreamError(Exception):
    def __init__(self, kind: ErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


def read_answer(exchange: Exchange, *, body: bytes = b"", secrets: Sequence[str] = ()) -> Answer:
    """Read an exchange that has ended. A failure keeps the tokens that came before it."""
    if exchange.status is not None and exchange.status != HTTP_OK:
        text = server_words(_error_text(b"".join(exchange.chunks)), body, secrets=secrets)
        return Answer(failure=Failure(ErrorKind.HTTP, f"HTTP {exchange.status}: {text}".rstrip(": ")))
    reading, failure = _Reading(), exchange.failure
    try:
        _read_events(exchange, reading)
    except (msgspec.MsgspecError, SseOverflowError, UnicodeDecodeError):
        failure = failure or Failure(ErrorKind.PROTOCOL, "a chunk of the stream is not what the API promises")
    except _StreamError as error:
        failure = Failure(error.kind, server_words(error.text, body, secrets=secrets))
    return _answer(reading, failure or _unfinished(exchange, reading))


def _read_events(exchange: Exchange, reading: _Reading) -> None:
    for at_ns, payload in _stamped(exchange):
        if payload.strip() == _DONE:
            reading.done = True
            return
        reading.take(_decode(payload), at_ns)


def _stamped(exchange: Exchange) -> Iterator[tuple[int, bytes]]:
    parser, at_ns = SseParser(), 0
    for at_ns, chunk in zip(exchange.stamps_ns, exchange.chunks, strict=True):
        for payload in parser.feed(chunk):
            yield at_ns, payload
    if exchange.failure is None:
        for payload in parser.close():
            yield at_ns, payload


def _unfinished(exchange: Exchange, reading: _Reading) -> Failure | None:
    if not reading.events and not reading.done:
        kind = exchange.content_type or "nothing"
        return Failure(ErrorKind.PROTOCOL, f"the answer is no event stream but {kind}")
    if reading.done or reading.finish_reason or (reading.usage and reading.usage.completion_tokens):
        return None
    return Failure(ErrorKind.STREAM, "the stream ended before the answer was finished")


def _answer(reading: _Reading, failure: Failure | None) -> Answer:
    usage = reading.usage or _Usage()
    details = usage.prompt_tokens_details or _Details()
    told = Usage(usage.prompt_tokens, usage.completion_tokens, details.cached_tokens)
    problem = _usage_problem(told)
    token_ns, chunk_tokens = _token_chunks(reading, told.completion_tokens)
    return Answer(
        token_ns=token_ns,
        chunk_tokens=chunk_tokens,
        first_answer_ns=reading.first_answer_ns,
        finish_reason=reading.finish_reason,
        usage=Usage() if problem else told,
        failure=failure or (Failure(ErrorKind.PROTOCOL, problem) if problem else None),
    )


def _usage_problem(usage: Usage) -> str:
    cached, prompt = usage.cached_tokens, usage.prompt_tokens
    if min(count for count in (cached, prompt, usage.completion_tokens, 0) if count is not None) < 0:
        return "usage holds a negative count"
    if cached is not None and prompt is not None and cached > prompt:
        return f"usage reports {cached} cached tokens of {prompt} prompt tokens"
    return ""


def _token_chunks(reading: _Reading, completion_tokens: int | None) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Times of the chunks that carried tokens, and how many each carried where the server says so."""
    seen = [at_ns for at_ns, _ in reading.tokens]
    silent = [at_ns for at_ns in reading.silent_ns if not seen or at_ns >= seen[0]]
    if silent and completion_tokens == len(seen) + len(silent):
        return tuple(sorted(seen + silent)), None
    counts = [count for _, count in reading.tokens]
    known = [count for count in counts if count is not None]
    return tuple(seen), tuple(known) if counts and len(known) == len(counts) and min(known) > 0 else None


def _error_text(error: object) -> str:
    """Words of an error object in any of the usual shapes."""
    if isinstance(error, bytes):
        decoded: object = error.decode("utf-8", "replace")
        with contextlib.suppress(msgspec.DecodeError):
            decoded = msgspec.json.decode(error)
        error = decoded
    if isinstance(error, dict):
        inner = next((error[key] for key in ("error", "message", "detail", "code") if error.get(key)), "")
        return _error_text(inner)
    text = "" if error is None else str(error)
    return "an HTML page" if text.lstrip()[:1] == "<" else text
