"""Answers as bytes, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foreword.server.answers import Answer, Kind, Served
from foreword.server.engine import job_of
from foreword.server.words import Words

WORDS = Words([10, 11, 12], [" plain", ' "quoted"', " ünïcode\n"])


def answered(kind: Kind, *, with_ids: bool, produced: int, finish_reason: str | None) -> tuple[Answer, Served]:
    """An answer of a model with an awkward name, and its prompt on the way."""
    answer = Answer(kind, answer_id="1", created_s=5, model='m"ö', words=WORDS, with_ids=with_ids)
    job = job_of([1, 2, 3], WORDS.answer_ids(1, 4), block_size=16)
    job.produced, job.finish_reason = produced, finish_reason
    return answer, Served(job=job, start=1, prompt_ids=[1, 2, 3])


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The JSON of each event."""
    *events, end = data.split(b"\n\n")
    assert end == b""
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


@pytest.mark.parametrize("kind", ["completion", "chat"])
@pytest.mark.parametrize("with_ids", [True, False])
def test_awkward_names_and_words_stay_json(kind: Kind, *, with_ids: bool) -> None:
    """Quotes, accents and newlines arrive as they were; ids stand beside their text."""
    answer, one = answered(kind, with_ids=with_ids, produced=4, finish_reason="length")

    events = events_of(answer.events(0, one, sent=0))
    choices = [event["choices"][0] for event in events]
    texts = [choice["text"] if kind == "completion" else choice["delta"]["content"] for choice in choices]

    assert texts == [' "quoted"', " ünïcode\n", " plain", ' "quoted"']
    assert {event["model"] for event in events} == {'m"ö'}
    assert [choice.get("token_ids") for choice in choices] == ([[11], [12], [10], [11]] if with_ids else [None] * 4)


@pytest.mark.parametrize("kind", ["completion", "chat"])
def test_events_token_by_token_are_those_of_one_go(kind: Kind) -> None:
    """How the ticks fall changes no byte: each token has its own event."""
    answer, one = answered(kind, with_ids=True, produced=4, finish_reason="length")
    whole = answer.events(0, one, sent=0)

    single = b""
    for produced in range(1, 5):
        one.job.produced, one.job.finish_reason = produced, "length" if produced == 4 else None
        single += answer.events(0, one, sent=produced - 1)

    assert single == whole


def test_the_whole_body_sums_usage_over_prompts() -> None:
    """Two prompts: two choices, one usage."""
    answer, one = answered("completion", with_ids=False, produced=4, finish_reason="length")
    _, other = answered("completion", with_ids=False, produced=2, finish_reason="length")
    other.job.cached_tokens = 16

    body = json.loads(answer.body([one, other]))

    assert [choice["text"] for choice in body["choices"]] == [
        ' "quoted" ünïcode\n plain "quoted"',
        ' "quoted" ünïcode\n',
    ]
    assert body["usage"] == {
        "prompt_tokens": 6,
        "completion_tokens": 6,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 16},
    }


def test_the_stream_closes_with_usage_only_when_asked() -> None:
    """A usage event has no choices; the end mark is always last."""
    answer, one = answered("chat", with_ids=False, produced=4, finish_reason="length")

    assert answer.closing([one], include_usage=False) == b"data: [DONE]\n\n"
    usage, end = answer.closing([one], include_usage=True).split(b"\n\n", 1)
    assert json.loads(usage.removeprefix(b"data: "))["choices"] == []
    assert end == b"data: [DONE]\n\n"
