from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.report import series
from foreword.report.build import examine
from foreword.report.load import load_record
from foreword.report.records import PlanRow, plan_arrays
from foreword.report.text import pairs_caption
from tests.support.run_folder import RunShape

if TYPE_CHECKING:
    import pytest

    from tests.unit.report.conftest import MakeRun


def rows(lengths: list[int], *, group: str = "A") -> list[PlanRow]:
    """Plan rows whose shared part is half of the prompt."""
    return [
        PlanRow(request_id=f"r{at}", prefix_group_id=group, input_len=n, planned_prefix_len=n // 2, expected_hit_len=0)
        for at, n in enumerate(lengths)
    ]


def test_equal_lengths_are_one_bin() -> None:
    """A fixed length is a single bar."""
    lengths = series.lengths(plan_arrays(rows([512] * 9)))

    assert (lengths.edges, lengths.requests) == ((512, 513), (9,))
    assert (lengths.mean, lengths.p50, lengths.p99) == (512, 512, 512)


def test_every_length_falls_into_a_bin() -> None:
    """Bins of whole tokens cover shortest and longest prompts, few enough to be read."""
    values = [100 + 7 * at for at in range(500)]

    lengths = series.lengths(plan_arrays(rows(values)))

    assert sum(lengths.requests) == 500
    assert lengths.edges[0] == 100
    assert lengths.edges[-1] > values[-1]
    assert len(lengths.requests) <= 24


def test_watermarks_keep_only_their_rises() -> None:
    """A lane's curve has one point for each request that extends it."""
    section = series.watermarks(plan_arrays(rows([100, 60, 200, 200, 120])))

    (lane,) = section.lanes
    assert (lane.order_index, lane.tokens) == ((0, 2), (50, 100))


def test_only_the_largest_lanes_are_drawn() -> None:
    """Of many lanes those with most requests are shown, and the number of all is kept."""
    many = [row for at in range(30) for row in rows([64] * (at % 5 + 1), group=f"g{at:02d}")]
    plan = plan_arrays(many)

    section = series.watermarks(plan)

    assert len(section.lanes) == 8
    assert section.lanes_total == 30
    assert {lane.lane for lane in section.lanes} >= {f"g{at:02d}" for at in range(4, 30, 5)}


def test_too_many_pairs_are_thinned_and_said_to_be(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit differing pairs are kept first, and the caption says how many are drawn."""
    (evidence,) = examine(load_record(make_run(RunShape(in_flight=4, lost_visibility=True))))
    whole = series.pairs(evidence)
    monkeypatch.setattr(series, "PAIRS_SHOWN", 12)

    thinned = series.pairs(evidence)

    assert whole is not None
    assert thinned is not None
    assert thinned.pairs_total == whole.pairs_total > len(thinned.predicted) == 12
    assert "12 of" in pairs_caption(len(thinned.predicted), thinned.pairs_total)
    assert "differing ones first" in pairs_caption(len(thinned.predicted), thinned.pairs_total)


def test_long_curves_keep_their_ends(make_run: MakeRun) -> None:
    """A curve of many requests is thinned, from the first request to the last."""
    (evidence,) = examine(load_record(make_run(RunShape(requests=450))))

    curve = series.cumulative(evidence)

    assert (curve.requests[0], curve.requests[-1], len(curve.requests)) == (1, 450, 400)


def test_bins_of_tokens_to_compute_hold_every_request_with_a_first_token(make_run: MakeRun) -> None:
    """The bins together hold each success once, and their quantiles are in order."""
    (evidence,) = examine(load_record(make_run(RunShape(fails=lambda at: at % 10 == 3))))

    bins, predicted = series.ttft_by_computed(evidence)

    assert not predicted
    assert sum(one.requests for one in bins) == 54
    assert all(one.p50_ms <= one.p90_ms for one in bins)
    assert np.all(np.diff([one.low for one in bins]) > 0)


def test_more_tokens_to_compute_take_longer_whatever_the_share(make_run: MakeRun) -> None:
    """On a server that takes as long for each token, a long prompt with many hits is no slower than a short one."""
    (evidence,) = examine(load_record(make_run()))

    bins, _ = series.ttft_by_computed(evidence)

    medians = [one.p50_ms for one in bins]
    assert len(bins) > 4
    assert medians == sorted(medians)


def test_bins_of_hit_share_hold_every_request_and_fall_with_the_share(make_run: MakeRun) -> None:
    """Per prompt token, a larger share from the cache means an earlier first token on a server that only computes."""
    (evidence,) = examine(load_record(make_run()))

    bins = series.ttft_by_share(evidence)

    assert sum(one.requests for one in bins) == int(evidence.results.ok.sum())
    assert [one.low for one in bins] == sorted(one.low for one in bins)
    assert bins[0].p50_ms_per_1000_tokens > bins[-1].p50_ms_per_1000_tokens
