"""Data-set folders as a check reads them: every column, every prompt, nothing taken for granted."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from foreword.cache.rules import HitRule
from foreword.errors import DataError
from foreword.simulate.validate import Layout, Metadata, Problem
from foreword.store.decoding import read_lines
from foreword.store.rows import DATA, MANIFEST, METADATA, WARMUP, DataRow, MetadataRow, WarmupRow, read_document, stored
from foreword.terms import PromptFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from foreword.terms import IntArray

_INT_COLUMNS = (
    "order_index",
    "cached_watermark_before",
    "expected_hit_len",
    "cached_watermark_after",
    "new_cached_len",
    "divergence_len",
    "suffix_len",
    "expected_hit_len_cold",
    "expected_hit_len_hot",
)


class Columns(NamedTuple):
    """The metadata as columns in send order."""

    metadata: Metadata
    written: dict[str, IntArray]
    classes: list[str]
    ratios: list[float]
    fingerprints: list[str]


def read_manifest(dataset: Path) -> tuple[dict[str, Any], Layout]:
    """The manifest of a finished data set, and the facts that its proof stands on."""
    manifest = read_document(dataset, MANIFEST)
    state = manifest.get("state")
    if state != "complete":
        raise DataError(f"{dataset / MANIFEST}: state is {state}", field="state", advice="generate the data set again")
    for name, kind in (("config", dict), ("tokenizer", dict), ("groups", list)):
        if not isinstance(manifest.get(name), kind):
            raise DataError(f"{dataset / MANIFEST}: {name} is missing or damaged", field=name)
    if not all(isinstance(group, dict) and isinstance(group.get("group_id"), str) for group in manifest["groups"]):
        raise DataError(f"{dataset / MANIFEST}: groups is damaged", field="groups")
    try:
        PromptFormat(manifest["prompt_format"])
        layout = Layout(
            block_size=_positive(manifest["block_size"]),
            rule=HitRule(manifest["engine"]["hit_rule"]),
            head_len=int(manifest["frame"]["head_len"]),
            tail_len=int(manifest["frame"]["tail_len"]),
            minimum_non_shared=int(manifest["prefix"]["minimum_non_shared_length"]),
            local=manifest["routing"]["cache_scope"] == "dp_local",
            designed_cold=manifest["theoretical_result"]["designed_pass"] == "cold",
        )
    except KeyError as failure:
        raise DataError(f"{dataset / MANIFEST}: {failure.args[0]} is missing", field=str(failure.args[0])) from None
    except (TypeError, ValueError) as failure:
        raise DataError(f"{dataset / MANIFEST}: {failure}", field=MANIFEST) from None
    return manifest, layout


def digest_problems(dataset: Path, manifest: dict[str, Any]) -> Iterator[Problem]:
    """Files whose size or digest is not what the manifest says."""
    files = manifest.get("files")
    for name, facts in (files if isinstance(files, dict) else {}).items():
        path = dataset / name
        if not path.is_file():
            yield Problem(name, "file", "is missing")
        elif not isinstance(facts, dict):
            yield Problem(MANIFEST, f"files.{name}", "is damaged")
        elif path.stat().st_size != facts.get("bytes"):
            yield Problem(name, "bytes", f"the manifest says {facts.get('bytes')}, the file has {path.stat().st_size}")
        elif _sha256(path) != facts.get("sha256"):
            yield Problem(name, "sha256", "is not the manifest's")


def read_columns(dataset: Path, *, group_ids: Sequence[str]) -> Columns:
    """All metadata rows as columns; raises ``DataError`` that names file and line."""
    groups = {name: index for index, name in enumerate(group_ids)}
    ids: list[str] = []
    classes: list[str] = []
    ratios: list[float] = []
    fingerprints: list[str] = []
    numbers: dict[str, list[int]] = {name: [] for name in ("group", "planned_dp_id", "input_len", "planned_prefix_len")}
    numbers |= {name: [] for name in _INT_COLUMNS}
    for row in read_lines(stored(dataset, METADATA), msgspec.json.Decoder(MetadataRow).decode):
        ids.append(row.request_id)
        classes.append(row.request_class)
        ratios.append(row.expected_hit_ratio)
        fingerprints.append(row.prompt_fingerprint)
        numbers["group"].append(groups.setdefault(row.prefix_group_id, len(groups)))
        for name, values in numbers.items():
            if name != "group":
                values.append(getattr(row, name))
    arrays = {name: np.asarray(values, dtype=np.int64) for name, values in numbers.items()}
    metadata = Metadata(
        request_ids=ids,
        group_ids=tuple(groups),
        group=arrays["group"],
        dp=arrays["planned_dp_id"],
        input_len=arrays["input_len"],
        prefix_len=arrays["planned_prefix_len"],
    )
    return Columns(metadata, {name: arrays[name] for name in _INT_COLUMNS}, classes, ratios, fingerprints)


def read_rows(dataset: Path) -> Iterator[dict[str, Any]]:
    """Metadata rows as they stand."""
    return read_lines(stored(dataset, METADATA), msgspec.json.Decoder(dict[str, Any]).decode)


def read_data(dataset: Path, *, chunk: int) -> Iterator[list[DataRow]]:
    """Requests in send order, ``chunk`` at a time."""
    rows = read_lines(stored(dataset, DATA), msgspec.json.Decoder(DataRow).decode)
    while taken := list(islice(rows, chunk)):
        yield taken


def read_warmup(dataset: Path) -> list[WarmupRow]:
    """Warm-up requests, one a lane."""
    return list(read_lines(dataset / WARMUP, msgspec.json.Decoder(WarmupRow).decode))


def _positive(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"block_size is {value!r}")
    return value


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
