"""The standard trace: one JSON object a line (spec: replay B2.1). Bytes in, a row or a reason out.

Integers are read exactly: a key from 2**63 up wraps to a negative one, one from 2**64 up is refused before that, and
so is every float, bool and text in place of an integer. Where a member is given twice, the first counts.
"""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any

from foreword.trace.plain import read_plain
from foreword.trace.schema import INT64_MAX, INT64_MIN, PREFIX_MATCH, RowError, RowKind, TraceRow

if TYPE_CHECKING:
    from foreword.cache.masks import BlockMask

_UINT64 = 2**64
_INT32 = range(-(2**31), 2**31)
_INT64 = range(INT64_MIN, INT64_MAX + 1)
_SHOWN_CHARS = 40
_KINDS = frozenset(kind.value for kind in RowKind)

_WRITES_NO_LOOKUP: tuple[int, BlockMask, str] = (0, 0, PREFIX_MATCH)

Row = dict[str, Any]


class _RefusedFieldError(Exception):
    def __init__(self, field: str, reason: str, found: object = None) -> None:
        super().__init__(field)
        self.field, self.reason, self.found = field, reason, found


def parse_row(data: bytes, line: int) -> TraceRow | RowError | None:
    """Read one line of a trace file; ``None`` for a blank one.

    >>> row = parse_row(b'{"type": "write", "instance_id": "a", "timestamp_ns": 5, "keys": [18446744073709551615]}', 1)
    >>> row.keys
    array('q', [-1])
    """
    if not data or data.isspace():
        return None
    return read_plain(data, line) or read_closely(data, line)


def read_closely(data: bytes, line: int) -> TraceRow | RowError:
    """Read a line that is not blank, member by member."""
    try:
        return _row(_object(data), line)
    except _RefusedFieldError as refused:
        found = "" if refused.found is None else _shown(refused.found)
        return RowError(line, refused.field, refused.reason, found)


def _object(data: bytes) -> Row:
    try:
        document = json.loads(data.decode(), object_pairs_hook=_first_wins, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _RefusedFieldError("json", "not a line of JSON") from None
    if not isinstance(document, dict):
        raise _RefusedFieldError("json", "not a JSON object")
    return document


def _first_wins(pairs: list[tuple[str, Any]]) -> Row:
    members = dict(pairs)
    return members if len(members) == len(pairs) else dict(reversed(pairs))


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _row(members: Row, line: int) -> TraceRow:
    """Check the fields in the reference's order; the first that fails is reported."""
    name = _text(members, "type")
    instance_id = _text(members, "instance_id")
    if not instance_id:
        raise _RefusedFieldError("instance_id", "must not be empty")
    _is_integer(members, "timestamp_ns")
    if not isinstance(_required(members, "keys"), list):
        raise _RefusedFieldError("keys", "must be an array", members["keys"])
    if name in {RowKind.GET, RowKind.REQUEST}:
        _is_integer(members, "input_len")
    if name not in _KINDS:
        raise _RefusedFieldError("type", "must be get, write or request", name)
    kind = RowKind(name)
    timestamp_ns = _integer(members, "timestamp_ns", _INT64)
    keys = _keys(members["keys"])
    trace_id = _optional_text(members, "trace_id", f"trace_{instance_id}_{timestamp_ns}")
    ttl_us = 0 if kind is RowKind.GET else _optional_integer(members, "ttl_us", _INT64)
    input_len, mask, query_type = _WRITES_NO_LOOKUP if kind is RowKind.WRITE else _lookup(members)
    if timestamp_ns <= 0:
        raise _RefusedFieldError("timestamp_ns", "must be positive", timestamp_ns)
    return TraceRow(
        kind,
        instance_id,
        timestamp_ns,
        keys,
        input_len,
        mask,
        ttl_us=ttl_us,
        query_type=query_type,
        trace_id=trace_id,
        line=line,
    )


def _lookup(members: Row) -> tuple[int, BlockMask, str]:
    """Input length, mask and query type of a read; its other fields are checked, and unused."""
    query_type = _optional_text(members, "query_type", PREFIX_MATCH)
    _optional_integer(members, "sw_size", _INT32)
    names = members.get("location_spec_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _RefusedFieldError("location_spec_names", "must be an array of texts", names)
    mask = _mask(members.get("block_mask", 0))
    input_len = _integer(members, "input_len", _INT64)
    if input_len <= 0:
        raise _RefusedFieldError("input_len", "must be positive", input_len)
    return input_len, mask, query_type


def _keys(values: list[object]) -> array[int]:
    return array("q", [_key(value) for value in values])


def _key(value: object) -> int:
    if type(value) is not int:
        raise _RefusedFieldError("keys", "must hold integers only", value)
    if not INT64_MIN <= value < _UINT64:
        raise _RefusedFieldError("keys", "must fit 64 bits", value)
    return value - _UINT64 if value > INT64_MAX else value


def _mask(value: object) -> BlockMask:
    match value:
        case bool() | None:
            raise _RefusedFieldError("block_mask", "must be an array of true and false or a count", value)
        case int() if 0 <= value <= INT64_MAX:
            return value
        case int():
            raise _RefusedFieldError("block_mask", "a count must be within 0 and 2**63 - 1", value)
        case list() if all(isinstance(entry, bool) for entry in value):
            return bytes(value)
        case _:
            raise _RefusedFieldError("block_mask", "must be an array of true and false or a count", value)


def _required(members: Row, field: str) -> object:
    if field not in members:
        raise _RefusedFieldError(field, "required, but not given")
    return members[field]


def _text(members: Row, field: str) -> str:
    value = _required(members, field)
    if not isinstance(value, str):
        raise _RefusedFieldError(field, "must be a text", value)
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise _RefusedFieldError(field, "holds half a character", value)
    return value


def _optional_text(members: Row, field: str, default: str) -> str:
    return _text(members, field) if field in members else default


def _is_integer(members: Row, field: str) -> int:
    value = _required(members, field)
    if type(value) is not int:
        raise _RefusedFieldError(field, "must be an integer", value)
    return value


def _integer(members: Row, field: str, allowed: range) -> int:
    value = _is_integer(members, field)
    if value not in allowed:
        raise _RefusedFieldError(field, f"must fit {allowed.stop.bit_length()} bits", value)
    return value


def _optional_integer(members: Row, field: str, allowed: range) -> int:
    return _integer(members, field, allowed) if field in members else 0


def _shown(value: object) -> str:
    """A value as JSON, cut; of an array or an object only what it is."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            text = json.dumps(value)
            return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
