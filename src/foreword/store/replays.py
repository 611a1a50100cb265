"""A replay's config and result files (spec: replay B1.6, B1.7, A2.9). Files appear only when all has succeeded."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from foreword.config.replay import ReplayConfig
from foreword.errors import ConfigError
from foreword.simulate.columns import column_names, columns, sampled
from foreword.simulate.templates import find_templates
from foreword.store.atomic import replace_file
from foreword.store.digits import csv_rows
from foreword.store.tables import csv_table
from foreword.store.traces import STDIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from foreword.simulate.replay import Replay, ReplayedInstance

SUMMARY = "summary.json"
SAMPLED_ROWS = 1_000
"""Rows that a sampled series has at most, but for its last."""

_LIFECYCLE = "BlockKey BirthTimeNs DeathTimeNs LifespanNs AccessCount LastAccessTimeNs IsAlive".split()
_TEMPLATES = (
    "TemplateId PrefixDepth FanOut NodeAccessCount PathBlockHitSum MatchedTraceCount MatchedHitBlocksSum "
    "MatchedTotalBlocksSum PrefixKeys"
).split()
_MATCHES = "TraceId TemplateId TotalBlocks HitBlocks TemplateDepth TemplateRatio".split()

Cell = str | int | float


class SeriesChoice(StrEnum):
    """How many rows of a hit-rate series are written."""

    FULL = "full"
    SAMPLED = "sampled"
    NONE = "none"


class Export(NamedTuple):
    """What is written beside ``summary.json``."""

    series: SeriesChoice = SeriesChoice.FULL
    lifecycle: bool = False
    templates: bool = False


def load_replay_config(path: Path) -> ReplayConfig:
    """Read and check a config; the trace and the output folder are taken relative to its own folder.

    Raises ``ConfigError`` that names the file, or the JSON path of the problem.
    """
    try:
        text = path.read_text("utf-8-sig")
        document = json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except OSError as failure:
        raise ConfigError(f"{path}: cannot be read: {failure.strerror or failure}", field="config") from None
    except (ValueError, RecursionError) as failure:
        raise ConfigError(f"{path}: is no JSON: {failure}", field="config") from None
    config = ReplayConfig.from_document(document)
    trace = config.trace_file_path
    located = {
        "trace_file_path": trace if trace == STDIN else str(path.parent / trace),
        "output_result_path": str(path.parent / config.output_result_path),
    }
    return config.model_copy(update=located)


def write_replay(
    replay: Replay, summary: dict[str, Any], *, output: Path, export: Export, pages: Mapping[str, str] | None = None
) -> list[Path]:
    """Write the summary, pages by name and what else is asked for; returns the files.

    An instance without reads has no series.
    """
    files = dict(_files(replay, export)) | {name: page.encode() for name, page in (pages or {}).items()}
    files[SUMMARY] = (json.dumps(summary, ensure_ascii=False, indent=2) + "\n").encode()
    output.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replace_file(output / name, content)
    return [output / name for name in files]


def _files(replay: Replay, export: Export) -> Iterator[tuple[str, bytes]]:
    for name, at in replay.instances.items():
        if export.series is not SeriesChoice.NONE and len(at.series):
            yield f"{name}_hit_rates.csv", _series(at, export.series)
        if export.lifecycle:
            replay.settle()
            yield f"{name}_lifecycle.csv", csv_table(_LIFECYCLE, _lives(at)).encode()
        if export.templates:
            yield from ((file, text.encode()) for file, text in _template_files(at))


def _series(at: ReplayedInstance, choice: SeriesChoice) -> bytes:
    """The rows of a series; a sample is of evenly spaced rows and the last, with nothing else changed."""
    table = columns(at)
    if choice is SeriesChoice.SAMPLED:
        picked = sampled(len(at.series), SAMPLED_ROWS)
        table = [column[picked] for column in table]
    return b"".join([",".join(column_names(at)).encode(), b"\n", *csv_rows(table)])


def _lives(at: ReplayedInstance) -> Iterator[list[Cell]]:
    """Lives in order of birth; one that lasts is cut at the last time that the instance saw."""
    keys = at.cache.table.index.keys
    for life in at.cache.lifecycle or ():
        death = at.cache.last_seen_ns if life.death_ns is None else life.death_ns
        alive = "true" if life.death_ns is None else "false"
        span = death - life.birth_ns
        yield [keys[life.block], life.birth_ns, death, span, life.accesses, life.last_access_ns, alive]


def _template_files(at: ReplayedInstance) -> Iterator[tuple[str, str]]:
    templates, matches = find_templates(at)
    summary: list[list[Cell]] = [
        [
            each.template_id,
            each.depth,
            each.fan_out,
            each.reads,
            each.path_hits,
            each.matched_reads,
            each.matched_hit_blocks,
            each.matched_blocks,
            ", ".join(map(str, each.keys)),
        ]
        for each in templates
    ]
    traces: list[list[Cell]] = [
        [
            match.trace_id,
            match.template.template_id if match.template else "NONE",
            match.blocks,
            match.hit_blocks,
            match.template.depth if match.template else 0,
            f"{match.covered:g}",
        ]
        for match in matches
    ]
    yield f"{at.instance_id}_template_prefix_summary.csv", csv_table(_TEMPLATES, summary)
    yield f"{at.instance_id}_template_prefix_traces.csv", csv_table(_MATCHES, traces)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is given twice in one object")
    return members


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
