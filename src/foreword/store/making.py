"""Makes the lines of a data set in this process or in several, with the same bytes.

A worker is told once what to make; parts come back as files, in send order, only a few ahead of the one that is read.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from foreword.errors import ConstructionError
from foreword.store.workshop import Made, Order, Rows, Workshop, concatenated, open_workshop
from foreword.workload.proof import ProofCounts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreword.terms import IntArray, UInt64Array


TASK_REQUESTS = 2048
_TASKS_AHEAD = 2


class Part(NamedTuple):
    """A stretch of requests in part files, and what is known of it."""

    data: Path
    metadata: Path
    rows: int
    summary: Rows


class Opening(NamedTuple):
    """What only one process needs to make: warm-up lines, digests of shared blocks, facts for the manifest.

    ``warmup_units`` are, by cache domain, digests of what requests must not repeat of masters and warm-ups.
    """

    warmup: bytes
    warmup_private: IntArray
    warmup_units: list[UInt64Array]
    shared: IntArray
    facts: dict[str, Any]


class Maker:
    """Makes parts in this process, or in ``workers`` of them that were started afresh.

    Workers inherit a mask that keeps Ctrl-C from them; this process ends them when it fails, and they end themselves
    when it is gone.
    """

    def __init__(self, order: Order, workers: int) -> None:
        self._order = order
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._others = active_children()

    def __enter__(self) -> Self:
        if self._workers > 1:
            self._pool = ProcessPoolExecutor(
                self._workers, get_context("spawn"), initializer=_start_worker, initargs=(self._order,)
            )
        else:
            _bench.order = self._order
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

    def opening(self) -> Opening:
        """Warm-up and facts, from whichever process is free."""
        if self._pool is None:
            return _opening()
        with _no_interrupt():
            first = self._pool.submit(_opening)
        return first.result()

    def again(self, position: int, retry: int) -> Made | None:
        """One request made otherwise, from whichever process is free; ``None`` where it cannot be proved."""
        if self._pool is None:
            return _again(position, retry)
        with _no_interrupt():
            made = self._pool.submit(_again, position, retry)
        return made.result()

    def parts(self, folder: Path, total: int, *, start: int = 0) -> Iterator[Part]:
        """Parts in ``folder`` from a place on, in send order; at most a few are made ahead of the one that is read."""
        tasks = [(folder, first, min(first + TASK_REQUESTS, total)) for first in range(start, total, TASK_REQUESTS)]
        if self._pool is None:
            yield from (_part(*task) for task in tasks)
            return
        running: deque[Future[Part]] = deque()
        for task in tasks:
            with _no_interrupt():
                running.append(self._pool.submit(_part, *task))
            if len(running) >= self._workers * _TASKS_AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


class _Bench:
    """The workshop of this process, opened with the first task, so that a failure to open reaches who asked."""

    def __init__(self) -> None:
        self.order: Order | None = None
        self._workshop: Workshop | None = None

    def workshop(self) -> Workshop:
        if self._workshop is None:
            if self.order is None:
                raise ConstructionError("there is nothing to make")
            self._workshop = open_workshop(self.order)
        return self._workshop

    def clear(self) -> None:
        self.order = self._workshop = None


_bench = _Bench()


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
    os.environ["RAYON_NUM_THREADS"] = "1"
    _bench.order = order


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _opening() -> Opening:
    workshop = _bench.workshop()
    lines, private, units = workshop.warmup_lines()
    shared = np.unique(np.asarray([key for chain in workshop.chains for key in chain], dtype=np.uint64))
    return Opening(lines, private, units, shared.view(np.int64), workshop.facts)


def _again(position: int, retry: int) -> Made | None:
    return _bench.workshop().again(position, retry)


def _part(folder: Path, start: int, stop: int) -> Part:
    data, metadata = (folder / f"{kind}-{start:010d}" for kind in ("data", "metadata"))
    summaries = []
    with data.open("wb") as data_file, metadata.open("wb") as metadata_file:
        for rows in _bench.workshop().rows(start, stop):
            data_file.write(rows.data)
            metadata_file.write(rows.metadata)
            summaries.append(rows._replace(data=b"", metadata=b""))
    return Part(data, metadata, stop - start, joined(summaries))


def joined(summaries: list[Rows]) -> Rows:
    """What is known of several stretches, without their lines."""
    return Rows(
        data=b"",
        metadata=b"",
        first_private=np.concatenate([rows.first_private for rows in summaries]),
        windows=concatenated([rows.windows for rows in summaries]),
        proof=sum((rows.proof for rows in summaries), ProofCounts()),
        retries=sum(rows.retries for rows in summaries),
        conflicts=tuple(name for rows in summaries for name in rows.conflicts),
        units=concatenated([rows.units for rows in summaries]),
        unit_counts=np.concatenate([rows.unit_counts for rows in summaries]),
    )
