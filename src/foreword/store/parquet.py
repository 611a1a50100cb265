"""Traces as Parquet: the columns of a standard trace under its names, read at the speed of memory.

``keys`` is a list of signed or unsigned 64-bit integers; ``block_mask`` a count, and ``block_mask_array`` a list of
booleans where a row has one. Columns that a trace does not need may be left out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from foreword.errors import DataError
from foreword.trace.columns import KINDS, TraceColumns
from foreword.trace.schema import PREFIX_MATCH, RowError, RowKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreword.store.traces import LoadedTrace, TraceSource
    from foreword.terms import BoolArray, IntArray

_REQUIRED = ("type", "instance_id", "timestamp_ns", "keys")
_TEXTS = ("type", "instance_id", "trace_id", "query_type")
_NUMBERS = ("timestamp_ns", "input_len", "ttl_us", "block_mask")
_KNOWN = frozenset((*_REQUIRED, *_TEXTS, *_NUMBERS, "block_mask_array", "sw_size", "location_spec_names"))


def read_parquet(source: TraceSource) -> LoadedTrace:
    """Read and check a trace; rows in error are refused as lines are, counted from 1. Raises ``DataError``."""
    from foreword.store.traces import LoadedTrace  # noqa: PLC0415 - that module loads this one on demand

    frame = _frame(source.path)
    refused: Counter[str] = Counter()
    bad = np.zeros(len(frame), np.bool_)
    for error in sorted(_errors(frame, bad), key=lambda found: found.line):
        source.refuse(error, refused)
    columns = _columns(frame, with_ids=source.with_ids)
    return LoadedTrace(columns.taken(np.flatnonzero(~bad)) if bad.any() else columns, refused)


def write_parquet(columns: TraceColumns, path: Path) -> None:
    """Write a trace; raises ``DataError`` where the file cannot be written."""
    names = pl.Series(columns.instances, dtype=pl.String)
    kinds = pl.Series([kind.value for kind in KINDS], dtype=pl.String)
    sizes = columns.spans[:, 1] - columns.spans[:, 0]
    order = _key_order(columns.spans, sizes)
    lists = [None if mask >= 0 else [bool(bit) for bit in columns.masks[-1 - mask]] for mask in columns.mask.tolist()]
    frame = pl.DataFrame(
        {
            "type": kinds.gather(columns.kind),
            "instance_id": names.gather(columns.instance),
            "timestamp_ns": columns.timestamp_ns,
            "keys": _lists(columns.keys if order is None else columns.keys[order], sizes),
            "input_len": pl.Series(columns.input_len).replace(0, None),
            "block_mask": np.maximum(columns.mask, 0),
            "block_mask_array": pl.Series(lists, dtype=pl.List(pl.Boolean)),
            "ttl_us": columns.ttl_us,
            "query_type": pl.Series(np.where(columns.other_query, "other", PREFIX_MATCH)),
        }
    )
    if columns.trace_ids:
        frame = frame.with_columns(pl.Series("trace_id", columns.trace_ids))
    try:
        frame.write_parquet(path, compression="uncompressed")
    except (OSError, pl.exceptions.PolarsError) as failure:
        raise DataError(f"{path}: cannot be written: {failure}", field="save_trace") from None


def _frame(name: str) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(name)
    except (OSError, pl.exceptions.PolarsError) as failure:
        reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise DataError(f"{name}: cannot be read: {reason}", field="trace_file_path") from None
    missing = [column for column in _REQUIRED if column not in frame.columns]
    if missing:
        raise DataError(f"{name}: no column {missing[0]}", field=missing[0], advice=f"needed: {', '.join(_REQUIRED)}")
    for column in (*_TEXTS, *_NUMBERS):
        if column in frame.columns:
            _check_type(name, frame, column)
    kind = frame.schema["keys"]
    inner = kind.inner if isinstance(kind, pl.List) else None
    if inner is None or not inner.is_integer():
        raise DataError(f"{name}: keys: must be lists of integers, got {kind}", field="keys")
    return frame


def _check_type(name: str, frame: pl.DataFrame, column: str) -> None:
    kind = frame.schema[column]
    fits = kind == pl.String if column in _TEXTS else kind.is_integer()
    if not fits and kind != pl.Null:
        wanted = "texts" if column in _TEXTS else "integers"
        raise DataError(f"{name}: {column}: must be {wanted}, got {kind}", field=column)


def _errors(frame: pl.DataFrame, bad: BoolArray) -> Iterator[RowError]:
    """The first thing wrong with each row; ``bad`` tells the rows from then on."""
    rules: list[tuple[str, str, Any]] = [
        ("type", "required, but not given", pl.col("type").is_null()),
        ("instance_id", "required, but not given", pl.col("instance_id").is_null()),
        ("instance_id", "must not be empty", pl.col("instance_id") == ""),
        ("timestamp_ns", "required, but not given", pl.col("timestamp_ns").is_null()),
        ("keys", "required, but not given", pl.col("keys").is_null()),
        ("keys", "must hold integers only", pl.col("keys").list.eval(pl.element().is_null()).list.any()),
        ("type", "must be get, write or request", ~pl.col("type").is_in([kind.value for kind in KINDS])),
        ("timestamp_ns", "must be positive", pl.col("timestamp_ns") <= 0),
    ]
    reads = pl.col("type") != RowKind.WRITE.value
    length = pl.col("input_len") if "input_len" in frame.columns else pl.lit(None, dtype=pl.Int64)
    rules += [
        ("input_len", "required, but not given", reads & length.is_null()),
        ("input_len", "must be positive", reads & (length <= 0)),
    ]
    if "block_mask" in frame.columns:
        rules.append(("block_mask", "a count must be within 0 and 2**63 - 1", pl.col("block_mask") < 0))
    for column, reason, rule in rules:
        found = frame.select(rule.fill_null(value=False)).to_series().to_numpy()
        for row in np.flatnonzero(found & ~bad).tolist():
            yield RowError(row + 1, column, reason)
        bad |= found


def _columns(frame: pl.DataFrame, *, with_ids: bool) -> TraceColumns:
    sizes = frame["keys"].list.len().fill_null(0).to_numpy().astype(np.int64)
    ends = np.cumsum(sizes)
    instance = frame["instance_id"].fill_null("")
    names = instance.unique(maintain_order=True).to_list()
    codes = {name: code for code, name in enumerate(names)}
    kinds = {kind.value: code for code, kind in enumerate(KINDS)}
    kind = frame["type"].replace_strict(kinds, default=0, return_dtype=pl.Int64).to_numpy()
    mask, masks = _masks(frame)
    read, written = kind != kinds[RowKind.WRITE], kind != kinds[RowKind.GET]
    query = frame["query_type"].fill_null(PREFIX_MATCH) if "query_type" in frame.columns else None
    other = np.zeros(len(frame), np.bool_) if query is None else (query != PREFIX_MATCH).to_numpy()
    ids = tuple(frame["trace_id"].to_list()) if with_ids and "trace_id" in frame.columns else ()
    return TraceColumns(
        instances=tuple(names),
        instance=instance.replace_strict(codes, return_dtype=pl.Int64).to_numpy().copy(),
        kind=kind,
        timestamp_ns=_numbers(frame, "timestamp_ns"),
        input_len=np.where(read, _numbers(frame, "input_len"), 0),
        ttl_us=np.where(written, _numbers(frame, "ttl_us"), 0),
        line=np.arange(1, len(frame) + 1),
        mask=np.where(read, mask, 0),
        other_query=other & read,
        spans=np.column_stack([ends - sizes, ends]),
        keys=_keys(frame),
        masks=masks,
        trace_ids=ids,
    )


def _keys(frame: pl.DataFrame) -> IntArray:
    """All keys one after the other, those from 2**63 on as negative ones."""
    lists = frame["keys"].drop_nulls()
    flat = lists.filter(lists.list.len() > 0).explode()
    values: Any = flat.fill_null(0).to_numpy()
    keys: IntArray = values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    return keys


def _numbers(frame: pl.DataFrame, column: str) -> IntArray:
    if column not in frame.columns:
        return np.zeros(len(frame), np.int64)
    return frame[column].cast(pl.Int64).fill_null(0).to_numpy().copy()


def _masks(frame: pl.DataFrame) -> tuple[IntArray, tuple[bytes, ...]]:
    """Masks as codes, and the arrays among them."""
    codes = _numbers(frame, "block_mask")
    if "block_mask_array" not in frame.columns:
        return codes, ()
    arrays = frame["block_mask_array"]
    rows = np.flatnonzero(arrays.is_not_null().to_numpy())
    codes[rows] = -1 - np.arange(len(rows))
    return codes, tuple(bytes(mask) for mask in arrays.drop_nulls().to_list())


def _key_order(spans: IntArray, sizes: IntArray) -> IntArray | None:
    """Places of the keys in the order of the rows, or ``None`` if they stand so."""
    ends = np.cumsum(sizes)
    if np.array_equal(spans[:, 0], ends - sizes):
        return None
    return np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes) + np.repeat(spans[:, 0], sizes)


def _lists(values: IntArray, sizes: IntArray) -> pl.Series:
    rows = pl.Series(np.repeat(np.arange(len(sizes)), sizes))
    grouped = pl.DataFrame({"row": rows, "keys": values}).group_by("row", maintain_order=True).agg("keys")
    whole = pl.DataFrame({"row": np.arange(len(sizes))}).join(grouped, on="row", how="left", maintain_order="left")
    return whole["keys"].fill_null(pl.Series([[]], dtype=pl.List(pl.Int64)))
