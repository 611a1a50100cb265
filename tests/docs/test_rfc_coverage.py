"""The page of what the RFC asks for names modules and tests that exist, and every ID once."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rfc-coverage.md"
IDS = (
    *(f"G{number}" for number in range(1, 23)),
    *(f"U2.{number}" for number in range(1, 9)),
    *(f"L3.1.{number}" for number in range(1, 7)),
    *(f"T3.2.{number}" for number in range(1, 7)),
    *(f"F3.3.{number}" for number in range(1, 24)),
    *(f"S3.4.{number}" for number in range(1, 7)),
    *(f"P3.5.1-{number}" for number in range(1, 6)),
    "P3.5.2",
    *(f"P3.5.3-{number}" for number in range(1, 5)),
    "P-B",
    *(f"X{number}" for number in range(1, 31)),
    *(f"key {number}" for number in range(1, 25)),
)


def rows() -> list[list[str]]:
    """Cells of every row of every table, headers left out."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0].strip("| ") != "ID"]


@cache
def _names_in(path: Path) -> frozenset[str]:
    """Names of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_line_of_the_rfc_is_on_the_page_once() -> None:
    """In the order of the RFC, up to the data set; the page says "partly" nowhere."""
    assert tuple(row[0].strip("| ") for row in rows()) == IDS
    assert "partly" not in PAGE.read_text(encoding="utf-8").lower()


def test_the_modules_that_the_page_names_exist() -> None:
    """Each row names at least one module below src/foreword."""
    named = {row[0]: re.findall(r"`([a-z_/]+\.py)`", row[2]) for row in rows()}

    assert [id_ for id_, modules in named.items() if not modules] == []
    missing = {module for modules in named.values() for module in modules}
    assert {module for module in missing if not (ROOT / "src" / "foreword" / module).is_file()} == set()


def test_the_tests_that_the_page_names_exist() -> None:
    """Each row names at least one test, by file and function."""
    named = {row[0]: re.findall(r"`([a-z_/0-9]+\.py)::(\w+)`", row[3]) for row in rows()}

    assert [id_ for id_, tests in named.items() if not tests] == []
    every = {test for tests in named.values() for test in tests}
    assert {(path, name) for path, name in every if name not in _names_in(ROOT / "tests" / path)} == set()
