"""Run folders: written as a run goes, read by reports (RFC 3.5.3).

``dataset/`` holds the data set by hard link or copy, ``runtime/`` what was measured, ``report/`` is left to the report.
Rows are appended and flushed one by one; JSON documents are replaced in one step, so a reader never sees half of one.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from foreword.collect.records import RequestRow
from foreword.errors import DataError, UsageError
from foreword.store.atomic import replace_file
from foreword.store.decoding import read_lines, read_object
from foreword.store.rows import DATASET_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

SCHEMA_VERSION = 1
_row = msgspec.json.Decoder(RequestRow).decode


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run; every name is the RFC's, but for ``run.json`` and the raw metrics pages."""

    root: Path

    @property
    def dataset(self) -> Path:
        """Folder of the data set as it was sent."""
        return self.root / "dataset"

    @property
    def runtime(self) -> Path:
        """Folder of what was measured."""
        return self.root / "runtime"

    @property
    def report(self) -> Path:
        """Folder of the report."""
        return self.root / "report"

    @property
    def requests(self) -> Path:
        """One row a request and pass, in completion order."""
        return self.runtime / "request_results.jsonl"

    @property
    def performance(self) -> Path:
        """Latencies and throughputs per pass."""
        return self.runtime / "performance_metrics.json"

    @property
    def prefix_cache(self) -> Path:
        """Counter deltas and cache usage per pass."""
        return self.runtime / "prefix_cache_metrics.json"

    @property
    def run(self) -> Path:
        """How the run was made and how it ended."""
        return self.runtime / "run.json"

    @property
    def pages(self) -> Path:
        """Raw metrics pages with their times."""
        return self.runtime / "metrics_pages.jsonl.gz"


def check_output(output: Path) -> None:
    """Refuse a path at which no run folder can be made; raises ``UsageError``."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} exists and is not an empty folder", advice="give --output another path")


def create_run(dataset: Path, output: Path | None, *, parent: Path) -> RunFolder:
    """Make a run folder: ``output``, or the next free ``run_NNN`` in ``parent``; raises ``UsageError``."""
    with _writing(output or parent):
        folder = RunFolder(_claim(output) if output else _next_free(parent))
        for path in (folder.dataset, folder.runtime, folder.report):
            path.mkdir()
        for name in DATASET_FILES:
            if (dataset / name).is_file():
                _link(dataset / name, folder.dataset / name)
    return folder


def open_run(root: Path) -> RunFolder:
    """The folder of a run that was made; raises ``DataError`` for any other folder."""
    folder = RunFolder(root)
    if not folder.runtime.is_dir():
        raise DataError(f"{root} is no run folder: it has no runtime/", advice="give the folder that run printed")
    return folder


def _claim(output: Path) -> Path:
    check_output(output)
    output.mkdir(parents=True, exist_ok=True)
    return output


def _next_free(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    taken = [int(path.name[4:]) for path in parent.glob("run_*") if path.name[4:].isdecimal()]
    number = max(taken, default=0) + 1
    while True:
        path = parent / f"run_{number:03d}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source.resolve())
    except OSError:
        shutil.copyfile(source, target)


class RowWriter:
    """Append rows to ``request_results.jsonl``; each is on its way to the disk before the next one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._file = self._path.open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, row: RequestRow) -> None:
        """Append one row and flush it."""
        if self._file is None:
            raise ValueError("the writer is not open")
        with _writing(self._path):
            self._file.write(msgspec.json.encode(row) + b"\n")
            self._file.flush()


def write_document(path: Path, document: Mapping[str, object]) -> None:
    """Replace a JSON document in one step, with ``schema_version`` first."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, ensure_ascii=False, allow_nan=False)
    with _writing(path):
        replace_file(path, f"{text}\n".encode())


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """A file system that does not take a file is a ``DataError`` with the system's words."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}", advice="give --output another place") from error


def read_rows(path: Path) -> Iterator[RequestRow]:
    """Stream the rows of a run; a damaged row is a ``DataError`` with file and line.

    A last line without its newline is what a killed run leaves behind; it is left out.
    """
    if not path.is_file():
        raise DataError(f"{path} does not exist", advice="--run-dir takes the folder of a run")
    yield from read_lines(path, _row, growing=True)


def read_document(path: Path) -> dict[str, Any]:
    """Read one JSON document of a run; raises ``DataError``."""
    document = read_object(path, advice="the run was killed before it wrote its summaries, run again")
    if document.get("schema_version") != SCHEMA_VERSION:
        found = document.get("schema_version")
        raise DataError(f"{path} has schema_version {found}; this version reads {SCHEMA_VERSION}")
    return document
