"""``foreword replay`` as a person meets it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import main
from tests.support.groups import ROOT
from tests.support.replaying import document, group, instance

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = {"type": "request", "instance_id": "a", "timestamp_ns": 10, "keys": [1, 2], "input_len": 9}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config beside its trace: two equal requests, the second in the file before the first."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    rows = [REQUEST | {"timestamp_ns": 20}, REQUEST]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_example_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the repository gives a line for each instance and tier, and files for each instance."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")

    code = main(["replay", "--config", str(tmp_path / "examples" / "replay_three_tiers.json")])

    output = tmp_path / "outputs" / "replay_three_tiers"
    said = capsys.readouterr().out
    assert code == 0
    assert {path.name for path in output.resolve().iterdir()} == {
        "instance-a_hit_rates.csv",
        "instance-b_hit_rates.csv",
        "report.html",
        "summary.json",
    }
    assert "instance-a: hit ratio 0.655539 (3,456 of 5,272 tokens, 34 reads)" in said
    assert said.count("tier 0 hbm") == 2


def test_json_is_the_summary(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--json`` prints what ``summary.json`` holds, and where the files are."""
    code = main(["replay", "--config", str(config), "--json", "--series", "none"])

    printed = json.loads(capsys.readouterr().out)
    output = config.parent / "results"
    assert code == 0
    assert printed == {"output": str(output), **json.loads((output / "summary.json").read_text("utf-8"))}
    assert printed["total"]["hit_tokens"] == 8
    assert not list(output.glob("*.csv"))


def test_moved_and_skipped_rows_are_warned_of(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the replay did to rows stands on stderr, a line each."""
    with (config.parent / "trace.jsonl").open("a", encoding="utf-8") as trace:
        trace.write("nonsense\n" + json.dumps(REQUEST | {"instance_id": "b"}) + "\n")

    code = main(["replay", "--config", str(config), "--on-error", "skip"])

    assert code == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: skipped rows: 1 (instance_id: not in the config)",
        "warning: skipped rows: 1 (json: not a line of JSON)",
        "warning: moved rows: 2 (they stood after later ones)",
    ]


def test_a_group_above_its_quota_is_warned_of(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sample of nothing never evicts, so the group stays above."""
    pool = group(1, instances=[instance(policy="random_lru", sample_rate=1000)])
    config.write_text(json.dumps(document(pool)), encoding="utf-8")

    assert main(["replay", "--config", str(config)]) == 0
    assert "warning: group g above a quota after checks: 2" in capsys.readouterr().err


def test_a_bad_row_leaves_nothing_behind(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 5, and neither folder nor file."""
    (config.parent / "trace.jsonl").write_text("\n" + json.dumps(REQUEST | {"keys": [1, 2, 3]}), encoding="utf-8")

    code = main(["replay", "--config", str(config), "--output", str(config.parent / "out")])

    assert code == 5
    assert capsys.readouterr().err == (
        f"foreword: {config.parent / 'trace.jsonl'}:2: keys: more than input_len fills blocks, "
        "got 3 keys for 9 tokens in blocks of 4\n"
    )
    assert not (config.parent / "out").exists()


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf"])
def test_a_prefill_has_a_positive_speed(config: Path, speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without one no TTFT can be estimated."""
    assert main(["replay", "--config", str(config), "--prefill-tokens-per-s", speed]) == 2
    assert "--prefill-tokens-per-s must be a positive number" in capsys.readouterr().err


def test_the_schema_needs_no_config(capsys: pytest.CaptureFixture[str]) -> None:
    """``--print-schema`` prints a JSON schema."""
    assert main(["replay", "--print-schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ReplayConfig"


def test_a_replay_needs_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one, the command is used wrongly."""
    assert main(["replay"]) == 2
    assert "needs --config" in capsys.readouterr().err
