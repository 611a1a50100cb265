"""What the command line may not pay for before it knows the command."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"aiohttp", "numba", "numpy", "polars", "pydantic", "structlog", "tokenizers"}


def imported_by(*arguments: str) -> set[str]:
    """Top-level packages that ``python -m foreword ARGUMENTS`` imports, from the interpreter's own import log."""
    command = [sys.executable, "-X", "importtime", "-m", "foreword", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_help_loads_no_heavy_library() -> None:
    """``foreword --help`` answers without loading any library that takes long to load."""
    loaded = imported_by("--help")

    assert "foreword" in loaded
    assert loaded & HEAVY == set()


def test_version_loads_no_heavy_library() -> None:
    """``foreword --version`` answers as cheaply as the help."""
    assert imported_by("--version") & HEAVY == set()
