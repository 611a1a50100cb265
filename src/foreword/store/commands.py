"""The command or config with which another tool sends an exported data set as it was planned."""

from __future__ import annotations

import shlex
from enum import StrEnum
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.store.requests import RunManifest

AISBENCH_CONFIG = "aisbench_config.py"
_MOST_AISBENCH_BATCH = 500


class ExportFormat(StrEnum):
    """Who is to read the data set."""

    AISBENCH = "aisbench"
    AISBENCH_MOONCAKE = "aisbench-mooncake"
    VLLM = "vllm"
    SGLANG_AUTOBENCH = "sglang-autobench"
    AIPERF = "aiperf"
    AIPERF_MOONCAKE = "aiperf-mooncake"
    GUIDELLM = "guidellm"
    EVALSCOPE = "evalscope"
    TRACE = "trace"


_COMMANDS = {
    ExportFormat.AISBENCH: "ais_bench {file} -m perf --num-warmups 0",
    ExportFormat.AISBENCH_MOONCAKE: (
        "ais_bench --models vllm_api_general_stream --datasets mooncake_trace_gen -m perf --num-warmups 0"
    ),
    ExportFormat.VLLM: (
        "vllm bench serve --backend openai --base-url {url} --endpoint /v1/completions --model {model} "
        "--dataset-name custom --dataset-path {file} --custom-output-len -1 --num-prompts {count} "
        "--max-concurrency {concurrency} --request-rate inf --ignore-eos --temperature 0 --disable-shuffle "
        "--skip-chat-template --no-oversample --ready-check-timeout-sec 0 --num-warmups 0"
    ),
    ExportFormat.SGLANG_AUTOBENCH: (
        "python -m sglang.bench_serving --backend sglang-oai --base-url {url} --model {model} "
        "--dataset-name autobench --dataset-path {file} --num-prompts {count} --max-concurrency {concurrency} "
        "--warmup-requests 0"
    ),
    ExportFormat.AIPERF: (
        "aiperf profile --url {url} --model {model} --endpoint-type completions --streaming "
        "--input-file {file} --custom-dataset-type single_turn --request-count {count} --concurrency {concurrency} "
        "--extra-inputs ignore_eos:true"
    ),
    ExportFormat.AIPERF_MOONCAKE: (
        "aiperf profile --url {url} --model {model} --endpoint-type completions --streaming "
        "--input-file {file} --custom-dataset-type mooncake_trace --no-fixed-schedule "
        "--request-count {count} --concurrency {concurrency} --extra-inputs ignore_eos:true"
    ),
    ExportFormat.GUIDELLM: (
        "guidellm run --backend kind=openai_http,target={url},model={model},request_format=/v1/completions "
        "--profile kind=concurrent,streams={concurrency} --constraint kind=max_requests,count={count} "
        "--data kind=json_file,path={file}"
    ),
    ExportFormat.EVALSCOPE: (
        "evalscope perf --url {url}/v1/completions --model {model} --api openai --dataset line_by_line "
        "--dataset-path {file} --number {count} --parallel {concurrency}"
    ),
    ExportFormat.TRACE: "foreword replay --config REPLAY.json",
}
_NOTES: dict[ExportFormat, tuple[str, ...]] = {
    ExportFormat.AISBENCH: ("the model's path in the config is where AISBench finds a tokenizer; fill it in",),
    ExportFormat.AISBENCH_MOONCAKE: ("name the file in the data set's config of AISBench, with use_timestamp False",),
    ExportFormat.AIPERF: ("a session is a group on a rank, whose requests are sent one after another",),
    ExportFormat.AIPERF_MOONCAKE: ("timestamps only keep the order",),
    ExportFormat.EVALSCOPE: ("the format has no lengths of answers; set --max-tokens and --min-tokens for all",),
    ExportFormat.TRACE: (
        "give REPLAY.json an instance dp0, dp1, ... for each rank, with the data set's block_size and policy vllm",
    ),
}
_WARM = "send warmup.jsonl first: the ratio is planned for warm caches"
_COLD = "start from an empty cache (restart the server, or POST /reset_prefix_cache): the tool does not empty it"


def planned_warm(manifest: RunManifest) -> bool:
    """Whether the ratio is that of caches that hold the prefixes already."""
    theory = manifest.raw.get("theoretical_result")
    return isinstance(theory, dict) and theory.get("designed_pass") == "hot"


def command_for(target: ExportFormat, file: Path, *, manifest: RunManifest, url: str) -> str:
    """A line for a shell; what the data set does not say stands in capitals."""
    facts = {"file": shlex.quote(str(file)), "url": shlex.quote(url.rstrip("/")), "count": manifest.request_count}
    model = shlex.quote(manifest.model) if manifest.model else "MODEL"
    return _COMMANDS[target].format(**facts, model=model, concurrency=manifest.concurrency)


def notes_for(target: ExportFormat, manifest: RunManifest) -> tuple[str, ...]:
    """What the user has to see to, so that the ratio is the designed one."""
    if target is ExportFormat.TRACE:
        return _NOTES[target]
    first = _WARM if planned_warm(manifest) else _COLD
    ranks = "one address a rank: the tool does not route by planned_dp_id"
    return (first, *((ranks,) if manifest.dp_size > 1 else ()), *_NOTES.get(target, ()))


def aisbench_config(file: Path, manifest: RunManifest, *, url: str) -> str:
    """A config of AISBench: bare prompts, one answer length a request, no retry that would warm the cache."""
    address = urlsplit(url)
    return _AISBENCH.substitute(
        dataset_id=repr(manifest.dataset_id),
        model=repr(manifest.model or ""),
        host=repr(address.hostname or "localhost"),
        port=address.port or 80,
        batch=min(manifest.concurrency, _MOST_AISBENCH_BATCH),
        path=repr(str(file.resolve())),
    )


_AISBENCH = Template('''"""Made by Foreword from data set $dataset_id; sends its requests in order, as they are."""

from ais_bench.benchmark.datasets import CustomDataset
from ais_bench.benchmark.models import VLLMCustomAPI
from ais_bench.benchmark.openicl.icl_evaluator import AccEvaluator
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer
from ais_bench.benchmark.openicl.icl_prompt_template import PromptTemplate
from ais_bench.benchmark.openicl.icl_retriever import ZeroRetriever

models = [
    dict(
        attr="service",
        type=VLLMCustomAPI,
        abbr="foreword-completions",
        path="",
        model=$model,
        stream=True,
        request_rate=0,
        retry=1,
        host_ip=$host,
        host_port=$port,
        max_out_len=512,
        batch_size=$batch,
        generation_kwargs=dict(temperature=0, ignore_eos=True),
    )
]

datasets = [
    dict(
        abbr="foreword",
        type=CustomDataset,
        path=$path,
        reader_cfg=dict(input_columns=["question", "max_out_len"], output_column="answer"),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="{question}"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator)),
    )
]
''')
