"""Small data sets: made and checked by the product's commands in this process, read and damaged as plain JSON.

Prompts are encoded by the tokenizers library itself and replayed as tuples of token ids, so that no expected value
comes from the code under test.
"""

from __future__ import annotations

import functools
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from foreword.cli.app import main

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

ROOT_KEY = "prefix_cache_dataset"
DATA, METADATA, WARMUP = "data.jsonl", "request_metadata.jsonl", "warmup.jsonl"
MANIFEST, REPORT = "manifest.json", "validation_report.json"
FILES = (DATA, METADATA, WARMUP, MANIFEST, REPORT)

Document = dict[str, Any]


def small(**changes: object) -> Document:
    """Config of forty prompts with spread lengths in two groups; ``changes`` replace top-level keys."""
    return {
        "dataset_id": "small",
        "seed": 7,
        "request_count": 40,
        "block_size": 16,
        "input_length": {"mode": "truncated_normal", "min": 60, "max": 240, "mean": 140, "std": 40},
        "target": {"hit_ratio": 0.5},
        "prefix": {
            "mode": "multi_prefix",
            "groups": [{"id": "A", "request_weight": 2}, {"id": "B", "request_weight": 1}],
        },
        "request_order": {"across_group": "interleave"},
        **changes,
    }


def write_config(path: Path, document: Document) -> Path:
    """A config file; JSON is YAML."""
    path.write_text(json.dumps({ROOT_KEY: document}), encoding="utf-8")
    return path


def generate(folder: Path, document: Document, *flags: str) -> Path:
    """A data set of this config at ``folder``; its config stands beside it."""
    config = write_config(folder.with_name(f"{folder.name}.yaml"), document)
    code = main(["generate", "--config", str(config), "--output", str(folder), *flags])
    assert code == 0, f"generate ended with {code}"
    return folder


def read_rows(path: Path) -> list[Document]:
    """Rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def write_rows(path: Path, rows: Iterable[Document]) -> None:
    """Write rows the way the product does: compact JSON, one a line."""
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def read_document(path: Path) -> Document:
    """A JSON document."""
    document: Document = json.loads(path.read_bytes())
    return document


def write_document(path: Path, document: Document) -> None:
    """Replace a JSON document."""
    path.write_text(json.dumps(document, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def reseal(dataset: Path) -> None:
    """Make the manifest agree with the files as they are now: digests, sizes and row counts."""
    manifest = read_document(dataset / MANIFEST)
    for name in manifest["files"]:
        data = (dataset / name).read_bytes()
        rows = data.count(b"\n") if name.endswith(".jsonl") else 1
        manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "rows": rows}
    write_document(dataset / MANIFEST, manifest)


@functools.cache
def encoder(path: Path | None = None) -> Tokenizer:
    """The tokenizers library's own view of a file, or of the one that ships with the package."""
    data = (files("foreword") / "data" / "tokenizer.json").read_bytes() if path is None else path.read_bytes()
    return Tokenizer.from_buffer(data)


def token_ids(rows: Sequence[Document], tokenizer: Tokenizer | None = None) -> list[list[int]]:
    """Ids that a server sees for each row: its own ids, or its text with what the tokenizer adds to texts."""
    if rows and "prompt_token_ids" in rows[0]:
        return [row["prompt_token_ids"] for row in rows]
    return [(tokenizer or encoder()).encode(row["prompt"], add_special_tokens=True).ids for row in rows]


class TupleCache:
    """Cached prefixes as tuples of their tokens, every block boundary of every prompt one entry."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._prefixes: set[tuple[int, ...]] = set()

    def serve(self, ids: Sequence[int]) -> int:
        """Hit tokens of a prompt, whose last token is always computed; then cache its full blocks."""
        hit = 0
        for end in range(self.block_size, len(ids), self.block_size):
            if tuple(ids[:end]) not in self._prefixes:
                break
            hit = end
        full = range(self.block_size, len(ids) + 1, self.block_size)
        self._prefixes |= {tuple(ids[:end]) for end in full if end > hit}
        return hit


def replayed(dataset: Path, *, warm: bool, tokenizer: Tokenizer | None = None) -> Iterator[tuple[str, int, int]]:
    """Name, token count and hit tokens of each request when the written prompts are served one after another."""
    manifest = read_document(dataset / MANIFEST)
    local = manifest["routing"]["cache_scope"] == "dp_local"
    caches: dict[int, TupleCache] = {}

    def cache(rank: int) -> TupleCache:
        return caches.setdefault(rank if local else 0, TupleCache(manifest["block_size"]))

    warmups = read_rows(dataset / WARMUP) if warm else []
    for row, ids in zip(warmups, token_ids(warmups, tokenizer), strict=True):
        cache(row["planned_dp_id"]).serve(ids)
    rows, planned = read_rows(dataset / DATA), read_rows(dataset / METADATA)
    for row, ids, facts in zip(rows, token_ids(rows, tokenizer), planned, strict=True):
        yield row["request_id"], len(ids), cache(facts["planned_dp_id"]).serve(ids)
