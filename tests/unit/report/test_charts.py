from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING

import pytest

from foreword.report.charts import pass_charts, plan_charts
from foreword.report.page import STATIC
from tests.support.run_folder import RunShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.report.document import ReportDocument

    ReportOf = Callable[[RunShape], ReportDocument]


def test_charts_are_plain_data(report_of: ReportOf) -> None:
    """Options are JSON without functions, and every colour they name exists in the style sheet."""
    document = report_of(RunShape(mode="compare", dp_size=3))
    charts = [*pass_charts(document.passes[0]), *pass_charts(document.passes[1]), *plan_charts(document)]

    written = json.dumps([chart.option for chart in charts], allow_nan=False)

    defined = set(re.findall(r"--([\w-]+):", (STATIC / "report.css").read_text()))
    assert set(re.findall(r'"\$(\w+)"', written)) <= defined
    assert len({chart.key for chart in charts}) == len(charts) == 12


def test_the_curve_ends_at_the_ratio_of_the_pass(report_of: ReportOf) -> None:
    """The last point of the run's curve is the hit ratio in the headline."""
    document = report_of(RunShape())

    option = pass_charts(document.passes[0])[0].option

    assert option is not None
    designed, measured = (series["data"] for series in option["series"])
    assert designed[-1] == [60, pytest.approx(document.headline.designed_hit_ratio * 100, abs=1e-3)]
    assert measured == designed


def test_what_was_not_reported_is_not_drawn(report_of: ReportOf) -> None:
    """Charts without data say so instead of showing an empty frame."""
    document = report_of(RunShape(usage=False, counters=False))

    drawn = {chart.key: chart.option is not None for chart in pass_charts(document.passes[0])}

    assert drawn == {
        "cumulative-cold": True,
        "pairs-cold": False,
        "ttft-cold": True,
        "share-cold": True,
        "usage-cold": False,
    }


def test_dots_are_sorted_by_equality(report_of: ReportOf) -> None:
    """Requests that hit as predicted and those that did not are different series."""
    document = report_of(RunShape(in_flight=4, lost_visibility=True))

    option = pass_charts(document.passes[0])[1].option

    assert option is not None
    _, equal, different = (series["data"] for series in option["series"])
    assert all(row[0] == row[1] for row in equal)
    assert all(row[0] > row[1] for row in different)
    assert sum(row[2] for row in equal + different) == 60


def test_single_lengths_are_labelled_as_such(report_of: ReportOf) -> None:
    """A bin of one length is one number; wider bins are ranges that meet."""
    option = plan_charts(report_of(RunShape()))[0].option

    assert option is not None
    ends = [tuple(int(part.replace(",", "")) for part in label.split("-")) for label in option["xAxis"]["data"]]
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(ends))
    assert sum(option["series"][0]["data"]) == 60
