"""Tables of a pass by group, request class, lane and cache domain; every ratio is token-weighted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.report.document import Breakdown, EndpointSection
from foreword.report.records import ABSENT
from foreword.terms import RequestClass, TargetScope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.report.evidence import Evidence
    from foreword.terms import IntArray


def by_group(evidence: Evidence) -> tuple[Breakdown, ...]:
    """One row a prefix group, with its target or planned share and its ceiling where the plan has them."""
    rows = _rows(evidence, evidence.plan.group, evidence.plan.group_ids)
    per_group = evidence.record.manifest.target.scope is TargetScope.PER_GROUP
    aimed = "target_hit_ratio" if per_group else "planned_share"
    facts = {group.group_id: group for group in evidence.record.manifest.groups}
    planned = {
        group_id: {
            aimed: _ratio(fact.target_hit_tokens, fact.input_tokens),
            "max_reachable_hit_ratio": fact.max_reachable_hit_ratio,
            "cold_start_loss_tokens": None if fact.cold_start_loss is None else round(fact.cold_start_loss),
        }
        for group_id, fact in facts.items()
    }
    return tuple(row.model_copy(update=planned.get(row.name, {})) for row in rows)


def by_class(evidence: Evidence) -> tuple[Breakdown, ...]:
    """One row a request class of the plan."""
    names = tuple(RequestClass)
    number = {name: at for at, name in enumerate(names)}
    labels = np.array([number[one] for one in evidence.plan.classes], dtype=np.int64)
    return tuple(row for row in _rows(evidence, labels, [str(name) for name in names]) if row.requests)


def by_lane(evidence: Evidence) -> tuple[Breakdown, ...]:
    """One row a lane; none when lanes are the groups."""
    if len(evidence.plan.lane_names) == len(evidence.plan.group_ids):
        return ()
    return _rows(evidence, evidence.plan.lane, evidence.plan.lane_names)


def by_domain(evidence: Evidence) -> tuple[Breakdown, ...]:
    """One row a cache domain; none when there is one domain."""
    if len(evidence.plan.domain_ids) == 1:
        return ()
    return _rows(evidence, evidence.plan.domain, [f"dp {dp}" for dp in evidence.plan.domain_ids])


def endpoints(evidence: Evidence) -> tuple[EndpointSection, ...]:
    """Counters of every rank behind every metrics address; none when they do not count tokens."""
    if not evidence.counters.in_tokens:
        return ()
    return tuple(
        EndpointSection(
            endpoint=one.url_index,
            rank=rank,
            query_tokens=None if counters.queries_delta is None else round(counters.queries_delta),
            hit_tokens=None if counters.hits_delta is None else round(counters.hits_delta),
            hit_ratio=_ratio(counters.hits_delta, counters.queries_delta),
        )
        for one in evidence.counters.endpoints
        for rank, counters in one.series_by_rank.items()
    )


def _rows(evidence: Evidence, label: IntArray, names: Sequence[str]) -> tuple[Breakdown, ...]:
    """Rows by label; a request's label is the position of its name."""
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(len(names) + 1))
    return tuple(_row(evidence, name, order[edges[at] : edges[at + 1]]) for at, name in enumerate(names))


def _row(evidence: Evidence, name: str, members: IntArray) -> Breakdown:
    plan, results = evidence.plan, evidence.results
    done = members[results.ok[members]]
    reported = done[evidence.hits_reported[done] & (results.prompt_tokens[done] != ABSENT)]
    whole = len(reported) == len(done)
    ttft = results.ttft_ms[done]
    ttft = ttft[~np.isnan(ttft)]
    return Breakdown(
        name=name,
        requests=len(members),
        succeeded=len(done),
        input_tokens=int(plan.input_len[members].sum()),
        designed_hit_ratio=_ratio(
            int(plan.hits_of(evidence.pass_name)[members].sum()), int(plan.input_len[members].sum())
        ),
        predicted_hit_ratio=_ratio(int(evidence.predicted[done].sum()), int(evidence.input_tokens[done].sum())),
        measured_hit_ratio=_ratio(int(results.cached_tokens[done].sum()), int(results.prompt_tokens[done].sum()))
        if whole
        else None,
        ttft_mean_ms=float(ttft.mean()) if len(ttft) else None,
        ttft_p50_ms=float(np.median(ttft)) if len(ttft) else None,
    )


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
