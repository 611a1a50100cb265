"""What happens to tests whose group cannot run."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.groups import GROUPS, ROOT


def suite(folder: str, **variables: str) -> tuple[int, str]:
    """Run part of the suite where no group has what it needs; exit code and output."""
    gone = {"FOREWORD_MOCKER_VENV", "FOREWORD_TOKENIZERS", "FOREWORD_REQUIRE", "VLLM_VENV", "FOREWORD_TINY_MODEL"}
    env = {name: value for name, value in os.environ.items() if name not in gone and not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", folder]
    done = subprocess.run(command, cwd=ROOT, env={**env, **variables}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_group_that_cannot_run_is_left_out_and_named() -> None:
    """Without the mocker its tests are skipped, and the end says how to run them."""
    code, output = suite("tests/e2e/test_mocker.py")

    assert code == 0
    assert " skipped" in output
    assert GROUPS["mocker"].how in output


def test_a_required_group_that_cannot_run_is_a_failure() -> None:
    """``FOREWORD_REQUIRE=mocker`` turns the same tests into failures."""
    code, output = suite("tests/e2e/test_mocker.py", FOREWORD_REQUIRE="mocker")

    assert code == 1
    assert "group mocker is required" in output


def test_a_required_group_without_tests_is_a_failure() -> None:
    """A run that was to include a group, and met none of its tests, is not a success."""
    code, output = suite("tests/unit/test_cli_imports.py", FOREWORD_REQUIRE="mocker")

    assert code == 1
    assert "none of its tests ran" in output


def test_a_misspelt_group_is_refused() -> None:
    """An unknown name in ``FOREWORD_REQUIRE`` stops the run before any test."""
    code, output = suite("tests/unit/test_cli_imports.py", FOREWORD_REQUIRE="mokcer")

    assert code == 4
    assert "unknown groups: mokcer" in output
