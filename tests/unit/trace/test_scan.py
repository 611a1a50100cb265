"""The compiled scanner reads what the careful reader reads, line by line, or leaves the line to it."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.store.scanning import scan_file
from foreword.trace.schema import RowError, TraceRow
from foreword.trace.standard import parse_row

if TYPE_CHECKING:
    from foreword.trace.columns import TraceColumns

KEYS = st.integers(-(2**63), 2**64 - 1) | st.integers(-5, 5)
EDGES = st.sampled_from([2**63 - 1, 2**63, 2**64, -(2**63) - 1, 1.0, True, None, "1", 10**30, 0, -1])
ROWS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["get", "write", "request", "other"]),
        "instance_id": st.sampled_from(["a", "b", "", "é", 'q"q']),
        "timestamp_ns": st.integers(1, 2**63 - 1) | EDGES,
        "keys": st.lists(KEYS | EDGES, max_size=4) | st.lists(KEYS, max_size=4),
    },
    optional={
        "input_len": st.integers(1, 500) | EDGES,
        "trace_id": st.sampled_from(["t", "\n", 5]),
        "ttl_us": st.integers(-3, 3) | EDGES,
        "query_type": st.sampled_from(["prefix_match", "other", 1]),
        "block_mask": st.integers(0, 4) | st.lists(st.booleans(), max_size=3) | EDGES,
        "sw_size": st.just(3),
        "more": st.just(1),
    },
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")])


def written(row: dict[str, object], separators: tuple[str, str]) -> bytes:
    """A row as a line."""
    return json.dumps(row, separators=separators).encode() + b"\n"


def scanned(data: bytes) -> tuple[TraceColumns, list[RowError]]:
    """Columns of a file's bytes, and what was refused."""
    refused: list[RowError] = []
    return scan_file(io.BytesIO(data), refuse=refused.append, tell=lambda: None), refused


def closely(data: bytes) -> tuple[list[TraceRow], list[RowError]]:
    """The same by the careful reader; trace ids are the scanner's to leave out."""
    read = [parse_row(line, number) for number, line in enumerate(data.splitlines(keepends=True), start=1)]
    return [row for row in read if isinstance(row, TraceRow)], [row for row in read if isinstance(row, RowError)]


def told(rows: list[TraceRow]) -> list[tuple[object, ...]]:
    """Everything of rows but their ids and the names of other query types."""
    return [
        (
            row.kind,
            row.instance_id,
            row.timestamp_ns,
            row.keys,
            row.input_len,
            row.block_mask,
            row.ttl_us,
            row.query_type == "prefix_match",
            row.line,
        )
        for row in rows
    ]


@settings(max_examples=400)
@given(st.lists(st.builds(written, ROWS, SEPARATORS) | st.sampled_from([b"\n", b" \r\n", b"[]\n", b"{\n"]), max_size=6))
def test_every_line_is_read_as_the_careful_reader_reads_it(lines: list[bytes]) -> None:
    """Rows, refusals and line numbers are equal for valid, unusual and damaged lines in any order."""
    data = b"".join(lines)

    columns, refused = scanned(data)

    rows, wrong = closely(data)
    assert told(list(columns.rows())) == told(rows)
    assert refused == wrong


@given(st.lists(st.builds(written, ROWS, SEPARATORS), min_size=1, max_size=3), st.data())
def test_a_damaged_byte_is_seen_by_both(lines: list[bytes], data: st.DataObject) -> None:
    """Whatever stands in place of one byte."""
    whole = bytearray(b"".join(lines))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    columns, refused = scanned(bytes(whole))

    rows, wrong = closely(b"".join(line + b"\n" for line in bytes(whole).split(b"\n") if line.strip()))
    numbers = [number for number, line in enumerate(bytes(whole).split(b"\n"), start=1) if line.strip()]
    assert [row[:-1] for row in told(list(columns.rows()))] == [row[:-1] for row in told(rows)]
    assert [error.kind for error in refused] == [error.kind for error in wrong]
    assert [row.line for row in columns.rows()] == [numbers[row.line - 1] for row in rows]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_line_needs_no_newline(end: bytes) -> None:
    """A mark of byte order before the first line is no part of it either."""
    line = b'{"type":"write","instance_id":"a","timestamp_ns":5,"keys":[18446744073709551615]}'

    columns, refused = scanned(b"\xef\xbb\xbf" + line + end)

    assert [row.keys.tolist() for row in columns.rows()] == [[-1]]
    assert refused == []
