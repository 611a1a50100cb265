"""What a reader must know before trusting the numbers of a report."""

from __future__ import annotations

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


def notices(record: RunRecord, evidence: Sequence[Evidence], sections: Sequence[PassSection]) -> tuple[Notice, ...]:
    """All notices, alarms first."""
    found = [*_of_record(record)]
    for one, section in zip(evidence, sections, strict=True):
        found.extend(_of_pass(one, section))
    order = tuple(Severity)
    return tuple(sorted(found, key=lambda notice: order.index(notice.severity)))


def _of_record(record: RunRecord) -> Iterator[Notice]:
    manifest, metrics = record.manifest, record.metrics
    reported = metrics.block_size_reported if metrics else None
    if reported is not None and reported != manifest.block_size:
        yield Notice(
            code="BLOCK_SIZE_MISMATCH",
            severity=Severity.ALARM,
            message=f"The data set is planned in blocks of {manifest.block_size} tokens, the server has {reported}.",
            advice=f"generate it again with block_size {reported}, or start the server with {manifest.block_size}",
        )
    if record.run.dataset_id != manifest.dataset_id:
        yield Notice(
            code="DATASET_MISMATCH",
            severity=Severity.ALARM,
            message=f"The run names the data set {record.run.dataset_id!r}; the folder holds {manifest.dataset_id!r}.",
        )
    if record.run.state != "complete":
        yield _warning("INTERRUPTED", "The run was interrupted; the report covers what was recorded before.")
    if record.row_cut_off:
        yield _warning("CUT_OFF_ROW", "The last result row was cut off while it was written; it is left out.")
    theory = manifest.theoretical_result
    if theory.validation_status is not Status.PASS:
        yield _warning("CONSTRUCTION", f"The construction's verdict is {theory.validation_status} ({theory.reason}).")
    if manifest.reencode.wrong:
        yield _warning(
            "REENCODE",
            f"{manifest.reencode.wrong:,} of {manifest.reencode.checked or 0:,} prompts did not encode to their ids.",
        )
    if metrics is None:
        yield _warning("METRICS_ABSENT", "No metrics of the server were collected; only answers prove the hits.",
                       "run with --metrics-url")  # fmt: skip
    elif metrics.absent:
        yield Notice(
            code="METRICS_INCOMPLETE",
            severity=Severity.NOTE,
            message=f"The server does not report {', '.join(sorted(metrics.absent)).replace('_', ' ')}.",
        )


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
        yield _warning(
            "NOT_SENT", f"{counts.not_sent:,} of {counts.planned:,} requests of the {name} pass have no result."
        )
    yield from _of_cache(evidence)
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
    name, counters = evidence.pass_name, evidence.counters
    excess = excess_of_first(evidence)
    if excess:
        yield _warning(
            "RESIDUAL_CACHE",
            f"The cache was not empty before the cold pass: first requests of lanes found {excess:,} tokens.",
            "run with a salt, or reset the cache before the run",
        )
    warm = len(evidence.served) - len(evidence.results.ok)
    cold_lanes = warm - int(evidence.served[:warm].sum())
    if evidence.pass_name is Pass.HOT and cold_lanes:
        yield _warning("NOT_WARMED", f"{cold_lanes:,} of {warm:,} lanes were not warmed before the hot pass.")
    if evidence.measured is None and evidence.results.ok.any():
        yield _warning(
            "HITS_NOT_REPORTED",
            f"Neither answers nor counters report hits of the {name} pass.",
            "let the server report cached tokens (vLLM: --enable-prompt-tokens-details), or give --metrics-url",
        )
    if evidence.measured is not None and evidence.measured.by is MeasuredBy.PARTIAL_USAGE:
        yield _warning("PARTIAL_USAGE", f"Only some answers of the {name} pass report cached tokens.")
    if counters.restarts:
        yield _warning("COUNTER_RESET", f"Counters were reset during the {name} pass: the server restarted.")
    if counters.preemptions_delta:
        yield _warning("PREEMPTIONS", f"{counters.preemptions_delta:,.0f} requests of the {name} pass were preempted.")
    if counters.external_hits_delta:
        yield Notice(
            code="EXTERNAL_TIER",
            severity=Severity.NOTE,
            message=f"An external cache tier served {counters.external_hits_delta:,.0f} tokens in the {name} pass.",
        )


def _warning(code: str, message: str, advice: str = "") -> Notice:
    return Notice(code=code, severity=Severity.WARNING, message=message, advice=advice)
