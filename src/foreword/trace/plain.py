"""Lines of a standard trace without anything unusual, decoded by type and fast.

What is read here is read as ``foreword.trace.standard`` reads it. Whatever might not be (an error, an unknown member,
one given twice, an escape, a character that is not ASCII) is left to that module, which decides and gives the reasons.
"""

from __future__ import annotations

from array import array
from typing import Annotated, Literal

import msgspec

from foreword.trace.schema import INT64_MAX, INT64_MIN, PREFIX_MATCH, RowKind, TraceRow

_STRINGS = 6
"""Strings of a row that has the required members only: four names and two values."""

_KINDS = {kind.value: kind for kind in RowKind}

_Count = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]
_Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Unset = msgspec.UnsetType


class _Line(msgspec.Struct):
    type: Literal["get", "write", "request"]
    instance_id: Annotated[str, msgspec.Meta(min_length=1)]
    timestamp_ns: _Positive
    keys: list[int]
    input_len: _Positive | _Unset = msgspec.UNSET
    trace_id: str | _Unset = msgspec.UNSET
    block_mask: _Count | list[bool] | _Unset = msgspec.UNSET
    ttl_us: _Int64 | _Unset = msgspec.UNSET
    query_type: str | _Unset = msgspec.UNSET
    sw_size: _Int32 | _Unset = msgspec.UNSET
    location_spec_names: list[str] | _Unset = msgspec.UNSET

    def strings(self) -> int:
        """Names and texts that a line of just these members holds."""
        unset = msgspec.UNSET
        count = _STRINGS + (self.input_len is not unset) + (self.block_mask is not unset)
        count += (self.ttl_us is not unset) + (self.sw_size is not unset)
        count += 2 * (self.trace_id is not unset) + 2 * (self.query_type is not unset)
        names = self.location_spec_names
        return count if isinstance(names, _Unset) else count + 1 + len(names)


_DECODER = msgspec.json.Decoder(_Line)


def read_plain(data: bytes, line: int) -> TraceRow | None:
    """The row of a line, or ``None`` where the line takes a closer look.

    >>> read_plain(b'{"type": "get", "instance_id": "a", "timestamp_ns": 5, "keys": [7], "input_len": 16}', 1).input_len
    16
    >>> read_plain(b'{"type": "get", "type": "get", "instance_id": "a", "timestamp_ns": 5, "keys": [7]}', 1)
    """
    if b"\\" in data or not data.isascii():
        return None
    try:
        read = _DECODER.decode(data)
        keys = _signed(read.keys)
    except (msgspec.DecodeError, OverflowError):
        return None
    if data.count(b'"') != 2 * read.strings():
        return None
    return _row(read, keys, line)


def _signed(keys: list[int]) -> array[int]:
    """Keys as signed integers of the same bits; ``OverflowError`` from 2**64 up and for negatives beside 2**63."""
    try:
        return array("q", keys)
    except OverflowError:
        return array("q", array("Q", keys).tobytes())


def _row(read: _Line, keys: array[int], line: int) -> TraceRow | None:
    kind = _KINDS[read.type]
    trace_id = read.trace_id
    if isinstance(trace_id, _Unset):
        trace_id = f"trace_{read.instance_id}_{read.timestamp_ns}"
    ttl_us = 0 if isinstance(read.ttl_us, _Unset) or kind is RowKind.GET else read.ttl_us
    if kind is RowKind.WRITE:
        return TraceRow(kind, read.instance_id, read.timestamp_ns, keys, ttl_us=ttl_us, trace_id=trace_id, line=line)
    if isinstance(read.input_len, _Unset):
        return None
    mask = 0 if isinstance(read.block_mask, _Unset) else read.block_mask
    return TraceRow(
        kind,
        read.instance_id,
        read.timestamp_ns,
        keys,
        read.input_len,
        bytes(mask) if isinstance(mask, list) else mask,
        ttl_us=ttl_us,
        query_type=PREFIX_MATCH if isinstance(read.query_type, _Unset) else read.query_type,
        trace_id=trace_id,
        line=line,
    )
