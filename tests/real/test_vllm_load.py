"""Sixteen requests at once on a real vLLM: what the simulation says at the times that were measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.acceptance import foreword
from tests.support.groups import folder_of
from tests.support.servers import MODEL_NAME, vllm_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.real

BLOCK, TOGETHER = 32, 16
NEAR_POINTS = 0.3


def config(gpu_blocks: int | None) -> dict[str, Any]:
    """Twelve tenants in turn, so that a small cache forgets each before it comes again."""
    lengths = {"mode": "truncated_normal", "min": 300, "max": 900, "mean": 560, "std": 140}
    return {
        "dataset_id": f"load-{gpu_blocks or 'ample'}",
        "seed": 5,
        "request_count": 600,
        "block_size": BLOCK,
        "engine": "vllm",
        "prompt_format": "completions_ids",
        "isolation": "salt",
        "input_length": lengths,
        "output_length": 16,
        "target": {"hit_ratio": 0.6},
        "prefix": {"mode": "multi_prefix", "group_count": 12},
        "request_order": {"across_group": "interleave", "within_group": "shuffle"},
        "execution": {"mode": "cold", "concurrency": TOGETHER},
        **({} if gpu_blocks is None else {"capacity_blocks": gpu_blocks - 1}),
    }


@pytest.mark.parametrize("gpu_blocks", [None, 401, 301], ids=["ample", "small", "smaller"])
def test_the_simulation_gives_what_was_measured(gpu_blocks: int | None, tiny_model: Path, tmp_path: Path) -> None:
    """The last replay of the report's ladder is within 0.3 points of the measured ratio, whatever the cache."""
    venv = folder_of("VLLM_VENV")
    assert venv is not None
    path, dataset, run = tmp_path / "config.yaml", tmp_path / "dataset", tmp_path / "run"
    path.write_text(json.dumps({"prefix_cache_dataset": config(gpu_blocks)}), encoding="utf-8")
    foreword("generate", "--config", path, "--output", dataset, "--tokenizer", tiny_model)
    with vllm_server(venv, tiny_model, tmp_path / "vllm", block_size=BLOCK, gpu_blocks=gpu_blocks) as url:
        to_server = ("--url", url, "--metrics-url", f"{url}/metrics", "--model", MODEL_NAME)
        foreword("run", "--dataset", dataset, "--output", run, "--concurrency", str(TOGETHER), *to_server)
    foreword("report", "--run-dir", run)
    document = json.loads((run / "report" / "prefix_cache_report.json").read_text(encoding="utf-8"))
    rungs = document["passes"][0]["ladder"]["rungs"]
    ratios = {rung["name"]: rung["ratio"] for rung in rungs}

    assert rungs[-2]["name"] == ("concurrency" if gpu_blocks is None else "capacity")
    assert abs(rungs[-2]["ratio"] - ratios["measured"]) * 100 <= NEAR_POINTS, ratios
    assert (ratios["served"] - ratios["measured"] > 0.02) is (gpu_blocks is not None)
