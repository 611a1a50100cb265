"""Data sets in the formats of other load generators, with the command that keeps the designed ratio.

What each tool reads, and what it would do to order, lengths and templates by itself, was read in its sources: AISBench
2026-08, vLLM 0.33, SGLang 0.5.23, AIPerf 0.13, guidellm 0.8.1, evalscope 2026-08 (interop section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from foreword.cache.blocks import block_keys, root_key
from foreword.errors import DataError, UsageError
from foreword.store.atomic import replace_file
from foreword.store.commands import AISBENCH_CONFIG, ExportFormat, aisbench_config, command_for, notes_for, planned_warm
from foreword.store.encoding import Encoder
from foreword.store.requests import read_manifest, read_requests, read_warmup
from foreword.store.rows import DataRow
from foreword.terms import PromptFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from foreword.store.requests import RunManifest, SendRequest

_encode = msgspec.json.encode
_BETWEEN_ROWS_NS = 1_000_000
_SUBSTITUTED = ("{answer}", "{max_out_len}", "{question}")
_NOTHING = "none"


class Exported(NamedTuple):
    """Files of an export, how to run them, and what the other tool cannot keep."""

    files: tuple[Path, ...]
    requests: int
    command: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """A file of one line a request, and the prompts that it can hold; a trace takes more than the request for it."""

    file: str
    line: Callable[[SendRequest], bytes] | None
    prompts: tuple[PromptFormat, ...] = (PromptFormat.COMPLETIONS_TEXT,)


def export_dataset(
    dataset: Path,
    output: Path,
    *,
    target: ExportFormat,
    url: str,
    tokenizer: str | None = None,
    progress: Callable[[int, int], None],
) -> Exported:
    """Write a data set for another tool, in send order.

    Raises ``UsageError`` where its prompts cannot be said in that format, and ``DataError`` that names the request.
    """
    manifest = read_manifest(dataset)
    layout = _LAYOUTS[target]
    if manifest.prompt_format not in layout.prompts:
        taken = " or ".join(layout.prompts)
        raise UsageError(
            f"{target} takes {taken} prompts, the data set has {manifest.prompt_format}",
            advice=f"generate with prompt_format: {layout.prompts[0]}, or export to another format",
        )
    requests = _heard(read_requests(dataset), manifest.request_count, progress)
    lines = _trace_lines(dataset, requests, manifest, tokenizer) if layout.line is None else map(layout.line, requests)
    path = output / layout.file
    _write_lines(path, lines)
    files = [path]
    if target is ExportFormat.AISBENCH:
        files.append(output / AISBENCH_CONFIG)
        replace_file(files[-1], aisbench_config(path, manifest, url=url).encode())
    command = command_for(target, files[-1], manifest=manifest, url=url)
    return Exported(tuple(files), manifest.request_count, command, notes_for(target, manifest))


def _heard(requests: Iterable[SendRequest], total: int, progress: Callable[[int, int], None]) -> Iterator[SendRequest]:
    for done, request in enumerate(requests, start=1):
        yield request
        progress(done, total)


def _write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_name(f"{path.name}.partial")
    try:
        with growing.open("wb") as file:
            for line in lines:
                file.write(line + b"\n")
        growing.replace(path)
    finally:
        growing.unlink(missing_ok=True)


def _text(request: SendRequest) -> str:
    text: str = msgspec.json.decode(request.prompt, type=str)
    return text


def _aisbench(request: SendRequest) -> bytes:
    named = next((name for name in _SUBSTITUTED if name in _text(request)), None)
    if named:
        raise DataError(
            f"request {request.request_id}: its prompt holds {named}, which AISBench replaces",
            request_id=request.request_id,
            advice="generate with another corpus, or export to aisbench-mooncake",
        )
    return _encode({"question": request.prompt, "answer": _NOTHING, "max_tokens": request.max_tokens})


def _aisbench_mooncake(request: SendRequest) -> bytes:
    timestamp_ms = request.order_index
    return _encode({"timestamp": timestamp_ms, "input_text": request.prompt, "output_length": request.max_tokens})


def _vllm(request: SendRequest) -> bytes:
    return _encode({"prompt": request.prompt, "output_tokens": request.max_tokens})


def _sglang(request: SendRequest) -> bytes:
    said = {"request_id": request.request_id, "prefix_group_id": request.prefix_group_id}
    lengths = {"prompt_len": request.input_len, "output_len": request.max_tokens}
    return _encode({"prompt": request.prompt, **lengths, "routing_key": _lane(request), "metadata": said})


def _aiperf(request: SendRequest) -> bytes:
    return _encode({"text": request.prompt, "output_length": request.max_tokens, "session_id": _lane(request)})


def _aiperf_mooncake(request: SendRequest) -> bytes:
    asked = {"text_input": request.prompt, "output_length": request.max_tokens}
    return _encode({"timestamp": request.order_index, **asked, "session_id": request.request_id})


def _guidellm(request: SendRequest) -> bytes:
    counts = {"prompt_tokens_count": request.input_len, "output_tokens_count": request.max_tokens}
    return _encode({"prompt": request.prompt, **counts})


def _evalscope(request: SendRequest) -> bytes:
    text = _text(request)
    if len(text.splitlines()) != 1:
        raise DataError(
            f"request {request.request_id}: its prompt has several lines, evalscope's format is one line a prompt",
            request_id=request.request_id,
            advice="generate with a corpus without line breaks, or export to another format",
        )
    return text.encode()


def _lane(request: SendRequest) -> str:
    """What shares a cache: a group on a rank."""
    return f"{request.prefix_group_id}@{request.planned_dp_id}"


def _trace_lines(
    dataset: Path, requests: Iterable[SendRequest], manifest: RunManifest, tokenizer: str | None
) -> Iterator[bytes]:
    """Rows of a replay, one instance a cache domain; what a warm design has cached already is written first."""
    encoder = Encoder.of(manifest.raw, tokenizer)
    wrong = next(encoder.problems(manifest.raw, tokenizer), None)
    if wrong is not None:
        raise DataError(f"{wrong}", advice="name the tokenizer that the data set was made with")
    warm = list(read_warmup(dataset)) if planned_warm(manifest) else []
    for place, request in enumerate(warm, start=1):
        yield _trace_row("write", request, encoder, manifest=manifest, place=place)
    for place, request in enumerate(requests, start=len(warm) + 1):
        yield _trace_row("request", request, encoder, manifest=manifest, place=place)


def _trace_row(kind: str, request: SendRequest, encoder: Encoder, *, manifest: RunManifest, place: int) -> bytes:
    """Far enough behind the row before it for that to be written."""
    ids = encoder.encode([_data_row(request)])[0]
    if ids is None:
        raise DataError(f"request {request.request_id}: holds no prompt of the data set's kind")
    local = (manifest.raw.get("routing") or {}).get("cache_scope") == "dp_local"
    row = {
        "type": kind,
        "instance_id": f"dp{request.planned_dp_id if local else 0}",
        "trace_id": request.request_id,
        "timestamp_ns": place * _BETWEEN_ROWS_NS,
        "keys": block_keys(ids, manifest.block_size, parent=root_key()),
    }
    return _encode(row if kind == "write" else {**row, "input_len": len(ids)})


def _data_row(request: SendRequest) -> DataRow:
    prompt = msgspec.json.decode(request.prompt)
    as_ids = isinstance(prompt, list)
    return DataRow(
        request_id=request.request_id,
        max_tokens=request.max_tokens,
        prefix_group_id=request.prefix_group_id,
        prompt=None if as_ids else prompt,
        prompt_token_ids=prompt if as_ids else None,
    )


_WITH_IDS = (PromptFormat.COMPLETIONS_TEXT, PromptFormat.COMPLETIONS_IDS)
_LAYOUTS = {
    ExportFormat.AISBENCH: _Layout("aisbench.jsonl", _aisbench),
    ExportFormat.AISBENCH_MOONCAKE: _Layout("aisbench_mooncake.jsonl", _aisbench_mooncake),
    ExportFormat.VLLM: _Layout("vllm.jsonl", _vllm),
    ExportFormat.SGLANG_AUTOBENCH: _Layout("sglang_autobench.jsonl", _sglang, _WITH_IDS),
    ExportFormat.AIPERF: _Layout("aiperf.jsonl", _aiperf),
    ExportFormat.AIPERF_MOONCAKE: _Layout("aiperf_mooncake.jsonl", _aiperf_mooncake),
    ExportFormat.GUIDELLM: _Layout("guidellm.jsonl", _guidellm),
    ExportFormat.EVALSCOPE: _Layout("evalscope.txt", _evalscope),
    ExportFormat.TRACE: _Layout("trace.jsonl", None, tuple(PromptFormat)),
}
