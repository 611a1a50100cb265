"""The exact outputs of the reference optimizer, case by case, through the command line."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import main
from foreword.simulate.cores import misfit
from foreword.simulate.replay import Replay
from foreword.store.replays import load_replay_config
from tests.support.groups import data_folder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.data

FOLDER = data_folder() / "golden" / "replay"
CASES = sorted(path.name for path in FOLDER.glob("*/") if (path / "config.json").exists())
REFUSED = [name for name in CASES if (FOLDER / name / "expected_error.json").exists()]
REPLAYED = [name for name in CASES if name not in REFUSED]


def table(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file; the order of its columns is kept."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def same(ours: list[dict[str, str]], expected: list[dict[str, str]]) -> list[str]:
    """Differences: names and order of columns, integers as written, ratios to six significant digits."""
    if len(ours) != len(expected):
        return [f"{len(ours)} rows, not {len(expected)}"]
    wrong = []
    for number, (row, other) in enumerate(zip(ours, expected, strict=True)):
        wrong += [f"row {number}: columns"] * (list(row) != list(other))
        for name, value in other.items():
            equal = f"{float(row[name]):.6g}" == f"{float(value):.6g}" if name.endswith("Rate") else row[name] == value
            if not equal:
                wrong.append(f"row {number} {name}: {row[name]}, not {value}")
    return wrong


def test_there_are_cases_of_both_kinds() -> None:
    """The folder holds what its index lists."""
    listed = {case["case"]: case["exit"] for case in json.loads((FOLDER / "index.json").read_text("utf-8"))}

    assert set(listed) == set(CASES)
    assert {name for name, code in listed.items() if code} == set(REFUSED)


def replays_on() -> list[tuple[str, str]]:
    """Each case on the plain core, and on the compiled one where it fits."""
    fitting = {name for name in REPLAYED if misfit(Replay(load_replay_config(FOLDER / name / "config.json"))) is None}
    return [(name, "reference") for name in REPLAYED] + [(name, "compiled") for name in sorted(fitting)]


@pytest.mark.parametrize(("case", "core"), replays_on())
def test_a_replay_gives_what_the_reference_gives(case: str, core: str, tmp_path: Path) -> None:
    """Every file that the reference wrote is written with the same values, and no series beyond them."""
    config = str(FOLDER / case / "config.json")
    code = main(["replay", "--config", config, "--output", str(tmp_path), "--lifecycle", "--core", core])

    expected = {path.name for path in (FOLDER / case / "expected").iterdir()}
    assert code == 0
    assert json.loads((tmp_path / "summary.json").read_text("utf-8"))["core"] == core
    assert {path.name for path in tmp_path.glob("*_hit_rates.csv")} == {n for n in expected if "hit_rates" in n}
    for name in sorted(expected):
        assert same(table(tmp_path / name), table(FOLDER / case / "expected" / name)) == [], name


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_row_or_config_ends_with_one_line_and_no_file(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Config errors exit with 2, rows with 5; nothing is exported."""
    output = tmp_path / "results"
    code = main(["replay", "--config", str(FOLDER / case / "config.json"), "--output", str(output)])

    said = capsys.readouterr()
    assert code == (2 if "_cfg_" in case or "_flow_" in case else 5)
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert not output.exists()
