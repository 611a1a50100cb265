"""Trace files: compressions, standard input, damage, and errors with file and line."""

from __future__ import annotations

import gzip
import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
import zstandard

from foreword.config.replay import ReplayConfig
from foreword.errors import DataError, UsageError
from foreword.simulate.cores import Core
from foreword.simulate.replay import Replay
from foreword.store.traces import LoadedTrace, TraceSource, load_trace, replay_trace
from tests.support.replaying import document

if TYPE_CHECKING:
    from pathlib import Path

GOOD = b'{"type": "write", "instance_id": "a", "timestamp_ns": 5, "keys": [1]}\n'
BAD = b'{"type": "write", "instance_id": "a", "timestamp_ns": 5, "keys": 1}\n'


def load(path: Path | str, *, skip_errors: bool = False) -> LoadedTrace:
    """Rows of a trace, progress unheard."""
    return load_trace(TraceSource(str(path), skip_errors=skip_errors), lambda _done, _total: None)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.jsonl.zst"])
def test_compressed_traces_are_read_as_they_are(name: str, tmp_path: Path) -> None:
    """Plain, gzip and zstd hold the same rows; two members behind each other are one trace."""
    packed = {".jsonl": GOOD, ".gz": gzip.compress(GOOD), ".zst": zstandard.compress(GOOD)}[(tmp_path / name).suffix]
    (tmp_path / name).write_bytes(packed + packed)

    assert [row.line for row in load(tmp_path / name).columns.rows()] == [1, 2]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows may come through a pipe."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD)))

    assert len(load("-").columns) == 1


def test_blank_lines_and_a_mark_of_byte_order_do_not_count_as_rows(tmp_path: Path) -> None:
    """Line numbers are those of the file, blank lines and CRLF included."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD + b"\n  \r\n" + GOOD.replace(b"\n", b"\r\n") + BAD)

    with pytest.raises(DataError) as caught:
        load(path)

    assert str(caught.value) == f"{path}:5: keys: must be an array, got 1"
    assert caught.value.field == "keys"


def test_refused_rows_are_left_out_and_counted_if_asked(tmp_path: Path) -> None:
    """``--on-error skip``: counts by kind, the other rows in order."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(BAD + GOOD + BAD + b"nonsense\n" + GOOD)

    loaded = load(path, skip_errors=True)

    assert [row.line for row in loaded.columns.rows()] == [2, 5]
    assert loaded.refused == {"keys: must be an array": 2, "json: not a line of JSON": 1}


def test_a_row_found_wrong_when_executed_is_named_by_its_line(tmp_path: Path) -> None:
    """Sorting does not lose the line: more keys than the tokens fill."""
    path = tmp_path / "t.jsonl"
    late = {"type": "get", "instance_id": "a", "timestamp_ns": 9, "keys": [1, 2], "input_len": 4}
    path.write_bytes(json.dumps(late).encode() + b"\n" + GOOD)

    for skip in (False, True):
        source = TraceSource(str(path), skip_errors=skip)
        trace, replay = load(path), Replay(ReplayConfig.from_document(document()))
        if skip:
            moved = replay_trace(replay, trace, source=source, progress=lambda _done, _total: None)
            assert (moved, trace.refused) == (1, {"keys: more than input_len fills blocks": 1})
        else:
            with pytest.raises(DataError, match=r"t\.jsonl:1: keys: more than input_len fills blocks"):
                replay_trace(replay, trace, source=source, progress=lambda _done, _total: None)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_trace_without_rows_is_an_error(content: bytes, tmp_path: Path) -> None:
    """An empty file is no trace."""
    (tmp_path / "t.jsonl").write_bytes(content)

    with pytest.raises(DataError, match="no row to replay"):
        load(tmp_path / "t.jsonl")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.gz", GOOD),
        ("t.gz", gzip.compress(GOOD, mtime=0)[:-9]),
        ("t.gz", gzip.compress(GOOD, mtime=0)[:20] + b"x" * 30),
        ("t.zst", GOOD),
        ("t.jsonl/x", None),
    ],
)
def test_damaged_and_missing_files_are_errors_of_one_line(name: str, content: bytes | None, tmp_path: Path) -> None:
    """Whatever is wrong with the file, the message names it."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(DataError) as caught:
        load(path)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_zstd_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    (tmp_path / "t.zst").write_bytes(zstandard.compress(GOOD))
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(UsageError, match=r"foreword\[zstd\]"):
        load(tmp_path / "t.zst")


@pytest.mark.parametrize("core", ["reference", "compiled"])
def test_progress_counts_rows_to_their_last(core: str, tmp_path: Path) -> None:
    """Delayed writes are no rows, whichever core runs."""
    path, heard = tmp_path / "t.jsonl", []
    request = {"type": "request", "instance_id": "a", "timestamp_ns": 9, "keys": [1, 2], "input_len": 9}
    path.write_text((json.dumps(request) + "\n") * 3, encoding="utf-8")
    source = TraceSource(str(path), core=Core(core))

    replay_trace(
        Replay(ReplayConfig.from_document(document())),
        load(path),
        source=source,
        progress=lambda *told: heard.append(told),
    )

    assert heard == [(3, 3)]
