"""Plain lines of a standard trace, read by a compiled scanner straight into columns.

It knows the members of a row, integers of 64 bits and texts without escapes, and reads what it knows exactly as
``foreword.trace.standard`` does. At the first line with anything else it stops, so that the line is read closely:
an error, an unknown or repeated member, an escape, a character that is not ASCII, an instance that it was not told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    IntArray = NDArray[Any]

INSTANCE, KIND, TIME, INPUT, TTL, LINE, MASK, OTHER, START, STOP = range(10)
"""Integers of a row in the table of rows."""

POSITION, ROWS, KEYS, LINES = range(4)
"""Where a scan stands: in the buffer, in the table, among the keys, and how many lines it has passed."""

_QUOTE, _COMMA, _MINUS, _ZERO, _COLON, _OPEN, _BACKSLASH, _CLOSE = 34, 44, 45, 48, 58, 91, 92, 93
_BRACE_OPEN, _BRACE_CLOSE, _NEWLINE, _SPACE, _TAB, _RETURN = 123, 125, 10, 32, 9, 13
_TYPE, _NAME, _TS, _KEYS, _LEN, _TRACE, _TTL, _QUERY, _BLOCK_MASK = range(9)
_FIELDS = (b"type", b"instance_id", b"timestamp_ns", b"keys", b"input_len", b"trace_id", b"ttl_us", b"query_type")
_REQUIRED = (1 << _TYPE) | (1 << _NAME) | (1 << _TS) | (1 << _KEYS)
_MOST_DIGITS, _NINE, _LAST_OF_LIMIT, _LAST_PRINTABLE = 19, 9, 5, 126
_PREFIX_MATCH = b"prefix_match"


def _packed(words: tuple[bytes, ...]) -> tuple[IntArray, IntArray]:
    """Words one after the other, and where each begins."""
    ends = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return np.frombuffer(b"".join(words), np.uint8), ends


_FIELD_BYTES, _FIELD_ENDS = _packed((*_FIELDS, b"block_mask"))
_KIND_BYTES, _KIND_ENDS = _packed((b"get", b"write", b"request"))
_MATCH_BYTES, _MATCH_ENDS = _packed((_PREFIX_MATCH,))


def packed_names(names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    """Instances as the scanner is told them."""
    return _packed(tuple(name.encode() for name in names))


@njit(cache=True, nogil=True)
def _blank(buffer: IntArray, at: int) -> int:
    """The next place that is no blank; a line's end is none."""
    while buffer[at] == _SPACE or buffer[at] == _TAB or buffer[at] == _RETURN:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _text_end(buffer: IntArray, at: int) -> int:
    """The closing quote of a text that begins here, or -1 for one with an escape, a control or another character."""
    while True:
        byte = np.int64(buffer[at])
        if byte == _QUOTE:
            return at
        if byte < _SPACE or byte > _LAST_PRINTABLE or byte == _BACKSLASH:
            return -1
        at += 1


@njit(cache=True, nogil=True)
def _which(buffer: IntArray, start: int, stop: int, words: IntArray, ends: IntArray) -> int:
    """Which of the words stands there, or -1."""
    for word in range(len(ends) - 1):
        size = ends[word + 1] - ends[word]
        if size != stop - start:
            continue
        same = True
        for offset in range(size):
            if words[ends[word] + offset] != buffer[start + offset]:
                same = False
                break
        if same:
            return word
    return -1


@njit(cache=True, nogil=True)
def _integer(buffer: IntArray, at: int) -> tuple[int, np.uint64, int]:
    """Sign, absolute value and end of an integer; end -1 for what is none, or has more than 64 bits."""
    negative = buffer[at] == _MINUS
    if negative:
        at += 1
    first, value = at, np.uint64(0)
    digit = np.int64(buffer[at]) - _ZERO
    while 0 <= digit <= _NINE:
        if at - first >= _MOST_DIGITS:
            limit = np.uint64(1844674407370955161)
            if at - first > _MOST_DIGITS or value > limit or (value == limit and digit > _LAST_OF_LIMIT):
                return 0, value, -1
        value = value * np.uint64(10) + np.uint64(digit)
        at += 1
        digit = np.int64(buffer[at]) - _ZERO
    if at == first or (buffer[first] == _ZERO and at - first > 1):
        return 0, value, -1
    if negative and value > np.uint64(1) << np.uint64(63):
        return 0, value, -1
    return (-1 if negative else 1), value, at


@njit(cache=True, nogil=True)
def _int64(buffer: IntArray, at: int) -> tuple[int, int]:
    """A signed integer and its end; end -1 for what does not fit."""
    sign, value, end = _integer(buffer, at)
    if end < 0 or (sign > 0 and value >> np.uint64(63)):
        return 0, -1
    return np.int64(np.uint64(0) - value if sign < 0 else value), end  # type: ignore[return-value] # a kernel's integer


@njit(cache=True, nogil=True)
def _read_keys(buffer: IntArray, at: int, keys: IntArray, count: int) -> tuple[int, int]:
    """Append an array of integers, those from 2**63 on as negative ones; its end (-1: none) and the number of keys."""
    if buffer[at] != _OPEN:
        return -1, count
    at = _blank(buffer, at + 1)
    if buffer[at] == _CLOSE:
        return at + 1, count
    while True:
        sign, value, at = _integer(buffer, at)
        if at < 0:
            return -1, count
        keys[count] = np.int64(np.uint64(0) - value if sign < 0 else value)
        count += 1
        at = _blank(buffer, at)
        if buffer[at] == _CLOSE:
            return at + 1, count
        if buffer[at] != _COMMA:
            return -1, count
        at = _blank(buffer, at + 1)


@njit(cache=True, nogil=True)
def _value(  # noqa: PLR0911, PLR0913, PLR0917 - arrays are a kernel's state; each way out is one kind of member
    buffer: IntArray, at: int, field: int, row: IntArray, keys: IntArray, names: IntArray, ends: IntArray
) -> int:
    """Read the value of a member into a row; its end, or -1 for what takes a closer look."""
    if field in (_TS, _LEN, _TTL, _BLOCK_MASK):
        number, end = _int64(buffer, at)
        if end < 0 or (field != _TTL and number < (0 if field == _BLOCK_MASK else 1)):
            return -1
        row[(TIME if field == _TS else INPUT if field == _LEN else TTL if field == _TTL else MASK)] = number
        return end
    if field == _KEYS:
        end, row[STOP] = _read_keys(buffer, at, keys, row[START])
        return end
    if buffer[at] != _QUOTE:
        return -1
    end = _text_end(buffer, at + 1)
    if end < 0:
        return -1
    if field == _TYPE:
        row[KIND] = _which(buffer, at + 1, end, _KIND_BYTES, _KIND_ENDS)
        return -1 if row[KIND] < 0 else end + 1
    if field == _NAME:
        row[INSTANCE] = _which(buffer, at + 1, end, names, ends)
        return -1 if row[INSTANCE] < 0 else end + 1
    if field == _QUERY:
        row[OTHER] = _which(buffer, at + 1, end, _MATCH_BYTES, _MATCH_ENDS) < 0
    return end + 1


@njit(cache=True, nogil=True)
def _members(  # noqa: PLR0911 - each way out is another thing to look at closely
    buffer: IntArray, at: int, row: IntArray, keys: IntArray, names: IntArray, ends: IntArray
) -> int:
    """Read the members of an object up to the end of its line; that end, or -1 for what takes a closer look."""
    seen = 0
    while True:
        if buffer[at] != _QUOTE:
            return -1
        stop = _text_end(buffer, at + 1)
        field = _which(buffer, at + 1, stop, _FIELD_BYTES, _FIELD_ENDS) if stop >= 0 else -1
        if field < 0 or seen >> field & 1:
            return -1
        seen |= 1 << field
        at = _blank(buffer, stop + 1)
        if buffer[at] != _COLON:
            return -1
        at = _value(buffer, _blank(buffer, at + 1), field, row, keys, names, ends)
        if at < 0:
            return -1
        at = _blank(buffer, at)
        if buffer[at] == _BRACE_CLOSE:
            break
        if buffer[at] != _COMMA:
            return -1
        at = _blank(buffer, at + 1)
    at = _blank(buffer, at + 1)
    if buffer[at] != _NEWLINE or seen & _REQUIRED != _REQUIRED:
        return -1
    if row[KIND] != 1 and not seen >> _LEN & 1:
        return -1
    return at


@njit(cache=True, nogil=True)
def scan(buffer: IntArray, state: IntArray, table: IntArray, keys: IntArray, names: IntArray, ends: IntArray) -> None:
    """Read lines from where ``state`` stands, until the buffer ends or a line takes a closer look.

    The buffer ends with a newline. Blank lines are passed. ``state`` then stands at that line or at the end.
    """
    while state[POSITION] < len(buffer):
        at = _blank(buffer, state[POSITION])
        if buffer[at] != _NEWLINE:
            row = table[state[ROWS]]
            row[:] = 0
            row[START], row[LINE] = state[KEYS], state[LINES] + 1
            if buffer[at] != _BRACE_OPEN:
                return
            at = _members(buffer, _blank(buffer, at + 1), row, keys, names, ends)
            if at < 0:
                return
            if row[KIND] == 1:
                row[INPUT] = row[MASK] = row[OTHER] = 0
            elif row[KIND] == 0:
                row[TTL] = 0
            state[ROWS] += 1
            state[KEYS] = row[STOP]
        state[POSITION] = at + 1
        state[LINES] += 1
