"""Rows of ``request_results.jsonl``: one request of one pass. Times are ns since the run's start."""

from __future__ import annotations

from typing import Annotated

import msgspec

from foreword.terms import Pass

Integer = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
"""A number that arrays of 64-bit integers can hold, and so can the difference of two; no file has a larger one."""


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned, sent and answered; no prompt unless the config asks for it, and no text of an answer.

    ``None`` means that it did not happen or was not reported; a reported zero is 0. ``token_ns`` holds the time of each
    chunk that carried tokens, ``chunk_tokens`` how many each carried where the server said so.
    ``first_answer_ns`` is the first chunk that was not reasoning.
    """

    request_id: str
    pass_: Pass = msgspec.field(name="pass")
    order_index: Integer
    prefix_group_id: str
    planned_dp_id: Integer
    url_index: Integer
    ok: bool
    error: str | None = None
    error_kind: str | None = None
    http_status: Integer | None = None
    due_ns: Integer | None = None
    sent_ns: Integer | None = None
    first_token_ns: Integer | None = None
    first_answer_ns: Integer | None = None
    last_token_ns: Integer | None = None
    done_ns: Integer | None = None
    token_ns: list[Integer] = msgspec.field(default_factory=list)
    chunk_tokens: list[Integer] | None = None
    input_len: Integer
    prompt_tokens: Integer | None = None
    completion_tokens: Integer | None = None
    cached_tokens: Integer | None = None
    expected_hit_len: Integer | None = None
    max_tokens: Integer
    finish_reason: str | None = None
    connection_retries: Integer = 0
    prompt: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
