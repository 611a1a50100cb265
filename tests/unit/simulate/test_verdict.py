"""Verdicts at their exact borders."""

from __future__ import annotations

from fractions import Fraction

import pytest

from foreword.config.dataset import DatasetConfig
from foreword.simulate.verdict import Tolerance, Verdict, judge, percent, worst
from foreword.terms import Reason, Status
from foreword.workload.reach import Reach


def _tolerance(**changes: object) -> Tolerance:
    smallest = {"dataset_id": "d", "request_count": 1, "input_length": 100, "target": {"hit_ratio": 0.5}}
    return Tolerance.of(DatasetConfig.model_validate({**smallest, **changes}))


STRICT = _tolerance()
LENIENT = _tolerance(validation={"allow_nearest": True})
WIDE = Reach(0, 100_000, 100_000)


def _judged(target: str, achieved: str, *, reach: Reach = WIDE, tolerance: Tolerance = STRICT) -> Verdict:
    return judge(target=Fraction(target), achieved=Fraction(achieved), reach=reach, block_size=16, tolerance=tolerance)


def test_tolerances_are_the_decimals_that_were_written() -> None:
    """0.01 is one hundredth, not its nearest binary fraction."""
    assert (STRICT.passing, STRICT.warning) == (Fraction(1, 100), Fraction(2, 100))


@pytest.mark.parametrize(
    ("achieved", "status", "reason"),
    [
        ("0.5", Status.PASS, Reason.OK),
        ("0.51", Status.PASS, Reason.OK),
        ("0.49", Status.PASS, Reason.OK),
        ("0.5100000000000001", Status.PASS_WITH_WARNING, Reason.GRANULARITY),
        ("0.48", Status.PASS_WITH_WARNING, Reason.GRANULARITY),
        ("0.52", Status.PASS_WITH_WARNING, Reason.GRANULARITY),
        ("0.5200000000000001", Status.FAIL, Reason.GRANULARITY),
        ("0.4799999999999999", Status.FAIL, Reason.GRANULARITY),
    ],
)
def test_one_point_passes_and_two_warn_exactly(achieved: str, status: Status, reason: Reason) -> None:
    """The border belongs to the better side, without a float's edge (X21)."""
    verdict = _judged("0.5", achieved)

    assert (verdict.status, verdict.reason) == (status, reason)


def test_an_unreachable_target_fails_however_near_it_is() -> None:
    """0.9952 with a ceiling of 0.9951 is FAIL with its reason, unless the nearest is allowed (X21)."""
    reach = Reach(0, 9951, 10_000)

    strict = _judged("0.9952", "0.9951", reach=reach)
    lenient = _judged("0.9952", "0.9951", reach=reach, tolerance=LENIENT)
    far = _judged("0.9999", "0.9", reach=Reach(0, 90, 100), tolerance=LENIENT)

    assert (strict.status, strict.reason) == (Status.FAIL, Reason.TARGET_UNREACHABLE)
    assert (lenient.status, lenient.reason) == (Status.PASS, Reason.TARGET_UNREACHABLE)
    assert far.status is Status.FAIL
    assert "99.51 %" in strict.message


def test_without_a_reachability_check_the_nearest_total_stands() -> None:
    """``planning.reachability_check: false`` judges an unreachable target by its distance alone."""
    assert _tolerance(planning={"reachability_check": False}) == LENIENT


def test_a_target_on_the_ceiling_is_reachable() -> None:
    """Equal is not above."""
    assert _judged("0.9951", "0.9951", reach=Reach(0, 9951, 10_000)).reason is Reason.OK


def test_a_target_below_the_floor_says_what_the_template_gives() -> None:
    """A template alone may give more than was asked for."""
    verdict = _judged("0.01", "0.016", reach=Reach(16, 900, 1000))

    assert (verdict.status, verdict.reason) == (Status.FAIL, Reason.BELOW_FLOOR)
    assert "1.60 %" in verdict.message
    assert _judged("0.016", "0.016", reach=Reach(16, 900, 1000)).reason is Reason.OK


def test_coarse_blocks_name_the_block_size_and_what_would_do() -> None:
    """Decision 2: half a block of 16 is within 1 point from 800 input tokens on."""
    verdict = _judged("0.5", "0.44", reach=Reach(0, 90, 100))

    assert verdict.reason is Reason.GRANULARITY
    assert "blocks of 16 tokens" in verdict.message
    assert "800" in verdict.message


def test_no_tolerance_at_all_is_legal() -> None:
    """A tolerance of 0 asks for exactness."""
    exact = _tolerance(validation={"pass_tolerance": 0, "warning_tolerance": 0})

    assert _judged("0.5", "0.5", tolerance=exact).status is Status.PASS
    assert _judged("0.5", "0.500001", tolerance=exact).status is Status.FAIL


def test_the_worst_verdict_decides() -> None:
    """FAIL before a warning before PASS; of equals the first."""
    passed, warned, failed = (_judged("0.5", value) for value in ("0.5", "0.515", "0.6"))

    assert worst([passed, warned, failed, passed]) is failed
    assert worst([passed, warned]) is warned
    assert worst([passed]) is passed


@pytest.mark.parametrize(
    ("ratio", "text"), [("0", "0.00 %"), ("0.5", "50.00 %"), ("1", "100.00 %"), ("0.99509765625", "99.51 %")]
)
def test_ratios_are_read_as_percent(ratio: str, text: str) -> None:
    """Two decimals of a percent."""
    assert percent(Fraction(ratio)) == text


@pytest.mark.parametrize(("ratio", "bound"), [("0.999999", "100.00 %"), ("0.000001", "0.00 %")])
def test_a_percentage_is_never_rounded_to_a_bound_that_it_does_not_reach(ratio: str, bound: str) -> None:
    """Nearly all is not all, and nearly nothing is not nothing."""
    assert percent(Fraction(ratio)) != bound
