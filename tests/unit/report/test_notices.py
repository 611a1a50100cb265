from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from foreword.collect.ladder import Remainder, RungName
from foreword.report.build import build_document, examine
from foreword.report.document import Cause, Finding, MeasuredBy, Proof, ReportDocument
from foreword.report.load import load_record
from tests.support.run_folder import RunShape

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.unit.report.conftest import MakeRun

METRICS = "runtime/prefix_cache_metrics.json"


def edited(run: Path, name: str, changes: Mapping[str, Any], *, first_pass: bool = False) -> ReportDocument:
    """Report of a run after changing keys of one of its documents, or of the document's first pass."""
    path = run / name
    document = json.loads(path.read_text())
    (document["passes"][0] if first_pass else document).update(changes)
    path.write_text(json.dumps(document))
    record = load_record(run)
    return build_document(record, examine(record))


def codes(document: ReportDocument) -> set[str]:
    """Codes of all notices."""
    return {notice.code for notice in document.notices}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"restarts": [{"url_index": 0, "rank": "0", "metric": "hits"}]}, "COUNTER_RESET"),
        ({"missing": [{"url_index": 1}]}, "METRICS_MISSING"),
        ({"preemptions_delta": 3}, "PREEMPTIONS"),
        ({"derived": True}, "COUNTERS_DERIVED"),
        ({"external_hits_delta": 640, "external_queries_delta": 900}, "EXTERNAL_TIER"),
    ],
)
def test_what_the_counters_tell_is_told(make_run: MakeRun, changes: Mapping[str, Any], code: str) -> None:
    """Restarts, gaps, preemptions, estimates and outer tiers of the server each have their notice."""
    document = edited(make_run(), METRICS, changes, first_pass=True)

    assert codes(document) == {code}


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        (METRICS, {"engine": {"name": "trtllm", "hit_rule": "cap_only"}}, "HIT_RULE_MISMATCH"),
        ("runtime/run.json", {"dataset_id": "another"}, "DATASET_MISMATCH"),
        ("runtime/run.json", {"state": "server_gone"}, "SERVER_GONE"),
        ("runtime/run.json", {"state": "running"}, "INTERRUPTED"),
        ("runtime/run.json", {"warnings": ["http://user:pw@host:1/ was slow"]}, "RUN"),
        ("dataset/manifest.json", {"reencode": {"level": "full", "checked": 60, "wrong": 2}}, "REENCODE"),
    ],
)
def test_mismatches_of_run_and_data_set_are_told(
    make_run: MakeRun, name: str, changes: Mapping[str, Any], code: str
) -> None:
    """Another engine, another data set, warnings of the run and prompts that do not encode are announced."""
    document = edited(make_run(), name, changes)

    assert code in codes(document)
    assert "user:pw" not in document.model_dump_json()


@pytest.mark.parametrize(("scope", "column"), [("global", "planned_share"), ("per_group", "target_hit_ratio")])
def test_a_share_that_the_planner_chose_is_no_target(make_run: MakeRun, scope: str, column: str) -> None:
    """Under one target for all, what a group is to hit is the planner's share; only a group's own is its target."""
    document = edited(make_run(), "dataset/manifest.json", {"target": {"scope": scope, "hit_ratio": 0.5}})

    told = [(row.target_hit_ratio, row.planned_share) for row in document.passes[0].groups]
    assert told == [(0.5, None) if column == "target_hit_ratio" else (None, 0.5)] * 3


def test_only_metrics_that_prove_something_are_missed(make_run: MakeRun) -> None:
    """A server that does not count hits is named in words; gauges and rates that it lacks are nobody's concern."""
    run = make_run()

    quiet = edited(run, METRICS, {"absent": ["evicted_tokens", "external_hits", "reported_rate"]})
    told = edited(run, METRICS, {"absent": ["hits", "reported_rate"]})

    assert codes(quiet) == set()
    assert [notice.message for notice in told.notices] == ["The server's metrics do not show cached tokens served."]


def test_a_client_that_lags_is_told(make_run: MakeRun) -> None:
    """Latencies measured by a client that was itself late come with a warning."""
    lag = {"client": {"loop_lag_ms_p99": 55.0, "send_lag_ms_p99": 1.0}}

    document = edited(make_run(), "runtime/performance_metrics.json", lag, first_pass=True)

    assert codes(document) == {"CLIENT_LAG"}


def test_a_lane_that_was_not_warmed_is_told_and_replayed(make_run: MakeRun) -> None:
    """When the warm-up of a lane failed, the prediction of the hot pass starts that lane cold."""
    run = make_run(RunShape(mode="warmup"))
    path = run / "runtime/request_results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["ok"] = row["ok"] and row["request_id"] != "warm-A-0"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    record = load_record(run)
    document = build_document(record, examine(record))

    rungs = {rung.name: rung.ratio for rung in document.passes[0].ladder.rungs}
    assert codes(document) == {"NOT_WARMED"}
    assert rungs[RungName.SERVED] < rungs[RungName.ENGINE_RULE] == rungs[RungName.DESIGNED]


def test_counters_in_blocks_are_not_taken_for_tokens(make_run: MakeRun) -> None:
    """Counters of another unit measure nothing, compare with nothing, and are named as a cause."""
    run = make_run(RunShape(residual_tokens=48))
    document = edited(run, METRICS, {"unit": "blocks"}, first_pass=True)

    section = document.passes[0]
    units = next(check for check in section.ladder.checks if check.cause is Cause.METRIC_UNIT)
    assert document.headline.measured_by is MeasuredBy.USAGE
    assert [proof.outcome for proof in section.token_proofs[2:]] == [Proof.NOT_REPORTED] * 2
    assert units.finding is Finding.FOUND
    assert section.endpoints == ()


def test_a_page_that_is_gone_is_absent_not_another_unit(make_run: MakeRun) -> None:
    """Counters of an endpoint that stopped answering say nothing: their unit is no cause of a difference."""
    gone: dict[str, Any] = {
        "endpoints": [],
        "queries_delta": None,
        "hits_delta": None,
        "prompt_tokens_delta": None,
        "unit": None,
    }
    gone["missing"] = [{"url_index": 0}]
    document = edited(make_run(RunShape(residual_tokens=48)), METRICS, gone, first_pass=True)

    checks = {check.cause: check.finding for check in document.passes[0].ladder.checks}
    assert checks[Cause.METRIC_UNIT] is Finding.OPEN
    assert checks[Cause.RESTART] is Finding.OPEN


def test_evicted_tokens_are_the_cause_that_is_found(make_run: MakeRun) -> None:
    """A server that counts evictions settles whether capacity took hits away."""
    run = make_run(RunShape(in_flight=4, lost_visibility=True))

    found = edited(run, METRICS, {"evicted_tokens_delta": 320}, first_pass=True)
    clean = edited(run, METRICS, {"evicted_tokens_delta": 0}, first_pass=True)

    capacity = [
        next(check.finding for check in document.passes[0].ladder.checks if check.cause is Cause.CAPACITY)
        for document in (found, clean)
    ]
    assert capacity == [Finding.FOUND, Finding.RULED_OUT]


@pytest.mark.parametrize(
    ("capacities", "finding", "words"),
    [
        ([1_280], Finding.FOUND, "into a cache of 1,280: blocks were evicted"),
        ([640, 640], Finding.FOUND, "into 2 caches of 1,280: blocks were evicted"),
        ([500_000], Finding.RULED_OUT, "fits into 500,000"),
        ([19_500], Finding.OPEN, "evictions not reported"),
        ([], Finding.OPEN, "evictions not reported"),
    ],
)
def test_capacity_is_judged_by_what_was_written(
    make_run: MakeRun, capacities: list[int], finding: Finding, words: str
) -> None:
    """More than fits was evicted; what fits was not; between the two, and without a capacity, nothing is known."""
    run = make_run(RunShape(in_flight=4, lost_visibility=True))
    rows = [json.loads(line) for line in (run / "runtime/request_results.jsonl").read_text().splitlines()]
    written = sum(row["input_len"] - row["cached_tokens"] for row in rows)
    assert 1_280 < written < 19_500 < written + 60 * (16 + 8)

    document = edited(run, METRICS, {"cache_capacity_tokens": capacities})

    check = next(check for check in document.passes[0].ladder.checks if check.cause is Cause.CAPACITY)
    assert check.finding is finding
    assert words in check.evidence
    assert ("EVICTED" in codes(document)) is (finding is Finding.FOUND)
    assert document.facts.cache_capacity_tokens == (sum(capacities) or None)


def test_totals_that_differ_are_shown_as_different(make_run: MakeRun) -> None:
    """Other traffic in the counter window breaks the equality of counters and answers."""
    run = make_run(RunShape(residual_tokens=48))
    document = edited(run, METRICS, {"queries_delta": 99_999, "prompt_tokens_delta": 99_999}, first_pass=True)

    section = document.passes[0]
    window = next(check for check in section.ladder.checks if check.cause is Cause.COUNTER_WINDOW)
    assert [proof.outcome for proof in section.token_proofs] == [
        Proof.EQUAL,
        Proof.DIFFERENT,
        Proof.DIFFERENT,
        Proof.EQUAL,
    ]
    assert window.finding is Finding.FOUND


def test_late_visibility_explains_what_requests_side_by_side_miss(make_run: MakeRun) -> None:
    """Four at once that see nothing of each other: the replay at their times gives what was measured, to the token."""
    run = make_run(RunShape(in_flight=4, lost_visibility=True))
    engine = {"name": "sglang", "hit_rule": "cap_then_floor", "visibility": "forward"}

    ladder = edited(run, METRICS, {"engine": engine}).passes[0].ladder

    served, together, measured = (rung.ratio for rung in ladder.rungs[-3:])
    assert ladder.rungs[-2].name is RungName.CONCURRENCY
    assert served > together == measured
    assert ladder.remainder is Remainder.NONE


def test_a_small_cache_has_a_rung_of_its_own(make_run: MakeRun) -> None:
    """A server that reports room for the largest prompt alone: what it evicts is a step of the ladder."""
    run = make_run(RunShape(in_flight=2))

    ladder = edited(run, METRICS, {"cache_capacity_tokens": [1_600]}).passes[0].ladder

    served, together, bounded, _ = (rung.ratio for rung in ladder.rungs[-4:])
    assert [rung.name for rung in ladder.rungs[-3:-1]] == [RungName.CONCURRENCY, RungName.CAPACITY]
    assert served == together > bounded > 0


def test_a_run_one_by_one_has_no_rung_of_concurrency(make_run: MakeRun) -> None:
    """Nothing happened side by side, and everything fits."""
    document = edited(make_run(RunShape()), METRICS, {"cache_capacity_tokens": [500_000]})

    assert {RungName.CONCURRENCY, RungName.CAPACITY}.isdisjoint(rung.name for rung in document.passes[0].ladder.rungs)
