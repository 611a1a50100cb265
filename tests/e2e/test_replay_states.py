"""A trace in two parts, through a saved state, against the whole trace in one run."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.replaying import document, group, instance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = "ab"
CUT = 60


def trace_rows(*, delay_ns: int) -> list[dict[str, Any]]:
    """Rows of all kinds, some of an instance that nobody knows, with gaps around the delay of writes."""
    draws, now, rows = random.Random(delay_ns), 0, []  # noqa: S311 - a trace, not a secret
    for _ in range(2 * CUT):
        now += draws.choice([1, 1, delay_ns // 2, 2 * delay_ns])
        length = draws.randint(1, 8)
        path = draws.choice([[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 9, 10, 11, 12, 13, 14]])[:length]
        kind = draws.choice(["get", "write", "request", "request"])
        row = {"type": kind, "instance_id": draws.choice(NAMES * 3 + "?"), "timestamp_ns": now, "keys": path}
        rows.append(row | {"input_len": 4 * length + 1, "ttl_us": draws.choice([0, 1])})
    return rows


def config_of(folder: Path, *, delay_ns: int) -> Path:
    """Three tiers, two policies."""
    pool = group(
        tiers=[3, 4, 6],
        strategy={"write_mode": "cascading"},
        instances=[instance("a", policy="ttl"), instance("b")],
        default_block_ttl_seconds=1,
    )
    path = folder / "r.json"
    path.write_text(json.dumps(document(pool, batch=2, write_delay_ns=delay_ns)), encoding="utf-8")
    return path


def replay(config: Path, rows: list[dict[str, Any]], output: str, *options: str) -> dict[str, bytes]:
    """Files of a replay of these rows, by name."""
    trace = config.parent / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    folder = config.parent / output
    code = main(["replay", "--config", str(config), "--output", str(folder), "--lifecycle", "--json", *options])
    assert code == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def without_core(files: dict[str, bytes]) -> dict[str, bytes]:
    """Files without the name of the core that ran last."""
    return {name: re.sub(rb"reference|compiled", b"", content) for name, content in files.items()}


@pytest.mark.parametrize("delay_ns", [1, 5, 10**9])
@pytest.mark.parametrize("core", ["reference", "compiled"])
def test_two_replays_through_a_state_are_one(core: str, delay_ns: int, tmp_path: Path) -> None:
    """Every file of the second run is that of one run: rows, totals, lives, page; writes that waited included."""
    config, rows, state = config_of(tmp_path, delay_ns=delay_ns), trace_rows(delay_ns=delay_ns), tmp_path / "s.json"

    whole = replay(config, rows, "whole", "--core", "reference")
    part = replay(config, rows[:CUT], "first", "--core", core, "--save-state", str(state))
    first = replay(config, rows[:CUT], "alone", "--core", "reference")
    second = replay(config, rows[CUT:], "second", "--load-state", str(state))

    assert without_core(second) == without_core(whole)
    assert without_core(part) == without_core(first)
    assert json.loads(second["summary.json"])["trace"]["rows"] == 2 * CUT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state[:-40], "is no saved state"),
        (lambda state: b"nothing", "is no saved state"),
        (lambda state: state.replace(b'"held":[', b'"held":[1,'), "damaged"),
        (lambda state: state.replace(b'"schema_version":1', b'"schema_version":9', 1), "only 1 is known"),
    ],
)
def test_a_damaged_state_is_an_error_of_one_line(
    change: Callable[[bytes], bytes],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file is named, and nothing is written."""
    config, state = config_of(tmp_path, delay_ns=1), tmp_path / "s.json"
    replay(config, trace_rows(delay_ns=1)[:CUT], "first", "--save-state", str(state))
    state.write_bytes(change(state.read_bytes()))
    capsys.readouterr()

    code = main(["replay", "--config", str(config), "--output", str(tmp_path / "no"), "--load-state", str(state)])

    said = capsys.readouterr().err
    assert code == 5
    assert said.startswith(f"foreword: {state}: ")
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "no").exists()


def test_a_state_of_another_config_names_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first key, with both values; recording other things is another config too."""
    config, state = config_of(tmp_path, delay_ns=1), tmp_path / "s.json"
    replay(config, trace_rows(delay_ns=1)[:CUT], "first", "--save-state", str(state))
    changed = json.loads(config.read_text("utf-8"))
    changed["instance_groups"][0]["used_percentage"] = 0.5
    other = tmp_path / "other.json"
    other.write_text(json.dumps(changed), encoding="utf-8")
    capsys.readouterr()

    codes = [main(["replay", "--config", str(each), "--load-state", str(state)]) for each in (other, config)]

    first, second = capsys.readouterr().err.splitlines()
    assert codes == [2, 2]
    assert "instance_groups.0.used_percentage is 1.0 there and 0.5 here" in first
    assert "lifecycle is true there and false here" in second


def test_a_trace_has_to_follow_the_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of one run stand in the order of their times, so an earlier trace cannot go on from a later one."""
    config, state, rows = config_of(tmp_path, delay_ns=1), tmp_path / "s.json", trace_rows(delay_ns=1)
    replay(config, rows[CUT:], "first", "--save-state", str(state))
    (tmp_path / "trace.jsonl").write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    capsys.readouterr()

    code = main(["replay", "--config", str(config), "--lifecycle", "--load-state", str(state)])

    assert code == 5
    assert "before the end of the state" in capsys.readouterr().err


def test_the_optimal_policy_has_no_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would have to know a trace that is not there yet."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document(group(3, instances=[instance(policy="optimal")]))), encoding="utf-8")

    assert main(["replay", "--config", str(path), "--save-state", str(tmp_path / "s")]) == 2
    assert "optimal knows the future of one trace only" in capsys.readouterr().err
