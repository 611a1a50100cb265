"""A data set whose making was killed outright is finished by ``--resume`` to the bytes of one go."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import main
from tests.support.datasets import FILES, MANIFEST, generate, read_document, small, write_config

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 120


@pytest.mark.parametrize("workers", [1, 2])
def test_kill_nine_in_the_middle(workers: int, tmp_path: Path) -> None:
    """Nothing that stood is lost: the journal's rows stay, the rest is made, and all files are byte-identical."""
    plan = small(request_count=9_000, input_length=300)
    config = write_config(tmp_path / "config.yaml", plan)
    dataset = tmp_path / "killed"
    command = ["generate", "--config", str(config), "--output", str(dataset), "--workers", str(workers)]
    journal = dataset / ".parts" / "journal.jsonl"
    with subprocess.Popen(
        [sys.executable, "-m", "foreword", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as program:
        end = time.monotonic() + PATIENCE_S
        while not (journal.exists() and journal.stat().st_size) and program.poll() is None:
            assert time.monotonic() < end, "no stretch was written"
        program.kill()
    assert read_document(dataset / MANIFEST)["state"] == "incomplete"

    assert main(command) == 2
    assert main([*command, "--resume"]) == 0

    whole = generate(tmp_path / "whole", plan)
    assert {path.name for path in dataset.iterdir()} == set(FILES)
    assert all((dataset / name).read_bytes() == (whole / name).read_bytes() for name in FILES)
