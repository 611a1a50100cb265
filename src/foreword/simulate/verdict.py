"""Construction verdicts: designed against target, in exact fractions (RFC 3.3.17; decision 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from foreword.terms import Reason, Status

if TYPE_CHECKING:
    from foreword.config.dataset import DatasetConfig
    from foreword.workload.reach import Reach

_DECIMALS, _MOST_DECIMALS = 2, 13


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Limits on |designed - target|, and whether the nearest reachable total stands for an unreachable target."""

    passing: Fraction
    warning: Fraction
    allow_nearest: bool

    @classmethod
    def of(cls, config: DatasetConfig) -> Tolerance:
        """Tolerances as the decimals that were written; without a reachability check the nearest total stands."""
        limits = config.validation
        passing, warning = Fraction(str(limits.pass_tolerance)), Fraction(str(limits.warning_tolerance))
        return cls(passing, warning, limits.allow_nearest or not config.planning.reachability_check)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Status, its reason, and one sentence that a person reads."""

    status: Status
    reason: Reason
    message: str


def judge(*, target: Fraction, achieved: Fraction, reach: Reach, block_size: int, tolerance: Tolerance) -> Verdict:
    """Compare what a plan gives with what was asked for."""
    deviation = abs(achieved - target)
    reason = _reason(target, deviation, reach, tolerance)
    unreachable = reason in {Reason.TARGET_UNREACHABLE, Reason.BELOW_FLOOR}
    if unreachable and not tolerance.allow_nearest:
        status = Status.FAIL
    elif deviation <= tolerance.passing:
        status = Status.PASS
    elif deviation <= tolerance.warning:
        status = Status.PASS_WITH_WARNING
    else:
        status = Status.FAIL
    return Verdict(
        status, reason, _message(reason, target, achieved, reach, block_size=block_size, tolerance=tolerance)
    )


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict that decides for all: FAIL before PASS_WITH_WARNING before PASS."""
    severity = (Status.PASS, Status.PASS_WITH_WARNING, Status.FAIL)
    return max(verdicts, key=lambda verdict: severity.index(verdict.status))


def percent(ratio: Fraction | float) -> str:
    """A ratio as people read it: two decimals, and more where they would round to a bound that it does not reach.

    >>> percent(Fraction(9951, 10000)), percent(Fraction(1, 2)), percent(0.999999)
    ('99.51 %', '50.00 %', '99.9999 %')
    """
    for decimals in range(_DECIMALS, _MOST_DECIMALS):
        text = f"{float(ratio) * 100:.{decimals}f}"
        if float(text) not in {0.0, 100.0} or ratio in {0, 1}:
            return f"{text} %"
    return f"{float(ratio) * 100:g} %"


def _told_apart(ratio: Fraction, other: Fraction) -> tuple[str, str]:
    """Two ratios with as many decimals as it takes to see that they differ."""
    for decimals in range(_DECIMALS, _MOST_DECIMALS):
        texts = tuple(f"{float(value) * 100:.{decimals}f} %" for value in (ratio, other))
        if texts[0] != texts[1]:
            return texts[0], texts[1]
    return percent(ratio), percent(other)


def _reason(target: Fraction, deviation: Fraction, reach: Reach, tolerance: Tolerance) -> Reason:
    if target > reach.ceiling:
        return Reason.TARGET_UNREACHABLE
    if target < reach.floor:
        return Reason.BELOW_FLOOR
    return Reason.OK if deviation <= tolerance.passing else Reason.GRANULARITY


def _message(
    reason: Reason, target: Fraction, achieved: Fraction, reach: Reach, *, block_size: int, tolerance: Tolerance
) -> str:
    points = f"{abs(float(achieved - target)) * 100:.4f} pp"
    match reason:
        case Reason.OK:
            return f"designed {percent(achieved)} for a target of {percent(target)}, {points} apart"
        case Reason.TARGET_UNREACHABLE:
            wanted, most = _told_apart(target, reach.ceiling)
            return f"{wanted} cannot be planned: these requests allow at most {most}"
        case Reason.BELOW_FLOOR:
            wanted, least = _told_apart(target, reach.floor)
            return f"{wanted} cannot be planned: the template alone gives {least}"
        case Reason.GRANULARITY:
            needed = math.ceil(block_size / (2 * tolerance.passing)) if tolerance.passing else 0
            more = f"; from about {needed:,} input tokens on half a block is within tolerance" if needed else ""
            return (
                f"the nearest total that blocks of {block_size} tokens allow is {percent(achieved)}, "
                f"{points} from the target over {reach.input_tokens:,} input tokens{more}"
            )
