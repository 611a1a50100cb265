"""How commands begin and end: version, help, failures and broken pipes."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

import pytest

from foreword import flow
from foreword._version import __version__
from foreword.cli.app import COMMANDS, main
from foreword.cli.options import print_json, print_warnings
from foreword.errors import ConstructionError
from tests.support.datasets import small, write_config

if TYPE_CHECKING:
    from pathlib import Path


def planned_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: BaseException) -> int:
    """Exit code of ``foreword plan`` where planning fails in this way."""

    def fail(_config: object) -> NoReturn:
        raise failure

    monkeypatch.setattr(flow, "plan", fail)
    return main(["plan", "--config", str(write_config(tmp_path / "config.yaml", small()))])


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """--version prints the package's version and nothing else."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """--help lists the commands and what exit codes mean."""
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in out] == []
    assert "130 interrupted" in " ".join(out.split())


@pytest.mark.parametrize("arguments", [["frobnicate"], ["plan"], ["plan", "--config"], ["plan", "x.yaml", "y.yaml"]])
def test_a_wrong_command_line_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown commands and missing or extra arguments are exit 2 with a pointer to the help."""
    assert main(arguments) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("foreword: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("failure", "code", "line"),
    [
        (
            ConstructionError("no words", advice="get some", stage="content"),
            3,
            "foreword: content: no words (get some)",
        ),
        (KeyboardInterrupt(), 130, "foreword: interrupted"),
        (
            OSError(errno.ENOSPC, "No space left on device", "data.jsonl"),
            2,
            "foreword: data.jsonl: No space left on device",
        ),
        (
            MemoryError(),
            2,
            "foreword: this needs more memory than there is (ask for fewer or shorter requests)",
        ),
    ],
    ids=["product", "interrupt", "disk", "memory"],
)
def test_a_failure_is_one_line_and_a_code(
    failure: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whatever ends a command, its user reads one line at most."""
    assert planned_with(monkeypatch, tmp_path, failure) == code
    assert capfd.readouterr().err.strip() == line


def test_a_closed_pipe_is_no_failure(tmp_path: Path) -> None:
    """A reader that has seen enough ends the command quietly."""
    config = write_config(tmp_path / "config.yaml", small(prefix={"mode": "multi_prefix", "group_count": 40}))
    command = f"{sys.executable} -m foreword plan --json --config {config} | head -c 1"

    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout == "{"


def test_json_is_readable_and_keeps_its_letters(capsys: pytest.CaptureFixture[str]) -> None:
    """Documents are printed as they are, Chinese text included."""
    print_json({"text": "苹果", "n": 1})

    out = capsys.readouterr().out
    assert json.loads(out) == {"text": "苹果", "n": 1}
    assert "苹果" in out


def test_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Each warning is a line that does not disturb what is piped on."""
    print_warnings(["one", "two"])

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "warning: one\nwarning: two\n")
