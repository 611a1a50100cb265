"""JSON files as every reader takes them: objects whole, rows one line at a time, and damage named by file and line."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from foreword.errors import DataError
from foreword.store.zstd import plain_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Row = TypeVar("Row")

_REQUEST = re.compile(rb'"request_id": ?"([\w.-]+)"')


def read_object(path: Path, *, advice: str) -> dict[str, Any]:
    """A file that holds one JSON object; raises ``DataError``, with ``advice`` where there is no such file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} does not exist", advice=advice) from None
    except (OSError, msgspec.MsgspecError) as failure:
        raise DataError(f"{path} is damaged: {failure}", field=path.name) from None


def read_lines(path: Path, decode: Callable[[bytes], Row], *, growing: bool = False) -> Iterator[Row]:
    """Decoded lines of a JSONL file, plain or ``.zst``; raises ``DataError`` that names file, line and request.

    A file may still be ``growing``, or was when its writer was killed: a last line without its newline is left out.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(plain_file(file) if path.suffix == ".zst" else file, start=1):
                if growing and not line.endswith(b"\n"):
                    return
                try:
                    yield decode(line)
                except msgspec.MsgspecError as failure:
                    raise _damaged(path, number, line=line, failure=failure) from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist", field=path.name) from None
    except zlib.error as damage:
        raise DataError(f"{path} is damaged: {damage}", field=path.name) from None


def _damaged(path: Path, number: int, *, line: bytes, failure: msgspec.MsgspecError) -> DataError:
    """A row that cannot be read, named by its request as far as that can be read."""
    name = _REQUEST.search(line)
    request = name.group(1).decode() if name else None
    who = f" of request {request}" if request else ""
    return DataError(f"{path}:{number}: damaged row{who}: {failure}", field=path.name, request_id=request)
