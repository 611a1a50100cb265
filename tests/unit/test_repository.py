"""House rules that a program can check: sizes, parameters, reasons, paths and links."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.support.groups import ROOT
from tests.support.sources import comments, files, functions, local_links, modules, place, tree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.sources import Function

MODULE_LINES, FUNCTION_LINES, PARAMETERS, POSITIONAL = 500, 40, 6, 2
SWITCHES = re.compile(r"#\s*(noqa\b|type:\s*ignore|pragma:|pylint:)")
REASON = re.compile(r"#\s*(noqa:\s*[A-Z0-9, ]+|type:\s*ignore\[[a-z, -]+\]|pragma:[a-z ]+)\s*[-#]\s*\S+")
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:work|home(?!/(?:someone|user)\b)|root|Users|mnt)/[\w.~-]")


def excused(path: Path, node: Function, rule: str) -> bool:
    """Whether the function's first lines carry an exception from a rule; that it has a reason is another test."""
    lines = path.read_text(encoding="utf-8").splitlines()[node.lineno - 1 : node.body[0].lineno]
    return any("noqa" in line and rule in line for line in lines)


COMPILERS = ("njit", "kernel", "entry")


def is_compiled(node: Function) -> bool:
    """Whether Numba compiles the function; it takes no keyword-only parameters."""
    return any(ast.unparse(decorator).startswith(COMPILERS) for decorator in node.decorator_list)


def own_parameters(arguments: list[ast.arg]) -> int:
    """Number of parameters, the object itself not counted."""
    return sum(1 for argument in arguments if argument.arg not in {"self", "cls"})


def test_a_module_fits_in_the_head() -> None:
    """No module is longer than 500 lines."""
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules("src", "tests", "scripts")}

    assert [place(path, size) for path, size in sizes.items() if size > MODULE_LINES] == []


def test_a_function_fits_on_a_screen() -> None:
    """No function is longer than 40 lines, its docstring included."""
    long = [
        f"{place(path, node.lineno)} {node.name}"
        for path in modules("src", "tests", "scripts")
        for node in functions(path)
        if (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES and not excused(path, node, "PLR0915")
    ]

    assert long == []


def test_parameters_are_few_and_named() -> None:
    """A function has at most six parameters; a public one takes them by keyword from the third, if it can."""
    wide = []
    for path in modules("src"):
        for node in functions(path):
            positional = own_parameters([*node.args.posonlyargs, *node.args.args])
            total = positional + len(node.args.kwonlyargs)
            few = total <= PARAMETERS or excused(path, node, "PLR0913")
            named = (
                positional <= POSITIONAL
                or is_compiled(node)
                or node.name.startswith("_")
                or excused(path, node, "PLR0917")
            )
            if not ((few and named) or "rfc" in path.parts):
                wide.append(f"{place(path, node.lineno)} {node.name}")

    assert wide == []


def test_an_exception_from_a_rule_has_its_reason_on_the_line() -> None:
    """Whoever switches a check off says why, there."""
    bare = [
        place(path, line)
        for path in modules("src", "tests", "scripts", "bench")
        for line, text in comments(path)
        if SWITCHES.search(text) and not REASON.search(text)
    ]

    assert bare == []


def test_async_code_lives_at_the_edges() -> None:
    """Only ``run`` and ``server`` hold coroutines."""
    inside = [
        f"{place(path, node.lineno)} {node.name}"
        for path in modules("src")
        for node in functions(path)
        if isinstance(node, ast.AsyncFunctionDef) and not {"run", "server"} & set(path.parts)
    ]

    assert inside == []


def test_the_core_takes_only_pure_paths_from_pathlib() -> None:
    """``cache``, ``workload``, ``simulate`` and ``collect`` cannot open a path, not even for a type."""
    openers = [
        place(path, node.lineno)
        for path in modules("src")
        if {"cache", "workload", "simulate", "collect"} & set(path.parts)
        for node in ast.walk(tree(path))
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "pathlib"
            and [a.name for a in node.names] != ["PurePath"]
        )
        or (isinstance(node, ast.Import) and "pathlib" in {alias.name for alias in node.names})
    ]

    assert openers == []


def test_no_module_is_called_utils() -> None:
    """A module is named for what it holds."""
    assert [
        path.name for path in modules("src", "tests") if re.fullmatch(r"_?(utils?|helpers?|misc)\.py", path.name)
    ] == []


def test_every_test_states_a_behaviour() -> None:
    """Each test has a docstring."""
    mute = [
        f"{place(path, node.lineno)} {node.name}"
        for path in modules("tests")
        for node in functions(path)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert mute == []


def test_every_module_of_the_product_says_what_it_is_for() -> None:
    """Each module and package under ``src`` has a docstring, but for the version that the build reads."""
    spoken = [path for path in modules("src") if path.name != "_version.py"]

    assert [place(path, 1) for path in spoken if not ast.get_docstring(tree(path))] == []


def test_no_path_of_a_machine_is_written_down() -> None:
    """Nothing in the repository names a folder of somebody's machine."""
    texts = files(".py", ".md", ".toml", ".yaml", ".yml", ".json", ".jinja", ".html", ".css", ".sh", ".cfg")
    leaks = [
        place(path, number)
        for path in (*texts, ROOT / "Makefile", ROOT / ".ci" / "run")
        if path.stat().st_size < 1_000_000
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MACHINE_PATH.search(line)
    ]

    assert leaks == []


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link of a Markdown page names a file of the repository."""
    broken = [
        f"{place(page, 1)} -> {target}"
        for page in files(".md")
        for target in local_links(page)
        if target and not (page.parent / target).exists()
    ]

    assert broken == []
