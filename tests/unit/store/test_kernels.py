"""Where compiled code is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from numba.core import config

import foreword
from foreword.store import kernels

if TYPE_CHECKING:
    import pytest

ADD_ONE = """
import numba
from foreword.store.kernels import kept_kernels
with kept_kernels():
    @numba.njit(cache=True)
    def add_one(value):
        return value + 1
print(add_one(1), add_one._cache.cache_path, numba.config.CACHE_DIR)
"""


def _run(environment: dict[str, str], folder: Path) -> list[str]:
    (folder / "program.py").write_text(ADD_ONE)
    source = str(Path(foreword.__file__).parents[1])
    without = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, folder / "program.py"],
        env={**without, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_compiled_code_stands_in_the_cache_of_the_user(tmp_path: Path) -> None:
    """Only what is imported inside is kept there; Numba's own setting is as before."""
    answer, place, *setting = _run({"FOREWORD_CACHE_DIR": str(tmp_path / "cache")}, tmp_path)

    assert answer == "2"
    assert Path(place).is_relative_to(tmp_path / "cache" / "kernels")
    assert setting == []
    assert any((tmp_path / "cache").rglob("*.nbi"))


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    """Code is compiled for the process alone."""
    (tmp_path / "cache").write_text("no folder")

    answer, place = _run({"FOREWORD_CACHE_DIR": str(tmp_path / "cache")}, tmp_path)

    assert answer == "2"
    assert not Path(place).exists()


def test_the_folder_that_numba_was_given_is_used(tmp_path: Path) -> None:
    """``NUMBA_CACHE_DIR`` is the user's word."""
    answer, place, setting = _run({"NUMBA_CACHE_DIR": str(tmp_path / "numba")}, tmp_path)

    assert answer == "2"
    assert Path(place).is_relative_to(setting)


def test_a_changed_source_is_compiled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels are parts of each other, so that a change in one file makes all of them new."""
    monkeypatch.setenv("FOREWORD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(vars(config), "CACHE_DIR", "")
    (tmp_path / "cache").mkdir()
    source = tmp_path / "lists.py"
    source.write_text("# one")
    monkeypatch.setattr(kernels, "_PACKAGE", tmp_path)
    monkeypatch.setattr(kernels, "_SOURCES", ("lists.py",))

    with kernels.kept_kernels():
        before = vars(config)["CACHE_DIR"]
    source.write_text("# two")
    with kernels.kept_kernels():
        after = vars(config)["CACHE_DIR"]

    assert before != after
