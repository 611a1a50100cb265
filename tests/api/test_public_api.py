"""The names that ``import foreword`` promises."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

foreword = importlib.import_module("foreword")


@pytest.mark.parametrize("name", foreword.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    """A name in ``__all__`` can be imported and is found by ``dir``."""
    assert getattr(foreword, name) is not None
    assert name in dir(foreword)


def test_the_promised_names_are_sorted_and_unique() -> None:
    """``__all__`` reads like an index."""
    assert list(foreword.__all__) == sorted(set(foreword.__all__))


def test_nothing_else_looks_public() -> None:
    """What has no underscore is promised, a submodule, or an import that every module may have."""
    others = {name for name in vars(foreword) if not name.startswith("_")} - set(foreword.__all__)
    modules = {name for name in others if f"foreword.{name}" in sys.modules}

    assert others - modules <= {"annotations", "TYPE_CHECKING", "importlib"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name fails as it does for any module."""
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = foreword.no_such_name


def test_the_version_is_that_of_the_distribution() -> None:
    """The version in the code is the version of what is installed."""
    assert foreword.__version__ == importlib.metadata.version("foreword")


def test_importing_the_package_loads_no_dependency() -> None:
    """``import foreword`` is cheap: names load their modules on first use."""
    code = "import sys, foreword; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert not {"numpy", "pydantic", "polars", "aiohttp", "tokenizers", "structlog"} & set(done.stdout.split())
