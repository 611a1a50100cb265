"""The summaries of a run, all derived from the rows and pages that it wrote."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from foreword._version import __version__
from foreword.collect.counters import absent_metrics, cache_counters
from foreword.collect.metrics import PassPerformance
from foreword.collect.tally import PassTally
from foreword.run.privacy import masked_url
from foreword.run.scrape import usage_samples
from foreword.run.spec import Isolation, PassOutcome, RunOutcome
from foreword.store.runs import RunFolder, read_rows, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from foreword.run.passes import PassRecord
    from foreword.run.preflight import ServerFacts
    from foreword.run.setup import Setup
    from foreword.terms import Pass


def write_begin(setup: Setup, folder: RunFolder) -> None:
    """Say what the run is before the first request, so that what a killed run left can be reported."""
    write_document(folder.run, _run_document(setup, [], {}, warnings=[], state="running"))


def write_up(
    setup: Setup, folder: RunFolder, *, records: Sequence[PassRecord], warnings: list[str], state: str
) -> RunOutcome:
    """Write the three summaries and return the outcome; what rows say is read back from the file."""
    performances = {record.name: PassPerformance() for record in records}
    tallies = {record.name: PassTally() for record in records}
    for row in read_rows(folder.requests):
        performances[row.pass_].add(row)
        tallies[row.pass_].add(row)
    timings = [
        {"pass": record.name.value, **performances[record.name].document(record.loop_lag_ms)} for record in records
    ]
    counters = [_counters(setup, record) for record in records]
    warnings.extend(_noticed(setup, counters))
    write_document(folder.performance, {"passes": timings})
    write_document(folder.prefix_cache, _cache_document(setup, folder, records, counters))
    write_document(folder.run, _run_document(setup, records, tallies, warnings=warnings, state=state))
    passes = tuple(
        _outcome(record.name, tallies[record.name], counted, timing)
        for record, counted, timing in zip(records, counters, timings, strict=True)
    )
    return RunOutcome(folder.root, state, passes, tuple(warnings))


def _counters(setup: Setup, record: PassRecord) -> dict[str, object]:
    profile, planned = setup.facts.detection.profile, setup.planned.manifest.block_size
    block_size = setup.facts.block_size or planned
    counted = cache_counters(record.before, record.after, profile=profile, block_size=block_size)
    return {"pass": record.name.value, **counted}


def _noticed(setup: Setup, counters: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """What counters say about themselves: outer tiers that a reset left warm, restarts, and pages that vanished."""
    for counted in counters:
        name = counted["pass"]
        if name == "cold" and counted["external_hits_delta"] and setup.isolation.applied is Isolation.RESET:
            yield "an outer cache tier hit in the cold pass: the reset did not reach it, cold is unproven"
        if counted["restarts"]:
            yield f"counters restarted during the {name} pass: what they say of it is a lower bound"
        if counted["missing"]:
            yield f"metrics that were there before the {name} pass were gone after it: its counters are incomplete"
    if setup.planned.spec.metrics_urls and all(counted["queries_delta"] is None for counted in counters):
        yield "the metrics pages show no prefix-cache counters that we know: hits are known by usage alone"


def _cache_document(
    setup: Setup, folder: RunFolder, records: Sequence[PassRecord], counters: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    detection = setup.facts.detection
    spans = {record.name: (record.before.at_ns, record.after.at_ns) for record in records}
    seen = (page for record in records for page in (*record.before.pages, *record.after.pages))
    pages = [page for page in seen if page is not None]
    return {
        "engine": {
            "name": detection.profile.name,
            "version": setup.facts.version,
            "server": setup.facts.server,
            "detected_by": detection.detected_by,
            "hit_rule": detection.profile.hit_rule.value,
            "visibility": detection.profile.visibility.value,
        },
        "block_size_reported": setup.facts.block_size,
        "cache_capacity_tokens": list(setup.facts.capacities),
        "passes": list(counters),
        "usage_samples": usage_samples(folder.pages, detection.profile, spans=spans),
        "absent": absent_metrics(pages, detection.profile),
    }


def _run_document(
    setup: Setup,
    records: Sequence[PassRecord],
    tallies: Mapping[Pass, PassTally],
    *,
    warnings: Sequence[str],
    state: str,
) -> dict[str, object]:
    planned, facts, isolation = setup.planned, setup.facts, setup.isolation
    spec = planned.spec
    return {
        "foreword_version": __version__,
        "dataset_id": planned.manifest.dataset_id,
        "state": state,
        "mode": planned.mode.value,
        "concurrency": planned.concurrency,
        "max_requests": spec.max_requests,
        "timeout_s": spec.timeout_s,
        "urls": [masked_url(target.endpoint) for target in planned.router.targets],
        "metrics_urls": [masked_url(url) for url in facts.metrics_urls],
        "metrics_given": bool(spec.metrics_urls),
        "started_utc": _utc(setup.started_utc),
        "ended_utc": None if state == "running" else _utc(datetime.now(UTC)),
        "model": facts.model,
        "server": _server(facts),
        "isolation": {"applied": isolation.applied.value, "salt_probe": isolation.finding.value},
        "salts": {name.value: _digest(salt) for name, salt in isolation.salts.items() if name in tallies},
        "passes": [
            {
                "pass": record.name.value,
                "requests": tallies[record.name].requests,
                "abandoned": record.abandoned,
                "reset": record.reset.value if record.reset else None,
            }
            for record in records
        ],
        "warnings": list(warnings),
    }


def _server(facts: ServerFacts) -> dict[str, object]:
    return {
        "engine": facts.detection.profile.name,
        "version": facts.version,
        "server": facts.server,
        "detected_by": facts.detection.detected_by,
        "max_model_len": facts.max_model_len,
        "block_size": facts.block_size,
        "ranks": facts.ranks,
    }


def _digest(salt: str) -> str:
    return hashlib.sha256(salt.encode()).hexdigest()[:16]


def _utc(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _outcome(name: Pass, tally: PassTally, counted: Mapping[str, object], timing: Mapping[str, object]) -> PassOutcome:
    rate, duration = counted["actual_hit_rate"], timing["duration_s"]
    return PassOutcome(
        name=name,
        requests=tally.requests,
        ok=tally.ok,
        failed=tally.requests - tally.ok,
        unreported=tally.unreported,
        designed_hit_ratio=tally.designed_hit_ratio,
        usage_hit_ratio=tally.usage_hit_ratio,
        counter_hit_ratio=rate if isinstance(rate, float) else None,
        duration_s=duration if isinstance(duration, float) else 0.0,
        failures_by_kind=dict(sorted(tally.failures_by_kind.items())),
        first_error=tally.first_error,
    )
