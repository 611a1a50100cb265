"""Commands that a document marks as runnable, and one shell to run them in.

A fenced block counts when the line before it is ``<!-- runnable -->``. In a ``console`` block the commands are the
lines that start with ``$``; in a ``sh`` or ``bash`` block every line is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.groups import ROOT

BLOCK = re.compile(r"<!-- runnable -->\n+```(\w+)[^\n]*\n(.*?)```", re.DOTALL)
LIMIT_S = 300
PRELUDE = "set -euo pipefail\ntrap 'jobs -p | xargs -r kill 2>/dev/null || true' EXIT\n"


def pages() -> list[Path]:
    """The README and every page of the documentation that has runnable blocks."""
    candidates = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in candidates if "_build" not in page.parts and commands(page)]


def commands(page: Path) -> list[str]:
    """The runnable commands of a page, in order, one string a block."""
    found = []
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = body.splitlines()
        if language == "console":
            lines = [line.removeprefix("$ ").removeprefix("> ") for line in lines if line.startswith(("$ ", "> "))]
        found.append("\n".join(lines))
    return found


def run(blocks: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the blocks in one shell, in a folder that has the examples of the repository."""
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", folder / "examples")
    script = PRELUDE + "\n".join(blocks) + "\n"
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
