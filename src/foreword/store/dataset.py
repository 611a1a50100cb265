"""Data-set folders: written as a stream, by one process or several, with the same bytes (workload decision 6).

``manifest.json`` is written first with state ``incomplete`` and last with state ``complete``; the other files take
their names when they are whole, so that a reader never takes half a data set for a whole one.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from foreword._version import __version__
from foreword.errors import DataError, UsageError
from foreword.simulate.conflicts import with_conflicts
from foreword.simulate.documents import SCHEMA_VERSION, manifest_document, validation_document
from foreword.store.atomic import replace_file
from foreword.store.collisions import Uniqueness, check_first_blocks
from foreword.store.growing import PARTS, Growth, Sink, check_resumable
from foreword.store.making import Maker, Opening
from foreword.store.rows import DATASET_FILES, MANIFEST, REPORT, WARMUP, read_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from foreword.simulate.design import Design
    from foreword.store.workshop import Order
    from foreword.workload.proof import ProofCounts

_NO_BYTES: dict[str, bool | set[str]] = {
    "tokenizer": True,
    "execution": True,
    "privacy": True,
    "suffix": {"path"},
    "prefix": {"path"},
}
"""What a config says that no prompt depends on, or that digests say better."""


class Written(NamedTuple):
    """A finished data set: its folder, its design with what making it added, its manifest and validation report."""

    folder: Path
    design: Design
    manifest: dict[str, Any]
    report: dict[str, Any]


class Writing(NamedTuple):
    """How to write: processes, whether to go on with an unfinished data set, whether to compress the large files."""

    workers: int = 1
    resume: bool = False
    compress: bool = False


def check_folder(folder: Path, *, overwrite: bool, resume: bool = False) -> None:
    """Refuse a folder that holds something, unless it is a data set to overwrite or an unfinished one to go on with.

    Changes nothing.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", advice="give a folder with --output")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder} is not empty and holds no data set", advice="give another --output")
    unfinished = _state(folder) == "incomplete"
    if unfinished and not (overwrite or resume):
        advice = "go on with --resume, or begin anew with --overwrite"
        raise UsageError(f"{folder} holds an unfinished data set", advice=advice)
    if not unfinished and not overwrite:
        raise UsageError(f"{folder} holds a data set", advice="give another --output, or --overwrite")


def _state(folder: Path) -> object:
    try:
        return read_document(folder, MANIFEST).get("state")
    except DataError:
        return None


def _clear_folder(folder: Path) -> None:
    """Remove what an earlier data set left."""
    for name in DATASET_FILES:
        (folder / name).unlink(missing_ok=True)
        (folder / f"{name}.partial").unlink(missing_ok=True)
    shutil.rmtree(folder / PARTS, ignore_errors=True)


def write_dataset(
    order: Order, design: Design, *, folder: Path, writing: Writing, progress: Callable[[int, int], None]
) -> Written:
    """Compose, prove and write every request of a design, in send order.

    Nothing in ``folder`` is touched before tokenizer and corpora have proved good. ``progress`` hears how many of how
    many requests are written. Raises ``ConstructionError`` where prompts cannot be kept apart, and ``DataError`` where
    the unfinished data set is another one; what was written so far stays, to be resumed, beside an ``incomplete``
    manifest.
    """
    total = len(design.order)
    with Maker(order, writing.workers) as maker:
        first = maker.opening()
        apart = Uniqueness.over(design, first, again=maker.again) if design.config.suffix.matched_anywhere else None
        growth = _growth(folder, writing, manifest := _incomplete(order, design, first, compress=writing.compress))
        write_json(folder / MANIFEST, manifest)
        parts = maker.parts(folder / PARTS, total, start=growth.rows)
        if apart is not None:
            apart.resume(growth.known)
            parts = apart.through(parts, start=growth.rows)
        files, summary = growth.grow(parts, lambda rows: progress(rows, total))
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    files |= {WARMUP: _write_warmup(folder, first.warmup)}
    collisions = check_first_blocks(design, first, summary=summary) | ({} if apart is None else apart.document())
    told = (*first.facts["content"].get("warnings", ()), *(() if apart is None else apart.warnings))
    design = with_conflicts(replace(design, warnings=(*design.warnings, *told)), collisions)
    checks = {
        "reencode": _reencode(first.facts["proof_level"], summary.proof, count=total),
        "collisions": collisions,
        "laws": _laws(design, collisions),
    }
    report = validation_document(design, checks)
    files |= {REPORT: write_json(folder / REPORT, report)}
    described = {name: first.facts[name] for name in ("tokenizer", "template", "corpus", "content", "masters")}
    parts_of_manifest = {**described, **checks, "files": files}
    manifest = manifest_document(design, parts_of_manifest)
    write_json(folder / MANIFEST, manifest)
    return Written(folder, design, manifest, report)


def _growth(folder: Path, writing: Writing, manifest: dict[str, Any]) -> Growth:
    """Files to go on with, or new ones in a cleared folder."""
    if writing.resume and (folder / MANIFEST).is_file():
        check_resumable(read_document(folder, MANIFEST), manifest["resume_key"])
        return Growth.resume(folder, compress=writing.compress)
    _clear_folder(folder)
    return Growth.begin(folder, compress=writing.compress)


def write_json(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Replace a JSON file in one step; returns its digest and size."""
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    replace_file(path, data)
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "rows": 1}


def _incomplete(order: Order, design: Design, first: Opening, *, compress: bool) -> dict[str, Any]:
    """The manifest while files grow; ``resume_key`` tells the data set by all that its bytes depend on."""
    config = design.config.model_dump(mode="json", exclude=_NO_BYTES)
    parts = [config, order.facts, order.proof, first.facts["tokenizer"], first.facts["corpus"], compress, __version__]
    digest = hashlib.sha256(msgspec.json.encode(parts, order="sorted"))
    return {
        "schema_version": SCHEMA_VERSION,
        "state": "incomplete",
        "dataset_id": design.config.dataset_id,
        "generator_version": f"foreword {__version__}",
        "seed": design.config.seed,
        "request_count": design.config.request_count,
        "block_size": design.facts.block_size,
        "resume_key": digest.hexdigest(),
    }


def _write_warmup(folder: Path, lines: bytes) -> dict[str, Any]:
    sink = Sink(folder / WARMUP)
    with sink.growing.open("wb") as file:
        sink.append(file, [lines], rows=lines.count(b"\n"))
    return sink.finish()


def _reencode(level: str, proof: ProofCounts, *, count: int) -> dict[str, Any]:
    """How the prompts were proved: each by its windows or in full; prompts of ids have nothing to encode."""
    return {
        "level": level,
        "checked": proof.full if level != "window" else count,
        "windows": proof.windows,
        "checked_full": proof.full,
        "wrong": proof.wrong,
    }


def _laws(design: Design, collisions: dict[str, Any]) -> dict[str, Any]:
    """Requests for which composing checked that they share their prefix, and only that."""
    count = len(design.order)
    unique = count - collisions["first_block_conflicts"] if collisions["first_blocks_checked"] else None
    return {"prefix_shared": count, "length_exact": count, "first_private_block_unique": unique}
