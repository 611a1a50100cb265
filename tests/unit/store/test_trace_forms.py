"""Traces in other forms: Parquet, and columns that are kept between runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from foreword.errors import DataError
from foreword.store import trace_cache, traces
from foreword.store.parquet import write_parquet
from foreword.store.trace_cache import TraceCache
from foreword.store.traces import LoadedTrace, TraceSource, load_trace
from foreword.trace.columns import columns_from
from tests.support.replaying import row

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.trace.schema import TraceRow

LINE = b'{"type": "request", "instance_id": "a", "timestamp_ns": %d, "keys": [%d, -2], "input_len": 40}\n'


def load(path: Path, **how: Any) -> LoadedTrace:  # noqa: ANN401 - fields of a source
    """A trace, progress unheard."""
    return load_trace(TraceSource(str(path), **how), lambda _done, _total: None)


def rows() -> list[TraceRow]:
    """Every kind of row, masks of both forms, and two instances."""
    return [
        replace(row("write", "ab", at=1, ttl_us=7), input_len=0),
        row("get", "abc", at=2, mask=2),
        row("request", "b", at=3, name="b", mask=bytes([1, 0])),
        row("get", "", at=4, mask=b""),
    ]


def test_parquet_gives_back_what_was_written(tmp_path: Path) -> None:
    """Rows come back equal, their order and keys from 2**63 on included."""
    columns = columns_from(rows())
    write_parquet(columns, tmp_path / "t.parquet")

    again = load(tmp_path / "t.parquet", with_ids=True).columns

    assert list(again.rows()) == list(columns.rows())


def test_parquet_takes_unsigned_keys_and_few_columns(tmp_path: Path) -> None:
    """A table from elsewhere needs the required columns only; unsigned keys wrap as in JSON."""
    frame = pl.DataFrame({"type": ["write"], "instance_id": ["a"], "timestamp_ns": [5], "keys": [[2**64 - 1, 3]]})
    frame.with_columns(pl.col("keys").cast(pl.List(pl.UInt64))).write_parquet(tmp_path / "t.parquet")

    (only,) = load(tmp_path / "t.parquet").columns.rows()

    assert only.keys.tolist() == [-1, 3]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("type", ["write", "read"], "2: type: must be get, write or request"),
        ("timestamp_ns", [5, 0], "2: timestamp_ns: must be positive"),
        ("timestamp_ns", ["5", "6"], "timestamp_ns: must be integers, got String"),
        ("instance_id", ["a", ""], "2: instance_id: must not be empty"),
        ("instance_id", [None, "a"], "1: instance_id: required, but not given"),
        ("keys", [[1], [None]], "2: keys: must hold integers only"),
        ("keys", [1, 2], "keys: must be lists of integers, got Int64"),
        ("keys", [[1.5], [2.0]], "keys: must be lists of integers, got List"),
        ("input_len", [9, None], "2: input_len: required, but not given"),
    ],
)
def test_a_wrong_column_or_row_is_named(column: str, values: list[Any], message: str, tmp_path: Path) -> None:
    """As for lines: the row, the field and the reason; skipped and counted on request."""
    path = tmp_path / "t.parquet"
    good = {"type": ["get", "get"], "instance_id": ["a", "a"], "timestamp_ns": [5, 6], "keys": [[1], [2]]}
    pl.DataFrame({**good, "input_len": [9, 9], column: values}).write_parquet(path)

    with pytest.raises(DataError) as caught:
        load(path)

    assert message in str(caught.value)
    if message[0].isdigit():
        assert len(load(path, skip_errors=True).columns) == 1


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    """One line that names the file."""
    (tmp_path / "t.parquet").write_bytes(b"nonsense")

    with pytest.raises(DataError, match=r"t\.parquet: cannot be read"):
        load(tmp_path / "t.parquet")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, in which any trace is worth keeping."""
    monkeypatch.setenv("FOREWORD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(traces, "WORTH_SCANNING_BYTES", 1)
    return tmp_path / "cache" / "traces"


def trace(path: Path, count: int = 5) -> Path:
    """A trace of so many requests."""
    path.write_bytes(b"".join(LINE % (index + 1, index) for index in range(count)))
    return path


def test_a_trace_that_was_read_is_kept(cache: Path, tmp_path: Path) -> None:
    """The second reading takes the arrays, and gives the same rows."""
    path = trace(tmp_path / "t.jsonl")
    first = list(load(path).columns.rows())

    assert len(list(cache.iterdir())) == 1
    kept = TraceCache.of(path).load()
    assert kept is not None
    assert list(kept.rows()) == first == list(load(path).columns.rows())


def test_a_parquet_trace_is_kept_too(cache: Path, tmp_path: Path) -> None:
    """Its lists of keys need not be taken apart again."""
    columns = columns_from(rows())
    write_parquet(columns, tmp_path / "t.parquet")
    load(tmp_path / "t.parquet")

    kept = TraceCache.of(tmp_path / "t.parquet").load()

    assert len(list(cache.iterdir())) == 1
    assert kept is not None
    assert [each.keys for each in kept.rows()] == [each.keys for each in columns.rows()]


def test_a_changed_trace_is_read_again(cache: Path, tmp_path: Path) -> None:
    """The key is the digest of the bytes; a run may also do without."""
    load(trace(tmp_path / "t.jsonl"))

    assert len(load(trace(tmp_path / "t.jsonl", 7)).columns) == 7
    load(trace(tmp_path / "t.jsonl", 9), cached=False)
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["names.json", "keys.npy"])
def test_a_damaged_cache_costs_time_only(damage: str, cache: Path, tmp_path: Path) -> None:
    """The trace is read as if nothing had been kept."""
    path = trace(tmp_path / "t.jsonl")
    load(path)
    (next(cache.iterdir()) / damage).write_bytes(b"{")

    assert len(load(path).columns) == 5


def test_old_traces_make_way(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kept traces together stay within their room."""
    monkeypatch.setattr(trace_cache, "MOST_BYTES", 1)

    load(trace(tmp_path / "a.jsonl"))
    load(trace(tmp_path / "b.jsonl", 6))

    assert [folder.name for folder in cache.iterdir()] == [TraceCache.of(tmp_path / "b.jsonl").folder.name]


def test_a_refused_row_is_not_forgotten(cache: Path, tmp_path: Path) -> None:
    """A trace with rows in error is not kept, so that they are counted every time."""
    path = trace(tmp_path / "t.jsonl")
    path.write_bytes(path.read_bytes() + b"nonsense\n")

    assert load(path, skip_errors=True).refused == load(path, skip_errors=True).refused != {}
    assert not cache.exists()
