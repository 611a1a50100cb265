"""Token accounting: the same tokens counted by the plan, by each answer and by the server's counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.report import text
from foreword.report.document import Proof, RequestDifference, RequestProof, TokenProof
from foreword.report.records import ABSENT
from foreword.terms import Engine

if TYPE_CHECKING:
    from foreword.report.evidence import Evidence
    from foreword.terms import BoolArray, IntArray

LISTED = 10


def token_proofs(evidence: Evidence) -> tuple[TokenProof, ...]:
    """Totals that must agree when every request succeeded and nothing else used the server."""
    results, counters = evidence.results, evidence.counters
    planned = int(evidence.plan.input_len[results.ok].sum()) if results.ok.any() else None
    by_usage = _total(results.prompt_tokens, results.ok)
    hits = _total(results.cached_tokens, results.ok)
    queries_counted, hits_counted = (
        (counters.queries_delta, counters.hits_delta) if counters.in_tokens else (None, None)
    )
    with_failures = "" if results.ok.all() else text.FAILURES_COUNT_TOO
    return (
        _proof(text.PLANNED_INPUT, text.USAGE_PROMPT, planned, by_usage),
        _proof(text.USAGE_PROMPT, text.COUNTER_PROMPT, by_usage, counters.prompt_tokens_delta, with_failures),
        _proof(text.USAGE_PROMPT, text.COUNTER_QUERIES, by_usage, queries_counted, with_failures),
        _proof(text.USAGE_CACHED, text.COUNTER_HITS, hits, hits_counted, _hit_note(evidence) or with_failures),
    )


def _hit_note(evidence: Evidence) -> str:
    """Why cached tokens of answers and hit counters may differ by design (engines, comparison identity)."""
    if evidence.counters.external_hits_delta:
        return text.EXTERNAL_COUNTS_TOO
    metrics = evidence.record.metrics
    detected = metrics.engine.name if metrics and metrics.engine else None
    return text.WHOLE_PROMPTS_COUNT_MORE if detected == Engine.MINDIE else ""


def length_proof(evidence: Evidence) -> RequestProof | None:
    """Planned against counted prompt tokens, request by request."""
    counted = evidence.results.prompt_tokens
    return _by_request(evidence, evidence.plan.input_len, counted, evidence.results.ok & (counted != ABSENT))


def hit_proof(evidence: Evidence) -> RequestProof | None:
    """Predicted against measured hit tokens, request by request."""
    cached = evidence.results.cached_tokens
    return _by_request(evidence, evidence.predicted, cached, evidence.results.ok & (cached != ABSENT))


def _by_request(evidence: Evidence, expected: IntArray, counted: IntArray, of: BoolArray) -> RequestProof | None:
    if not of.any():
        return None
    differing = np.flatnonzero(of & (expected != counted))
    return RequestProof(
        compared=int(of.sum()),
        equal=int(of.sum()) - len(differing),
        different=tuple(
            RequestDifference(
                request_id=evidence.plan.request_ids[at],
                request_class=evidence.plan.classes[at],
                expected_tokens=int(expected[at]),
                measured_tokens=int(counted[at]),
            )
            for at in differing[:LISTED]
        ),
    )


def _total(column: IntArray, ok: BoolArray) -> int | None:
    """Sum over the successes; ``None`` unless each of them reported."""
    return int(column[ok].sum()) if ok.any() and (column[ok] != ABSENT).all() else None


def _proof(left: str, right: str, a: float | None, b: float | None, note: str = "") -> TokenProof:
    outcome = Proof.NOT_REPORTED
    if a is not None and b is not None:
        outcome = Proof.EQUAL if round(a) == round(b) else Proof.DIFFERENT
    return TokenProof(
        left=left,
        right=right,
        left_tokens=None if a is None else round(a),
        right_tokens=None if b is None else round(b),
        outcome=outcome,
        note=note if outcome is Proof.DIFFERENT else "",
    )
