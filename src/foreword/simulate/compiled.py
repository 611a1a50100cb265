"""Whole traces on the compiled core: the same end state as feeding every row, many times sooner.

Columns of a trace become events in the order in which they run, the kernels run them, and the figures of each instance
are taken from what they leave. The state that a later read or write would need is built only if one comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foreword.cache import interning, tables, tiered
from foreword.simulate.cores import Core
from foreword.simulate.left import Ran, figures_of, state_of
from foreword.simulate.rarer import make_further
from foreword.simulate.replay import UNKNOWN_INSTANCE, UNSUPPORTED_QUERY
from foreword.simulate.world import make_world
from foreword.trace.columns import KINDS
from foreword.trace.schema import INT64_MAX, RowKind, RowRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from foreword.simulate.replay import Replay
    from foreword.trace.columns import TraceColumns
    from foreword.trace.schema import RowError

    IntArray = NDArray[Any]
    Intern = Callable[[IntArray, Sequence["Wanted"]], "Interned"]

STRETCH_EVENTS = 50_000
"""Events between two words about progress."""

_GET, _WRITE = KINDS.index(RowKind.GET), KINDS.index(RowKind.WRITE)


@dataclass(frozen=True, slots=True)
class _Taken:
    """Rows that run, as arrays: which they are, whose, when, what they do, and their slice of all keys."""

    row: IntArray
    instance: IntArray
    time: IntArray
    reads: IntArray
    writes: IntArray
    spans: IntArray


class Wanted(NamedTuple):
    """Slices of a trace's keys that an instance asks for: ``spans``, of which the first ``written`` are written."""

    spans: IntArray
    written: int


class Interned(NamedTuple):
    """Ids of all keys over all instances, and keys and parents of each instance's blocks."""

    ids: IntArray
    paths: list[tuple[IntArray, IntArray]]


class Ready(NamedTuple):
    """What will have run, the ids of all keys, bits and ends of masks, requests, and rows that are skipped by kind."""

    ran: Ran
    ids: IntArray
    masks: tuple[IntArray, IntArray]
    asked: int
    skipped: dict[str, int]


def _unheard(_done: int, _total: int) -> None:
    """Progress that nobody watches."""


def replay_compiled(
    replay: Replay,
    trace: TraceColumns,
    *,
    refuse: Callable[[RowError], None],
    progress: Callable[[int, int], None] = _unheard,
    intern: Intern | None = None,
) -> None:
    """Run rows in the order of their times and all delayed writes, on a replay that has no ``misfit``.

    ``refuse`` hears of each row that cannot be executed, in order, and may raise; ``progress`` hears events of all
    events. The replay can go on from here, as if it had been fed every row. ``intern`` stands in for ``intern_all``
    where somebody has kept what it gave.
    """
    ready = prepare(replay, trace, refuse=refuse, intern=intern)
    run_events(ready, progress)
    replay.adopt(figures_of(replay, ready.ran), later=partial(state_of, replay, ready.ran, asked=ready.asked))
    replay.skipped.update(ready.skipped)
    replay.core = Core.COMPILED


def prepare(
    replay: Replay, trace: TraceColumns, *, refuse: Callable[[RowError], None], intern: Intern | None = None
) -> Ready:
    """Events, ids and empty caches of a replay, before anything runs."""
    taken, skipped = _taken(replay, trace, refuse)
    events, times = _events(taken, trace, replay.config.trace_replay.write_delay_ns)
    ids, paths = (intern or intern_all)(trace.keys, _wanted(replay, taken, events))
    world = make_world(replay, trace, events=events, times=times, paths=paths)
    outcomes = tables.filled((len(events), tables.BY_TIER + 2 * world.tallies.shape[1]), np.int64(0))
    further = make_further(replay, world, events=events, ids=ids)
    ran = Ran(events, outcomes, world, further, tuple(paths), trace)
    return Ready(ran, ids, _mask_bits(trace), int((taken.reads & taken.writes).sum()), skipped)


def run_events(ready: Ready, progress: Callable[[int, int], None] = _unheard) -> None:
    """Run all events through the caches."""
    ran = ready.ran
    for start in range(0, len(ran.events), STRETCH_EVENTS):
        stop = min(start + STRETCH_EVENTS, len(ran.events))
        tiered.run(ran.world, ran.further, ran.events, ready.ids, ready.masks, ran.outcomes, start, stop)
        progress(stop, len(ran.events))


def _taken(replay: Replay, trace: TraceColumns, refuse: Callable[[RowError], None]) -> tuple[_Taken, dict[str, int]]:
    """Rows that run, and counts of those that are skipped on purpose."""
    numbers = {name: number for number, name in enumerate(replay.instances)}
    whose = np.array([numbers.get(name, -1) for name in trace.instances], np.int64)
    instance = whose[trace.instance]
    reads, writes = trace.kind != _WRITE, trace.kind != _GET
    known = instance >= 0
    other = known & reads & trace.other_query
    runs = known & ~other
    for row in np.flatnonzero(runs & reads & _doubtful(replay, trace, instance)).tolist():
        try:
            replay.check_read(trace.row(row))
        except RowRefused as refused:
            runs[row] = False
            refuse(refused.error)
    skipped = {UNKNOWN_INSTANCE: int((~known).sum()), UNSUPPORTED_QUERY: int(other.sum())}
    taken = _Taken(
        np.flatnonzero(runs), instance[runs], trace.timestamp_ns[runs], reads[runs], writes[runs], trace.spans[runs]
    )
    return taken, {kind: found for kind, found in skipped.items() if found}


def _doubtful(replay: Replay, trace: TraceColumns, instance: IntArray) -> IntArray:
    """Reads that may have to be refused: more keys than tokens fill, or a time near the end of time."""
    sizes = np.array([at.cache.config.block_size for at in replay.instances.values()], np.int64)
    blocks = trace.spans[:, 1] - trace.spans[:, 0]
    latest = INT64_MAX - replay.config.trace_replay.write_delay_ns
    doubtful: IntArray = (
        (trace.input_len <= 0) | (blocks > trace.input_len // sizes[instance]) | (trace.timestamp_ns > latest)
    )
    return doubtful


def _events(taken: _Taken, trace: TraceColumns, delay_ns: int) -> tuple[IntArray, IntArray]:
    """Rows and delayed writes in the order in which they run, and the times of their moments.

    A write that is due at a time runs before any row of that time.
    """
    count = len(taken.row)
    places = np.arange(count)
    asked = np.flatnonzero(taken.reads & taken.writes)
    due = taken.time[asked] + delay_ns
    turn = np.maximum(np.searchsorted(taken.time, due), asked + 1)
    order = np.argsort(np.concatenate([2 * turn, 2 * places + 1]), kind="stable")
    source = np.concatenate([asked, places])[order]
    events = np.empty((len(source), 8), np.int64)
    time = np.concatenate([due, taken.time])[order]
    new = np.diff(time, prepend=0) != 0
    events[:, tables.MOMENT] = np.cumsum(new)
    events[:, tables.START : tables.STOP + 1] = taken.spans[source]
    events[:, tables.INSTANCE] = taken.instance[source]
    events[:, tables.WRITES] = np.concatenate([np.ones(len(asked), np.bool_), ~taken.reads])[order]
    events[:, tables.ROW] = taken.row[source]
    events[:, tables.MASK] = trace.mask[taken.row[source]]
    events[:, tables.TOKENS] = np.where(taken.reads, trace.input_len[taken.row], 0)[source]
    return events, np.concatenate([[0], time[new]])


def _wanted(replay: Replay, taken: _Taken, events: IntArray) -> list[Wanted]:
    """What each instance asks for: its writes in the order in which they run, then what it only reads."""
    wanted = []
    for number in range(len(replay.instances)):
        own = (events[:, tables.INSTANCE] == number) & (events[:, tables.WRITES] == 1)
        written = events[own, tables.START : tables.STOP + 1]
        spans = np.concatenate([written, taken.spans[(taken.instance == number) & ~taken.writes]])
        wanted.append(Wanted(spans, len(written)))
    return wanted


def intern_all(keys: IntArray, wanted: Sequence[Wanted]) -> Interned:
    """Dense ids for the blocks of all instances; those of one stand together."""
    ids, paths, first = np.empty(len(keys), np.int32), [], 0
    for spans, written in wanted:
        paths.append(interning.intern_paths(keys, spans, written, ids, first))
        first += len(paths[-1][0])
    return Interned(ids, paths)


def _mask_bits(trace: TraceColumns) -> tuple[IntArray, IntArray]:
    """All masks that are arrays, one after the other, and where each ends."""
    ends = np.cumsum([0, *map(len, trace.masks)]).astype(np.int64)
    return np.frombuffer(b"".join(trace.masks), np.uint8), ends
