"""Tables of a report as CSV: one row a request and pass, one row a group and pass. Empty means not reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.report.records import ABSENT
from foreword.store.tables import csv_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from foreword.report.document import ReportDocument
    from foreword.report.evidence import Evidence

Cell = str | int | float | None

REQUEST_COLUMNS = (
    "pass",
    "order_index",
    "request_id",
    "prefix_group_id",
    "planned_dp_id",
    "request_class",
    "ok",
    "planned_input_tokens",
    "prompt_tokens",
    "planned_prefix_tokens",
    "designed_hit_tokens",
    "predicted_hit_tokens",
    "cached_tokens",
    "ttft_ms",
)
GROUP_COLUMNS = (
    "requests",
    "succeeded",
    "input_tokens",
    "target_hit_ratio",
    "planned_share",
    "max_reachable_hit_ratio",
    "cold_start_loss_tokens",
    "designed_hit_ratio",
    "predicted_hit_ratio",
    "measured_hit_ratio",
    "ttft_mean_ms",
    "ttft_p50_ms",
)


def requests_csv(evidence: Iterable[Evidence]) -> str:
    """Every request that has a result, in send order."""
    return csv_table(REQUEST_COLUMNS, (row for one in evidence for row in _request_rows(one)))


def groups_csv(document: ReportDocument) -> str:
    """Every group of every pass."""
    rows = (
        (section.pass_name, group.name, *(getattr(group, name) for name in GROUP_COLUMNS))
        for section in document.passes
        for group in section.groups
    )
    return csv_table(("pass", "prefix_group_id", *GROUP_COLUMNS), rows)


def _request_rows(evidence: Evidence) -> Iterator[Sequence[Cell]]:
    plan, results = evidence.plan, evidence.results
    ttft = results.ttft_ms
    for at in np.flatnonzero(results.recorded):
        ok = bool(results.ok[at])
        yield (
            evidence.pass_name,
            int(at),
            plan.request_ids[at],
            plan.group_ids[plan.group[at]],
            plan.domain_ids[plan.domain[at]],
            plan.classes[at],
            "true" if ok else "false",
            int(plan.input_len[at]),
            _known(results.prompt_tokens[at]),
            int(plan.prefix_len[at]),
            int(plan.hits_of(evidence.pass_name)[at]),
            int(evidence.predicted[at]) if ok else None,
            _known(results.cached_tokens[at]),
            None if np.isnan(ttft[at]) else round(float(ttft[at]), 3),
        )


def _known(value: np.int64) -> int | None:
    return None if value == ABSENT else int(value)
