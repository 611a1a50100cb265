"""The repository read as text and syntax trees, for the tests about it."""

from __future__ import annotations

import ast
import functools
import re
import tokenize
from typing import TYPE_CHECKING

from tests.support.groups import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SKIPPED = {".git", ".venv", ".nox", "_build", "build", "dist", "outputs", "node_modules", "__pycache__"}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_source(path: Path) -> bool:
    """Whether a path belongs to the repository rather than to a tool's cache."""
    parts = path.relative_to(ROOT).parts
    return not any(part in SKIPPED or part.endswith("_cache") or part == ".hypothesis" for part in parts)


@functools.cache
def files(*suffixes: str) -> tuple[Path, ...]:
    """Files of the repository with one of the suffixes."""
    found = (path for suffix in suffixes for path in ROOT.rglob(f"*{suffix}"))
    return tuple(sorted(path for path in found if is_source(path) and path.is_file()))


def modules(*folders: str) -> list[Path]:
    """Python files below the named folders."""
    return [path for path in files(".py") if path.relative_to(ROOT).parts[0] in folders]


@functools.cache
def tree(path: Path) -> ast.Module:
    """Syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a module."""
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of every comment of a module."""
    with tokenize.open(path) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def place(path: Path, line: int) -> str:
    """``file:line`` as an editor opens it."""
    return f"{path.relative_to(ROOT)}:{line}"


def local_links(page: Path) -> Iterator[str]:
    """Targets of a Markdown page's links that point into the repository."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for match in LINK.finditer(text):
        target = match[1] or match[2]
        if not re.match(r"[a-z]+:|#", target):
            yield target.partition("#")[0]
