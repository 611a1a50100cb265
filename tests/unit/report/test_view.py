from __future__ import annotations

import pytest

from foreword.collect.ladder import Remainder, RungName
from foreword.report.document import LadderSection, RungSection
from foreword.report.view import ladder_view


def ladder(*ratios: float, last: RungName = RungName.MEASURED) -> LadderSection:
    """A ladder of these ratios."""
    names = [RungName.TARGET, *[RungName.SERVED] * (len(ratios) - 2), last]
    rungs = [
        RungSection(name=name, ratio=ratio, hit_tokens=None, input_tokens=None, step_points=None, note="")
        for name, ratio in zip(names, ratios, strict=True)
    ]
    return LadderSection(
        rungs=tuple(rungs),
        not_sent=0,
        remainder=Remainder.NONE,
        max_in_flight=None,
        concurrency_floor_ratio=None,
        checks=(),
    )


def test_printed_steps_add_up_although_ratios_are_rounded() -> None:
    """Three steps of a third of a hundredth print as what lies between the printed ratios."""
    view = ladder_view(ladder(0.50, 0.500033, 0.500066, 0.5001))

    assert [row.step.replace("\u00a0", " ") for row in view.rows] == ["", "±0.00 pp", "+0.01 pp", "±0.00 pp"]
    assert view.total.replace("\u00a0", " ") == "+0.01 pp"


@pytest.mark.parametrize("ratios", [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.2, 0.9), (0.001, 0.0, 0.999)])
def test_every_rung_lies_inside_its_drawing(ratios: tuple[float, float, float]) -> None:
    """Bars and marks stay between the ends of the scale, whatever the ratios."""
    view = ladder_view(ladder(*ratios))

    for row in view.rows:
        assert 0 <= row.at <= 100
        assert 0 <= row.bar_left <= row.bar_left + row.bar_width <= 100.01


def test_small_steps_are_not_blown_up() -> None:
    """A hundredth of a point is a hairline, not a bar across the page."""
    view = ladder_view(ladder(0.5, 0.5001, 0.5))

    assert max(row.bar_width for row in view.rows) < 1


def test_a_ladder_without_measurement_has_no_total() -> None:
    """What was not measured is not summed."""
    view = ladder_view(ladder(0.5, 0.5, last=RungName.SERVED))

    assert view.total == "not reported"
