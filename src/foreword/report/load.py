"""Read a run folder; the only place of this package that opens files for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from foreword.errors import DataError
from foreword.report.records import (
    CacheMetrics,
    Manifest,
    PlanRow,
    ResultRow,
    RunFacts,
    RunFolder,
)
from foreword.terms import Pass

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")

RERUN = "run again, or name another folder with --run-dir"


def load_run(run_dir: Path) -> RunFolder:
    """Everything a report needs of a run folder; a missing or damaged file is a ``DataError`` that names it."""
    if not run_dir.is_dir():
        raise DataError(f"{run_dir}: no such run folder", advice="name a folder that `foreword run` has written")
    run = _document(run_dir, "runtime/run.json", RunFacts)
    plan, _ = _rows(run_dir, "dataset/request_metadata.jsonl", PlanRow, may_be_cut=False)
    if not plan:
        raise DataError("dataset/request_metadata.jsonl: no request in it", advice="generate the data set again")
    results, cut_off = _rows(run_dir, "runtime/request_results.jsonl", ResultRow, may_be_cut=True)
    return RunFolder(
        name=run_dir.resolve().name,
        run=run,
        manifest=_document(run_dir, "dataset/manifest.json", Manifest),
        plan=plan,
        results=results,
        cut_off_rows=cut_off,
        metrics=_cache_metrics(run_dir),
        performance=_performance(run_dir),
    )


def _cache_metrics(run_dir: Path) -> CacheMetrics | None:
    name = "runtime/prefix_cache_metrics.json"
    raw = _optional(run_dir, name)
    if raw is None:
        return None
    return _converted(name, {**raw, "passes": _by_pass(name, raw)}, CacheMetrics)


def _performance(run_dir: Path) -> dict[Pass, dict[str, Any]]:
    name = "runtime/performance_metrics.json"
    raw = _optional(run_dir, name)
    if raw is None:
        return {}
    return {_converted(name, one["pass"], Pass): one for one in _by_pass(name, raw)}


def _by_pass(name: str, raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Sections of a file by pass, be they a list or a mapping."""
    match raw.get("passes", []):
        case dict() as named:
            return [{"pass": key, **value} for key, value in named.items() if isinstance(value, dict)]
        case list() as sections if all("pass" in one for one in sections):
            return sections
        case _:
            raise _damaged(name, "`passes` is no list of sections that say which pass they are")


def _optional(run_dir: Path, name: str) -> dict[str, Any] | None:
    if not (run_dir / name).exists():
        return None
    return _document(run_dir, name, dict[str, Any])


def _document(run_dir: Path, name: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_bytes(run_dir, name), type=kind)
    except msgspec.MsgspecError as error:
        raise _damaged(name, str(error)) from error


def _rows(run_dir: Path, name: str, kind: type[T], *, may_be_cut: bool) -> tuple[tuple[T, ...], int]:
    """Rows of a JSONL file, and how many were cut off at its end by a run that was killed."""
    lines = _bytes(run_dir, name).split(b"\n")
    decoder = msgspec.json.Decoder(kind)
    rows: list[T] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            if may_be_cut and number == len(lines):
                return tuple(rows), 1
            raise _damaged(f"{name}, line {number}", str(error)) from error
    return tuple(rows), 0


def _bytes(run_dir: Path, name: str) -> bytes:
    try:
        return (run_dir / name).read_bytes()
    except OSError as error:
        raise DataError(f"{name}: cannot be read in {run_dir}: {error.strerror}", advice=RERUN) from error


def _converted(name: str, raw: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise _damaged(name, str(error)) from error


def _damaged(name: str, problem: str) -> DataError:
    return DataError(f"{name} is damaged: {problem}", advice=RERUN)
