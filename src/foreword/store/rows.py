"""Files of a data set, by name, and the rows in them as their readers need them.

A check takes the rows as this product writes them, with every column and, beside a prompt, no other. A run takes those
of other tools too: what it can do without has a default, and a prompt stays the bytes that it is in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from foreword.collect.records import Integer
from foreword.store.decoding import read_object

if TYPE_CHECKING:
    from pathlib import Path

DATA, METADATA, WARMUP = "data.jsonl", "request_metadata.jsonl", "warmup.jsonl"
MANIFEST, REPORT = "manifest.json", "validation_report.json"
ZSTD = ".zst"
DATASET_FILES = (DATA, METADATA, WARMUP, MANIFEST, REPORT, f"{DATA}{ZSTD}", f"{METADATA}{ZSTD}")
"""Every file that a data set may have; data and metadata are plain or compressed."""


def stored(dataset: Path, name: str) -> Path:
    """Where a file of a data set is: under its name, or compressed."""
    packed = dataset / f"{name}{ZSTD}"
    return packed if packed.is_file() and not (dataset / name).is_file() else dataset / name


class DataRow(msgspec.Struct, forbid_unknown_fields=True):
    """A line of ``data.jsonl``, to be checked."""

    request_id: str
    max_tokens: int
    prefix_group_id: str
    prompt: str | None = None
    prompt_token_ids: list[int] | None = None


class WarmupRow(DataRow, forbid_unknown_fields=True):
    """A line of ``warmup.jsonl``, to be checked."""

    planned_dp_id: int = 0
    input_len: int = 0
    planned_prefix_len: int = 0


class MetadataRow(msgspec.Struct):
    """A line of ``request_metadata.jsonl``, to be checked."""

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


class SentRow(msgspec.Struct):
    """A line of ``data.jsonl``, to be sent."""

    request_id: str
    max_tokens: int
    prompt: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    prompt_token_ids: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class SentWarmupRow(SentRow):
    """A line of ``warmup.jsonl``, to be sent."""

    prefix_group_id: str = ""
    planned_dp_id: int = 0
    input_len: int = 0


class SentMetadataRow(msgspec.Struct):
    """A line of ``request_metadata.jsonl``, of a request to be sent."""

    request_id: str
    prefix_group_id: str
    input_len: int
    order_index: int | None = None
    planned_dp_id: int = 0
    expected_hit_len: int | None = None
    expected_hit_len_cold: int | None = None
    expected_hit_len_hot: int | None = None


def read_document(dataset: Path, name: str) -> dict[str, Any]:
    """One JSON document of a data set; raises ``DataError`` for one that is missing or damaged."""
    return read_object(dataset / name, advice="--dataset takes the folder of a data set")
