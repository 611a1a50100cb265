"""Trace files: standard JSONL, plain, ``.gz`` or ``.zst``, or standard input, read as a stream of lines."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from foreword.errors import DataError, UsageError
from foreword.simulate.cores import Core, chosen_core
from foreword.simulate.schedule import in_order
from foreword.trace.schema import RowError, RowRefused
from foreword.trace.standard import parse_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from foreword.simulate.replay import Replay
    from foreword.trace.schema import TraceRow

STDIN = "-"
_BOM = b"\xef\xbb\xbf"
_HEARD_EVERY_ROWS = 2_000


@dataclass(slots=True)
class LoadedTrace:
    """Rows in file order, and refused rows by kind."""

    name: str
    rows: list[TraceRow] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A trace to read: ``-`` is standard input. Rows in error stop the replay, or are counted and left out."""

    path: str
    skip_errors: bool = False
    core: Core = Core.AUTO

    def refuse(self, error: RowError, refused: Counter[str]) -> None:
        """Count a row, or raise a ``DataError`` that names file, line, field and reason."""
        if not self.skip_errors:
            raise DataError(f"{self.path}:{error.line}: {error}", field=error.field)
        refused[error.kind] += 1


def load_trace(source: TraceSource, progress: Callable[[int, int], None]) -> LoadedTrace:
    """Read all rows; ``progress`` hears bytes of the file. Raises ``DataError``, also for a trace without a row."""
    loaded = LoadedTrace(source.path)
    with _opened(source.path) as (lines, position):
        for line, data in enumerate(lines, start=1):
            row = parse_row(data.removeprefix(_BOM) if line == 1 else data, line)
            if isinstance(row, RowError):
                source.refuse(row, loaded.refused)
            elif row is not None:
                loaded.rows.append(row)
            if line % _HEARD_EVERY_ROWS == 0:
                progress(*position())
    if not loaded.rows:
        raise DataError(f"{source.path}: no row to replay", field="trace_file_path")
    return loaded


def replay_trace(
    replay: Replay, trace: LoadedTrace, *, source: TraceSource, progress: Callable[[int, int], None]
) -> int:
    """Feed all rows in the order of their times; the number of rows that were out of order.

    Rows that turn out wrong only now are refused as those that cannot be read.
    """
    moved = in_order(trace.rows)
    if chosen_core(replay, len(trace.rows), asked=source.core) is Core.COMPILED:
        from foreword.simulate.compiled import replay_compiled  # noqa: PLC0415 - numba takes long to load

        replay_compiled(replay, trace.rows, refuse=partial(source.refuse, refused=trace.refused))
        return moved
    for done, row in enumerate(trace.rows, start=1):
        try:
            replay.feed(row)
        except RowRefused as refused:
            source.refuse(refused.error, trace.refused)
        if done % _HEARD_EVERY_ROWS == 0:
            progress(done, len(trace.rows))
    replay.finish()
    return moved


@contextmanager
def _opened(name: str) -> Iterator[tuple[Iterator[bytes], Callable[[], tuple[int, int]]]]:
    """Lines of a file, decompressed, and a function that says how far reading is."""
    if name == STDIN:
        yield iter(sys.stdin.buffer), lambda: (0, 0)
        return
    path = Path(name)
    try:
        with path.open("rb") as raw:
            size = path.stat().st_size
            yield _checked(_decompressed(raw, path.suffix), name), lambda: (raw.tell(), size)
    except OSError as failure:
        raise DataError(f"{name}: cannot be read: {failure.strerror or failure}", field="trace_file_path") from None


def _decompressed(raw: IO[bytes], suffix: str) -> Iterable[bytes]:
    match suffix:
        case ".gz":
            return gzip.open(raw)
        case ".zst":
            return _zstd(raw)
        case _:
            return raw


def _zstd(raw: IO[bytes]) -> Iterator[bytes]:
    try:
        import zstandard  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError("reading .zst needs zstandard", advice="pip install 'foreword[zstd]'") from None
    plain = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    try:
        yield from io.BufferedReader(plain)
    except zstandard.ZstdError as damage:
        raise zlib.error(str(damage)) from None


def _checked(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines; damage of the compression becomes a ``DataError``."""
    try:
        yield from lines
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        raise DataError(f"{name}: damaged: {damage}", field="trace_file_path") from None
