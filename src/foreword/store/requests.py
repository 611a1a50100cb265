"""A data set as a run reads it: manifest at once, requests one line at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec

from foreword.errors import DataError
from foreword.store.decoding import read_lines
from foreword.store.rows import (
    DATA,
    MANIFEST,
    METADATA,
    REPORT,
    WARMUP,
    SentMetadataRow,
    SentRow,
    SentWarmupRow,
    read_document,
    stored,
)
from foreword.terms import Engine, ExecutionMode, PromptFormat, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SendRequest:
    """One request in send order. ``prompt`` is the JSON of the prompt as it stands in the file."""

    request_id: str
    order_index: int
    prefix_group_id: str
    planned_dp_id: int
    prompt: msgspec.Raw
    max_tokens: int
    input_len: int
    expected_cold: int | None
    expected_hot: int | None


@dataclass(frozen=True, slots=True)
class RunManifest:
    """What a run needs of ``manifest.json``; ``raw`` holds all of it."""

    dataset_id: str
    request_count: int
    block_size: int
    mode: ExecutionMode
    prompt_format: PromptFormat
    engine: Engine
    dp_size: int
    model: str | None
    isolation: str | None
    concurrency: int
    warmup_rounds: int
    longest_prompt: int | None
    save_prompts: bool
    has_nonce: bool
    raw: dict[str, Any]


_sent = msgspec.json.Decoder(SentRow).decode
_sent_metadata = msgspec.json.Decoder(SentMetadataRow).decode
_sent_warmup = msgspec.json.Decoder(SentWarmupRow).decode


def read_manifest(dataset: Path) -> RunManifest:
    """Read ``manifest.json`` and check that the data set is whole; raises ``DataError``."""
    for name in (DATA, METADATA, MANIFEST):
        if not stored(dataset, name).is_file():
            raise DataError(f"{dataset / name} does not exist", advice="--dataset takes the folder of a data set")
    path, raw = dataset / MANIFEST, read_document(dataset, MANIFEST)
    try:
        manifest = _manifest(raw, _longest_prompt(dataset))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is no manifest: {_reason(error)}", advice="generate the data set again") from error
    if raw.get("state", "complete") != "complete":
        raise DataError(f"{path} says that the data set is {raw['state']}", advice="generate it again")
    _check_sizes(dataset, raw)
    return manifest


def missed_target(manifest: Mapping[str, Any]) -> str | None:
    """That a data set misses its target, where its manifest says so: it is whole, but not what was asked for."""
    theory = manifest.get("theoretical_result")
    if not isinstance(theory, dict) or theory.get("validation_status") != Status.FAIL:
        return None
    designed, target = (theory.get(name) for name in ("designed_hit_ratio", "target_hit_ratio"))
    told = f"the data set misses its target ({theory.get('reason', 'FAIL')})"
    if not isinstance(designed, (int, float)) or not isinstance(target, (int, float)):
        return told
    return f"{told}: {designed * 100:.2f} % is designed for a target of {target * 100:.2f} %"


class _Lengths(msgspec.Struct):
    max: int | None = None


class _Report(msgspec.Struct):
    lengths: _Lengths | None = None


def _longest_prompt(dataset: Path) -> int | None:
    """Longest prompt in tokens, if ``validation_report.json`` says so."""
    try:
        report = msgspec.json.decode((dataset / REPORT).read_bytes(), type=_Report)
    except (OSError, msgspec.MsgspecError):
        return None
    return report.lengths.max if report.lengths else None


def _manifest(raw: dict[str, Any], longest_prompt: int | None) -> RunManifest:
    config = raw.get("config") or {}
    execution = config.get("execution") or {}
    rounds = execution.get("warmup_rounds")
    return RunManifest(
        dataset_id=str(raw["dataset_id"]),
        request_count=int(raw["request_count"]),
        block_size=int(raw["block_size"]),
        mode=ExecutionMode(raw["execution_mode"]),
        prompt_format=PromptFormat(raw.get("prompt_format", PromptFormat.COMPLETIONS_TEXT)),
        engine=Engine((raw.get("engine") or {}).get("name", Engine.GENERIC)),
        dp_size=int((raw.get("routing") or {}).get("dp_size") or 1),
        model=config.get("model"),
        isolation=config.get("isolation"),
        concurrency=int(execution.get("concurrency") or 1),
        warmup_rounds=max(1, int(rounds or 1)),
        longest_prompt=longest_prompt,
        has_nonce=config.get("nonce") is not None,
        save_prompts=(config.get("privacy") or {}).get("save_prompts") is True,
        raw=raw,
    )


def _reason(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _check_sizes(dataset: Path, raw: dict[str, Any]) -> None:
    for name, facts in (raw.get("files") or {}).items():
        path, promised = dataset / name, (facts or {}).get("bytes")
        if promised is not None and (not path.is_file() or path.stat().st_size != promised):
            raise DataError(f"{path} is not the file that the manifest describes", advice="generate it again")


def read_requests(dataset: Path) -> Iterator[SendRequest]:
    """Stream the requests in send order; raises ``DataError`` that names file and line."""
    path, described = stored(dataset, DATA), stored(dataset, METADATA)
    rows = zip_longest(read_lines(path, _sent), read_lines(described, _sent_metadata))
    for number, (request, facts) in enumerate(rows, start=1):
        if request is None or facts is None:
            short = path if request is None else described
            raise DataError(f"{short}:{number}: the file ends before its companion does")
        if request.request_id != facts.request_id:
            raise DataError(
                f"{path}:{number}: request {request.request_id} stands where the metadata has {facts.request_id}",
                request_id=request.request_id,
            )
        yield SendRequest(
            request_id=request.request_id,
            order_index=number - 1 if facts.order_index is None else facts.order_index,
            prefix_group_id=facts.prefix_group_id,
            planned_dp_id=facts.planned_dp_id,
            prompt=_prompt(request, path, number=number),
            max_tokens=request.max_tokens,
            input_len=facts.input_len,
            expected_cold=_first(facts.expected_hit_len_cold, facts.expected_hit_len),
            expected_hot=_first(facts.expected_hit_len_hot, facts.expected_hit_len),
        )


def read_warmup(dataset: Path) -> Iterator[SendRequest]:
    """Stream the warm-up requests, one a lane; raises ``DataError``."""
    path = dataset / WARMUP
    if not path.is_file():
        raise DataError(f"{path} does not exist", advice="this data set has no warm-up; run it with --mode cold")
    for number, row in enumerate(read_lines(path, _sent_warmup), start=1):
        yield SendRequest(
            request_id=row.request_id,
            order_index=number - 1,
            prefix_group_id=row.prefix_group_id,
            planned_dp_id=row.planned_dp_id,
            prompt=_prompt(row, path, number=number),
            max_tokens=row.max_tokens,
            input_len=row.input_len,
            expected_cold=None,
            expected_hot=None,
        )


def _prompt(row: SentRow, path: Path, *, number: int) -> msgspec.Raw:
    prompt = row.prompt if bytes(row.prompt) else row.prompt_token_ids
    if not bytes(prompt):
        raise DataError(f"{path}:{number}: neither prompt nor prompt_token_ids", request_id=row.request_id)
    return prompt.copy()


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
