"""Runs against the built-in server: a real block cache with vLLM's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foreword.config.server import ServerConfig
from foreword.run.session import run_dataset
from foreword.run.spec import RunSpec, Silent
from foreword.server.running import start
from foreword.terms import ExecutionMode
from tests.support.builtin import builtin_tokenizer
from tests.support.run_data import Planned, write_dataset
from tests.support.stored_run import load_run

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.run.spec import RunOutcome

# blocks of 16; the longest shared prefix sent before in the group is what a request can hit
PLANS = (
    Planned("a", shared=64, length=120, cold=0),
    Planned("b", shared=32, length=90, cold=0),
    Planned("a", shared=96, length=130, cold=64),
    Planned("a", shared=48, length=100, cold=48),
    Planned("b", shared=48, length=90, cold=32),
    Planned("a", shared=96, length=113, cold=96),
)
COLD, HOT, TOKENS = 240, 384, 643


async def run_on_builtin(folder: Path, settings: dict[str, Any], **options: Any) -> RunOutcome:  # noqa: ANN401 - RunSpec
    """One run of the plans above."""
    dataset = write_dataset(folder / "dataset", PLANS, block_size=16)
    fast = {"port": 0, "prefill_tokens_per_s": 1e9, "decode_tokens_per_s": None, "block_size": 16}
    server = await start(ServerConfig.model_validate(fast | settings), builtin_tokenizer())
    try:
        spec = RunSpec(dataset, (server.url,), (f"{server.url}/metrics",), outputs=folder, **options)
        return await run_dataset(spec, Silent())
    finally:
        await server.close()


async def test_every_request_hits_what_was_planned(tmp_path: Path) -> None:
    """Cold and hot pass: each request's cached tokens, their sum and the counters are the plan's."""
    outcome = await run_on_builtin(tmp_path, {})

    cold, _, hot = outcome.passes
    assert outcome.warnings == ()
    assert cold.usage_hit_ratio == cold.counter_hit_ratio == cold.designed_hit_ratio == COLD / TOKENS
    assert hot.usage_hit_ratio == hot.counter_hit_ratio == hot.designed_hit_ratio == HOT / TOKENS
    for row in load_run(outcome.folder).rows():
        assert row.cached_tokens == (row.expected_hit_len or 0)
        assert row.prompt_tokens == row.input_len


@pytest.mark.parametrize("isolation", ["salt", "reset"])
async def test_runs_do_not_meet(tmp_path: Path, isolation: str) -> None:
    """Two cold runs on one server hit the same, by salt and by reset."""
    dataset = write_dataset(tmp_path / "dataset", PLANS, block_size=16, config={"isolation": isolation})
    fast = {"port": 0, "prefill_tokens_per_s": 1e9, "decode_tokens_per_s": None, "block_size": 16}
    server = await start(ServerConfig.model_validate(fast), builtin_tokenizer())
    try:
        spec = RunSpec(dataset, (server.url,), mode=ExecutionMode.COLD, outputs=tmp_path)
        outcomes = [await run_dataset(spec, Silent()) for _ in range(2)]
    finally:
        await server.close()

    assert [outcome.passes[0].usage_hit_ratio for outcome in outcomes] == [COLD / TOKENS] * 2
    assert [load_run(outcome.folder).run["isolation"]["applied"] for outcome in outcomes] == [isolation] * 2


async def test_several_in_flight(tmp_path: Path) -> None:
    """With several in flight counters still equal the sum of what requests report."""
    outcome = await run_on_builtin(tmp_path, {}, mode=ExecutionMode.COLD, concurrency=4)

    stored = load_run(outcome.folder)
    assert stored.prefix_cache["passes"][0]["hits_delta"] == sum(row.cached_tokens or 0 for row in stored.rows())
    assert stored.prefix_cache["passes"][0]["queries_delta"] == TOKENS
