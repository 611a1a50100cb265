"""Runs over a small data set against a scripted server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from foreword.run.session import run_dataset
from foreword.run.spec import RunSpec, Silent
from foreword.store.runs import load_run
from foreword.terms import ExecutionMode, Pass
from tests.support.fake_openai import FakeOpenAI, serving
from tests.support.run_data import SMALL, SMALL_COLD_HITS, SMALL_HOT_HITS, SMALL_TOKENS, token_ids, write_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.run.spec import RunOutcome


async def make_run(
    server: FakeOpenAI,
    folder: Path,
    dataset: Path | None = None,
    **options: Any,  # noqa: ANN401 - fields of RunSpec
) -> RunOutcome:
    """One run of the small data set."""
    dataset = dataset or write_dataset(folder / "dataset")
    async with serving(server) as url:
        spec = RunSpec(dataset=dataset, urls=(url,), outputs=folder / "outputs", **options)
        return await run_dataset(spec, Silent())


async def test_cold_pass_hits_what_was_planned(tmp_path: Path) -> None:
    """Requests, usage and counters of a cold pass agree with the plan."""
    server = FakeOpenAI()

    outcome = await make_run(server, tmp_path, mode=ExecutionMode.COLD)

    assert [body["prompt"] for body in server.sent] == [token_ids(number, plan) for number, plan in enumerate(SMALL)]
    (cold,) = outcome.passes
    assert (cold.ok, cold.failed) == (5, 0)
    assert cold.designed_hit_ratio == cold.usage_hit_ratio == cold.counter_hit_ratio == SMALL_COLD_HITS / SMALL_TOKENS
    stored = load_run(tmp_path / "outputs" / "run_001")
    assert [row.request_id for row in stored.rows()] == ["r0", "r1", "r2", "r3", "r4"]
    assert [row.cached_tokens for row in stored.rows()] == [plan.cold for plan in SMALL]
    assert stored.run["state"] == "complete"


async def test_compare_is_cold_then_warmed_then_hot(tmp_path: Path) -> None:
    """The hot pass has another salt than the cold one, is warmed first, and hits every shared prefix."""
    server = FakeOpenAI()

    outcome = await make_run(server, tmp_path)

    cold, warmup, hot = outcome.passes
    assert [one.name for one in outcome.passes] == [Pass.COLD, Pass.WARMUP, Pass.HOT]
    assert cold.usage_hit_ratio == SMALL_COLD_HITS / SMALL_TOKENS
    assert warmup.usage_hit_ratio == 0
    assert hot.usage_hit_ratio == hot.designed_hit_ratio == SMALL_HOT_HITS / SMALL_TOKENS
    salts = [body["cache_salt"] for body in server.sent]
    assert len(set(salts[:5])) == len(set(salts[5:])) == 1
    assert salts[0] != salts[-1]
    text = json.dumps(load_run(outcome.folder).run)
    assert salts[0] not in text
    assert salts[-1] not in text
