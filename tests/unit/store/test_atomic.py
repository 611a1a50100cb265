"""Files that are replaced in one step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from foreword.store.atomic import replace_file

if TYPE_CHECKING:
    from pathlib import Path


def test_the_new_content_takes_the_name(tmp_path: Path) -> None:
    """A file is made or replaced, and nothing else is left beside it."""
    path = tmp_path / "report.json"

    replace_file(path, b"old")
    replace_file(path, b"new")

    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("report.json", b"new")]


def test_a_full_disk_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the new content cannot be stored the old one stands, and half of the new one does not."""
    path = tmp_path / "report.json"
    replace_file(path, b"old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")

    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("report.json", b"old")]
