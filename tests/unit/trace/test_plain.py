"""The fast reader of plain lines: it reads what the close reader reads, or leaves the line to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.trace.plain import read_plain
from foreword.trace.schema import TraceRow
from foreword.trace.standard import read_closely

REQUEST = {"type": "request", "instance_id": "a", "trace_id": "r", "timestamp_ns": 5, "keys": [1, -2], "input_len": 33}
EDGES = st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**64)])
VALUES = st.one_of(
    EDGES, st.sampled_from([1.0, True, None, "", "get", "x"]), st.lists(EDGES, max_size=3), st.lists(st.booleans())
)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "type": st.sampled_from(["get", "write", "request"]),
    "trace_id": st.sampled_from(["", "r", "é", "\ud800", "\\"]),
    "block_mask": st.one_of(st.integers(0, 3), st.lists(st.booleans(), max_size=3)),
    "ttl_us": EDGES,
    "query_type": st.sampled_from(["prefix_match", "other"]),
    "sw_size": EDGES,
    "location_spec_names": st.lists(st.text(max_size=2), max_size=2),
    "keys": st.lists(EDGES, max_size=3),
    "other": VALUES,
}


@settings(max_examples=500)
@given(st.fixed_dictionaries({}, optional=MEMBERS), st.sampled_from([*REQUEST, *MEMBERS]), VALUES, st.booleans())
def test_a_line_means_the_same_to_both_readers(
    members: dict[str, Any],
    name: str,
    value: object,
    raw: bool,  # noqa: FBT001 - hypothesis gives it
) -> None:
    """With any members, good or bad, escaped or not, a row that the fast reader gives is the close reader's."""
    line = json.dumps(REQUEST | members | ({name: value} if raw else {}), ensure_ascii=not raw)
    data = line.encode(errors="surrogatepass")

    assert read_plain(data, 3) in (None, read_closely(data, 3))


@settings(max_examples=500)
@given(
    st.integers(0, 110),
    st.integers(0, 4),
    st.sampled_from([b"", b"0", b"-", b".0", b"e2", b'"', b",", b"\x01", b"\xc3"]),
)
def test_a_damaged_line_means_the_same_to_both_readers(at: int, gone: int, put: bytes) -> None:
    """Bytes that are cut out or put in anywhere make no row that the close reader refuses or reads otherwise."""
    whole = json.dumps(REQUEST | {"block_mask": [True], "ttl_us": 7}).encode()
    data = whole[:at] + put + whole[at + gone :]

    assert read_plain(data, 3) in (None, read_closely(data, 3))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"keys": []},
        {"keys": [2**64 - 1, 2**63]},
        {"type": "write", "ttl_us": -1},
        {"type": "get", "block_mask": 2, "query_type": "other", "sw_size": -1, "location_spec_names": ["a", "b"]},
    ],
)
def test_ordinary_lines_are_read_fast(changes: dict[str, Any]) -> None:
    """The members of the document in any of their types take the fast way."""
    data = json.dumps(REQUEST | changes).encode()

    row = read_plain(data, 3)

    assert isinstance(row, TraceRow)
    assert row == read_closely(data, 3)


@pytest.mark.parametrize(
    "member", ['"other":1', '"keys":[3]', '"trace_id":"q"', '"trace_id":"\\u0041"', '"trace_id":"é"', '"ttl_us":1.0']
)
def test_unusual_lines_are_left_to_the_close_reader(member: str) -> None:
    """Unknown and repeated members, escapes, other characters and errors."""
    data = json.dumps(REQUEST).encode()[:-1] + f",{member}}}".encode()

    assert read_plain(data, 3) is None
