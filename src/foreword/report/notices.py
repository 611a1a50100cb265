"""What a reader must know before trusting the numbers of a report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foreword.collect.ladder import Remainder, RungName
from foreword.report.capacity import room
from foreword.report.causes import excess_of_first
from foreword.report.document import Notice, Severity
from foreword.report.wording import ADVICE, METRICS_MISSED, NOTICES
from foreword.terms import ExecutionMode, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from foreword.report.document import PassSection
    from foreword.report.evidence import Evidence
    from foreword.report.records import RunRecord

LOOP_LAG_LIMIT_MS = 20.0
ADDRESS = re.compile(r"\S*://\S*")


def notices(record: RunRecord, evidence: Sequence[Evidence], *, sections: Sequence[PassSection]) -> tuple[Notice, ...]:
    """All notices, alarms first."""
    found = [*_of_data_set(record), *_of_server(record), *_of_run(record)]
    for one, section in zip(evidence, sections, strict=True):
        found.extend(_of_pass(one, section))
        found.extend(_of_cache(one))
        found.extend(_of_room(one, section))
        found.extend(_of_counters(one))
    order = tuple(Severity)
    return tuple(sorted(found, key=lambda notice: order.index(notice.severity)))


def _of_data_set(record: RunRecord) -> Iterator[Notice]:
    manifest = record.manifest
    named, held = record.run.dataset_id, manifest.dataset_id
    if named != held:
        yield _alarm("DATASET_MISMATCH", named=named, held=held)
    theory = manifest.theoretical_result
    if theory.validation_status is not Status.PASS:
        yield _warning("CONSTRUCTION", status=theory.validation_status, reason=theory.reason)
    if manifest.reencode.wrong:
        yield _warning("REENCODE", wrong=manifest.reencode.wrong, checked=manifest.reencode.checked or 0)


def _of_server(record: RunRecord) -> Iterator[Notice]:
    manifest, metrics = record.manifest, record.metrics
    if metrics is None:
        yield _warning("METRICS_ABSENT")
        return
    planned, reported = manifest.block_size, metrics.block_size_reported
    if reported is not None and reported != planned:
        yield _alarm("BLOCK_SIZE_MISMATCH", planned=planned, reported=reported)
    engine, detected = manifest.engine, metrics.engine
    if detected and detected.hit_rule and engine.hit_rule and engine.hit_rule is not detected.hit_rule:
        yield _warning(
            "HIT_RULE_MISMATCH",
            planned=engine.name or "",
            planned_rule=engine.hit_rule,
            found=detected.name or "",
            found_rule=detected.hit_rule,
        )
    missing = [words for name, words in METRICS_MISSED.items() if name in metrics.absent]
    if missing:
        yield _note("METRICS_INCOMPLETE", names=", ".join(missing))


def _of_run(record: RunRecord) -> Iterator[Notice]:
    if record.run.state == "server_gone":
        yield _warning("SERVER_GONE")
    elif record.run.state != "complete":
        yield _warning("INTERRUPTED")
    if record.row_cut_off:
        yield _warning("CUT_OFF_ROW")
    for message in record.run.warnings:
        yield _warning("RUN", message=ADDRESS.sub("an address", message).rstrip(".?"))


def _of_pass(evidence: Evidence, section: PassSection) -> Iterator[Notice]:
    name, counts, lengths = evidence.pass_name, section.requests, section.length_proof
    if counts.failed:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.failures_by_kind.items())
        yield _warning("FAILED_REQUESTS", failed=counts.failed, planned=counts.planned, pass_name=name, kinds=kinds)
    if counts.not_sent:
        limited = evidence.record.run.max_requests is not None
        told = _note if limited else _warning
        code = "LIMITED" if limited else "NOT_SENT"
        yield told(code, missing=counts.not_sent, planned=counts.planned, pass_name=name)
    lag = section.performance.loop_lag_p99_ms if section.performance else None
    if lag is not None and lag > LOOP_LAG_LIMIT_MS:
        yield _warning("CLIENT_LAG", lag_ms=lag, pass_name=name)
    if lengths is not None and lengths.equal < lengths.compared:
        yield _warning("PROMPT_TOKENS_DIFFER", requests=lengths.compared - lengths.equal, pass_name=name)


def _of_cache(evidence: Evidence) -> Iterator[Notice]:
    excess = excess_of_first(evidence)
    if excess:
        yield _warning("RESIDUAL_CACHE", tokens=excess)
    cold = int((~evidence.warm).sum())
    if cold and evidence.record.run.mode == ExecutionMode.HOT:
        yield _warning("NOT_WARM", cold=cold, lanes=evidence.warmable)
    elif cold:
        yield _warning("NOT_WARMED", cold=cold, lanes=evidence.warmable)
    yield from _of_usage(evidence)


def _of_room(evidence: Evidence, section: PassSection) -> Iterator[Notice]:
    """Evictions that the capacity proves: a warning where hits are missing."""
    caches = room(evidence)
    if caches is None or not caches.overflowed:
        return
    lost = any(rung.name is RungName.CAPACITY and (rung.step_points or 0) < 0 for rung in section.ladder.rungs)
    told = _warning if lost or section.ladder.remainder is not Remainder.NONE else _note
    yield told("EVICTED", pass_name=evidence.pass_name, **caches.facts())


def _of_usage(evidence: Evidence) -> Iterator[Notice]:
    name, ok = evidence.pass_name, evidence.results.ok
    reported = ok & evidence.hits_reported
    answers, reporting = int(ok.sum()), int(reported.sum())
    if evidence.zeros_left_out:
        yield _note("ZEROS_LEFT_OUT", left_out=evidence.zeros_left_out, pass_name=name)
    elif 0 < reporting < answers:
        tokens = int(evidence.results.cached_tokens[reported].sum())
        yield _warning("PARTIAL_USAGE", reported=reporting, answers=answers, tokens=tokens, pass_name=name)
    elif evidence.measured is None and answers:
        yield _warning("HITS_NOT_REPORTED", pass_name=name)


def _of_counters(evidence: Evidence) -> Iterator[Notice]:
    name, counters = evidence.pass_name, evidence.counters
    if counters.restarts:
        yield _warning("COUNTER_RESET", pass_name=name)
    if counters.missing:
        yield _warning("METRICS_MISSING", pass_name=name)
    if counters.preemptions_delta:
        yield _warning("PREEMPTIONS", count=round(counters.preemptions_delta), pass_name=name)
    if counters.derived:
        yield _note("COUNTERS_DERIVED", pass_name=name)
    if counters.external_hits_delta:
        yield _note("EXTERNAL_TIER", tokens=round(counters.external_hits_delta), pass_name=name)


def _alarm(code: str, **facts: str | float) -> Notice:
    return _notice(code, Severity.ALARM, facts)


def _warning(code: str, **facts: str | float) -> Notice:
    return _notice(code, Severity.WARNING, facts)


def _note(code: str, **facts: str | float) -> Notice:
    return _notice(code, Severity.NOTE, facts)


def _notice(code: str, severity: Severity, facts: Mapping[str, str | float]) -> Notice:
    return Notice(
        code=code,
        severity=severity,
        message=NOTICES[code].format(**facts),
        advice=ADVICE.get(code, "").format(**facts),
        facts=dict(facts),
    )
