"""Every execution mode with either semantics, from config to measured hits, on the built-in server (decision 1)."""

from __future__ import annotations

import contextlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession

from foreword.config.dataset import ROOT, DatasetConfig
from foreword.config.server import ServerConfig
from foreword.flow import Making, generate
from foreword.run.session import run_dataset
from foreword.run.spec import RunSpec, Silent
from foreword.server.running import start
from tests.support.builtin import ask, builtin_tokenizer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PASSES = {
    "cold": ("cold",),
    "progressive_prefix_fill": ("cold",),
    "warmup": ("hot",),
    "compare": ("cold", "hot"),
}
# Decision 1: which pass a config designs for, and whether the designed total is the one nearest to the target.
DESIGNED = {
    ("order_aware_global", "cold"): ("cold", True),
    ("order_aware_global", "progressive_prefix_fill"): ("cold", True),
    ("order_aware_global", "warmup"): ("hot", False),
    ("order_aware_global", "compare"): ("cold", True),
    ("static_prefix_ratio", "cold"): ("cold", False),
    ("static_prefix_ratio", "progressive_prefix_fill"): ("cold", False),
    ("static_prefix_ratio", "warmup"): ("hot", True),
    ("static_prefix_ratio", "compare"): ("hot", True),
}
BLOCK, REQUESTS = 16, 24

Row = dict[str, Any]


def config(semantics: str = "order_aware_global", mode: str = "cold", **more: object) -> DatasetConfig:
    """Two groups of spread lengths; ``more`` replaces whole sections."""
    sections: dict[str, object] = {
        "dataset_id": f"{semantics}-{mode}",
        "seed": 3,
        "request_count": REQUESTS,
        "block_size": BLOCK,
        "engine": "vllm",
        "input_length": {"mode": "truncated_normal", "min": 64, "max": 300, "mean": 170, "std": 60},
        "output_length": 2,
        "target": {"hit_ratio": 0.5, "semantics": semantics},
        "prefix": {
            "mode": "multi_prefix",
            "groups": [{"id": "a", "request_weight": 2}, {"id": "b", "request_weight": 1}],
        },
        "request_order": {"across_group": "interleave"},
        "execution": {"mode": mode},
    }
    return DatasetConfig.parse(sections | more, root=ROOT)


@contextlib.asynccontextmanager
async def servers(count: int) -> AsyncIterator[tuple[str, ...]]:
    """Built-in servers, each with a cache of its own."""
    fast = ServerConfig(port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None, block_size=BLOCK)
    async with contextlib.AsyncExitStack() as stack:
        urls = []
        for _ in range(count):
            server = await start(fast, builtin_tokenizer())
            stack.push_async_callback(server.close)
            urls.append(server.url)
        yield tuple(urls)


async def measure(settings: DatasetConfig, folder: Path, *, endpoints: int = 1) -> tuple[list[Row], Row, list[Row]]:
    """Metadata, manifest and result rows of a run that sends one request at a time."""
    dataset = folder / "dataset"
    generate(settings, dataset, making=Making(workers=1))
    async with servers(endpoints) as urls:
        metrics = tuple(f"{url}/metrics" for url in urls)
        spec = RunSpec(dataset, urls, metrics, concurrency=1, output=folder / "run")
        outcome = await run_dataset(spec, Silent())
    assert outcome.warnings == ()
    manifest = json.loads((dataset / "manifest.json").read_text())
    return _lines(dataset / "request_metadata.jsonl"), manifest, _lines(folder / "run/runtime/request_results.jsonl")


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def counters_of(folder: Path, name: str) -> tuple[int, int]:
    """Queried and hit tokens that the servers counted in a pass."""
    document = json.loads((folder / "run/runtime/prefix_cache_metrics.json").read_text())
    entry = next(entry for entry in document["passes"] if entry["pass"] == name)
    return entry["queries_delta"], entry["hits_delta"]


def assert_as_designed(metadata: list[Row], rows: list[Row], name: str, *, folder: Path) -> None:
    """Order, prompt tokens and cached tokens of every request, and the counters, are the planned ones."""
    measured = [row for row in rows if row["pass"] == name]
    wanted = [(row["request_id"], row["input_len"], row[f"expected_hit_len_{name}"]) for row in metadata]
    assert [(row["request_id"], row["prompt_tokens"], row["cached_tokens"]) for row in measured] == wanted
    assert [row["sent_ns"] for row in measured] == sorted(row["sent_ns"] for row in measured)
    assert counters_of(folder, name) == tuple(sum(column) for column in list(zip(*wanted, strict=True))[1:])


@pytest.mark.parametrize(
    ("semantics", "mode", "prompt_format"),
    [
        *((semantics, mode, "completions_text") for semantics, mode in DESIGNED),
        ("order_aware_global", "progressive_prefix_fill", "completions_ids"),
        ("order_aware_global", "compare", "completions_ids"),
        ("static_prefix_ratio", "warmup", "completions_ids"),
    ],
)
async def test_a_mode_measures_what_it_designs(semantics: str, mode: str, prompt_format: str, tmp_path: Path) -> None:
    """Each pass hits what its prediction says, request by request; the designed pass is that of decision 1."""
    designed_pass, nearest = DESIGNED[semantics, mode]

    metadata, manifest, rows = await measure(config(semantics, mode, prompt_format=prompt_format), tmp_path)

    for name in PASSES[mode]:
        assert_as_designed(metadata, rows, name, folder=tmp_path)
    designed = sum(row["expected_hit_len"] for row in metadata)
    assert designed == sum(row["cached_tokens"] for row in rows if row["pass"] == designed_pass)
    assert manifest["theoretical_result"]["designed_hit_tokens"] == designed
    off = abs(designed - Fraction(sum(row["input_len"] for row in metadata), 2))
    assert (off <= Fraction(BLOCK, 2)) == nearest


@pytest.mark.parametrize(
    "order",
    [
        {"mode": "shuffle"},
        {"mode": "prefix_len_asc"},
        {"mode": "prefix_len_desc"},
        {"mode": "input_len_desc"},
        {"mode": "weighted_interleave"},
        {"within_group": "prefix_len_desc", "across_group": "shuffle"},
        {"within_group": "shuffle", "across_group": "grouped"},
    ],
    ids=lambda order: "-".join(order.values()),
)
async def test_an_order_measures_what_it_designs(order: Row, tmp_path: Path) -> None:
    """Any send order is kept at one request at a time, and its hits are the predicted ones."""
    metadata, _, rows = await measure(config(request_order=order, prompt_format="completions_ids"), tmp_path)

    assert_as_designed(metadata, rows, "cold", folder=tmp_path)
    total = sum(row["input_len"] for row in metadata)
    assert abs(sum(row["expected_hit_len"] for row in metadata) - Fraction(total, 2)) <= Fraction(BLOCK, 2)


@pytest.mark.parametrize("routing", [{"bind_prefix_group_to_dp": True}, {"assignment": "round_robin"}], ids=str)
@pytest.mark.parametrize("mode", ["cold", "compare"])
async def test_two_servers_are_two_caches(mode: str, routing: Row, tmp_path: Path) -> None:
    """With dp_local each rank is a URL with lanes of its own; hits and summed counters are the planned ones."""
    local = {"cache_scope": "dp_local", "dp_size": 2, **routing}

    metadata, _, rows = await measure(config(mode=mode, routing=local), tmp_path, endpoints=2)

    for name in PASSES[mode]:
        assert_as_designed(metadata, rows, name, folder=tmp_path)
    planned = {row["request_id"]: row["planned_dp_id"] for row in metadata}
    assert set(planned.values()) == {0, 1}
    assert all(row["url_index"] == planned[row["request_id"]] for row in rows if row["pass"] != "warmup")


async def test_a_hot_pass_alone_finds_what_someone_else_warmed(tmp_path: Path) -> None:
    """Mode hot sends no warm-up: on a server that was given the warm-up rows every request hits what is planned."""
    dataset = tmp_path / "dataset"
    generate(config("static_prefix_ratio", "hot", isolation="none"), dataset, making=Making(workers=1))
    metadata = _lines(dataset / "request_metadata.jsonl")
    async with servers(1) as urls, ClientSession(urls[0]) as client:
        for row in _lines(dataset / "warmup.jsonl"):
            await ask(client, prompt=row["prompt"], max_tokens=1)
        spec = RunSpec(dataset, urls, (f"{urls[0]}/metrics",), concurrency=1, output=tmp_path / "run")
        outcome = await run_dataset(spec, Silent())

    rows = _lines(tmp_path / "run/runtime/request_results.jsonl")
    assert outcome.warnings == ()
    assert {row["pass"] for row in rows} == {"hot"}
    assert_as_designed(metadata, rows, "hot", folder=tmp_path)
