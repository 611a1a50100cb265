"""The last rungs of a ladder: what a run gives at the times that it had, and in caches of the server's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.collect.ladder import Rung, RungName, make_rung, max_in_flight
from foreword.report.capacity import most_written, room
from foreword.report.records import ABSENT
from foreword.simulate.happened import Times, hits_at
from foreword.simulate.jobs import Load
from foreword.terms import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.report.evidence import Evidence
    from foreword.terms import IntArray


def rungs_of_times(evidence: Evidence) -> Iterator[Rung | None]:
    """Rungs of the requests that succeeded: as they overlapped, if any did, and with eviction, if any can have been.

    Nothing is given where a stamp is missing.
    """
    results, ok = evidence.results, evidence.results.ok
    stamped = (results.sent_ns[ok] != ABSENT) & (results.done_ns[ok] != ABSENT)
    if not ok.any() or not stamped.all():
        return
    load, times, seen = _load(evidence), _times(evidence), _visibility(evidence)
    total = int(evidence.input_tokens[ok].sum())
    if max_in_flight(times.sent_ns, times.done_ns) > 1:
        hits = hits_at(load, times, visibility=seen)
        yield make_rung(RungName.CONCURRENCY, int(hits.sum()), input_tokens=total)
    blocks = _capacity_blocks(evidence)
    if blocks is not None and int(load.blocks_needed.max()) <= blocks:
        hits = hits_at(load, times, visibility=seen, capacity_blocks=blocks)
        yield make_rung(RungName.CAPACITY, int(hits.sum()), input_tokens=total)


def _load(evidence: Evidence) -> Load:
    """The requests that succeeded, as the server had them."""
    ok, server, first = evidence.results.ok, evidence.server, evidence.warmable
    requests, added = evidence.requests, evidence.server.added_tokens
    lane = requests.lane[first:][ok]
    domain = np.unique(requests.domain[first:][ok], return_inverse=True)[1].astype(np.int64)
    head = server.head_len + added
    return Load(
        input_len=requests.input_len[first:][ok] + added,
        prefix_len=np.maximum(requests.prefix_len[first:][ok] + added, head),
        output_len=_answers(evidence),
        lane=lane,
        domain=domain,
        block_size=server.block_size,
        rule=server.rule,
        trunk_len=head,
        warm_lanes=frozenset(requests.lane[:first][evidence.warm].tolist()),
    )


def _answers(evidence: Evidence) -> IntArray:
    """Tokens of the answers of the requests that succeeded, 1 where nobody counted them."""
    counted = {
        row.request_id: row.completion_tokens
        for row in evidence.record.results
        if row.pass_ is evidence.pass_name and row.ok
    }
    names = (name for name, ok in zip(evidence.plan.request_ids, evidence.results.ok, strict=True) if ok)
    return np.array([counted.get(name) or 1 for name in names], np.int64)


def _times(evidence: Evidence) -> Times:
    """Their stamps; where nothing was streamed, an answer's first token came with its end."""
    results, ok = evidence.results, evidence.results.ok
    done = results.done_ns[ok]
    first = np.where(results.first_token_ns[ok] == ABSENT, done, results.first_token_ns[ok])
    return Times(results.sent_ns[ok], first, done)


def _visibility(evidence: Evidence) -> Visibility:
    metrics = evidence.record.metrics
    told = metrics.engine.visibility if metrics and metrics.engine else None
    return told or Visibility.SCHEDULED


def _capacity_blocks(evidence: Evidence) -> int | None:
    """Blocks of the smallest cache, if more was written than it holds; ``None`` where nothing can have been evicted."""
    caches = room(evidence)
    if caches is None or most_written(evidence) <= caches.smallest:
        return None
    return caches.smallest // evidence.server.block_size
