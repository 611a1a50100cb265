"""Rows of ``request_results.jsonl``: one request of one pass. Times are ns since the run's start."""

from __future__ import annotations

import msgspec

from foreword.terms import Pass


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned, sent and answered; no prompt, no text.

    ``None`` means that it did not happen or was not reported; a reported zero is 0. ``token_ns`` holds the time of each
    chunk that carried tokens, ``chunk_tokens`` how many each carried where the server said so.
    ``first_answer_ns`` is the first chunk that was not reasoning.
    """

    request_id: str
    pass_: Pass = msgspec.field(name="pass")
    order_index: int
    prefix_group_id: str
    planned_dp_id: int
    url_index: int
    ok: bool
    error: str | None = None
    error_kind: str | None = None
    http_status: int | None = None
    due_ns: int | None = None
    sent_ns: int | None = None
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    done_ns: int | None = None
    token_ns: list[int] = msgspec.field(default_factory=list)
    chunk_tokens: list[int] | None = None
    input_len: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    expected_hit_len: int | None = None
    max_tokens: int
    finish_reason: str | None = None
    connection_retries: int = 0
