"""Trace files: standard JSONL, plain, ``.gz`` or ``.zst``, standard input, or Parquet; read into columns."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from foreword.errors import DataError
from foreword.simulate.cores import Core, chosen_core
from foreword.store.trace_cache import TraceCache
from foreword.store.zstd import plain_file
from foreword.trace.columns import ColumnBuilder
from foreword.trace.schema import BOM, RowError, RowRefused
from foreword.trace.standard import parse_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from foreword.simulate.replay import Replay
    from foreword.trace.columns import TraceColumns

STDIN = "-"
PARQUET = ".parquet"
COMPRESSED = (".gz", ".zst")
WORTH_SCANNING_BYTES = 8 << 20
"""Below this, lines are read before the scanner is loaded."""

_HEARD_EVERY_ROWS = 2_000


@dataclass(slots=True)
class LoadedTrace:
    """Rows in file order, refused rows by kind, and where what is made of the trace is kept, if anywhere."""

    columns: TraceColumns
    refused: Counter[str] = field(default_factory=Counter)
    kept: TraceCache | None = None


@dataclass(frozen=True, slots=True)
class TraceSource:
    """A trace to read: ``-`` is standard input. Rows in error stop the replay, or are counted and left out.

    ``with_ids`` keeps trace ids, which only templates need; ``cached`` keeps what was read of a large file for the next
    time.
    """

    path: str
    skip_errors: bool = False
    core: Core = Core.AUTO
    with_ids: bool = False
    cached: bool = True

    def refuse(self, error: RowError, refused: Counter[str]) -> None:
        """Count a row, or raise a ``DataError`` that names file, line, field and reason."""
        if not self.skip_errors:
            raise DataError(f"{self.path}:{error.line}: {error}", field=error.field)
        refused[error.kind] += 1


def load_trace(source: TraceSource, progress: Callable[[int, int], None]) -> LoadedTrace:
    """Read all rows; ``progress`` hears bytes of the file. Raises ``DataError``, also for a trace without a row."""
    with _opened(source.path) as (raw, position):
        kept = _place(source)
        columns = kept.load() if kept else None
        if columns is not None:
            loaded = LoadedTrace(columns, kept=kept)
        else:
            loaded = _load(source, raw, partial(_tell, progress, position))
            if kept and not loaded.refused:
                kept.save(loaded.columns)
                loaded.kept = kept
    if not len(loaded.columns):
        raise DataError(f"{source.path}: no row to replay", field="trace_file_path")
    return loaded


def _tell(progress: Callable[[int, int], None], position: Callable[[], tuple[int, int]]) -> None:
    progress(*position())


def _load(source: TraceSource, raw: IO[bytes], tell: Callable[[], None]) -> LoadedTrace:
    """Rows of an opened file: as Parquet, by line, or where it is large by the scanner."""
    if source.path.endswith(PARQUET):
        from foreword.store.parquet import read_parquet  # noqa: PLC0415 - polars takes long to load

        return read_parquet(source)
    if source.with_ids or not _is_large(source.path):
        return _by_line(source, raw, tell)
    from foreword.store.kernels import kept_kernels  # noqa: PLC0415 - numba takes long to load

    with kept_kernels():
        from foreword.store.scanning import scan_file  # noqa: PLC0415 - the same

    refused: Counter[str] = Counter()
    return LoadedTrace(scan_file(raw, refuse=partial(source.refuse, refused=refused), tell=tell), refused)


def _is_large(name: str) -> bool:
    return name != STDIN and Path(name).stat().st_size >= WORTH_SCANNING_BYTES


def _place(source: TraceSource) -> TraceCache | None:
    """Where the columns of a trace are kept, if it is worth it."""
    worth = source.cached and not source.with_ids and _is_large(source.path)
    return TraceCache.of(Path(source.path)) if worth and not source.path.endswith(COMPRESSED) else None


def _by_line(source: TraceSource, lines: Iterable[bytes], tell: Callable[[], None]) -> LoadedTrace:
    builder, refused = ColumnBuilder(with_ids=source.with_ids), Counter[str]()
    for line, data in enumerate(lines, start=1):
        row = parse_row(data.removeprefix(BOM) if line == 1 else data, line)
        if isinstance(row, RowError):
            source.refuse(row, refused)
        elif row is not None:
            builder.add(row)
        if line % _HEARD_EVERY_ROWS == 0:
            tell()
    return LoadedTrace(builder.finished(), refused)


def replay_trace(
    replay: Replay,
    trace: LoadedTrace,
    *,
    source: TraceSource,
    progress: Callable[[int, int], None],
    goes_on: bool = False,
) -> int:
    """Feed all rows in the order of their times; the number of rows that were out of order.

    Rows that turn out wrong only now are refused as those that cannot be read. Where the replay ``goes_on`` with a
    further trace, writes that are due after the last row still wait.
    """
    columns, moved = trace.columns.in_time_order()
    trace = replace(trace, columns=columns)
    refuse = partial(source.refuse, refused=trace.refused)
    fed = 0
    if chosen_core(replay, len(columns.keys), asked=source.core) is Core.COMPILED:
        fed = _written_by(columns, replay.config.trace_replay.write_delay_ns) if goes_on else len(columns)
        _run_compiled(replay, trace, rows=fed, refuse=refuse, progress=progress)
    if replay.foresees:
        replay.foresee(columns.rows())
    for done in range(fed + 1, len(columns) + 1):
        try:
            replay.feed(columns.row(done - 1))
        except RowRefused as refused:
            refuse(refused.error)
        if done % _HEARD_EVERY_ROWS == 0:
            progress(done, len(columns))
    if fed < len(columns):
        progress(len(columns), len(columns))
    if not goes_on:
        replay.finish()
    return moved


def _written_by(columns: TraceColumns, delay_ns: int) -> int:
    """The most leading rows whose writes are all due by the time of the next row."""
    times = columns.timestamp_ns
    ends = np.flatnonzero(times[1:] - times[:-1] >= delay_ns)
    return int(ends[-1]) + 1 if len(ends) else 0


def _run_compiled(
    replay: Replay,
    trace: LoadedTrace,
    *,
    rows: int,
    refuse: Callable[[RowError], None],
    progress: Callable[[int, int], None],
) -> None:
    """Run the leading rows and all of their writes."""
    if not rows:
        return
    from foreword.store.kernels import kept_kernels  # noqa: PLC0415 - numba takes long to load

    with kept_kernels():
        from foreword.simulate.compiled import replay_compiled  # noqa: PLC0415 - the same
        from foreword.store.path_cache import KeptPaths  # noqa: PLC0415 - the same

    columns = trace.columns
    replay_compiled(
        replay,
        columns if rows == len(columns) else columns.taken(np.arange(rows)),
        refuse=refuse,
        progress=lambda done, of: progress(done * rows // of, len(columns)),
        intern=KeptPaths(trace.kept.folder).intern if trace.kept else None,
    )


@contextmanager
def _opened(name: str) -> Iterator[tuple[IO[bytes], Callable[[], tuple[int, int]]]]:
    """A file, decompressed, and a function that says how far reading is."""
    if name == STDIN:
        yield sys.stdin.buffer, lambda: (0, 0)
        return
    path = Path(name)
    try:
        with path.open("rb") as raw:
            size = path.stat().st_size
            yield _decompressed(raw, path.suffix), lambda: (raw.tell(), size)
    except OSError as failure:
        if isinstance(failure, gzip.BadGzipFile):
            raise _damaged(name, failure) from None
        raise DataError(f"{name}: cannot be read: {failure.strerror or failure}", field="trace_file_path") from None
    except (EOFError, zlib.error) as damage:
        raise _damaged(name, damage) from None


def _decompressed(raw: IO[bytes], suffix: str) -> IO[bytes]:
    match suffix:
        case ".gz":
            return cast("IO[bytes]", gzip.open(raw))
        case ".zst":
            return plain_file(raw)
        case _:
            return raw


def _damaged(name: str, damage: Exception) -> DataError:
    return DataError(f"{name}: damaged: {damage}", field="trace_file_path")
