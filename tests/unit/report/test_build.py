from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from foreword.collect.ladder import Remainder, RungName
from foreword.report.build import build_document, examine
from foreword.report.document import Cause, Doubt, Finding, MeasuredBy, Proof, ReportDocument, Severity
from foreword.report.load import load_record
from foreword.report.view import ladder_view
from foreword.terms import Pass, RuntimeVerdict, Status
from tests.support.run_folder import RunShape, make_plan, serial_hits, warm_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.report.conftest import MakeRun

    ReportOf = Callable[[RunShape], ReportDocument]


def codes(document: ReportDocument) -> set[str]:
    """Codes of the notices that are warnings or alarms."""
    return {notice.code for notice in document.notices if notice.severity is not Severity.NOTE}


def rung(document: ReportDocument, name: RungName, at: int = 0) -> float:
    """Ratio of a rung of a pass."""
    return next(one.ratio for one in document.passes[at].ladder.rungs if one.name is name)


def test_a_serial_run_measures_what_was_designed(report_of: ReportOf) -> None:
    """Request by request and in every total, plan, answers and counters agree."""
    plan = make_plan(RunShape())
    expected = sum(serial_hits(plan, 16)) / sum(one.input_len for one in plan)

    document = report_of(RunShape())

    head, section = document.headline, document.passes[0]
    assert head.designed_hit_ratio == head.engine_rule_hit_ratio == head.measured_hit_ratio == expected
    assert (head.runtime.verdict, head.runtime.deviation_points) == (RuntimeVerdict.WITHIN_GUIDE, 0.0)
    assert head.construction.status is Status.PASS
    assert head.measured_by is MeasuredBy.USAGE
    assert {proof.outcome for proof in section.token_proofs} == {Proof.EQUAL}
    assert section.hit_proof is not None
    assert section.hit_proof.equal == section.hit_proof.compared == 60
    assert section.ladder.remainder is Remainder.NONE
    assert not codes(document)


@pytest.mark.parametrize(
    "shape",
    [
        RunShape(),
        RunShape(mode="compare", in_flight=4, lost_visibility=True, fails=lambda at: at % 9 == 1),
        RunShape(server_block_size=64, residual_tokens=48, added_tokens=3),
    ],
    ids=["plain", "concurrent", "other server"],
)
def test_steps_of_every_ladder_sum_to_measured_minus_target(report_of: ReportOf, shape: RunShape) -> None:
    """Nothing is lost between the rungs."""
    for section in report_of(shape).passes:
        rungs = section.ladder.rungs
        total = sum(one.step_points or 0 for one in rungs)

        assert total == pytest.approx((rungs[-1].ratio - rungs[0].ratio) * 100, abs=1e-9)
        assert (rungs[0].name, rungs[-1].name) == (RungName.TARGET, RungName.MEASURED)


def test_failures_are_replayed_not_blamed_on_the_server(report_of: ReportOf) -> None:
    """The theory of a run with failures is the theory of its successes (X23)."""
    plan = make_plan(RunShape())
    kept = [one for one in plan if one.at not in {0, 7, 20}]
    expected = sum(serial_hits(kept, 16)) / sum(one.input_len for one in kept)

    document = report_of(RunShape(fails=lambda at: at in {0, 7, 20}))

    section = document.passes[0]
    assert rung(document, RungName.SERVED) == rung(document, RungName.MEASURED) == expected
    assert section.ladder.remainder is Remainder.NONE
    assert (section.requests.failed, section.requests.failures_by_kind) == (3, {"timeout": 3})
    assert codes(document) == {"FAILED_REQUESTS"}


def test_a_limited_run_is_judged_by_the_design_of_what_was_sent(report_of: ReportOf) -> None:
    """The first requests hit less than the whole set; a run of them alone is no deviation of the server."""
    document = report_of(RunShape(drops=lambda at: at >= 12, extra={"max_requests": 12}))

    run = document.headline.runtime
    assert run.design_replayed
    assert (run.verdict, run.deviation_points) == (RuntimeVerdict.WITHIN_GUIDE, 0.0)
    assert run.design_hit_ratio == document.headline.measured_hit_ratio != document.headline.designed_hit_ratio
    assert not codes(document)


def test_what_was_not_sent_is_another_step_than_what_failed(report_of: ReportOf) -> None:
    """The first twelve requests, one of them failing: two steps, and a total that is marked as of a part."""
    plan = make_plan(RunShape())[:12]
    kept = [one for one in plan if one.at != 7]
    limits = {"max_requests": 12}

    document = report_of(RunShape(drops=lambda at: at >= 12, fails=lambda at: at == 7, extra=limits))

    ladder = document.passes[0].ladder
    assert rung(document, RungName.SENT) == sum(serial_hits(plan, 16)) / sum(one.input_len for one in plan)
    assert rung(document, RungName.SERVED) == sum(serial_hits(kept, 16)) / sum(one.input_len for one in kept)
    assert ladder_view(ladder).total_note == "informational: 48 requests were not sent"
    assert ladder_view(report_of(RunShape()).passes[0].ladder).total_note == ""


def test_another_block_size_is_an_alarm_and_a_rung(report_of: ReportOf) -> None:
    """A server with other blocks is announced loudly, and its effect is a step of its own."""
    plan = make_plan(RunShape())
    expected = sum(serial_hits(plan, 64)) / sum(one.input_len for one in plan)

    document = report_of(RunShape(server_block_size=64))

    assert rung(document, RungName.BLOCK_SIZE) == rung(document, RungName.MEASURED) == expected
    assert document.notices[0].code == "BLOCK_SIZE_MISMATCH"
    assert document.notices[0].severity is Severity.ALARM


def test_a_cache_that_was_not_empty_is_found(report_of: ReportOf) -> None:
    """Hits of the first request of a lane show what was left in the cache."""
    document = report_of(RunShape(residual_tokens=48))

    checks = {check.cause: check.finding for check in document.passes[0].ladder.checks}
    assert "RESIDUAL_CACHE" in codes(document)
    assert document.passes[0].ladder.remainder is Remainder.UNEXPLAINED
    assert checks[Cause.RESIDUAL_CACHE] is Finding.FOUND
    assert checks[Cause.BLOCK_SIZE] is Finding.RULED_OUT
    assert checks[Cause.CAPACITY] is Finding.RULED_OUT  # it could only lose hits, and here are more


def test_blocks_that_the_server_does_not_report_show_in_its_hits(report_of: ReportOf) -> None:
    """A server with larger blocks than it says gives itself away: every hit is a multiple of them."""
    document = report_of(RunShape(requests=120, server_block_size=64, reports_block_size=False))

    checks = {check.cause: check for check in document.passes[0].ladder.checks}
    assert checks[Cause.BLOCK_SIZE].finding is Finding.FOUND
    assert "multiple of 64" in checks[Cause.BLOCK_SIZE].evidence
    assert checks[Cause.RESIDUAL_CACHE].finding is Finding.RULED_OUT


def test_a_hot_pass_of_a_cold_design_keeps_the_verdict_of_the_design(report_of: ReportOf) -> None:
    """Running another pass than the designed one changes the prediction, not how well the set was built."""
    document = report_of(RunShape(runs="warmup"))

    head = document.headline
    assert (head.pass_name, head.target_is_informational) == (Pass.HOT, True)
    assert head.construction.deviation_points == pytest.approx(
        100 * (sum(serial_hits(make_plan(RunShape()), 16)) / sum(one.input_len for one in make_plan(RunShape())) - 0.5)
    )
    assert head.measured_hit_ratio == head.designed_hit_ratio > 0.5


def test_lost_visibility_is_put_down_to_concurrency(report_of: ReportOf) -> None:
    """Requests side by side miss each other's blocks: a loss within the bound, with the requests listed."""
    document = report_of(RunShape(in_flight=4, lost_visibility=True))

    section = document.passes[0]
    assert section.ladder.remainder is Remainder.NOT_SIMULATED
    assert section.ladder.max_in_flight == 4
    assert section.ladder.concurrency_floor_ratio is not None
    assert section.ladder.concurrency_floor_ratio <= rung(document, RungName.MEASURED) < rung(document, RungName.SERVED)
    assert section.hit_proof is not None
    first = section.hit_proof.different[0]
    assert (first.request_id, first.request_class) == ("r00003", "extends the lane")
    assert first.measured_tokens < first.expected_tokens


def test_nothing_reported_is_unproven_and_never_zero(report_of: ReportOf) -> None:
    """Without cached tokens and counters the verdict is open and every measured figure is absent."""
    document = report_of(RunShape(usage=False, counters=False))

    section = document.passes[0]
    assert document.headline.runtime.verdict is RuntimeVerdict.UNPROVEN
    assert document.headline.measured_hit_ratio is None
    assert {proof.outcome for proof in section.token_proofs} == {Proof.NOT_REPORTED}
    assert section.token_proofs[0].left_tokens == sum(one.input_len for one in make_plan(RunShape()))
    assert (section.hit_proof, section.pairs, section.kv_usage, section.cumulative.measured) == (None,) * 4
    assert {group.measured_hit_ratio for group in section.groups} == {None}
    assert section.computed_is_predicted
    assert codes(document) == {"METRICS_ABSENT", "HITS_NOT_REPORTED"}


def test_counters_alone_prove_the_total(report_of: ReportOf) -> None:
    """A server that reports hits only in its counters is measured by them."""
    document = report_of(RunShape(usage=False))

    assert document.headline.measured_by is MeasuredBy.COUNTERS
    assert document.headline.measured_hit_ratio == document.headline.designed_hit_ratio
    assert document.passes[0].hit_proof is None


def test_zeros_that_a_server_leaves_out_are_proven_by_its_counters(report_of: ReportOf) -> None:
    """Where hits and prompt tokens of the answers equal the counters, an absent figure is a zero, and said so."""
    document = report_of(RunShape(omits_zeros=True))

    section = document.passes[0]
    assert document.headline.measured_by is MeasuredBy.USAGE
    assert section.hit_proof is not None
    assert section.hit_proof.equal == section.hit_proof.compared == 60
    assert "ZEROS_LEFT_OUT" in {notice.code for notice in document.notices}
    assert not codes(document)


def test_zeros_that_may_be_left_out_prove_nothing_without_counters(report_of: ReportOf) -> None:
    """Counting only the answers that report hits would flatter the server: the run is unproven."""
    document = report_of(RunShape(omits_zeros=True, counters=False))

    assert document.headline.measured_hit_ratio is None
    assert document.headline.runtime.verdict is RuntimeVerdict.UNPROVEN
    assert codes(document) == {"METRICS_ABSENT", "PARTIAL_USAGE"}


def test_a_run_of_failures_is_reported(report_of: ReportOf) -> None:
    """When every request failed there is a report, and it proves nothing."""
    document = report_of(RunShape(fails=lambda _at: True))

    section = document.passes[0]
    assert document.headline.runtime.verdict is RuntimeVerdict.UNPROVEN
    assert (section.requests.succeeded, section.requests.failed) == (0, 60)
    assert "no request of the cold pass succeeded" in document.headline.sentence
    assert section.ladder.rungs[-1].name is RungName.ENGINE_RULE
    assert section.ttft_by_computed == ()


def test_a_run_that_mostly_failed_is_unproven_and_says_why(report_of: ReportOf) -> None:
    """Below nine tenths of successes a ratio proves nothing; above, failures are still named."""
    few = report_of(RunShape(fails=lambda at: at >= 53)).headline
    most = report_of(RunShape(fails=lambda at: at >= 54)).headline

    assert few.runtime.verdict is RuntimeVerdict.UNPROVEN
    assert few.runtime.doubt is Doubt.FEW_SUCCEEDED
    assert "only 53 of 60 requests of the cold pass succeeded, too few to prove" in few.sentence
    assert (most.runtime.verdict, most.runtime.doubt) == (RuntimeVerdict.WITHIN_GUIDE, None)
    assert most.sentence.endswith("6 of 60 requests failed; the first: timeout.")


def test_the_first_failure_is_told_in_the_servers_words(make_run: MakeRun) -> None:
    """The reason of the first failure is in the headline, unless it may hold a key, a path or an address."""
    run = make_run(RunShape(fails=lambda at: at == 3))
    path = run / "runtime/request_results.jsonl"
    path.write_text(path.read_text().replace("Bearer sk-secret refused", "HTTP 400: no rank 1"))
    record = load_record(run)

    head = build_document(record, examine(record)).headline

    assert head.sentence.endswith("1 of 60 requests failed; the first: HTTP 400: no rank 1.")


def test_a_pass_that_was_not_sent_is_named_and_another_one_shown(report_of: ReportOf) -> None:
    """A comparison that ended before its hot pass shows the cold one, by name, and proves nothing of the hot one."""
    shape = RunShape(mode="compare", semantics="static_prefix_ratio", runs="cold", extra={"mode": "compare"})
    head = report_of(shape).headline

    assert (head.pass_name, head.designed_pass) == (Pass.COLD, Pass.HOT)
    assert (head.runtime.verdict, head.runtime.doubt) == (RuntimeVerdict.UNPROVEN, Doubt.NOT_SENT)
    assert "no request of the hot pass, which it is designed for, was sent" in head.sentence
    assert "In the cold pass the server served" in head.sentence
    assert head.measured_hit_ratio is not None


def test_a_wrong_block_size_is_in_the_headline_and_not_green(report_of: ReportOf) -> None:
    """Within the guide or not: a data set planned in other blocks does not test what it was designed for."""
    head = report_of(RunShape(server_block_size=32)).headline

    assert abs(head.runtime.deviation_points or 99) < 5
    assert (head.runtime.verdict, head.runtime.doubt) == (RuntimeVerdict.UNPROVEN, Doubt.BLOCK_SIZE)
    assert "planned in blocks of 16, but the server has blocks of 32 tokens" in head.sentence


def test_an_interrupted_run_covers_what_was_recorded(report_of: ReportOf) -> None:
    """Requests that were never sent are counted and left out of the replay."""
    document = report_of(RunShape(state="interrupted", drops=lambda at: at >= 30))

    section = document.passes[0]
    assert section.requests.not_sent == 30
    assert rung(document, RungName.SERVED) == rung(document, RungName.MEASURED) < rung(document, RungName.DESIGNED)
    assert codes(document) == {"INTERRUPTED", "NOT_SENT"}


def test_an_interrupted_run_without_any_result_is_reported(report_of: ReportOf) -> None:
    """A run that was stopped before its first answer has a report of its plan."""
    document = report_of(RunShape(state="interrupted", drops=lambda _at: True))

    assert document.passes[0].requests.not_sent == 60
    assert document.passes[0].ladder.max_in_flight is None
    assert document.headline.measured_hit_ratio is None


@pytest.mark.parametrize(("semantics", "designed"), [("order_aware_global", "cold"), ("static_prefix_ratio", "hot")])
def test_compare_states_two_theories(report_of: ReportOf, semantics: str, designed: str) -> None:
    """Each pass has its own prediction; the semantics say which of them was designed."""
    shape = RunShape(mode="compare", semantics=semantics)
    plan = make_plan(shape)
    total = sum(one.input_len for one in plan)

    document = report_of(shape)

    assert rung(document, RungName.DESIGNED, 0) == sum(serial_hits(plan, 16)) / total
    assert rung(document, RungName.DESIGNED, 1) == sum(serial_hits(plan, 16, warm_rows(plan))) / total
    assert document.headline.pass_name == designed
    assert document.comparison is not None
    assert [saving.statistic for saving in document.comparison.ttft] == ["mean", "p50", "p90", "p95", "p99"]
    assert document.comparison.ttft[0].cold_ms > document.comparison.ttft[0].hot_ms


def test_every_table_splits_the_same_requests(report_of: ReportOf) -> None:
    """Rows by group, class, lane and domain each sum to the whole."""
    total = sum(one.input_len for one in make_plan(RunShape(dp_size=2)))

    section = report_of(RunShape(dp_size=2)).passes[0]

    for table in (section.groups, section.classes, section.lanes, section.domains):
        assert sum(row.requests for row in table) == 60
        assert sum(row.input_tokens for row in table) == total
    assert len(section.lanes) == 6
    assert [row.name for row in section.domains] == ["dp 0", "dp 1"]
    assert [endpoint.rank for endpoint in section.endpoints] == ["0", "1"]


def test_guide_is_wider_for_several_caches(report_of: ReportOf) -> None:
    """Several prefixes on several instances or ranks may deviate by ten points (RFC 3.3.21)."""
    assert report_of(RunShape(dp_size=2)).headline.runtime.guide_points == 10
    assert report_of(RunShape()).headline.runtime.guide_points == 5


def test_a_deviation_past_the_guide_is_outside(report_of: ReportOf) -> None:
    """A server that loses a third of the hits is outside the guide."""
    document = report_of(RunShape(in_flight=30, lost_visibility=True))

    assert document.headline.runtime.verdict is RuntimeVerdict.OUTSIDE_GUIDE
    assert document.headline.runtime.deviation_points is not None
    assert document.headline.runtime.deviation_points < -5


def test_extra_prompt_tokens_are_a_step(report_of: ReportOf) -> None:
    """Tokens that the server counted beyond the plan are noticed and replayed."""
    document = report_of(RunShape(added_tokens=3))

    assert "PROMPT_TOKENS_DIFFER" in codes(document)
    assert rung(document, RungName.ADDED_TOKENS) == rung(document, RungName.MEASURED)


def test_the_document_survives_its_own_schema(report_of: ReportOf) -> None:
    """What is written can be read again, and the JSON schema names every part."""
    document = report_of(RunShape(mode="compare"))

    again = ReportDocument.model_validate_json(document.model_dump_json())

    assert again == document
    assert json.loads(document.model_dump_json())["schema_version"] == 1
    assert set(ReportDocument.model_json_schema()["properties"]) == set(ReportDocument.model_fields)


def test_no_secret_and_no_path_is_in_the_document(report_of: ReportOf) -> None:
    """Error texts, addresses and folders of the machine stay out of the report."""
    written = report_of(RunShape(fails=lambda at: at == 3)).model_dump_json()

    assert not [word for word in ("sk-secret", "Bearer", "http://", "/home/", "9f0c") if word in written]


def test_cold_and_hot_passes_come_in_the_order_of_the_run(report_of: ReportOf) -> None:
    """The cold pass is listed first, whichever was designed."""
    document = report_of(RunShape(mode="compare", semantics="static_prefix_ratio"))

    assert [section.pass_name for section in document.passes] == [Pass.COLD, Pass.HOT]
