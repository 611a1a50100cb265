from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from foreword.errors import DataError
from foreword.report.build import examine
from foreword.report.load import load_record
from foreword.terms import Pass

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.report.conftest import MakeRun

REQUIRED = (
    "dataset/manifest.json",
    "dataset/request_metadata.jsonl",
    "runtime/request_results.jsonl",
    "runtime/run.json",
)
OPTIONAL = ("runtime/prefix_cache_metrics.json", "runtime/performance_metrics.json")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_file_is_named(make_run: MakeRun, name: str) -> None:
    """A run folder without one of its files is damaged data, and the message says which file."""
    folder = make_run()
    (folder / name).unlink()

    with pytest.raises(DataError, match=name.rpartition("/")[2]) as caught:
        load_record(folder)

    assert caught.value.exit_code == 5


@pytest.mark.parametrize("name", [*REQUIRED, *OPTIONAL])
def test_a_damaged_file_is_named(make_run: MakeRun, name: str) -> None:
    """Half a file is damaged data, whichever file it is."""
    folder = make_run()
    path = folder / name
    path.write_text('{"schema_version": 1, "half": \n' + path.read_text()[:400] + "\n")

    with pytest.raises(DataError, match=name.rpartition("/")[2]):
        load_record(folder)


def test_a_damaged_line_is_named_by_its_number(make_run: MakeRun) -> None:
    """The message leads to the line."""
    folder = make_run()
    path = folder / "dataset/request_metadata.jsonl"
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace('"input_len": ', '"input_len": "many", "was": ')
    path.write_text("\n".join(lines) + "\n")

    with pytest.raises(DataError, match=r"request_metadata\.jsonl:5"):
        load_record(folder)


def test_an_empty_plan_is_damaged_data(make_run: MakeRun) -> None:
    """A data set without requests cannot be reported."""
    folder = make_run()
    (folder / "dataset/request_metadata.jsonl").write_text("")

    with pytest.raises(DataError, match="holds no request"):
        load_record(folder)


def test_something_else_is_no_run_folder(tmp_path: Path) -> None:
    """A folder that is no run says so."""
    with pytest.raises(DataError, match="is no run folder"):
        load_record(tmp_path)


def test_a_killed_run_without_summaries_can_be_read(make_run: MakeRun) -> None:
    """Summaries that were not written are absent, and so is the row that was cut off."""
    folder = make_run()
    for name in OPTIONAL:
        (folder / name).unlink()
    path = folder / "runtime/request_results.jsonl"
    path.write_text(path.read_text()[:-40])

    record = load_record(folder)

    assert (record.metrics, record.performance, record.row_cut_off, len(record.results)) == (None, {}, True, 59)


def test_fields_of_later_releases_are_ignored(make_run: MakeRun) -> None:
    """A folder that a newer release wrote stays readable."""
    folder = make_run()
    path = folder / "runtime/run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"novelty": {"deep": [1, 2]}}))

    assert load_record(folder).run.dataset_id == "demo-set"


def test_passes_may_be_a_mapping(make_run: MakeRun) -> None:
    """Sections by pass are read from a list and from a mapping alike."""
    folder = make_run()
    path = folder / "runtime/performance_metrics.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"passes": {section.pop("pass"): section for section in raw["passes"]}}))

    assert load_record(folder).performance[Pass.COLD]["qps"] == 48.3


@pytest.mark.parametrize("passes", ['"cold"', '[{"pass": "lukewarm"}]', '[{"qps": 1}]', '[{"pass": []}]'])
def test_a_section_must_say_which_pass_it_is(make_run: MakeRun, passes: str) -> None:
    """Figures without a pass are damaged data."""
    folder = make_run()
    path = folder / "runtime/performance_metrics.json"
    path.write_text('{"schema_version": 1, "passes": ' + passes + "}")

    with pytest.raises(DataError, match=r"performance_metrics\.json is damaged"):
        load_record(folder)


@pytest.mark.parametrize("part", ['"ITL": "99"', '"TTFT": {"failure_adjusted": 1}', '"counts": [1]', '"client": "x"'])
def test_figures_of_another_shape_are_damaged_data(make_run: MakeRun, part: str) -> None:
    """A part that should be an object and is none is told, not stumbled over."""
    folder = make_run()
    path = folder / "runtime/performance_metrics.json"
    path.write_text('{"schema_version": 1, "passes": [{"pass": "cold", ' + part + "}]}")

    with pytest.raises(DataError, match="another shape"):
        load_record(folder)


@pytest.mark.parametrize("name", ["dataset/request_metadata.jsonl", "runtime/request_results.jsonl"])
def test_a_number_beyond_all_arrays_is_damaged_data(make_run: MakeRun, name: str) -> None:
    """An integer that no 64-bit column holds is named by its line."""
    folder = make_run()
    path = folder / name
    lines = path.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "input_len": 2**70})
    path.write_text("\n".join(lines) + "\n")

    with pytest.raises(DataError, match=r"jsonl:2"):
        load_record(folder)


def test_a_result_of_another_data_set_is_refused(make_run: MakeRun) -> None:
    """Results of requests that were never planned cannot be explained."""
    folder = make_run()
    path = folder / "runtime/request_results.jsonl"
    path.write_text(path.read_text().replace('"r00003"', '"stranger"'))

    with pytest.raises(DataError, match="'stranger' is not in the data set"):
        examine(load_record(folder))
