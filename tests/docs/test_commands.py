"""What the documents tell a reader to type works as written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.documents import commands, pages, run
from tests.support.groups import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_work_in_order(page: Path, tmp_path: Path) -> None:
    """The runnable blocks of a page, typed one after the other into one shell, all succeed."""
    done = run(commands(page), tmp_path)

    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def test_the_readme_has_commands_to_run() -> None:
    """The README's tour is among the checked pages."""
    assert ROOT / "README.md" in pages()
