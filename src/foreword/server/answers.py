"""Answers as bytes: server-sent events and whole bodies of both endpoints.

The constant parts of an event are encoded once a request; a token adds its ready-escaped text and nothing else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from foreword.server.openai import usage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.server.engine import Job
    from foreword.server.words import Words

DONE = b"data: [DONE]\n\n"

Kind = Literal["completion", "chat"]


@dataclass(frozen=True, slots=True)
class Served:
    """A prompt on its way, with what its answer needs."""

    job: Job
    start: int
    """Where in the words its answer begins."""
    prompt_ids: Sequence[int]


class Answer:
    """The answer to one request, which may hold several prompts: one choice each."""

    def __init__(self, kind: Kind, *, answer_id: str, created_s: int, model: str, words: Words, with_ids: bool) -> None:
        self.kind: Kind = kind
        self._words = words
        self._with_ids = with_ids
        self._envelope = {
            "id": ("cmpl-" if kind == "completion" else "chatcmpl-") + answer_id,
            "object": "text_completion" if kind == "completion" else "chat.completion",
            "created": created_s,
            "model": model,
        }
        chunk = self._envelope if kind == "completion" else self._envelope | {"object": "chat.completion.chunk"}
        self._head = b"data: " + _dumps(chunk)[:-1]
        self._frames: dict[tuple[int, str | None], tuple[bytes, bytes]] = {}

    def opening(self, served: Sequence[Served]) -> bytes:
        """Events before any token: chat names the role, with empty content."""
        if self.kind == "completion":
            return b""
        return b"".join(self._role_event(index, one) for index, one in enumerate(served))

    def events(self, index: int, one: Served, *, sent: int) -> bytes:
        """Events of the tokens that a choice produced after the first ``sent``: one event a token."""
        job = one.job
        before, after = self._frame(index, None)
        pieces = self._words.pieces(one.start, sent, end=job.produced)
        if self._with_ids:
            ids = job.answer[sent : job.produced]
            pieces = [piece + b'"%s,"token_ids":[%d]' % (self._close, i) for piece, i in zip(pieces, ids, strict=True)]
            if sent == 0 and self.kind == "completion":
                pieces[0] += b',"prompt_token_ids":' + _dumps(list(one.prompt_ids))
        if job.finish_reason is None:
            return before + (after + before).join(pieces) + after
        last = self._frame(index, job.finish_reason)[1]
        return before + (after + before).join(pieces) + last

    def closing(self, served: Sequence[Served], *, include_usage: bool) -> bytes:
        """The usage event if it was asked for, and the end mark."""
        if not include_usage:
            return DONE
        return self._head + b',"choices":[],"usage":' + _dumps(_usage(served)) + b"}\n\n" + DONE

    def body(self, served: Sequence[Served]) -> bytes:
        """The whole answer of a request that does not stream."""
        answer: dict[str, Any] = self._envelope | {
            "choices": [self._choice(index, one) for index, one in enumerate(served)],
            "usage": _usage(served),
        }
        if self._with_ids and self.kind == "chat":
            answer["prompt_token_ids"] = list(served[0].prompt_ids)
        return _dumps(answer)

    @property
    def _close(self) -> bytes:
        """What closes the object that holds the text: chat has a delta inside the choice."""
        return b"" if self.kind == "completion" else b"}"

    def _frame(self, index: int, reason: str | None) -> tuple[bytes, bytes]:
        """What stands before and after a token's text in its event; encoded at its first use."""
        frame = self._frames.get((index, reason))
        if frame is None:
            frame = self._frames[index, reason] = self._encode_frame(index, reason)
        return frame

    def _encode_frame(self, index: int, reason: str | None) -> tuple[bytes, bytes]:
        field = b'"text":"' if self.kind == "completion" else b'"delta":{"content":"'
        before = self._head + b',"choices":[{"index":%d,' % index + field
        close = b"" if self._with_ids else b'"' + self._close
        finish = b',"logprobs":null,"finish_reason":' + _dumps(reason) + b',"stop_reason":null}]}\n\n'
        return before, close + finish

    def _role_event(self, index: int, one: Served) -> bytes:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        extra = b',"prompt_token_ids":' + _dumps(list(one.prompt_ids)) if self._with_ids else b""
        return self._head + b',"choices":[' + _dumps(choice) + b"]" + extra + b"}\n\n"

    def _choice(self, index: int, one: Served) -> dict[str, Any]:
        text = self._words.answer_text(one.start, one.job.produced)
        choice: dict[str, Any] = {"index": index}
        if self.kind == "completion":
            choice["text"] = text
        else:
            choice["message"] = {"role": "assistant", "content": text}
        choice |= {"logprobs": None, "finish_reason": one.job.finish_reason, "stop_reason": None}
        if self._with_ids:
            choice["token_ids"] = one.job.answer[: one.job.produced]
            if self.kind == "completion":
                choice["prompt_token_ids"] = list(one.prompt_ids)
        return choice


def _usage(served: Sequence[Served]) -> dict[str, Any]:
    """Usage over all prompts of the request."""
    return usage_of(
        sum(one.job.prompt_tokens for one in served),
        sum(one.job.produced for one in served),
        cached_tokens=sum(one.job.cached_tokens for one in served),
    )


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
