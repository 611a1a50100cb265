"""Every example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import foreword

MODULES = sorted(module.name for module in pkgutil.walk_packages(foreword.__path__, "foreword."))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_docstring_examples_show_what_happens(name: str) -> None:
    """The examples of a module print what its docstrings say."""
    outcome = doctest.testmod(importlib.import_module(name))

    assert outcome.failed == 0
