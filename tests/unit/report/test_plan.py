"""A plan as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword import flow
from foreword.config.dataset import DatasetConfig
from foreword.report.plan import plan_document, plan_text
from tests.support.datasets import small

if TYPE_CHECKING:
    from foreword.simulate.design import Design


def planned(**changes: object) -> Design:
    """The plan of the small config with changes."""
    return flow.plan(DatasetConfig.parse(small(prompt_format="completions_ids", **changes), root="x"))


def test_the_verdict_comes_first() -> None:
    """The first line says whether it worked, for which data set, and by how much."""
    first = plan_text(planned()).splitlines()[0]

    assert first.startswith("PASS")
    assert "small" in first
    assert "50.00 %" in first


def test_what_would_help_comes_second() -> None:
    """For a target out of reach the second line names what would reach it."""
    lines = plan_text(planned(target={"hit_ratio": 0.8})).splitlines()

    assert lines[0].startswith("FAIL")
    assert "requests" in lines[1]


def test_the_ladder_counts_tokens_of_both_passes() -> None:
    """Cold and hot pass are given in percent and in tokens."""
    found = planned()
    cold = int(found.prediction.cold_hit.sum())

    text = plan_text(found)

    assert f"{cold:,} of {found.input_tokens:,} tokens" in text
    assert f"{100 * cold / found.input_tokens:.2f} %" in text


def test_many_groups_are_cut_short() -> None:
    """Twenty groups are listed, the others counted; the document has them all."""
    found = planned(prefix={"mode": "multi_prefix", "group_count": 25}, target={"hit_ratio": 0.1})

    lines = plan_text(found).splitlines()

    assert lines[-1].strip() == "and 5 more groups"
    assert len(plan_document(found)["groups"]) == 25


def test_a_group_without_requests_has_no_ratio() -> None:
    """Nothing divided by nothing is a dash, and null in the document."""
    groups = [{"id": "A", "request_count": 40}, {"id": "B", "request_count": 0}]
    found = planned(prefix={"mode": "multi_prefix", "groups": groups})

    line = plan_text(found).splitlines()[-1].split()

    assert line[0] == "B"
    assert line[-1] == "-"
    assert plan_document(found)["groups"][1]["designed_hit_ratio"] is None
