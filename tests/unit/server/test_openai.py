"""Bodies and the chat template, without a server."""

from __future__ import annotations

import json

import pytest

from foreword.server.openai import (
    CompletionBody,
    Message,
    RefusedRequest,
    check_ids,
    error_body,
    parse,
    plain_messages,
    prompts_of,
    usage_of,
)


def test_fields_that_change_nothing_are_let_through() -> None:
    """Clients send sampling parameters; a server without a model has no use for them."""
    body = parse(b'{"prompt":"a","temperature":0.7,"top_p":1,"unheard_of":[1]}', CompletionBody)

    assert prompts_of(body) == (["a"], [])


def test_a_wrong_type_is_named_by_its_path() -> None:
    """The message says what was expected, and where."""
    with pytest.raises(RefusedRequest, match=r"\$\.max_tokens") as caught:
        parse(b'{"prompt":"a","max_tokens":"many"}', CompletionBody)

    assert caught.value.status == 400


def test_null_is_absence() -> None:
    """Clients spell defaults as null."""
    body = parse(b'{"prompt":"a","max_tokens":null,"stream":null,"stream_options":null}', CompletionBody)

    assert (body.max_tokens, body.stream, body.stream_options) == (None, None, None)


def test_ids_up_to_the_last_one_are_accepted() -> None:
    """Bounds of the vocabulary, from both sides."""
    check_ids([0, 9], vocabulary_size=10)

    for ids in ([-1], [10], [], [3, 10]):
        with pytest.raises(RefusedRequest):
            check_ids(ids, vocabulary_size=10)


def test_messages_are_roles_and_texts() -> None:
    """Templates take plain values; no content is empty, and a chat without messages is refused."""
    messages = [Message("system", "Be brief."), Message("tool", None)]

    assert plain_messages(messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "tool", "content": ""},
    ]
    with pytest.raises(RefusedRequest, match="empty"):
        plain_messages([])


def test_a_zero_is_reported() -> None:
    """Case 34: cached tokens are there when they are 0."""
    assert usage_of(5, 2, cached_tokens=0) == {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_errors_are_openai_objects() -> None:
    """Message, type, parameter and code."""
    error = json.loads(error_body("no such thing", status=404, field="model"))

    assert error == {"error": {"message": "no such thing", "type": "NotFoundError", "param": "model", "code": 404}}
