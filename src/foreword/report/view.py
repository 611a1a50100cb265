"""How the ladder is shown: rounded so that the printed steps sum to the printed difference, and drawn to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.collect.ladder import Remainder, RungName
from foreword.report import text
from foreword.report.document import Finding
from foreword.report.wording import CAUSES

if TYPE_CHECKING:
    from foreword.report.document import LadderSection

MINIMUM_SPAN_POINTS = 2.0
MARGIN = 0.08


@dataclass(frozen=True, slots=True)
class LadderRow:
    """One rung as it is printed; positions are percent of the width of the drawing."""

    name: str
    note: str
    ratio: str
    step: str
    tone: str
    hit_tokens: int | None
    input_tokens: int | None
    at: float
    measured: bool
    bar_left: float
    bar_width: float


@dataclass(frozen=True, slots=True)
class LadderView:
    """The ladder as it is printed; ``low`` and ``high`` are the ends of its scale, in percent."""

    rows: tuple[LadderRow, ...]
    low: str
    high: str
    total: str
    total_note: str
    remainder: str
    bound: str


def ladder_view(ladder: LadderSection) -> LadderView:
    """Rows with steps between *printed* ratios, so that the column adds up on paper too."""
    shown = [round(rung.ratio * 100, 2) for rung in ladder.rungs]
    low, high = _scale(shown)
    rows = []
    for at, (rung, value) in enumerate(zip(ladder.rungs, shown, strict=True)):
        before = shown[at - 1] if at else value
        change = round(value - before, 2)
        rows.append(
            LadderRow(
                name=text.RUNGS[rung.name],
                note=rung.note,
                ratio=text.percent(value / 100),
                step=text.points(change) if at else "",
                tone=_tone(change),
                hit_tokens=rung.hit_tokens,
                input_tokens=rung.input_tokens,
                at=_position(value, low, high),
                measured=rung.name is RungName.MEASURED,
                bar_left=_position(min(value, before), low, high),
                bar_width=round(abs(change) / (high - low) * 100, 3),
            )
        )
    measured = ladder.rungs[-1].name is RungName.MEASURED
    return LadderView(
        rows=tuple(rows),
        low=f"{low:.1f} %",
        high=f"{high:.1f} %",
        total=text.points(round(shown[-1] - shown[0], 2)) if measured else text.NOT_REPORTED,
        total_note=text.partly(ladder.not_sent) if measured else "",
        remainder=_remainder(ladder, rows[-1].step) if measured else text.NO_REMAINDER,
        bound=_bound(ladder),
    )


def _remainder(ladder: LadderSection, step: str) -> str:
    causes = {
        finding: [CAUSES[check.cause] for check in ladder.checks if check.finding is finding]
        for finding in (Finding.FOUND, Finding.OPEN)
    }
    return text.remainder(ladder.remainder, step, found=causes[Finding.FOUND], left=causes[Finding.OPEN])


def _bound(ladder: LadderSection) -> str:
    """What concurrency alone can cost, where the ladder knows it."""
    floor = ladder.concurrency_floor_ratio
    if floor is None or ladder.remainder is Remainder.NONE or floor >= ladder.rungs[-2].ratio:
        return ""
    return text.concurrency_bound(ladder.max_in_flight or 0, floor)


def _scale(values: list[float]) -> tuple[float, float]:
    """Ends of the scale: a margin around the values, never narrower than ``MINIMUM_SPAN_POINTS``."""
    middle, span = (min(values) + max(values)) / 2, max(max(values) - min(values), MINIMUM_SPAN_POINTS)
    half = span * (0.5 + MARGIN)
    low = max(0.0, min(middle - half, 100.0 - 2 * half))
    return low, min(100.0, low + 2 * half)


def _position(value: float, low: float, high: float) -> float:
    return round((value - low) / (high - low) * 100, 3)


def _tone(change: float) -> str:
    return "none" if change == 0 else "gain" if change > 0 else "loss"
