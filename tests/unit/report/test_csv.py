from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from foreword.report.build import build_document, examine
from foreword.report.csv import groups_csv, requests_csv
from foreword.report.load import load_record
from tests.support.run_folder import RunShape, make_plan, serial_hits

if TYPE_CHECKING:
    from tests.unit.report.conftest import MakeRun


def test_every_request_has_a_row(make_run: MakeRun) -> None:
    """The table holds plan, prediction and measurement of each request, in send order."""
    evidence = examine(load_record(make_run(RunShape())))

    rows = list(csv.DictReader(requests_csv(evidence).splitlines()))

    plan = make_plan(RunShape())
    assert [row["request_id"] for row in rows] == [one.request_id for one in plan]
    assert [int(row["cached_tokens"]) for row in rows] == serial_hits(plan, 16)
    assert [row["predicted_hit_tokens"] for row in rows] == [row["cached_tokens"] for row in rows]


def test_absent_numbers_are_empty_cells(make_run: MakeRun) -> None:
    """A failed request has no measured number, not a zero."""
    evidence = examine(load_record(make_run(RunShape(fails=lambda at: at == 4, drops=lambda at: at == 5))))

    rows = list(csv.DictReader(requests_csv(evidence).splitlines()))

    assert len(rows) == 59
    failed = rows[4]
    assert failed["ok"] == "false"
    assert {failed[name] for name in ("prompt_tokens", "cached_tokens", "predicted_hit_tokens", "ttft_ms")} == {""}


def test_every_group_and_pass_has_a_row(make_run: MakeRun) -> None:
    """The group table covers both passes of a comparison."""
    record = load_record(make_run(RunShape(mode="compare")))
    evidence = examine(record)

    rows = list(csv.DictReader(groups_csv(build_document(record, evidence)).splitlines()))

    assert [(row["pass"], row["prefix_group_id"]) for row in rows] == [
        (name, group) for name in ("cold", "hot") for group in "ABC"
    ]
    assert all(float(row["measured_hit_ratio"]) == float(row["predicted_hit_ratio"]) for row in rows)
