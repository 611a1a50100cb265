"""Data-set folders as a check reads them: every column, every prompt, nothing taken for granted."""

from __future__ import annotations

import hashlib
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from foreword.cache.rules import HitRule
from foreword.collect.records import Integer
from foreword.errors import DataError
from foreword.simulate.validate import Layout, Metadata, Problem
from foreword.store.dataset import DATA, MANIFEST, METADATA, WARMUP
from foreword.terms import PromptFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from foreword.terms import IntArray

_PIECE_BYTES = 1 << 20
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

_REQUEST = re.compile(rb'"request_id": ?"([\w.-]+)"')

Line = TypeVar("Line")


class DataRow(msgspec.Struct, forbid_unknown_fields=True):
    """A line of ``data.jsonl``."""

    request_id: str
    max_tokens: int
    prefix_group_id: str
    prompt: str | None = None
    prompt_token_ids: list[int] | None = None


class WarmupRow(DataRow, forbid_unknown_fields=True):
    """A line of ``warmup.jsonl``."""

    planned_dp_id: int = 0
    input_len: int = 0
    planned_prefix_len: int = 0


class MetadataRow(msgspec.Struct):
    """A line of ``request_metadata.jsonl``."""

    request_id: str
    prefix_group_id: str
    planned_dp_id: Integer
    input_len: Integer
    planned_prefix_len: Integer
    order_index: Integer
    cached_watermark_before: Integer
    expected_hit_len: Integer
    cached_watermark_after: Integer
    new_cached_len: Integer
    divergence_len: Integer
    suffix_len: Integer
    expected_hit_len_cold: Integer
    expected_hit_len_hot: Integer
    request_class: str
    expected_hit_ratio: float
    prompt_fingerprint: str = ""


class Columns(NamedTuple):
    """The metadata as columns in send order."""

    metadata: Metadata
    written: dict[str, IntArray]
    classes: list[str]
    ratios: list[float]
    fingerprints: list[str]


def read_document(dataset: Path, name: str) -> dict[str, Any]:
    """One JSON document of a data set; raises ``DataError`` for one that is missing or damaged."""
    path = dataset / name
    try:
        document = msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} does not exist", advice="--dataset takes the folder of a data set") from None
    except (OSError, msgspec.DecodeError) as failure:
        raise DataError(f"{path} is damaged: {failure}", field=name) from None
    if not isinstance(document, dict):
        raise DataError(f"{path} holds no object", field=name)
    return document


def read_manifest(dataset: Path) -> tuple[dict[str, Any], Layout]:
    """The manifest of a finished data set, and the facts that its proof stands on."""
    manifest = read_document(dataset, MANIFEST)
    state = manifest.get("state")
    if state != "complete":
        raise DataError(f"{dataset / MANIFEST}: state is {state}", field="state", advice="generate the data set again")
    for name, kind in (("config", dict), ("tokenizer", dict), ("groups", list)):
        if not isinstance(manifest.get(name), kind):
            raise DataError(f"{dataset / MANIFEST}: {name} is missing or damaged", field=name)
    if not all(isinstance(group, dict) for group in manifest["groups"]):
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
    for row in lines(dataset / METADATA, msgspec.json.Decoder(MetadataRow).decode):
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
    return lines(dataset / METADATA, msgspec.json.Decoder(dict[str, Any]).decode)


def read_data(dataset: Path, *, chunk: int) -> Iterator[list[DataRow]]:
    """Requests in send order, ``chunk`` at a time."""
    rows = lines(dataset / DATA, msgspec.json.Decoder(DataRow).decode)
    while taken := list(islice(rows, chunk)):
        yield taken


def read_warmup(dataset: Path) -> list[WarmupRow]:
    """Warm-up requests, one a lane."""
    return list(lines(dataset / WARMUP, msgspec.json.Decoder(WarmupRow).decode))


def lines(path: Path, decode: Callable[[bytes], Line]) -> Iterator[Line]:
    """Decoded lines of a JSONL file; raises ``DataError`` that names file and line."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield decode(line)
                except msgspec.MsgspecError as failure:
                    raise _damaged(path, number, line, failure) from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist", field=path.name) from None


def _damaged(path: Path, number: int, line: bytes, failure: msgspec.MsgspecError) -> DataError:
    """A row that cannot be read, named by its request as far as that can be read."""
    name = _REQUEST.search(line)
    request = name.group(1).decode() if name else None
    who = f" of request {request}" if request else ""
    return DataError(f"{path}:{number}: damaged row{who}: {failure}", field=path.name, request_id=request)


def _positive(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"block_size is {value!r}")
    return value


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
