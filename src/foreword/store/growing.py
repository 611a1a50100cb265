"""The large files of a data set while they grow, and a journal from which an interrupted one can go on.

A file grows under a temporary name and takes its own when it is whole. After each stretch of rows the journal gets a
line with the sizes of the files and what is known of the rows so far; a process that is killed loses at most the
stretches that have no line yet. With ``compress`` each stretch is a frame of its own, so that a file can be cut there.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import numpy as np

from foreword.errors import DataError
from foreword.store.decoding import read_lines
from foreword.store.making import joined
from foreword.store.rows import DATA, METADATA, ZSTD
from foreword.store.workshop import NOTHING_REMADE, Rows
from foreword.store.zstd import compressed
from foreword.workload.proof import ProofCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from foreword.store.making import Part

PARTS = ".parts"
_JOURNAL = "journal.jsonl"
_PIECE_BYTES = 1 << 20


class _Line(msgspec.Struct):
    """One stretch: rows and file sizes after it, and what is known of its rows."""

    rows: int
    sizes: list[int]
    first_private: bytes
    windows: bytes
    proof: list[int]
    retries: int
    conflicts: list[str]
    units: bytes = b""
    unit_counts: bytes = b""
    remade: tuple[int, ...] = NOTHING_REMADE


@dataclass(slots=True)
class Sink:
    """A file that grows under a temporary name, with its digest."""

    path: Path
    rows: int = 0
    size_bytes: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def growing(self) -> Path:
        """The temporary name."""
        return self.path.with_name(f"{self.path.name}.partial")

    def append(self, file: IO[bytes], pieces: Iterable[bytes], *, rows: int) -> None:
        """Write a stretch of rows, a piece at a time: a stretch of long prompts is large."""
        for piece in pieces:
            file.write(piece)
            self._digest.update(piece)
            self.size_bytes += len(piece)
        file.flush()
        self.rows += rows

    def cut_to(self, size_bytes: int, *, rows: int) -> None:
        """Go on behind so many bytes of what stands."""
        with self.growing.open("r+b") as file:
            file.truncate(size_bytes)
            for piece in _pieces(file):
                self._digest.update(piece)
        self.size_bytes, self.rows = size_bytes, rows

    def finish(self) -> dict[str, Any]:
        """Give the file its name; digest, size and rows."""
        self.growing.replace(self.path)
        return {"sha256": self._digest.hexdigest(), "bytes": self.size_bytes, "rows": self.rows}


class Growth(NamedTuple):
    """Sinks of data and metadata, what is known of the rows that stand, and how stretches are packed."""

    folder: Path
    sinks: tuple[Sink, Sink]
    known: list[Rows]
    compress: bool

    @classmethod
    def begin(cls, folder: Path, *, compress: bool) -> Self:
        """Nothing stands yet."""
        suffix = ZSTD if compress else ""
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
        return cls(folder, (Sink(folder / f"{DATA}{suffix}"), Sink(folder / f"{METADATA}{suffix}")), [], compress)

    @classmethod
    def resume(cls, folder: Path, *, compress: bool) -> Self:
        """What a killed process left; stretches that are not whole are cut off. Raises ``DataError``."""
        growth = cls.begin(folder, compress=compress)
        lines = _whole_lines(folder / PARTS / _JOURNAL, growth.sinks)
        if lines:
            for sink, size in zip(growth.sinks, lines[-1].sizes, strict=True):
                sink.cut_to(size, rows=lines[-1].rows)
        else:
            for sink in growth.sinks:
                sink.growing.unlink(missing_ok=True)
        with (folder / PARTS / _JOURNAL).open("wb") as journal:
            journal.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
        growth.known.extend(_rows(line) for line in lines)
        return growth

    @property
    def rows(self) -> int:
        """Rows that stand."""
        return self.sinks[0].rows

    def grow(self, parts: Iterable[Part], progress: Callable[[int], None]) -> tuple[dict[str, Any], Rows]:
        """Take in parts, in order, to the last; returns digests by file name, and what is known of all rows."""
        with ExitStack() as stack:
            files = [stack.enter_context(sink.growing.open("ab")) for sink in self.sinks]
            journal = stack.enter_context((self.folder / PARTS / _JOURNAL).open("ab"))
            for part in parts:
                for sink, file, path in zip(self.sinks, files, (part.data, part.metadata), strict=True):
                    with path.open("rb") as made:
                        sink.append(file, self._packed(made), rows=part.rows)
                    path.unlink()
                self.known.append(part.summary)
                journal.write(msgspec.json.encode(self._line(part.summary)) + b"\n")
                journal.flush()
                progress(self.rows)
        return {sink.path.name: sink.finish() for sink in self.sinks}, joined(self.known)

    def _packed(self, made: IO[bytes]) -> Iterable[bytes]:
        return compressed(_pieces(made)) if self.compress else _pieces(made)

    def _line(self, known: Rows) -> _Line:
        return _Line(
            rows=self.rows,
            sizes=[sink.size_bytes for sink in self.sinks],
            first_private=known.first_private.astype("<i8").tobytes(),
            windows=known.windows.astype("<u8").tobytes(),
            proof=list(known.proof),
            retries=known.retries,
            conflicts=list(known.conflicts),
            units=known.units.astype("<u8").tobytes(),
            unit_counts=known.unit_counts.astype("<i8").tobytes(),
            remade=known.remade,
        )


def _whole_lines(path: Path, sinks: tuple[Sink, Sink]) -> list[_Line]:
    """Lines of the journal whose rows are on the disk."""
    if not path.is_file():
        return []
    there = [sink.growing.stat().st_size if sink.growing.is_file() else 0 for sink in sinks]
    lines = list(read_lines(path, msgspec.json.Decoder(_Line).decode, growing=True))
    return [line for line in lines if all(size <= have for size, have in zip(line.sizes, there, strict=True))]


def _rows(line: _Line) -> Rows:
    return Rows(
        data=b"",
        metadata=b"",
        first_private=np.frombuffer(line.first_private, "<i8").astype(np.int64),
        windows=np.frombuffer(line.windows, "<u8").astype(np.uint64),
        proof=ProofCounts(*line.proof),
        retries=line.retries,
        conflicts=tuple(line.conflicts),
        units=np.frombuffer(line.units, "<u8").astype(np.uint64),
        unit_counts=np.frombuffer(line.unit_counts, "<i8").astype(np.int64),
        remade=line.remade,
    )


def _pieces(file: IO[bytes]) -> Iterable[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


def check_resumable(manifest: dict[str, Any], fingerprint: str) -> None:
    """Raise ``DataError`` unless an unfinished data set is of the same config, texts and version."""
    if manifest.get("resume_key") != fingerprint:
        raise DataError(
            "the unfinished data set is of another config, tokenizer, corpus or version",
            field="resume_key",
            advice="use the config that it was begun with, or --overwrite",
        )
