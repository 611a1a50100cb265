"""JSON files as every reader takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from foreword.errors import DataError
from foreword.store.decoding import read_lines, read_object

if TYPE_CHECKING:
    from pathlib import Path

number = msgspec.json.Decoder(dict[str, int]).decode


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": 1} x'])
def test_a_document_that_is_no_object_is_damaged(text: str, tmp_path: Path) -> None:
    """Half a file, or another kind of JSON, is named with its path."""
    path = tmp_path / "manifest.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(DataError, match=r"manifest\.json is damaged") as failure:
        read_object(path, advice="look elsewhere")

    assert failure.value.field == "manifest.json"


def test_a_document_that_is_not_there_comes_with_advice(tmp_path: Path) -> None:
    """Who asks for a file that is missing is told what to do, below a file as well."""
    (tmp_path / "file").write_text("", encoding="utf-8")

    for path in (tmp_path / "run.json", tmp_path / "file" / "run.json"):
        with pytest.raises(DataError, match=r"run\.json does not exist") as failure:
            read_object(path, advice="look elsewhere")
        assert failure.value.advice == "look elsewhere"


def test_a_damaged_line_is_named_by_file_line_and_request(tmp_path: Path) -> None:
    """The rows before it are read, and its request is named though the row cannot be decoded."""
    path = tmp_path / "data.jsonl"
    path.write_text('{"a": 1}\n{"request_id": "r7", "a": tr\n', encoding="utf-8")
    rows = read_lines(path, number)

    assert next(rows) == {"a": 1}
    with pytest.raises(DataError, match=r"data\.jsonl:2: damaged row of request r7") as failure:
        next(rows)
    assert failure.value.request_id == "r7"


def test_only_a_file_that_grows_may_end_within_a_line(tmp_path: Path) -> None:
    """Half of a last line is left out where a writer may have been killed, and is damage elsewhere."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n{"a"', encoding="utf-8")

    assert list(read_lines(path, number, growing=True)) == [{"a": 1}]
    with pytest.raises(DataError, match=r"rows\.jsonl:2: damaged row"):
        list(read_lines(path, number))
