"""Groups of tests that need something from outside: what each needs and how to run it.

A group that cannot run is left out and named at the end of the run. ``FOREWORD_REQUIRE`` lists the groups whose
absence is a failure.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TOKENIZER_NAMES = ("qwen", "deepseek", "sp32000")


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that share one need; ``missing`` says in a phrase what is not there, or is empty."""

    name: str
    how: str
    missing: Callable[[], str]


def data_folder() -> Path:
    """Folder of the test data: ``FOREWORD_TEST_DATA``, or ``shared`` beside the repository."""
    return Path(os.environ.get("FOREWORD_TEST_DATA", ROOT.parent / "shared")).resolve()


def folder_of(variable: str) -> Path | None:
    """The folder that an environment variable names, if it is set and exists."""
    value = os.environ.get(variable, "")
    return Path(value).resolve() if value and Path(value).is_dir() else None


def chromium_binary() -> str | None:
    """Path of the first Chromium on PATH."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def tokenizer_path(name: str) -> Path | None:
    """The ``tokenizer.json`` kept as ``NAME.json`` in the folder of ``FOREWORD_TOKENIZERS``."""
    folder = folder_of("FOREWORD_TOKENIZERS")
    path = folder / f"{name}.json" if folder else None
    return path if path and path.is_file() else None


def _no_data() -> str:
    folder = data_folder()
    return "" if (folder / "data").is_dir() else f"no folder {folder}/data"


def _no_browser() -> str:
    return "" if chromium_binary() else "no chromium on PATH"


def _no_tokenizers() -> str:
    absent = [f"{name}.json" for name in TOKENIZER_NAMES if tokenizer_path(name) is None]
    return f"FOREWORD_TOKENIZERS has no {', '.join(absent)}" if absent else ""


def _no_folder(*variables: str) -> str:
    absent = [name for name in variables if folder_of(name) is None]
    return f"{' and '.join(absent)} not set to a folder" if absent else ""


GROUPS: Mapping[str, Group] = {
    group.name: group
    for group in (
        Group("data", "make test FOREWORD_TEST_DATA=FOLDER", _no_data),
        Group("browser", "install a chromium, then make test", _no_browser),
        Group(
            "mocker",
            "make test FOREWORD_MOCKER_VENV=FOLDER FOREWORD_TINY_MODEL=FOLDER",
            lambda: _no_folder("FOREWORD_MOCKER_VENV", "FOREWORD_TINY_MODEL"),
        ),
        Group("tokenizers", "make test FOREWORD_TOKENIZERS=FOLDER", _no_tokenizers),
        Group("real", "make test-real", lambda: _no_folder("VLLM_VENV", "FOREWORD_TINY_MODEL")),
        Group("sglang", "make test-real", lambda: _no_folder("SGLANG_VENV", "FOREWORD_TINY_MODEL")),
    )
}


def required_groups() -> frozenset[str]:
    """Names in ``FOREWORD_REQUIRE``; an unknown name is an error."""
    names = frozenset(filter(None, os.environ.get("FOREWORD_REQUIRE", "").replace(" ", "").split(",")))
    if unknown := names - GROUPS.keys():
        message = f"FOREWORD_REQUIRE names unknown groups: {', '.join(sorted(unknown))}"
        raise ValueError(message)
    return names
