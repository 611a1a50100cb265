"""Run folders and reports of them for the tests of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from foreword.report.build import build_document, examine
from foreword.report.load import load_record
from tests.support.run_folder import RunShape, write_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from foreword.report.document import ReportDocument


class MakeRun(Protocol):
    """Write a run folder of a shape."""

    def __call__(self, shape: RunShape = ...) -> Path:
        """Return the folder."""
        ...


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writer of run folders below the test's own folder."""

    def make(shape: RunShape = RunShape()) -> Path:  # noqa: B008 - a frozen value
        return write_run(tmp_path / f"run_{len(list(tmp_path.iterdir())) + 1:03d}", shape)

    return make


@pytest.fixture
def report_of(make_run: MakeRun) -> Callable[[RunShape], ReportDocument]:
    """The report of a run of a shape."""

    def report(shape: RunShape) -> ReportDocument:
        record = load_record(make_run(shape))
        return build_document(record, examine(record))

    return report
