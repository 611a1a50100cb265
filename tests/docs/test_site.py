"""The documentation builds."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.groups import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Sphinx, with warnings as errors, makes a page with the project's name."""
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(tmp_path / "site")], check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "Foreword" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
