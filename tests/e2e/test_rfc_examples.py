"""The RFC's three examples as written, from GSM8K and a real Qwen tokenizer, through the built-in server."""

from __future__ import annotations

import json
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.server.running import server_process
from tests.support.groups import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.data, pytest.mark.tokenizers]

PASSES = {
    "fixed_single_prefix_50": ("cold", "hot"),
    "progressive_single_prefix_50": ("cold",),
    "progressive_multi_prefix_50": ("cold",),
}


@pytest.fixture(scope="module")
def server(tokenizer_file: Callable[[str], Path]) -> Iterator[str]:
    """The built-in server with Qwen's tokenizer, fast enough to leave the time to the client."""
    config = ServerConfig(
        tokenizer=str(tokenizer_file("qwen")), port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None
    )
    with server_process(config) as url:
        yield url


@pytest.mark.parametrize("example", PASSES)
def test_an_example_of_the_rfc_measures_what_it_designs(
    example: str, server: str, test_data: Path, tokenizer_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """Planned tokens, expected hits, answers and counters agree to the token, and the target is met to half a block."""
    dataset, run = tmp_path / "dataset", tmp_path / "run"
    sources = ["--tokenizer", str(tokenizer_file("qwen")), "--corpus", str(test_data / "data" / "gsm8k")]

    config = ROOT / "examples" / f"{example}.yaml"
    assert main(["generate", "--config", str(config), "--output", str(dataset), *sources]) == os.EX_OK
    assert main(["run", "--dataset", str(dataset), "--url", f"{server}/v1/completions", "--output", str(run)]) == 0
    assert main(["report", "--run-dir", str(run)]) == 0

    metadata = [json.loads(line) for line in (dataset / "request_metadata.jsonl").read_text().splitlines()]
    total = sum(row["input_len"] for row in metadata)
    counters = json.loads((run / "runtime" / "prefix_cache_metrics.json").read_text())["passes"]
    for name in PASSES[example]:
        rows = _rows(run, name)
        expected = {row["request_id"]: row[f"expected_hit_len_{name}"] for row in metadata}
        assert {row["request_id"]: row["cached_tokens"] for row in rows} == expected
        assert sum(row["prompt_tokens"] for row in rows) == total
        counted = next(entry for entry in counters if entry["pass"] == name)
        assert (counted["queries_delta"], counted["hits_delta"]) == (total, sum(expected.values()))
    designed = sum(row["expected_hit_len"] for row in metadata)
    assert abs(designed - Fraction(total, 2)) <= 8
    assert _report(run)["headline"]["runtime"]["verdict"] == "WITHIN_GUIDE"


def _rows(run: Path, name: str) -> list[dict[str, Any]]:
    lines = (run / "runtime" / "request_results.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["pass"] == name]


def _report(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "report" / "prefix_cache_report.json").read_text())
    return document
