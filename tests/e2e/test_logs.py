"""Logs: seven kinds, structured, with levels, and never a prompt, key or address (RFC 3.4.1, 3.4.3)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.server.running import server_process
from tests.support.datasets import DATA, METADATA, read_rows, small, write_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "sk-very-secret-0042"


@pytest.fixture(autouse=True)
def _quiet_afterwards() -> Iterator[None]:
    """Handlers of one command do not reach the next test."""
    yield
    root = logging.getLogger("foreword")
    for handler in [*root.handlers]:
        root.removeHandler(handler)
        handler.close()


def lines(path: Path) -> list[dict[str, Any]]:
    """Log lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_whole_chain_writes_all_seven_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generating, running and reporting leave each kind with its figures, and nothing that is private."""
    monkeypatch.setenv("FOREWORD_TEST_KEY", SECRET)
    config, log = write_config(tmp_path / "config.yaml", small()), tmp_path / "logs" / "foreword.jsonl"
    to_file = ["--log-file", str(log)]
    dataset = tmp_path / "dataset"
    assert main(["generate", "--config", str(config), "--output", str(dataset), *to_file]) == 0
    with server_process(ServerConfig(port=0, decode_tokens_per_s=None)) as url:
        where = ["--url", url, "--api-key-env", "FOREWORD_TEST_KEY", "--output", str(tmp_path / "run")]
        assert main(["run", "--dataset", str(dataset), *where, *to_file]) == 0
    assert main(["report", "--run-dir", str(tmp_path / "run"), *to_file]) == 0

    told = lines(log)
    kinds = {line["logger"] for line in told}
    names = ("config", "lengths", "planning", "collisions", "simulation", "metrics", "report")
    assert kinds == {f"foreword.{name}" for name in names}
    by_kind = {line["logger"].removeprefix("foreword."): line for line in told}
    metadata = read_rows(dataset / METADATA)
    assert by_kind["lengths"]["sum"] == sum(row["input_len"] for row in metadata)
    assert by_kind["simulation"]["designed_hit_tokens"] == sum(row["expected_hit_len"] for row in metadata)
    assert by_kind["collisions"]["first_block_conflicts"] == 0
    assert by_kind["metrics"]["ok"] == 40
    assert by_kind["report"]["designed"] == by_kind["simulation"]["designed_hit_ratio"]
    text = log.read_text(encoding="utf-8")
    assert SECRET not in text
    assert url not in text
    assert str(tmp_path) not in text
    assert all(row["prompt"][:30] not in text for row in read_rows(dataset / DATA))


def test_an_error_is_logged_with_its_context(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stage, data set, field and advice are fields; the line on stderr stays one line."""
    plan = small(max_model_len=100)
    config, log = write_config(tmp_path / "config.yaml", plan), tmp_path / "foreword.jsonl"

    code = main(["generate", "--config", str(config), "--output", str(tmp_path / "set"), "--log-file", str(log)])

    assert code == 2
    error = lines(log)[-1]
    assert error["level"] == "error"
    wanted = {"stage": "planning", "dataset_id": "small", "field": "max_model_len", "error": "ConfigError"}
    assert wanted.items() <= error.items()
    assert error["advice"]
    assert error["request_id"].startswith("r0")
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("error", False)])
def test_levels_choose_what_is_shown(
    level: str,
    shown: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Figures are of level info; stdout stays the result alone."""
    config = write_config(tmp_path / "config.yaml", small())

    assert main(["plan", "--config", str(config), "--json", "--log-level", level]) == 0

    out, err = capsys.readouterr()
    assert json.loads(out)
    assert ("prefixes planned" in err) is shown


def test_without_asking_nothing_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A library user who configures nothing sees nothing."""
    config = write_config(tmp_path / "config.yaml", small())

    assert main(["plan", "--config", str(config)]) == 0

    assert capsys.readouterr().err == ""
