"""Read a run folder into the values that a report is built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from foreword.errors import DataError
from foreword.report.performance import has_shape
from foreword.report.records import CacheMetrics, Manifest, PlanRow, RunFacts, RunRecord
from foreword.store.decoding import read_lines
from foreword.store.rows import MANIFEST, METADATA, stored
from foreword.store.rows import read_document as read_dataset_document
from foreword.store.runs import open_run, read_document, read_rows
from foreword.terms import Pass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from foreword.collect.records import RequestRow

T = TypeVar("T")

PASS_NAMES = frozenset(Pass)


def load_record(run_dir: Path) -> RunRecord:
    """Everything a report needs of a run folder; a missing or damaged file is a ``DataError`` that names it.

    Summaries that a killed run did not come to write are absent, not an error.
    """
    folder = open_run(run_dir)
    results = tuple(_without_chunks(row) for row in read_rows(folder.requests))
    return RunRecord(
        name=run_dir.resolve().name,
        run=_converted(folder.run, read_document(folder.run), RunFacts),
        manifest=_converted(folder.dataset / MANIFEST, read_dataset_document(folder.dataset, MANIFEST), Manifest),
        plan=_plan(stored(folder.dataset, METADATA)),
        results=results,
        row_cut_off=_is_cut_off(folder.requests),
        metrics=_cache_metrics(folder.prefix_cache),
        performance=_performance(folder.performance),
    )


def _without_chunks(row: RequestRow) -> RequestRow:
    """Drop the stamps of every chunk, which are most of a row and no part of a report."""
    return msgspec.structs.replace(row, token_ns=[], chunk_tokens=None)


def _is_cut_off(path: Path) -> bool:
    """Whether the last row was being written when the run was killed."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read() != b"\n"


def _plan(path: Path) -> tuple[PlanRow, ...]:
    rows = tuple(read_lines(path, msgspec.json.Decoder(PlanRow).decode))
    if not rows:
        raise DataError(f"{path} holds no request", advice="generate the data set again")
    return rows


def _cache_metrics(path: Path) -> CacheMetrics | None:
    if not path.exists():
        return None
    raw = read_document(path)
    return _converted(path, {**raw, "passes": _by_pass(path, raw)}, CacheMetrics)


def _performance(path: Path) -> dict[Pass, dict[str, Any]]:
    if not path.exists():
        return {}
    figures = {Pass(one["pass"]): one for one in _by_pass(path, read_document(path))}
    if not all(map(has_shape, figures.values())):
        raise DataError(f"{path} is damaged: its figures have another shape")
    return figures


def _by_pass(path: Path, raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Sections of a document by pass, be they a list or a mapping."""
    match raw.get("passes", []):
        case dict() as named:
            sections = [{"pass": name, **section} for name, section in named.items() if isinstance(section, dict)]
        case list() as listed:
            sections = [section for section in listed if isinstance(section, dict)]
        case _:
            sections = [{}]
    if any(str(section.get("pass")) not in PASS_NAMES for section in sections):
        raise DataError(f"{path} is damaged: a section of `passes` does not say which pass it is")
    return sections


def _converted(path: Path, raw: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise DataError(f"{path} is damaged: {error}") from error
