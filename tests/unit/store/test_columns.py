"""Columns that a config names, from any kind of table."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import polars as pl
import pytest

from foreword.errors import ConfigError
from foreword.store.columns import read_column

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = ("input_length", "tokens")


def written(folder: Path, name: str, content: bytes) -> Path:
    """A file with this content."""
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lengths.txt", b"3\n\n 14 \n15\n"),
        ("lengths.csv", b"id,tokens\na,3\nb,14\nc,15\n"),
        ("one-column.csv", b"n\n3\n14\n15\n"),
        ("lengths.jsonl", b'{"tokens":3,"id":1}\n{"tokens":14,"id":2}\n{"tokens":15,"id":3}\n'),
        ("lengths.csv.gz", gzip.compress(b"id,tokens\na,3\nb,14\nc,15\n", mtime=0)),
        ("LENGTHS.CSV", b"id,tokens\na,3\nb,14\nc,15\n"),
    ],
)
def test_every_kind_of_table_is_read(name: str, content: bytes, tmp_path: Path) -> None:
    """Lists, CSV and JSON Lines, compressed or not, give the known column or the only one, in file order."""
    path = written(tmp_path, name, content)

    assert read_column(path, None, known=KNOWN, field="input_length.path") == [3, 14, 15]


def test_parquet_is_read(tmp_path: Path) -> None:
    """A Parquet file gives the column that the config names."""
    path = tmp_path / "lengths.parquet"
    pl.DataFrame({"a": [1, 2], "b": [3, 4]}).write_parquet(path)

    assert read_column(path, "b", known=KNOWN, field="f") == [3, 4]


def test_the_first_known_column_wins(tmp_path: Path) -> None:
    """Of several known columns the one that is named first in the product's list is taken."""
    path = written(tmp_path, "t.csv", b"tokens,input_length\n1,2\n")

    assert read_column(path, None, known=KNOWN, field="f") == [2]


@pytest.mark.parametrize(
    ("name", "content", "column", "words"),
    [
        ("missing.csv", None, None, "there is no file missing.csv"),
        ("empty.csv", b"", None, "empty.csv has no rows"),
        ("empty.txt", b"\n\n", None, "empty.txt has no rows"),
        ("empty.jsonl", b"", None, "empty.jsonl has no rows"),
        ("header.csv", b"tokens\n", None, "header.csv has no rows"),
        ("other.csv", b"a,b\n1,2\n", None, "no column named input_length or tokens"),
        ("other.csv", b"a,b\n1,2\n", "c", "no column c"),
        ("broken.jsonl", b'{"tokens": 1}\n{"tok', None, "cannot be read as a table"),
        ("page.parquet", b"<html></html>", None, "cannot be read as a table"),
        ("bytes.txt", b"\xff\xfe\x00", None, "cannot be read as a table"),
    ],
)
def test_what_cannot_be_read_names_field_and_file(
    name: str, content: bytes | None, column: str | None, words: str, tmp_path: Path
) -> None:
    """The key of the config, the file's name and the reason stand on one line."""
    path = tmp_path / name if content is None else written(tmp_path, name, content)

    with pytest.raises(ConfigError) as failure:
        read_column(path, column, known=KNOWN, field="input_length.path")

    assert str(failure.value).startswith("input_length.path: ")
    assert words in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    """A folder in place of a file is named too."""
    with pytest.raises(ConfigError, match="cannot be read as a table"):
        read_column(tmp_path, None, known=KNOWN, field="f")
