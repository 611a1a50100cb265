"""Checks of the causes that could explain the remainder of a ladder (RFC 3.3.22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.rules import HitRule
from foreword.report.document import CauseCheck, Finding, Proof
from foreword.terms import Pass, RequestClass

if TYPE_CHECKING:
    from foreword.report.document import TokenProof
    from foreword.report.evidence import Evidence

ONLY_LOSES = "it can only take hits away; more were measured than predicted"
ONLY_GAINS = "it can only add hits; fewer were measured than predicted"
ENOUGH_HITS = 8


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is known of the step to explain: its sign, and what concurrency can have to do with it."""

    gain: bool
    in_flight: int | None
    order_matters: bool


def cause_checks(evidence: Evidence, proofs: tuple[TokenProof, ...], step: Remaining) -> tuple[CauseCheck, ...]:
    """What this run says about each cause, found ones first; what only loses hits cannot explain a gain."""
    losing = (_concurrency(step), _routing(evidence), _capacity(evidence))
    gaining = (_residual_cache(evidence), _external_tier(evidence))
    possible, impossible, reason = (gaining, losing, ONLY_LOSES) if step.gain else (losing, gaining, ONLY_GAINS)
    checks = (
        *possible,
        *(_check(one.cause, found=False, evidence=reason) for one in impossible),
        _block_size(evidence),
        _counter_window(proofs),
        _restarts(evidence),
        _metric_unit(evidence),
        _token_counts(proofs),
    )
    order = (Finding.FOUND, Finding.OPEN, Finding.RULED_OUT)
    return tuple(sorted(checks, key=lambda check: order.index(check.finding)))


def excess_of_first(evidence: Evidence) -> int | None:
    """Tokens that the first requests of the lanes found though nobody of this pass had written them."""
    first = np.array([one is RequestClass.FIRST_OF_LANE for one in evidence.plan.classes])
    asked = first & evidence.results.ok & evidence.hits_reported
    if evidence.pass_name is not Pass.COLD or not asked.any():
        return None
    return int(np.maximum(evidence.results.cached_tokens - evidence.predicted, 0)[asked].sum())


def _residual_cache(evidence: Evidence) -> CauseCheck:
    excess = excess_of_first(evidence)
    if excess is None:
        return _check("residual cache before the run", None, "only a cold pass with reported hits can tell")
    return _check(
        "residual cache before the run",
        excess > 0,
        f"first requests of the lanes found {excess:,} tokens that this pass had not written",
    )


def _block_size(evidence: Evidence) -> CauseCheck:
    cause, planned = "wrong block size", evidence.planned_server.block_size
    metrics = evidence.record.metrics
    reported = metrics.block_size_reported if metrics else None
    step = _common_step(evidence)
    if step is not None and step % evidence.server.block_size:
        return _check(cause, found=True, evidence=f"measured hits are multiples of {step}, not of the block size")
    if step is not None and step > evidence.server.block_size:
        return _check(cause, found=True, evidence=f"every measured hit is a multiple of {step}, predicted ones are not")
    if reported is None:
        return _check(cause, None, f"planned {planned}; the server does not report one")
    return _check(cause, reported != planned, f"planned {planned}, the server reports {reported}")


def _common_step(evidence: Evidence) -> int | None:
    """Largest number that divides every measured hit but not every predicted one; ``None`` if hits are too few."""
    seen = evidence.results.ok & evidence.hits_reported
    measured = np.unique(evidence.results.cached_tokens[seen])
    if evidence.server.rule is not HitRule.CAP_THEN_FLOOR or np.count_nonzero(measured) < ENOUGH_HITS:
        return None
    step = int(np.gcd.reduce(measured))
    return step if (evidence.predicted[seen] % step).any() or step % evidence.server.block_size else None


def _concurrency(step: Remaining) -> CauseCheck:
    cause = "order and concurrency"
    match step.in_flight:
        case None:
            return _check(cause, None, "the run has no time stamps")
        case 0 | 1:
            return _check(cause, found=False, evidence="one request at a time")
        case k if step.order_matters:
            return _check(cause, None, f"up to {k:,} requests were under way at once")
        case k:
            return _check(cause, found=False, evidence=f"up to {k:,} requests under way cost nothing in this pass")


def _routing(evidence: Evidence) -> CauseCheck:
    domains, urls = len(evidence.plan.domain_ids), len(evidence.record.run.urls)
    if max(domains, urls, evidence.record.manifest.routing.dp_size) > 1:
        return _check("routing to another cache", None, f"{domains} cache domains, {urls} addresses")
    return _check("routing to another cache", found=False, evidence="one cache domain, one address")


def _capacity(evidence: Evidence) -> CauseCheck:
    preempted, evicted = evidence.counters.preemptions_delta, evidence.counters.evicted_tokens_delta
    metrics = evidence.record.metrics
    usage = [one.kv_cache_usage for one in (metrics.usage_samples if metrics else ()) if one.kv_cache_usage is not None]
    peak = f"running requests used up to {max(usage):.0%} of it" if usage else "its use is not reported"
    if evicted is not None:
        return _check("capacity and eviction", evicted > 0, f"{evicted:,.0f} tokens evicted; {peak}")
    if preempted:
        return _check("capacity and eviction", found=True, evidence=f"{preempted:,.0f} preemptions; {peak}")
    computed = np.maximum(evidence.input_tokens - np.maximum(evidence.results.cached_tokens, 0), 0)
    written = int(computed[evidence.results.ok].sum())
    evidence_text = f"the pass wrote {written:,} prompt tokens into the cache; {peak}; evictions not reported"
    return _check("capacity and eviction", None, evidence_text)


def _counter_window(proofs: tuple[TokenProof, ...]) -> CauseCheck:
    _, _, queries, hits = proofs
    if Proof.NOT_REPORTED in {queries.outcome, hits.outcome}:
        return _check("counter window, other traffic", None, "counters and answers cannot be compared")
    differs = Proof.DIFFERENT in {queries.outcome, hits.outcome}
    return _check(
        "counter window, other traffic", differs, f"counters and answers {'differ' if differs else 'are equal'}"
    )


def _restarts(evidence: Evidence) -> CauseCheck:
    if evidence.counters.queries_delta is None:
        return _check("restart of the server", None, "counters are not reported")
    seen = len(evidence.counters.restarts)
    return _check("restart of the server", seen > 0, f"{seen or 'no'} counter reset seen")


def _external_tier(evidence: Evidence) -> CauseCheck:
    hits = evidence.counters.external_hits_delta
    if hits is None:
        return _check("external tier counted twice", None, "the server reports no external tier")
    return _check("external tier counted twice", hits > 0, f"{hits:,.0f} hit tokens of an external tier")


def _metric_unit(evidence: Evidence) -> CauseCheck:
    if not evidence.counters.in_tokens:
        return _check("unit of the counter", found=True, evidence="the cache counters do not count tokens")
    queries = evidence.counters.queries_delta
    counted = int(evidence.input_tokens[evidence.results.ok].sum())
    if not queries or not counted:
        return _check("unit of the counter", None, "counters are not reported")
    blocks = abs(queries * evidence.server.block_size - counted) <= counted * 0.1 and evidence.server.block_size > 1
    return _check("unit of the counter", blocks, f"{queries:,.0f} queries for {counted:,} prompt tokens")


def _token_counts(proofs: tuple[TokenProof, ...]) -> CauseCheck:
    planned = proofs[0]
    if planned.outcome is Proof.NOT_REPORTED:
        return _check("template and special tokens", None, "answers carry no prompt tokens")
    left, right = planned.left_tokens, planned.right_tokens
    return _check(
        "template and special tokens", planned.outcome is Proof.DIFFERENT, f"{left:,} planned, {right:,} counted"
    )


def _check(cause: str, found: bool | None, evidence: str) -> CauseCheck:  # noqa: FBT001 - three-valued, read by name
    finding = Finding.OPEN if found is None else Finding.FOUND if found else Finding.RULED_OUT
    return CauseCheck(cause=cause, finding=finding, evidence=evidence)
