"""What a reader must know before trusting the numbers of a report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from foreword.report.causes import excess_of_first
from foreword.report.document import MeasuredBy, Notice, Severity
from foreword.terms import Pass, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.report.document import PassSection
    from foreword.report.evidence import Evidence
    from foreword.report.records import RunRecord

LOOP_LAG_LIMIT_MS = 20.0
ADDRESS = re.compile(r"\S*://\S*")


def notices(record: RunRecord, evidence: Sequence[Evidence], sections: Sequence[PassSection]) -> tuple[Notice, ...]:
    """All notices, alarms first."""
    found = [*_of_data_set(record), *_of_server(record), *_of_run(record)]
    for one, section in zip(evidence, sections, strict=True):
        found.extend(_of_pass(one, section))
        found.extend(_of_cache(one))
        found.extend(_of_counters(one))
    order = tuple(Severity)
    return tuple(sorted(found, key=lambda notice: order.index(notice.severity)))


def _of_data_set(record: RunRecord) -> Iterator[Notice]:
    manifest = record.manifest
    if record.run.dataset_id != manifest.dataset_id:
        yield Notice(
            code="DATASET_MISMATCH",
            severity=Severity.ALARM,
            message=f"The run names the data set {record.run.dataset_id!r}; the folder holds {manifest.dataset_id!r}.",
        )
    theory = manifest.theoretical_result
    if theory.validation_status is not Status.PASS:
        yield _warning("CONSTRUCTION", f"The construction's verdict is {theory.validation_status} ({theory.reason}).")
    if manifest.reencode.wrong:
        yield _warning(
            "REENCODE",
            f"{manifest.reencode.wrong:,} of {manifest.reencode.checked or 0:,} prompts did not encode to their ids.",
        )


def _of_server(record: RunRecord) -> Iterator[Notice]:
    manifest, metrics = record.manifest, record.metrics
    if metrics is None:
        yield _warning(
            "METRICS_ABSENT",
            "No metrics of the server were collected; only answers can prove hits.",
            "run with --metrics-url",
        )
        return
    planned, reported = manifest.block_size, metrics.block_size_reported
    if reported is not None and reported != planned:
        yield Notice(
            code="BLOCK_SIZE_MISMATCH",
            severity=Severity.ALARM,
            message=f"The data set is planned in blocks of {planned} tokens, the server has {reported}.",
            advice=f"generate it again with block_size {reported}, or start the server with {planned}",
        )
    detected = metrics.engine
    if detected and detected.hit_rule and manifest.engine.hit_rule not in {None, detected.hit_rule}:
        yield _warning(
            "HIT_RULE_MISMATCH",
            f"The data set is planned for {manifest.engine.name} ({manifest.engine.hit_rule}); "
            f"the server is {detected.name} ({detected.hit_rule}).",
            "generate it again for this engine",
        )
    if metrics.absent:
        absent = ", ".join(sorted(metrics.absent)).replace("_", " ")
        yield _note("METRICS_INCOMPLETE", f"The server does not report {absent}.")


def _of_run(record: RunRecord) -> Iterator[Notice]:
    if record.run.state != "complete":
        yield _warning("INTERRUPTED", "The run was interrupted; the report covers what was recorded before.")
    if record.row_cut_off:
        yield _warning("CUT_OFF_ROW", "The last result row was cut off while it was written; it is left out.")
    for message in record.run.warnings:
        yield _warning("RUN", f"The run warned: {ADDRESS.sub('an address', message)}.")


def _of_pass(evidence: Evidence, section: PassSection) -> Iterator[Notice]:
    name, counts = evidence.pass_name, section.requests
    if counts.failed:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.failures_by_kind.items())
        yield _warning(
            "FAILED_REQUESTS",
            f"{counts.failed:,} of {counts.planned:,} requests of the {name} pass failed ({kinds}); "
            "predictions are replayed without them.",
        )
    if counts.not_sent:
        limited = evidence.record.run.max_requests is not None
        message = f"{counts.not_sent:,} of {counts.planned:,} requests of the {name} pass have no result"
        yield _note("LIMITED", f"{message}: the run was limited.") if limited else _warning("NOT_SENT", f"{message}.")
    lag = section.performance.loop_lag_p99_ms if section.performance else None
    if lag is not None and lag > LOOP_LAG_LIMIT_MS:
        yield _warning(
            "CLIENT_LAG",
            f"The client itself was late by {lag:.0f} ms (P99) in the {name} pass: latencies are too long.",
            "lower the load of one client, or use more of them",
        )
    if section.length_proof is not None and section.length_proof.equal < section.length_proof.compared:
        wrong = section.length_proof.compared - section.length_proof.equal
        yield _warning(
            "PROMPT_TOKENS_DIFFER",
            f"The server counted other prompt tokens than planned in {wrong:,} requests of the {name} pass.",
            "check that the data set was made with the server's tokenizer and prompt format",
        )


def _of_cache(evidence: Evidence) -> Iterator[Notice]:
    name = evidence.pass_name
    excess = excess_of_first(evidence)
    if excess:
        yield _warning(
            "RESIDUAL_CACHE",
            f"The cache was not empty before the cold pass: first requests of lanes found {excess:,} tokens.",
            "run with a salt, or reset the cache before the run",
        )
    warm = len(evidence.served) - len(evidence.results.ok)
    cold_lanes = warm - int(evidence.served[:warm].sum())
    if name is Pass.HOT and cold_lanes:
        yield _warning("NOT_WARMED", f"{cold_lanes:,} of {warm:,} lanes were not warmed before the hot pass.")
    if evidence.measured is None and evidence.results.ok.any():
        yield _warning(
            "HITS_NOT_REPORTED",
            f"Neither answers nor counters report hits of the {name} pass.",
            "let the server report cached tokens (vLLM: --enable-prompt-tokens-details), or give --metrics-url",
        )
    if evidence.measured is not None and evidence.measured.by is MeasuredBy.PARTIAL_USAGE:
        yield _warning("PARTIAL_USAGE", f"Only some answers of the {name} pass report cached tokens.")


def _of_counters(evidence: Evidence) -> Iterator[Notice]:
    name, counters = evidence.pass_name, evidence.counters
    if counters.restarts:
        yield _warning("COUNTER_RESET", f"Counters were reset during the {name} pass: the server restarted.")
    if counters.missing:
        yield _warning("METRICS_MISSING", f"Metrics of an endpoint or rank were missing after the {name} pass.")
    if counters.preemptions_delta:
        yield _warning("PREEMPTIONS", f"{counters.preemptions_delta:,.0f} requests of the {name} pass were preempted.")
    if counters.derived:
        yield _note("COUNTERS_DERIVED", f"Counters of the {name} pass are derived from rates: approximate.")
    if counters.external_hits_delta:
        yield _note(
            "EXTERNAL_TIER",
            f"An external cache tier served {counters.external_hits_delta:,.0f} tokens in the {name} pass.",
        )


def _note(code: str, message: str) -> Notice:
    return Notice(code=code, severity=Severity.NOTE, message=message)


def _warning(code: str, message: str, advice: str = "") -> Notice:
    return Notice(code=code, severity=Severity.WARNING, message=message, advice=advice)
