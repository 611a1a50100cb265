"""Whether what a pass wrote had room in the caches that the server reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.terms import Pass

if TYPE_CHECKING:
    from foreword.collect.records import RequestRow
    from foreword.report.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens that a pass wrote, and the room there was: in all, and in the smallest cache."""

    written: int
    capacity: int
    caches: int
    smallest: int

    @property
    def overflowed(self) -> bool:
        """Whether more was written than all caches hold, so that blocks must have been evicted."""
        return self.written > self.capacity

    def facts(self) -> dict[str, str | float]:
        """What a sentence about it is filled with."""
        where = "a cache" if self.caches == 1 else f"{self.caches:,} caches"
        return {"tokens": self.written, "where": where, "capacity": self.capacity}


def room(evidence: Evidence) -> Room | None:
    """What a pass wrote against the capacity; ``None`` where the server reports none."""
    metrics = evidence.record.metrics
    capacities = metrics.cache_capacity_tokens if metrics else ()
    if not capacities:
        return None
    return Room(written_tokens(evidence), sum(capacities), len(capacities), min(capacities))


def written_tokens(evidence: Evidence) -> int:
    """Prompt tokens that were computed, so written, by the requests that succeeded."""
    computed = np.maximum(evidence.input_tokens - np.maximum(evidence.results.cached_tokens, 0), 0)
    return int(computed[evidence.results.ok].sum())


def most_written(evidence: Evidence) -> int:
    """Upper bound of the tokens that the run took up in caches until the end of this pass, answers included."""
    before = {Pass.COLD, evidence.pass_name} | ({Pass.WARMUP} if evidence.pass_name is Pass.HOT else set())
    block = evidence.server.block_size
    return sum(_taken(row) + block for row in evidence.record.results if row.pass_ in before)


def _taken(row: RequestRow) -> int:
    prompt = row.input_len if row.prompt_tokens is None else row.prompt_tokens
    answer = row.max_tokens if row.completion_tokens is None else row.completion_tokens
    return prompt - (row.cached_tokens or 0) + answer
