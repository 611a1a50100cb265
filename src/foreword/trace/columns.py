"""A trace as columns, one entry a row: what both cores replay, and what is kept of a trace in memory and on disk."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from foreword.trace.schema import PREFIX_MATCH, RowKind, TraceRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from foreword.terms import BoolArray, IntArray

KINDS = (RowKind.GET, RowKind.WRITE, RowKind.REQUEST)
"""Kinds of rows by their code in a column."""

_CODES = {kind: code for code, kind in enumerate(KINDS)}
_OTHER = "other"


@dataclass(frozen=True, slots=True, eq=False)
class TraceColumns:
    """Rows of a trace. ``spans`` are slices of ``keys``; every column but ``keys`` has one entry a row.

    ``instance`` indexes ``instances``; ``kind`` indexes ``KINDS``. ``mask`` is a count of leading blocks, or -1 - i for
    the i-th of ``masks``. ``other_query`` tells rows that are not looked up by prefix. ``trace_ids`` is empty where
    nobody asked for them.
    """

    instances: tuple[str, ...]
    instance: IntArray
    kind: IntArray
    timestamp_ns: IntArray
    input_len: IntArray
    ttl_us: IntArray
    line: IntArray
    mask: IntArray
    other_query: BoolArray
    spans: IntArray
    keys: IntArray
    masks: tuple[bytes, ...] = ()
    trace_ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.instance)

    def row(self, index: int) -> TraceRow:
        """One row as an object."""
        start, stop = self.spans[index].tolist()
        mask = int(self.mask[index])
        name, now = self.instances[int(self.instance[index])], int(self.timestamp_ns[index])
        return TraceRow(
            KINDS[int(self.kind[index])],
            name,
            now,
            array("q", self.keys[start:stop].tobytes()),
            int(self.input_len[index]),
            self.masks[-1 - mask] if mask < 0 else mask,
            ttl_us=int(self.ttl_us[index]),
            query_type=_OTHER if self.other_query[index] else PREFIX_MATCH,
            trace_id=self.trace_ids[index] if self.trace_ids else f"trace_{name}_{now}",
            line=int(self.line[index]),
        )

    def rows(self) -> Iterator[TraceRow]:
        """All rows in order."""
        return map(self.row, range(len(self)))

    def in_time_order(self) -> tuple[TraceColumns, int]:
        """Rows by time, equal times in file order; and how many stood behind a later one."""
        latest = np.maximum.accumulate(self.timestamp_ns)
        late = int((self.timestamp_ns < latest).sum())
        return (self.taken(np.argsort(self.timestamp_ns, kind="stable")), late) if late else (self, 0)

    def taken(self, rows: IntArray) -> TraceColumns:
        """These rows in this order; keys stay where they are."""
        columns = {name: getattr(self, name)[rows] for name in ROW_COLUMNS}
        ids = tuple(self.trace_ids[index] for index in rows.tolist()) if self.trace_ids else ()
        return replace(self, **columns, trace_ids=ids)


ROW_COLUMNS = ("instance", "kind", "timestamp_ns", "input_len", "ttl_us", "line", "mask", "other_query", "spans")
"""Columns with one entry a row."""


@dataclass(slots=True)
class ColumnBuilder:
    """Columns that grow row by row; a row takes what its integers take."""

    with_ids: bool = False
    instances: dict[str, int] = field(default_factory=dict)
    masks: list[bytes] = field(default_factory=list)
    trace_ids: list[str] = field(default_factory=list)
    _numbers: array[int] = field(default_factory=lambda: array("q"))
    _keys: array[int] = field(default_factory=lambda: array("q"))

    def add(self, row: TraceRow) -> None:
        """Append a row."""
        self._numbers.extend(self.numbers(row, len(self._keys)))
        self._keys.extend(row.keys)
        if self.with_ids:
            self.trace_ids.append(row.trace_id)

    def numbers(self, row: TraceRow, start: int) -> tuple[int, ...]:
        """A row as its line of a table, with keys from ``start`` on; takes in its instance and its mask."""
        return (
            self.instances.setdefault(row.instance_id, len(self.instances)),
            _CODES[row.kind],
            row.timestamp_ns,
            row.input_len,
            row.ttl_us,
            row.line,
            self._mask_code(row),
            row.query_type != PREFIX_MATCH,
            start,
            start + len(row.keys),
        )

    def _mask_code(self, row: TraceRow) -> int:
        """A row's mask as its column has it."""
        if isinstance(row.block_mask, int):
            return row.block_mask
        self.masks.append(row.block_mask)
        return -len(self.masks)

    def finished(self) -> TraceColumns:
        """The rows so far."""
        table = np.frombuffer(self._numbers, np.int64).reshape(-1, NUMBERS)
        keys = np.frombuffer(self._keys, np.int64)
        return columns_of(table, keys, instances=self.instances, masks=self.masks, trace_ids=self.trace_ids)


NUMBERS = 10
"""Integers of a row in a table: the columns in their order, a span being two."""


def columns_of(
    table: IntArray,
    keys: IntArray,
    *,
    instances: Iterable[str],
    masks: Iterable[bytes] = (),
    trace_ids: Iterable[str] = (),
) -> TraceColumns:
    """Columns from a table with ``NUMBERS`` integers a row."""
    instance, kind, time, input_len, ttl, line, mask, other = (
        np.ascontiguousarray(table[:, index]) for index in range(NUMBERS - 2)
    )
    return TraceColumns(
        tuple(instances),
        instance,
        kind,
        time,
        input_len,
        ttl,
        line,
        mask,
        other_query=other.astype(np.bool_),
        spans=np.ascontiguousarray(table[:, NUMBERS - 2 :]),
        keys=keys,
        masks=tuple(masks),
        trace_ids=tuple(trace_ids),
    )


def columns_from(rows: Iterable[TraceRow]) -> TraceColumns:
    """Columns of rows that are at hand, their names included."""
    builder = ColumnBuilder(with_ids=True)
    for row in rows:
        builder.add(row)
    return builder.finished()
