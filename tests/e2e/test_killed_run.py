"""A run that is killed outright leaves rows that can be explained."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.server.running import server_process
from tests.support.datasets import generate, read_document, read_rows, small

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 60


def test_what_a_killed_run_left_is_reported(tmp_path: Path) -> None:
    """The folder says what it is from the start and keeps every row; the report says that the run did not end."""
    dataset, run = generate(tmp_path / "dataset", small()), tmp_path / "run"
    slow = ServerConfig(port=0, prefill_tokens_per_s=2_000.0, decode_tokens_per_s=100.0)

    with server_process(slow) as url:
        command = [
            sys.executable,
            "-m",
            "foreword",
            "run",
            "--dataset",
            str(dataset),
            "--url",
            url,
            "--output",
            str(run),
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _until_rows(run / "runtime" / "request_results.jsonl", process)
        process.kill()
        process.wait()

    sent = len(read_rows(run / "runtime" / "request_results.jsonl"))
    assert read_document(run / "runtime" / "run.json")["state"] == "running"
    assert main(["report", "--run-dir", str(run)]) == 0
    document = read_document(run / "report" / "prefix_cache_report.json")
    assert any(notice["code"] == "INTERRUPTED" for notice in document["notices"])
    assert document["passes"][0]["requests"]["succeeded"] in {sent - 1, sent}


def _until_rows(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the run has recorded a few requests."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and process.poll() is None:
        if path.is_file() and path.read_bytes().count(b"\n") >= 3:
            return
        time.sleep(0.02)
    raise AssertionError("the run recorded nothing, or ended by itself")
