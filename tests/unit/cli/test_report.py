from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import main
from tests.support.run_folder import RunShape, write_run

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"prefix_cache_report.json", "prefix_cache_report.html", "requests.csv", "groups.csv"}


def test_a_report_is_written_beside_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The four files stand in report/, and the last line of the summary leads to the page."""
    run = write_run(tmp_path / "run_001", RunShape())

    code = main(["report", "--run-dir", str(run)])

    assert code == 0
    assert {path.name for path in (run / "report").iterdir()} == FILES
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[-1] == f"report: {run / 'report' / 'prefix_cache_report.html'}"
    others = ("prefix_cache_report.json", "requests.csv", "groups.csv")
    assert lines[-4:-1] == [str(run / "report" / name) for name in others]


def test_json_is_the_document_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is what is written."""
    run = write_run(tmp_path / "run_001", RunShape())

    main(["report", "--run-dir", str(run), "--json", "--output", str(tmp_path / "elsewhere")])

    written = json.loads((tmp_path / "elsewhere" / "prefix_cache_report.json").read_text())
    assert json.loads(capsys.readouterr().out) == written
    assert not (run / "report").exists()


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        (RunShape(), 0),
        (RunShape(fails=lambda at: at == 3), 1),
        (RunShape(usage=False, counters=False), 1),
        (RunShape(in_flight=30, lost_visibility=True), 3),
    ],
    ids=["fine", "failure", "unproven", "outside"],
)
def test_strict_turns_findings_into_exit_codes(tmp_path: Path, shape: RunShape, code: int) -> None:
    """A pipeline can stop at warnings and at runs outside their guide; a person gets the report with 0."""
    run = write_run(tmp_path / "run_001", shape)

    assert main(["report", "--run-dir", str(run), "--strict"]) == code
    assert main(["report", "--run-dir", str(run)]) == 0


def test_a_damaged_folder_is_one_line_and_exit_code_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the file."""
    run = write_run(tmp_path / "run_001", RunShape())
    (run / "dataset" / "manifest.json").write_text("{")

    assert main(["report", "--run-dir", str(run)]) == 5

    (line,) = capsys.readouterr().err.splitlines()
    assert "manifest.json" in line


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file where the folder should be is said in one line."""
    run = write_run(tmp_path / "run_001", RunShape())
    (tmp_path / "file").write_text("")

    assert main(["report", "--run-dir", str(run), "--output", str(tmp_path / "file")]) == 2
    assert "cannot write the report" in capsys.readouterr().err
