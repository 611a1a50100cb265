"""The standard trace's parser: exact integers, refused rows with field and reason, and nothing that makes it fail."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.trace.schema import RowError, RowKind, TraceRow
from foreword.trace.standard import parse_row

GET = {"type": "get", "instance_id": "a", "timestamp_ns": 5, "keys": [1, 2], "input_len": 33}


def parsed(**changes: Any) -> TraceRow | RowError | None:  # noqa: ANN401 - JSON
    """The row of a get with some fields changed; ``...`` leaves one out."""
    fields = {name: value for name, value in (GET | changes).items() if value is not ...}
    return parse_row(json.dumps(fields).encode(), 7)


def test_a_get_has_everything_with_its_defaults() -> None:
    """Optional fields may be left out; the name is made of instance and time."""
    assert parsed() == TraceRow(RowKind.GET, "a", 5, array("q", [1, 2]), 33, trace_id="trace_a_5", line=7)


def test_a_request_has_what_a_get_and_a_write_have() -> None:
    """Masks, names and the life of what it writes are kept."""
    row = parsed(type="request", ttl_us=-1, trace_id="r", block_mask=[True, False], query_type="other", sw_size=3)

    mask = bytes([1, 0])
    assert row == TraceRow(RowKind.REQUEST, "a", 5, array("q", [1, 2]), 33, mask, -1, "other", "r", 7)


def test_a_write_ignores_the_fields_of_reads() -> None:
    """Whatever stands in ``input_len``, ``block_mask`` or ``query_type`` of a write."""
    row = parsed(type="write", input_len="x", block_mask=None, query_type=3, sw_size=[], ttl_us=9)

    assert row == TraceRow(RowKind.WRITE, "a", 5, array("q", [1, 2]), ttl_us=9, trace_id="trace_a_5", line=7)


def test_a_get_ignores_the_life_of_writes() -> None:
    """``ttl_us`` is a field of writes and requests."""
    assert isinstance(parsed(ttl_us="x"), TraceRow)


@pytest.mark.parametrize(
    ("key", "signed"),
    [(2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (2**64 - 1, -1), (-(2**63), -(2**63)), (0, 0), (2**53 + 1, 2**53 + 1)],
)
def test_unsigned_keys_wrap(key: int, signed: int) -> None:
    """Keys from 2**63 up are the negative numbers of the same bits."""
    row = parsed(keys=[7, key])

    assert isinstance(row, TraceRow)
    assert row.keys.tolist() == [7, signed]


@pytest.mark.parametrize("line", [b"", b"\n", b"  \t \r\n"])
def test_a_blank_line_is_no_row(line: bytes) -> None:
    """Blank lines are neither rows nor errors."""
    assert parse_row(line, 1) is None


def test_the_first_of_two_members_counts() -> None:
    """A member that is given twice has its first value."""
    row = parse_row(
        b'{"type":"write","type":"get","instance_id":"a","timestamp_ns":1,"keys":[1],"keys":[2],"timestamp_ns":2}', 1
    )

    assert isinstance(row, TraceRow)
    assert (row.kind, row.timestamp_ns, row.keys.tolist()) == (RowKind.WRITE, 1, [1])


def test_a_mask_may_be_longer_or_shorter_than_the_keys() -> None:
    """Lengths of masks are no error, and neither is a count past all keys."""
    assert isinstance(parsed(block_mask=[True] * 9), TraceRow)
    assert isinstance(parsed(block_mask=[]), TraceRow)
    assert isinstance(parsed(block_mask=2**63 - 1), TraceRow)


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"type": ...}, "type", "required"),
        ({"type": 3}, "type", "text"),
        ({"type": "scan"}, "type", "must be get, write or request"),
        ({"type": "GET"}, "type", "must be get, write or request"),
        ({"instance_id": ...}, "instance_id", "required"),
        ({"instance_id": ""}, "instance_id", "empty"),
        ({"instance_id": 1}, "instance_id", "text"),
        ({"timestamp_ns": ...}, "timestamp_ns", "required"),
        ({"timestamp_ns": ..., "timestamp_us": 5}, "timestamp_ns", "required"),
        ({"timestamp_ns": 5.0}, "timestamp_ns", "integer"),
        ({"timestamp_ns": True}, "timestamp_ns", "integer"),
        ({"timestamp_ns": "5"}, "timestamp_ns", "integer"),
        ({"timestamp_ns": 0}, "timestamp_ns", "positive"),
        ({"timestamp_ns": -1}, "timestamp_ns", "positive"),
        ({"timestamp_ns": 2**63}, "timestamp_ns", "64 bits"),
        ({"keys": ...}, "keys", "required"),
        ({"keys": 1}, "keys", "array"),
        ({"keys": None}, "keys", "array"),
        ({"keys": {"1": 2}}, "keys", "array"),
        ({"keys": [1.0]}, "keys", "integers only"),
        ({"keys": ["1"]}, "keys", "integers only"),
        ({"keys": [True]}, "keys", "integers only"),
        ({"keys": [None]}, "keys", "integers only"),
        ({"keys": [[1]]}, "keys", "integers only"),
        ({"keys": [2**64]}, "keys", "64 bits"),
        ({"keys": [-(2**63) - 1]}, "keys", "64 bits"),
        ({"input_len": ...}, "input_len", "required"),
        ({"input_len": "16"}, "input_len", "integer"),
        ({"input_len": 16.0}, "input_len", "integer"),
        ({"input_len": 0}, "input_len", "positive"),
        ({"input_len": 2**63}, "input_len", "64 bits"),
        ({"block_mask": [1]}, "block_mask", "true and false"),
        ({"block_mask": None}, "block_mask", "true and false"),
        ({"block_mask": True}, "block_mask", "true and false"),
        ({"block_mask": "11"}, "block_mask", "true and false"),
        ({"block_mask": 1.0}, "block_mask", "true and false"),
        ({"block_mask": -1}, "block_mask", "count"),
        ({"block_mask": 2**63}, "block_mask", "count"),
        ({"query_type": 1}, "query_type", "text"),
        ({"trace_id": None}, "trace_id", "text"),
        ({"trace_id": "\ud800"}, "trace_id", "half a character"),
        ({"sw_size": 2**31}, "sw_size", "32 bits"),
        ({"location_spec_names": [1]}, "location_spec_names", "texts"),
        ({"type": "request", "ttl_us": 2**63}, "ttl_us", "64 bits"),
        ({"type": "write", "ttl_us": 1.5}, "ttl_us", "integer"),
    ],
)
def test_a_bad_row_says_which_field_and_why(changes: dict[str, Any], field: str, reason: str) -> None:
    """Refused rows are values with line, field and reason."""
    error = parsed(**changes)

    assert isinstance(error, RowError)
    assert (error.line, error.field) == (7, field)
    assert reason in error.reason


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":',
        b"[]",
        b"3",
        b'"text"',
        b"\xff\xfe",
        b'{"type": NaN}',
        b"[" * 100_000,
        b'{"keys": ' + b"9" * 10_000 + b"}",
        b"{} {}",
    ],
)
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    """Broken, foreign and monstrous lines are errors of the line, not of the program."""
    error = parse_row(line, 3)

    assert isinstance(error, RowError)
    assert (error.line, error.field) == (3, "json")


def test_an_error_counts_by_its_kind_and_shows_what_stood_there() -> None:
    """The kind is the same for all such rows; the message has the value, cut where it is long."""
    first, second = parsed(keys=["x" * 99]), parsed(keys=[1.5])

    assert isinstance(first, RowError)
    assert isinstance(second, RowError)
    assert first.kind == second.kind == "keys: must hold integers only"
    assert str(second) == "keys: must hold integers only, got 1.5"
    assert len(str(first)) < 90


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "type",
    "instance_id",
    "timestamp_ns",
    "keys",
    "input_len",
    "block_mask",
    "ttl_us",
    "query_type",
    "sw_size",
    "trace_id",
    "location_spec_names",
]


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), st.sampled_from(["get", "write", "request"]))
def test_no_json_makes_the_parser_fail(changes: dict[str, Any], kind: str) -> None:
    """Whatever stands in whichever fields, the answer is a row or an error of one printable line."""
    row = parsed(**({"type": kind} | changes))

    assert isinstance(row, TraceRow | RowError)
    if isinstance(row, RowError):
        assert str(row).isprintable()


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_no_bytes_make_the_parser_fail(line: bytes) -> None:
    """Nor do bytes that are no JSON at all."""
    assert isinstance(parse_row(line, 1), TraceRow | RowError | None)
