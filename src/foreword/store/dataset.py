"""Data-set folders: written as a stream, by one process or several, with the same bytes (workload decision 6).

``manifest.json`` is written first with state ``incomplete`` and last with state ``complete``; the other files take
their names when they are whole, so that a reader never takes half a data set for a whole one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import active_children, get_context, parent_process
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
import numpy as np

from foreword._version import __version__
from foreword.errors import ConstructionError, UsageError
from foreword.simulate.documents import SCHEMA_VERSION, manifest_document, validation_document
from foreword.store.workshop import Order, Rows, Workshop, open_workshop
from foreword.terms import request_id
from foreword.workload.proof import ProofCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import IO

    from foreword.simulate.design import Design
    from foreword.terms import IntArray

DATA, METADATA, WARMUP = "data.jsonl", "request_metadata.jsonl", "warmup.jsonl"
MANIFEST, REPORT = "manifest.json", "validation_report.json"
TASK_REQUESTS = 2048
_PARTS = ".parts"
_TASKS_AHEAD = 2


class Written(NamedTuple):
    """A finished data set: its folder, its manifest and its validation report."""

    folder: Path
    manifest: dict[str, Any]
    report: dict[str, Any]


class _Part(NamedTuple):
    """A stretch of requests in part files, and what is known of it."""

    data: Path
    metadata: Path
    rows: int
    summary: Rows


@dataclass(slots=True)
class _Sink:
    """A file that grows under a temporary name, with its digest."""

    path: Path
    rows: int = 0
    size_bytes: int = 0
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def growing(self) -> Path:
        return self.path.with_name(f"{self.path.name}.partial")

    def append(self, file: IO[bytes], data: bytes, rows: int) -> None:
        file.write(data)
        self._digest.update(data)
        self.rows += rows
        self.size_bytes += len(data)

    def finish(self) -> dict[str, Any]:
        self.growing.replace(self.path)
        return {"sha256": self._digest.hexdigest(), "bytes": self.size_bytes, "rows": self.rows}


def claim_folder(folder: Path, *, overwrite: bool) -> None:
    """Make the folder, refusing one that holds something unless told to overwrite a data set."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", advice="give a folder with --output")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{folder} is not empty and holds no data set", advice="give another --output")
        if not overwrite:
            raise UsageError(f"{folder} holds a data set", advice="give another --output, or --overwrite")
        for name in (DATA, METADATA, WARMUP, MANIFEST, REPORT):
            (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)


def write_dataset(
    order: Order, design: Design, folder: Path, *, workers: int, progress: Callable[[int, int], None]
) -> Written:
    """Compose, prove and write every request of a design, in send order.

    ``progress`` hears how many of how many requests are written. Raises ``ConstructionError`` where prompts cannot
    be kept apart; what was written so far stays under temporary names beside an ``incomplete`` manifest.
    """
    write_json(folder / MANIFEST, _incomplete(design))
    with _Maker(order, folder / _PARTS, workers) as maker:
        first = maker.opening()
        totals = _write_rows(maker, design, folder, progress)
    shutil.rmtree(folder / _PARTS, ignore_errors=True)
    files, summary = totals
    files |= {WARMUP: _write_warmup(folder, first.warmup)}
    collisions = _check_unique(design, first, summary)
    design = replace(design, warnings=(*design.warnings, *first.facts["content"].get("warnings", ())))
    checks = {
        "reencode": _reencode(first.facts["proof_level"], summary.proof),
        "collisions": collisions,
        "laws": _laws(design, collisions),
    }
    report = validation_document(design, checks)
    files |= {REPORT: write_json(folder / REPORT, report)}
    described = {name: first.facts[name] for name in ("tokenizer", "corpus", "content")}
    parts = {**described, **checks, "files": files}
    manifest = manifest_document(design, parts)
    write_json(folder / MANIFEST, manifest)
    return Written(folder, manifest, report)


def write_json(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Replace a JSON file in one step; returns its digest and size."""
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    growing = path.with_name(f"{path.name}.partial")
    growing.write_bytes(data)
    growing.replace(path)
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "rows": 1}


def _incomplete(design: Design) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "state": "incomplete",
        "dataset_id": design.config.dataset_id,
        "generator_version": f"foreword {__version__}",
        "request_count": design.config.request_count,
        "block_size": design.facts.block_size,
    }


def _write_rows(
    maker: _Maker, design: Design, folder: Path, progress: Callable[[int, int], None]
) -> tuple[dict[str, Any], Rows]:
    data, metadata = _Sink(folder / DATA), _Sink(folder / METADATA)
    total = len(design.order)
    summaries: list[Rows] = []
    with data.growing.open("wb") as data_file, metadata.growing.open("wb") as metadata_file:
        for part in maker.parts(total):
            data.append(data_file, part.data.read_bytes(), part.rows)
            metadata.append(metadata_file, part.metadata.read_bytes(), part.rows)
            part.data.unlink()
            part.metadata.unlink()
            summaries.append(part.summary)
            progress(data.rows, total)
    return {DATA: data.finish(), METADATA: metadata.finish()}, _joined(summaries)


def _joined(summaries: list[Rows]) -> Rows:
    return Rows(
        data=b"",
        metadata=b"",
        first_private=np.concatenate([rows.first_private for rows in summaries]),
        windows=np.concatenate([rows.windows for rows in summaries]),
        proof=sum((rows.proof for rows in summaries), ProofCounts()),
        retries=sum(rows.retries for rows in summaries),
        conflicts=tuple(name for rows in summaries for name in rows.conflicts),
    )


def _write_warmup(folder: Path, lines: bytes) -> dict[str, Any]:
    sink = _Sink(folder / WARMUP)
    with sink.growing.open("wb") as file:
        sink.append(file, lines, lines.count(b"\n"))
    return sink.finish()


def _check_unique(design: Design, first: _Opening, summary: Rows) -> dict[str, Any]:
    """No first private block may equal a shared block or another private one with the same parent (decision 7).

    Repeated windows further inside are a diagnosis only: chained keys cannot hit there (RFC 3.3.14).
    """
    asked = design.config.suffix.collision_detection
    private = np.concatenate((summary.first_private, first.warmup_private))
    checked = asked.enabled and asked.first_non_shared_block_unique
    known = np.concatenate((private, first.shared)) if checked else private[:0]
    twice = _repeated(known, among=summary.first_private)
    conflicts = len(twice)
    if conflicts and asked.on_conflict == "error":
        names = [request_id(int(design.order[position])) for position in twice[:2]]
        raise ConstructionError(
            f"{conflicts} requests start their private part like another one, first {' and '.join(names)}",
            request_id=names[0],
            stage="collisions",
            advice="use more groups, a larger block_size, or prompts with a longer private part",
        )
    return {
        "cache_match_semantics": asked.cache_match_semantics,
        "first_blocks_checked": len(private) if checked else 0,
        "first_block_conflicts": conflicts,
        "window_blocks": asked.window_blocks,
        "windows_checked": len(summary.windows),
        "windows_repeated": len(summary.windows) - len(np.unique(summary.windows)),
        "masters_common_prefix_tokens": first.facts["masters_common_prefix_tokens"],
        "repaired": summary.proof.repaired,
        "retries": summary.retries,
        "kept_unproved": len(summary.conflicts),
    }


def _repeated(keys: IntArray, *, among: IntArray) -> IntArray:
    """Places of ``among`` whose key occurs more than once."""
    values, counts = np.unique(keys, return_counts=True)
    return np.flatnonzero(np.isin(among, values[counts > 1]))


def _reencode(level: str, proof: ProofCounts) -> dict[str, Any]:
    """How the prompts were proved; prompts of ids have nothing to encode."""
    return {
        "level": level,
        "checked": proof.full if level != "window" else proof.windows,
        "checked_full": proof.full,
        "wrong": proof.wrong,
    }


def _laws(design: Design, collisions: dict[str, Any]) -> dict[str, Any]:
    """Requests for which composing checked that they share their prefix, and only that."""
    count = len(design.order)
    unique = count - collisions["first_block_conflicts"] if collisions["first_blocks_checked"] else None
    return {"prefix_shared": count, "length_exact": count, "first_private_block_unique": unique}


class _Opening(NamedTuple):
    """What only one process needs to make: warm-up lines, digests of shared blocks, facts for the manifest."""

    warmup: bytes
    warmup_private: IntArray
    shared: IntArray
    facts: dict[str, Any]


class _Maker:
    """Makes parts in this process, or in ``workers`` of them that were started afresh.

    Workers inherit a mask that keeps Ctrl-C from them; this process ends them when it fails, and they end themselves
    when it is gone.
    """

    def __init__(self, order: Order, folder: Path, workers: int) -> None:
        self._order = order
        self._folder = folder
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._others = active_children()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._workers > 1:
            self._pool = ProcessPoolExecutor(
                self._workers, get_context("spawn"), initializer=_start_worker, initargs=(self._order,)
            )
        else:
            _open_here(self._order, threads=os.cpu_count() or 1)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is not None:
            for child in active_children() if kind else []:
                if child not in self._others:
                    child.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
        _bench.clear()
        if kind is BrokenProcessPool:
            raise ConstructionError("a worker process was killed", advice="try --workers 1, or free some memory")

    def opening(self) -> _Opening:
        """Warm-up and facts, from whichever process is free."""
        if self._pool is None:
            return _opening()
        with _no_interrupt():
            first = self._pool.submit(_opening)
        return first.result()

    def parts(self, total: int) -> Iterator[_Part]:
        """Parts in send order; at most a few are made ahead of the one that is read."""
        tasks = [(self._folder, start, min(start + TASK_REQUESTS, total)) for start in range(0, total, TASK_REQUESTS)]
        if self._pool is None:
            yield from (_part(*task) for task in tasks)
            return
        running: deque[Future[_Part]] = deque()
        for task in tasks:
            with _no_interrupt():
                running.append(self._pool.submit(_part, *task))
            if len(running) >= self._workers * _TASKS_AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


_bench: list[Workshop] = []
"""The open workshop of this process; a worker is told what to make once, not with every task."""


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Put Ctrl-C off; processes that start meanwhile never hear it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_worker(order: Order) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _open_here(order)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _open_here(order: Order, threads: int = 1) -> None:
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    _bench[:] = [open_workshop(order)]


def _opening() -> _Opening:
    workshop = _bench[0]
    lines, private = workshop.warmup_lines()
    shared = np.unique(np.asarray([key for chain in workshop.chains for key in chain], dtype=np.uint64))
    return _Opening(lines, private, shared.view(np.int64), workshop.facts)


def _part(folder: Path, start: int, stop: int) -> _Part:
    data, metadata = (folder / f"{kind}-{start:010d}" for kind in ("data", "metadata"))
    summaries = []
    with data.open("wb") as data_file, metadata.open("wb") as metadata_file:
        for rows in _bench[0].rows(start, stop):
            data_file.write(rows.data)
            metadata_file.write(rows.metadata)
            summaries.append(rows._replace(data=b"", metadata=b""))
    return _Part(data, metadata, stop - start, _joined(summaries))
