"""The benchmark program of the replay, on a trace that is over at once."""

from __future__ import annotations

import subprocess
import sys

from tests.support.groups import ROOT


def test_the_benchmark_measures_every_case() -> None:
    """Reading, each core figure and the plain LRU have a line; the peer that is not there is said to be left out."""
    command = [sys.executable, str(ROOT / "bench" / "replay.py"), "--requests", "200", "--rounds", "1", "--large", "0"]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    lines = done.stdout.splitlines()
    assert len(lines) == 19
    assert "libcachesim: left out" in lines[-2]
    assert all(float(line.split()[-1].rstrip("x")) >= 0 for line in lines[1:-2])
