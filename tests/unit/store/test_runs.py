"""Run folders on disk: names, rows, documents, and what is damaged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from foreword.collect.records import RequestRow
from foreword.errors import DataError, UsageError
from foreword.store.runs import RowWriter, RunFolder, create_run, open_run, read_document, read_rows, write_document
from foreword.terms import Pass
from tests.support.run_data import write_dataset

if TYPE_CHECKING:
    from pathlib import Path


def row(request_id: str) -> RequestRow:
    """A row with nothing but what it must have."""
    return RequestRow(
        request_id=request_id,
        pass_=Pass.COLD,
        order_index=0,
        prefix_group_id="a",
        planned_dp_id=0,
        url_index=0,
        ok=True,
        input_len=16,
        max_tokens=3,
    )


def test_the_folder_that_the_rfc_names(tmp_path: Path) -> None:
    """A run holds the data set's files by link, and empty runtime and report folders."""
    dataset = write_dataset(tmp_path / "dataset")

    folder = create_run(dataset, None, parent=tmp_path / "outputs")

    assert folder.root == tmp_path / "outputs" / "run_001"
    assert {path.name for path in folder.root.iterdir()} == {"dataset", "runtime", "report"}
    assert {path.name for path in folder.dataset.iterdir()} == {path.name for path in dataset.iterdir()}
    assert (folder.dataset / "data.jsonl").samefile(dataset / "data.jsonl")


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file system refuses links; the run then has copies."""

    def refuse(*arguments: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    dataset = write_dataset(tmp_path / "dataset")

    folder = create_run(dataset, None, parent=tmp_path)

    assert (folder.dataset / "data.jsonl").read_bytes() == (dataset / "data.jsonl").read_bytes()
    assert not (folder.dataset / "data.jsonl").samefile(dataset / "data.jsonl")


def test_numbers_go_on_after_the_last(tmp_path: Path) -> None:
    """The next run follows the highest number there is; gaps stay gaps, other names do not count."""
    dataset = write_dataset(tmp_path / "dataset")
    for name in ("run_002", "run_007", "run_mine", "other"):
        (tmp_path / name).mkdir()

    names = [create_run(dataset, None, parent=tmp_path).root.name for _ in range(2)]

    assert names == ["run_008", "run_009"]


def test_an_output_that_holds_something(tmp_path: Path) -> None:
    """An empty folder is taken, a full one and a file are not."""
    dataset = write_dataset(tmp_path / "dataset")
    (tmp_path / "empty").mkdir()

    assert create_run(dataset, tmp_path / "empty", parent=tmp_path).root == tmp_path / "empty"
    for taken in (tmp_path / "empty", dataset / "data.jsonl"):
        with pytest.raises(UsageError, match="not an empty folder"):
            create_run(dataset, taken, parent=tmp_path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A path below a file is refused in one line, not with a traceback."""
    dataset = write_dataset(tmp_path / "dataset")

    with pytest.raises(DataError, match="cannot be written"):
        create_run(dataset, dataset / "data.jsonl" / "run", parent=tmp_path)


def test_rows_are_on_disk_at_once(tmp_path: Path) -> None:
    """Another reader sees a row before the writer is closed."""
    path = tmp_path / "rows.jsonl"
    with RowWriter(path) as writer:
        writer.write(row("r0"))

        assert [read.request_id for read in read_rows(path)] == ["r0"]


def test_the_field_names_of_a_row(tmp_path: Path) -> None:
    """A row has the names that other tools read; what did not happen is null."""
    path = tmp_path / "rows.jsonl"
    with RowWriter(path) as writer:
        writer.write(row("r0"))

    written = msgspec.json.decode(path.read_bytes())

    assert written["pass"] == "cold"
    assert written["cached_tokens"] is None
    assert written["token_ns"] == []
    assert "pass_" not in written


def test_a_killed_run_leaves_half_a_row(tmp_path: Path) -> None:
    """A last line without its end is left out; a damaged line before it is an error with its number."""
    path = tmp_path / "rows.jsonl"
    good = msgspec.json.encode(row("r0")) + b"\n"

    path.write_bytes(good + good[:40])
    kept = list(read_rows(path))
    path.write_bytes(good + good[:40] + b"\n" + good)

    assert [one.request_id for one in kept] == ["r0"]
    with pytest.raises(DataError, match=r"rows\.jsonl:2"):
        list(read_rows(path))


def test_documents_are_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing fails the old document is whole, and the failure has the system's words."""
    path = tmp_path / "run.json"
    write_document(path, {"state": "old"})

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataError, match="cannot be written: No space"):
        write_document(path, {"state": "new"})

    assert read_document(path) == {"schema_version": 1, "state": "old"}


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    """Infinities never reach a document."""
    with pytest.raises(ValueError, match="JSON"):
        write_document(tmp_path / "run.json", {"rate": float("inf")})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "does not exist"),
        ("{broken", "damaged"),
        ("[]", "damaged"),
        ('{"schema_version": 99}', "schema_version 99"),
    ],
)
def test_documents_that_cannot_be_read(tmp_path: Path, content: str | None, text: str) -> None:
    """A missing, damaged or newer document is named."""
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(DataError, match=text):
        read_document(path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    """A folder without runtime/ and a run without summaries are told apart."""
    with pytest.raises(DataError, match="no run folder"):
        open_run(tmp_path)

    RunFolder(tmp_path).runtime.mkdir()
    with pytest.raises(DataError, match=r"run\.json does not exist"):
        read_document(open_run(tmp_path).run)
