"""Checks of the causes that could explain the remainder of a ladder (RFC 3.3.22)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.rules import HitRule
from foreword.collect.ladder import RungName
from foreword.report.capacity import most_written, room, written_tokens
from foreword.report.document import Cause, CauseCheck, Finding, MeasuredBy, Proof
from foreword.report.text import points
from foreword.report.wording import CAUSES, EVIDENCE
from foreword.terms import Pass, RequestClass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foreword.report.capacity import Room
    from foreword.report.document import LadderSection, TokenProof
    from foreword.report.evidence import Evidence

OF_COUNTERS = frozenset({Cause.COUNTER_WINDOW, Cause.METRIC_UNIT})
ENOUGH_HITS = 8
CLOSE = 0.1


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is known of the step to explain: its sign, and what concurrency can have to do with it."""

    gain: bool
    in_flight: int | None
    order_matters: bool


def cause_checks(evidence: Evidence, proofs: tuple[TokenProof, ...], *, step: Remaining) -> tuple[CauseCheck, ...]:
    """What this run says about each cause, found ones first; what only loses hits cannot explain a gain."""
    losing = (_concurrency(step), _routing(evidence), _capacity(evidence))
    gaining = (_residual_cache(evidence), _external_tier(evidence))
    possible, impossible, reason = (gaining, losing, "only_loses") if step.gain else (losing, gaining, "only_gains")
    checks = (
        *possible,
        *(_ruled_out(one.cause, reason) for one in impossible),
        _block_size(evidence),
        _counter_window(proofs),
        _restarts(evidence),
        _metric_unit(evidence),
        _token_counts(proofs),
    )
    order = (Finding.FOUND, Finding.OPEN, Finding.RULED_OUT)
    return tuple(sorted(checks, key=lambda check: order.index(check.finding)))


def likely_causes(evidence: Evidence, ladder: LadderSection) -> tuple[str, ...]:
    """What explains a difference from the design, in words.

    Lanes that were not warm, then steps of the ladder that are replays of what happened, then causes that were found.
    """
    told = []
    if not evidence.warm.all():
        cold = int((~evidence.warm).sum())
        told.append(f"the server was not warm ({cold:,} of {evidence.warmable:,} lanes began with nothing)")
    told += _replayed_causes(evidence, ladder)
    by_usage = evidence.measured is not None and evidence.measured.by is MeasuredBy.USAGE
    found = [check for check in ladder.checks if check.finding is Finding.FOUND]
    told += [
        f"{CAUSES[check.cause]} ({check.evidence})" for check in found if not (by_usage and check.cause in OF_COUNTERS)
    ]
    return tuple(told)


_REPLAYED = {RungName.CONCURRENCY: Cause.CONCURRENCY, RungName.CAPACITY: Cause.CAPACITY}
_WORTH_TELLING_POINTS = 0.005


def _replayed_causes(evidence: Evidence, ladder: LadderSection) -> Iterator[str]:
    """Steps in which a replay of what happened loses hits, unless a check says the same."""
    checked = {check.cause for check in ladder.checks if check.finding is Finding.FOUND}
    for rung in ladder.rungs:
        cause = _REPLAYED.get(rung.name)
        if cause is None or cause in checked or (rung.step_points or 0.0) > -_WORTH_TELLING_POINTS:
            continue
        lost = points(rung.step_points or 0.0)
        caches = room(evidence) if cause is Cause.CAPACITY else None
        yield f"{CAUSES[cause]} (replayed, {lost}{'' if caches is None else _into(caches)})"


def _into(caches: Room) -> str:
    """What went into the caches, as an aside."""
    return f": {caches.written:,} tokens into {caches.facts()['where']} of {caches.capacity:,}"


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
        return _open(Cause.RESIDUAL_CACHE, "needs_cold_pass")
    return _found_if(excess > 0, Cause.RESIDUAL_CACHE, "first_found", tokens=excess)


def _block_size(evidence: Evidence) -> CauseCheck:
    planned, used = evidence.planned_server.block_size, evidence.server.block_size
    metrics = evidence.record.metrics
    reported = metrics.block_size_reported if metrics else None
    step = _common_step(evidence)
    if step is not None and step != used:
        return _found(Cause.BLOCK_SIZE, "uneven_hits" if step % used else "coarse_hits", step=step)
    if reported is None:
        return _open(Cause.BLOCK_SIZE, "size_not_reported", planned=planned)
    return _found_if(reported != planned, Cause.BLOCK_SIZE, "sizes", planned=planned, reported=reported)


def _common_step(evidence: Evidence) -> int | None:
    """Largest number that divides every measured hit but not every predicted one; ``None`` if hits are too few."""
    seen = evidence.results.ok & evidence.hits_reported
    measured = np.unique(evidence.results.cached_tokens[seen])
    if evidence.server.rule is not HitRule.CAP_THEN_FLOOR or np.count_nonzero(measured) < ENOUGH_HITS:
        return None
    step = int(np.gcd.reduce(measured))
    return step if (evidence.predicted[seen] % step).any() or step % evidence.server.block_size else None


def _concurrency(step: Remaining) -> CauseCheck:
    match step.in_flight:
        case None:
            return _open(Cause.CONCURRENCY, "no_stamps")
        case 0 | 1:
            return _ruled_out(Cause.CONCURRENCY, "serial")
        case k if step.order_matters:
            return _open(Cause.CONCURRENCY, "in_flight", requests=k)
        case k:
            return _ruled_out(Cause.CONCURRENCY, "in_flight_harmless", requests=k)


def _routing(evidence: Evidence) -> CauseCheck:
    domains, addresses = len(evidence.plan.domain_ids), len(evidence.record.run.urls)
    if max(domains, addresses, evidence.record.manifest.routing.dp_size) > 1:
        return _open(Cause.ROUTING, "several_caches", domains=domains, addresses=addresses)
    return _ruled_out(Cause.ROUTING, "one_cache")


def _capacity(evidence: Evidence) -> CauseCheck:
    preempted, evicted = evidence.counters.preemptions_delta, evidence.counters.evicted_tokens_delta
    if evicted is not None:
        return _found_if(evicted > 0, Cause.CAPACITY, "evicted", tokens=round(evicted))
    caches = room(evidence)
    if caches is not None and caches.overflowed:
        return _check(Cause.CAPACITY, Finding.FOUND, "overflow", caches.facts())
    if preempted:
        return _found(Cause.CAPACITY, "preempted", count=round(preempted))
    if caches is not None and (most := most_written(evidence)) <= caches.smallest:
        return _ruled_out(Cause.CAPACITY, "fits", tokens=most, capacity=caches.smallest)
    return _open(Cause.CAPACITY, "written", tokens=written_tokens(evidence))


def _counter_window(proofs: tuple[TokenProof, ...]) -> CauseCheck:
    _, _, queries, hits = proofs
    if Proof.NOT_REPORTED in {queries.outcome, hits.outcome}:
        return _open(Cause.COUNTER_WINDOW, "not_comparable")
    if Proof.DIFFERENT in {queries.outcome, hits.outcome}:
        return _found(Cause.COUNTER_WINDOW, "counters_differ")
    return _ruled_out(Cause.COUNTER_WINDOW, "counters_equal")


def _restarts(evidence: Evidence) -> CauseCheck:
    if evidence.counters.queries_delta is None:
        return _open(Cause.RESTART, "no_counters")
    seen = len(evidence.counters.restarts)
    return _found_if(seen > 0, Cause.RESTART, "resets", count=seen)


def _external_tier(evidence: Evidence) -> CauseCheck:
    hits = evidence.counters.external_hits_delta
    if hits is None:
        return _open(Cause.EXTERNAL_TIER, "no_external_tier")
    return _found_if(hits > 0, Cause.EXTERNAL_TIER, "external_hits", tokens=round(hits))


def _metric_unit(evidence: Evidence) -> CauseCheck:
    """Counters in blocks are one block size too small; counters that are absent have no unit."""
    queries, size = evidence.counters.queries_delta, evidence.server.block_size
    if queries is None and evidence.counters.hits_delta is None:
        return _open(Cause.METRIC_UNIT, "no_counters")
    if not evidence.counters.in_tokens:
        return _found(Cause.METRIC_UNIT, "not_tokens")
    counted = int(evidence.input_tokens[evidence.results.ok].sum())
    if not queries or not counted:
        return _open(Cause.METRIC_UNIT, "no_counters")
    blocks = size > 1 and abs(queries * size - counted) <= counted * CLOSE
    return _found_if(blocks, Cause.METRIC_UNIT, "queries", queries=round(queries), tokens=counted)


def _token_counts(proofs: tuple[TokenProof, ...]) -> CauseCheck:
    planned, counted = proofs[0].left_tokens, proofs[0].right_tokens
    if planned is None or counted is None:
        return _open(Cause.TOKEN_COUNTS, "no_prompt_tokens")
    return _found_if(planned != counted, Cause.TOKEN_COUNTS, "prompt_tokens", planned=planned, counted=counted)


def _found(cause: Cause, evidence: str, **facts: float) -> CauseCheck:
    return _check(cause, Finding.FOUND, evidence, facts)


def _open(cause: Cause, evidence: str, **facts: float) -> CauseCheck:
    return _check(cause, Finding.OPEN, evidence, facts)


def _ruled_out(cause: Cause, evidence: str, **facts: float) -> CauseCheck:
    return _check(cause, Finding.RULED_OUT, evidence, facts)


def _found_if(condition: bool, cause: Cause, evidence: str, **facts: float) -> CauseCheck:  # noqa: FBT001 - reads as a sentence
    return _check(cause, Finding.FOUND if condition else Finding.RULED_OUT, evidence, facts)


def _check(cause: Cause, finding: Finding, evidence: str, facts: Mapping[str, str | float]) -> CauseCheck:
    return CauseCheck(cause=cause, finding=finding, evidence=EVIDENCE[evidence].format(**facts), facts=dict(facts))
