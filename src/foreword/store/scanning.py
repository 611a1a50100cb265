"""Large trace files through the compiled scanner, a buffer at a time; lines that it leaves are read closely."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import numpy as np

from foreword.terms import IntArray
from foreword.trace.columns import NUMBERS, ColumnBuilder, TraceColumns, columns_of
from foreword.trace.scan import KEYS, LINES, POSITION, ROWS, packed_names, scan
from foreword.trace.schema import BOM, RowError
from foreword.trace.standard import parse_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BUFFER_BYTES = 16 << 20
_LEAST_ROW_BYTES = 40


def scan_file(raw: IO[bytes], *, refuse: Callable[[RowError], None], tell: Callable[[], None]) -> TraceColumns:
    """All rows of a standard trace; ``refuse`` hears of each line in error, in order, and may raise."""
    builder, tables, keys = ColumnBuilder(), list[IntArray](), list[IntArray]()
    lines = held = 0
    for data in _whole_lines(raw):
        table, found, lines = _scanned(data, lines, builder, refuse)
        table[:, -2:] += held
        held += len(found)
        tables.append(table)
        keys.append(found)
        tell()
    empty = np.zeros((0, NUMBERS), np.int64)
    return columns_of(
        np.concatenate([empty, *tables]),
        np.concatenate([np.zeros(0, np.int64), *keys]),
        instances=builder.instances,
        masks=builder.masks,
    )


def _whole_lines(raw: IO[bytes]) -> Iterator[bytes]:
    """Buffers that end with a newline, the last one given its own if it has none."""
    rest = b""
    first = True
    while piece := raw.read(_BUFFER_BYTES):
        piece = piece.removeprefix(BOM) if first else piece
        first = False
        end = piece.rfind(b"\n") + 1
        if end:
            yield rest + piece[:end]
            rest = piece[end:]
        else:
            rest += piece
    if rest:
        yield rest + b"\n"


def _scanned(
    data: bytes, lines: int, builder: ColumnBuilder, refuse: Callable[[RowError], None]
) -> tuple[IntArray, IntArray, int]:
    """Table and keys of a buffer, and the lines that have been passed."""
    buffer = np.frombuffer(data, np.uint8)
    table = np.empty((len(data) // _LEAST_ROW_BYTES + 1, NUMBERS), np.int64)
    keys = np.empty(len(data) // 2 + 1, np.int64)
    state = np.array([0, 0, 0, lines], np.int64)
    names = packed_names(tuple(builder.instances))
    while True:
        scan(buffer, state, table, keys, *names)
        if state[POSITION] >= len(data):
            break
        if _closely(data, state, (table, keys), builder, refuse):
            names = packed_names(tuple(builder.instances))
    return table[: state[ROWS]].copy(), keys[: state[KEYS]].copy(), int(state[LINES])


def _closely(
    data: bytes,
    state: IntArray,
    into: tuple[IntArray, IntArray],
    builder: ColumnBuilder,
    refuse: Callable[[RowError], None],
) -> bool:
    """Read the line that the scan stands at as any other line; whether it named a new instance."""
    start = int(state[POSITION])
    stop = data.index(b"\n", start) + 1
    row = parse_row(data[start:stop], int(state[LINES]) + 1)
    known = len(builder.instances)
    if isinstance(row, RowError):
        refuse(row)
    elif row is not None:
        table, keys = into
        at = int(state[KEYS])
        keys[at : at + len(row.keys)] = row.keys
        table[state[ROWS]] = builder.numbers(row, at)
        state[ROWS] += 1
        state[KEYS] += len(row.keys)
    state[POSITION] = stop
    state[LINES] += 1
    return len(builder.instances) > known
