"""Groups, shared fixtures and hypothesis profiles of the whole suite."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from numba.core import config as numba_config

from foreword.store.kernels import kept_kernels
from tests.support.groups import GROUPS, chromium_binary, data_folder, folder_of, required_groups, tokenizer_path
from tests.support.servers import mocker_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Compiled code of all tests, in this process and in those that it starts, stands in one place, by its sources.
if not vars(numba_config)["CACHE_DIR"]:
    with kept_kernels():
        os.environ["NUMBA_CACHE_DIR"] = vars(numba_config)["CACHE_DIR"]
    vars(numba_config)["CACHE_DIR"] = os.environ["NUMBA_CACHE_DIR"]

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("long", parent=settings.get_profile("dev"), max_examples=50_000)
settings.load_profile(os.environ.get("FOREWORD_HYPOTHESIS", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a misspelt ``FOREWORD_REQUIRE`` before anything runs."""
    del config
    try:
        required_groups()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose group cannot run; fail it where the group is required."""
    for name, group in GROUPS.items():
        if item.get_closest_marker(name) and (missing := group.missing()):
            if name in required_groups():
                pytest.fail(f"group {name} is required: {missing}", pytrace=False)
            pytest.skip(f"group {name}: {missing}")


def _tests_that_ran(reporter: pytest.TerminalReporter, group: str) -> int:
    ran = (*reporter.stats.get("passed", []), *reporter.stats.get("failed", []))
    return sum(1 for report in ran if report.when == "call" and group in report.keywords)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a whole run in which no test of a required group was run."""
    reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    idle = [name for name in required_groups() if not _tests_that_ran(reporter, name)]
    if idle and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the groups that were left out, and how to run them."""
    terminalreporter.section("groups left out")
    left_out = [(group, missing) for group in GROUPS.values() if (missing := group.missing())]
    for group, missing in left_out:
        terminalreporter.write_line(f"{group.name}: {missing}; to run it: {group.how}")
    if not left_out:
        terminalreporter.write_line("none")
    for name in sorted(required_groups()):
        if not _tests_that_ran(terminalreporter, name):
            terminalreporter.write_line(f"ERROR {name}: required by FOREWORD_REQUIRE, but none of its tests ran")


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Folder of the group ``data``."""
    return data_folder()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium, for the group ``browser``."""
    path = chromium_binary()
    assert path is not None
    return path


@pytest.fixture(scope="session")
def tokenizer_file() -> Callable[[str], Path]:
    """Function from a name (qwen, deepseek, sp32000) to its tokenizer.json, for the group ``tokenizers``."""

    def find(name: str) -> Path:
        path = tokenizer_path(name)
        assert path is not None, f"no {name}.json in FOREWORD_TOKENIZERS"
        return path

    return find


@pytest.fixture(scope="session")
def mocker_venv() -> Path:
    """Virtual environment of the Dynamo mocker, for the group ``mocker``."""
    folder = folder_of("FOREWORD_MOCKER_VENV")
    assert folder is not None
    return folder


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """Folder of the small model that real servers load, for the groups ``mocker`` and ``real``."""
    folder = folder_of("FOREWORD_TINY_MODEL")
    assert folder is not None
    return folder


@pytest.fixture(scope="session")
def mocker(mocker_venv: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a Dynamo mocker with blocks of 16 tokens; one for each process of the test run."""
    with mocker_server(mocker_venv, tiny_model, tmp_path_factory.mktemp("mocker"), block_size=16) as url:
        yield url
