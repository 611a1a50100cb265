"""When rows and delayed writes run (spec: replay B2.2, A2.5)."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.cache.table import State
    from foreword.trace.schema import TraceRow


class DelayedWrite(NamedTuple):
    """A write that waits; of equal due times, the one that was asked for first runs first."""

    due_ns: int
    sequence: int
    instance_id: str
    keys: Sequence[int]
    ttl_us: int
    input_len: int


class PendingWrites:
    """Writes that wait for their time."""

    def __init__(self) -> None:
        self._waiting: list[DelayedWrite] = []
        self._asked = 0

    def add(self, due_ns: int, row: TraceRow) -> None:
        """Let the keys of a request be written later."""
        write = DelayedWrite(due_ns, self._asked, row.instance_id, row.keys, row.ttl_us, row.input_len)
        heapq.heappush(self._waiting, write)
        self._asked += 1

    def due(self, now: int | None) -> Iterator[DelayedWrite]:
        """Take out what is due at a time, itself included; everything for ``None``."""
        while self._waiting and (now is None or self._waiting[0].due_ns <= now):
            yield heapq.heappop(self._waiting)

    def save(self) -> State:
        """What waits, as a document."""
        waiting = [
            [write.due_ns, write.sequence, write.instance_id, list(write.keys), write.ttl_us, write.input_len]
            for write in self._waiting
        ]
        return {"asked": self._asked, "waiting": waiting}

    def load(self, state: State) -> None:
        """Take over what waited."""
        self._asked = state["asked"]
        self._waiting = [DelayedWrite(*write) for write in state["waiting"]]
