"""Runs over a small data set against a scripted server."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.web import json_response

from foreword.errors import DataError, ServerError, UsageError
from foreword.run.session import run_dataset
from foreword.run.spec import Isolation, RunSpec, Silent
from foreword.terms import ExecutionMode, Pass
from tests.support.fake_openai import FakeOpenAI, serving
from tests.support.run_data import (
    SMALL,
    SMALL_COLD_HITS,
    SMALL_HOT_HITS,
    SMALL_TOKENS,
    Planned,
    token_ids,
    write_dataset,
)
from tests.support.stored_run import load_run
from tests.unit.run.runs import make_run

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

COLD = ExecutionMode.COLD


async def test_cold_pass_hits_what_was_planned(tmp_path: Path) -> None:
    """Requests, usage and counters of a cold pass agree with the plan."""
    server = FakeOpenAI()

    outcome = await make_run(server, tmp_path, mode=COLD)

    assert [body["prompt"] for body in server.sent] == [token_ids(number, plan) for number, plan in enumerate(SMALL)]
    (cold,) = outcome.passes
    assert (cold.ok, cold.failed) == (5, 0)
    assert cold.designed_hit_ratio == cold.usage_hit_ratio == cold.counter_hit_ratio == SMALL_COLD_HITS / SMALL_TOKENS
    stored = load_run(tmp_path / "outputs" / "run_001")
    assert [row.request_id for row in stored.rows()] == ["r0", "r1", "r2", "r3", "r4"]
    assert [row.cached_tokens for row in stored.rows()] == [plan.cold for plan in SMALL]
    assert stored.run["state"] == "complete"
    assert stored.prefix_cache["block_size_reported"] == 4
    assert stored.prefix_cache["passes"][0]["hits_delta"] == SMALL_COLD_HITS
    assert stored.prefix_cache["passes"][0]["queries_delta"] == SMALL_TOKENS


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


async def test_warm_up_rounds_of_the_data_set(tmp_path: Path) -> None:
    """Each round sends every warm-up request once; no round is a pass without requests."""
    dataset = write_dataset(tmp_path / "twice", config={"execution": {"warmup_rounds": 2}})

    outcome = await make_run(FakeOpenAI(), tmp_path, dataset, mode=ExecutionMode.WARMUP)

    assert [(one.name, one.requests) for one in outcome.passes] == [(Pass.WARMUP, 4), (Pass.HOT, 5)]


async def test_times_are_in_order(tmp_path: Path) -> None:
    """Due, sent, first token, last token, done: in this order, from the run's start."""
    outcome = await make_run(FakeOpenAI(), tmp_path, mode=COLD)

    for row in load_run(outcome.folder).rows():
        times = [row.due_ns, row.sent_ns, row.first_token_ns, row.last_token_ns, row.done_ns]
        known = [at_ns for at_ns in times if at_ns is not None]
        assert len(known) == 5
        assert known == sorted(known)
        assert known[0] > 0
        assert len(row.token_ns) == row.completion_tokens == 3


async def test_start_order_at_any_concurrency(tmp_path: Path) -> None:
    """With several in flight requests start in the order of the file, however they end."""
    dataset = write_dataset(tmp_path / "many", tuple(Planned("a", 8, 16, cold=8) for _ in range(40)))

    outcome = await make_run(FakeOpenAI(), tmp_path, dataset, mode=COLD, concurrency=7)

    rows = sorted(load_run(outcome.folder).rows(), key=lambda row: row.order_index)
    sent = [row.sent_ns or 0 for row in rows]
    assert len(rows) == 40
    assert sent == sorted(sent)


async def test_in_flight_is_what_was_asked_for(tmp_path: Path) -> None:
    """Exactly ``concurrency`` requests are in flight while there are enough."""
    server, now, most = FakeOpenAI(), 0, 0

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(20):
            await asyncio.sleep(0)
        response = await fake.stream(request, body)
        now -= 1
        return response

    server.answer = answer
    dataset = write_dataset(tmp_path / "many", tuple(Planned("a", 8, 16, cold=8) for _ in range(12)))

    await make_run(server, tmp_path, dataset, mode=COLD, concurrency=3)

    assert most == 3


async def test_the_first_requests_only(tmp_path: Path) -> None:
    """``max_requests`` sends the first ones; designed and measured are theirs."""
    outcome = await make_run(FakeOpenAI(), tmp_path, mode=COLD, max_requests=3)

    assert outcome.passes[0].requests == 3
    assert outcome.passes[0].designed_hit_ratio == outcome.passes[0].usage_hit_ratio == 8 / 48


async def test_text_prompts_reach_the_server_unchanged(tmp_path: Path) -> None:
    """Text and chat prompts are sent to their endpoints as they stand in the file."""
    for prompt_format in ("completions_text", "chat"):
        server = FakeOpenAI()
        dataset = write_dataset(tmp_path / prompt_format, prompt_format=prompt_format)

        outcome = await make_run(server, tmp_path, dataset, mode=COLD)

        prompts = [body.get("prompt") or body["messages"][0]["content"] for body in server.sent]
        assert prompts[0] == " ".join(str(token) for token in token_ids(0, SMALL[0]))
        assert outcome.passes[0].usage_hit_ratio == SMALL_COLD_HITS / SMALL_TOKENS


async def test_a_damaged_row_ends_the_run(tmp_path: Path) -> None:
    """File and line are named, what was measured before is kept."""
    dataset = write_dataset(tmp_path / "dataset")
    lines = (dataset / "data.jsonl").read_text().splitlines(keepends=True)
    (dataset / "data.jsonl").write_text("".join([*lines[:3], "{broken\n", *lines[4:]]))

    with pytest.raises(DataError, match=r"data\.jsonl:4"):
        await make_run(FakeOpenAI(), tmp_path, dataset, mode=COLD)

    assert [row.request_id for row in load_run(tmp_path / "outputs" / "run_001").rows()] == ["r0", "r1", "r2"]


async def test_lanes_reach_their_servers(tmp_path: Path) -> None:
    """Two addresses: each lane's requests go to its own server, whose counters are kept apart."""
    plans = (Planned("a", 8, 16, cold=0), Planned("a", 8, 16, cold=0, dp=1), Planned("a", 8, 16, cold=8, dp=1))
    dataset = write_dataset(tmp_path / "lanes", plans, routing={"cache_scope": "dp_local", "dp_size": 2})
    first, second = FakeOpenAI(), FakeOpenAI()

    async with serving(first) as one, serving(second) as two:
        spec = RunSpec(dataset, (one, two), mode=COLD, outputs=tmp_path)
        outcome = await run_dataset(spec, Silent())

    assert (len(first.sent), len(second.sent)) == (1, 2)
    assert outcome.passes[0].usage_hit_ratio == outcome.passes[0].counter_hit_ratio == 8 / 48
    counted = load_run(outcome.folder).prefix_cache["passes"][0]
    assert [endpoint["queries_delta"] for endpoint in counted["endpoints"]] == [16, 32]
    assert [row.url_index for row in load_run(outcome.folder).rows()] == [0, 1, 1]


async def test_lanes_name_their_rank_to_one_server(tmp_path: Path) -> None:
    """One address for two lanes: a header names the rank; metrics that show one rank are told before anything is sent.

    When the rank is refused, one more line says so.
    """
    plans = (Planned("a", 8, 16, cold=0), *[Planned("a", 8, 16, cold=0, dp=1)] * 2)
    dataset = write_dataset(tmp_path / "lanes", plans, routing={"cache_scope": "dp_local", "dp_size": 2})
    told: list[tuple[int, str]] = []

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if request.headers["X-data-parallel-rank"] == "1":
            return json_response({"error": {"message": "no such rank"}}, status=400)
        return await fake.stream(request, body)

    server = FakeOpenAI(answer=answer)

    class Told(Silent):
        def warn(self, text: str) -> None:
            told.append((len(server.sent), text))

    async with serving(server) as url:
        await run_dataset(RunSpec(dataset, (url,), mode=COLD, outputs=tmp_path), Told())

    ranks = [headers.get("X-data-parallel-rank") for headers in server.headers]
    what_to_do = "start one server for each rank, and give one URL per rank, with commas"
    assert ranks[-3:] == ["0", "1", "1"]
    assert told == [
        (0, f"the data set is planned for 2 data-parallel ranks, but the server's metrics show 1: {what_to_do}"),
        (2, f"the server answers HTTP 400 to requests for rank 1: {what_to_do}"),
    ]


@pytest.mark.parametrize(
    ("metrics", "found"),
    [("html", "an HTML page"), ("json", "JSON"), ("missing", "HTTP 404"), ("empty", "an empty page")],
)
async def test_a_metrics_url_that_has_no_metrics(tmp_path: Path, metrics: str, found: str) -> None:
    """A page that was asked for and is none ends the run before the first request, and says what it is."""
    server = FakeOpenAI(metrics=metrics)

    async with serving(server) as url:
        spec = RunSpec(write_dataset(tmp_path / "dataset"), (url,), (f"{url}/metrics",), outputs=tmp_path / "outputs")
        with pytest.raises(ServerError, match=found):
            await run_dataset(spec, Silent())

    assert server.bodies == []
    assert not (tmp_path / "outputs").exists()


async def test_metrics_that_were_not_asked_for_may_be_absent(tmp_path: Path) -> None:
    """Without a metrics page the run goes on; counters are absent, not 0."""
    outcome = await make_run(FakeOpenAI(metrics="html"), tmp_path, mode=COLD)

    assert outcome.passes[0].counter_hit_ratio is None
    stored = load_run(outcome.folder).prefix_cache
    assert stored["passes"][0]["queries_delta"] is None
    assert stored["passes"][0]["endpoints"] == []
    assert {"queries", "hits"} <= set(stored["absent"])


async def test_zeros_that_a_server_leaves_out(tmp_path: Path) -> None:
    """Answers without cached tokens make the ratio by usage unknown; counters still tell it (case 34)."""
    outcome = await make_run(FakeOpenAI(reports="unless_zero"), tmp_path, mode=COLD)

    (cold,) = outcome.passes
    assert (cold.usage_hit_ratio, cold.unreported) == (None, 2)
    assert cold.counter_hit_ratio == SMALL_COLD_HITS / SMALL_TOKENS


async def test_other_token_counts_are_noticed(tmp_path: Path) -> None:
    """A server that counts other prompt lengths than planned is named with an example."""
    dataset = write_dataset(tmp_path / "dataset", prompt_format="completions_text")
    rows = [json.loads(line) for line in (dataset / "data.jsonl").read_text().splitlines()]
    rows[2]["prompt"] = "begin " + rows[2]["prompt"]
    (dataset / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    outcome = await make_run(FakeOpenAI(), tmp_path, dataset, mode=COLD)

    assert any("request r2: 21 instead of 20 tokens" in warning for warning in outcome.warnings)


async def test_another_block_size_is_noticed(tmp_path: Path) -> None:
    """A server that matches other blocks than planned is named."""
    dataset = write_dataset(tmp_path / "dataset", block_size=16)

    outcome = await make_run(FakeOpenAI(), tmp_path, dataset, mode=COLD)

    assert any("blocks of 4 tokens" in warning and "blocks of 16" in warning for warning in outcome.warnings)


async def test_prompts_that_the_model_cannot_hold_are_noticed(tmp_path: Path) -> None:
    """A longest prompt beyond the model's context is told before every request fails."""
    dataset = write_dataset(tmp_path / "dataset")
    (dataset / "validation_report.json").write_text('{"lengths": {"max": 5000}}')

    outcome = await make_run(FakeOpenAI(), tmp_path, dataset, mode=COLD)

    assert any("5000 tokens, but the model's context ends at 4096" in warning for warning in outcome.warnings)


async def test_a_restart_in_the_middle_is_noticed(tmp_path: Path) -> None:
    """Counters that fall during a pass are told, and what they say is a lower bound."""
    server = FakeOpenAI(queries=10_000, hits=5_000)

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) == 3:
            fake.queries = fake.hits = 0
        return await fake.stream(request, body)

    server.answer = answer
    outcome = await make_run(server, tmp_path, mode=COLD)

    assert any("counters restarted during the cold pass" in warning for warning in outcome.warnings)
    counted = load_run(outcome.folder).prefix_cache["passes"][0]
    assert (counted["queries_delta"], counted["hits_delta"]) == (52, 20)
    assert counted["restarts"] != []


async def test_a_page_that_is_gone_after_a_pass_was_there_before(tmp_path: Path) -> None:
    """A server that stops showing its page is said to have lost it, not to lack the counters on it."""
    server = FakeOpenAI()

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        fake.metrics = "missing"
        return await fake.stream(request, body)

    server.answer = answer
    outcome = await make_run(server, tmp_path, mode=COLD, isolation=Isolation.NONE)

    assert any("were gone after it" in warning for warning in outcome.warnings)
    assert not {"queries", "hits"} & set(load_run(outcome.folder).prefix_cache["absent"])


async def test_a_page_that_counts_nothing_we_know(tmp_path: Path) -> None:
    """A metrics page of another program is a page, but what it lacks is said."""
    server = FakeOpenAI(metrics="other")

    async with serving(server) as url:
        spec = RunSpec(write_dataset(tmp_path / "dataset"), (url,), (f"{url}/metrics",), outputs=tmp_path)
        outcome = await run_dataset(spec, Silent())

    assert any("no prefix-cache counters" in warning for warning in outcome.warnings)


@pytest.mark.parametrize(
    ("models", "asked", "error", "text"),
    [
        (("a", "b"), None, UsageError, "several models: a, b"),
        (("a",), "b", ServerError, "no model b"),
        ((), None, ServerError, "lists no model"),
    ],
)
async def test_which_model(
    tmp_path: Path, models: tuple[str, ...], asked: str | None, error: type[Exception], text: str
) -> None:
    """The only model is the default; a choice or a name that does not exist ends the run before it begins."""
    with pytest.raises(error, match=text):
        await make_run(FakeOpenAI(models=models), tmp_path, model=asked)


async def test_a_dead_server_and_a_wrong_path(tmp_path: Path) -> None:
    """Both are one line before the first request; a wrong path is found even when the model is given."""
    dataset = write_dataset(tmp_path / "dataset")
    async with serving(FakeOpenAI()) as url:
        for model in (None, "tiny"):
            with pytest.raises(ServerError, match="HTTP 404"):
                await run_dataset(RunSpec(dataset, (f"{url}/wrong",), model=model), Silent())

    with pytest.raises(ServerError, match="connection refused"):
        await run_dataset(RunSpec(dataset, (url,)), Silent())


async def test_secrets_reach_the_server_and_nothing_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Key, salt, credentials and prompts are in no file of the run and in no output."""
    server = FakeOpenAI()
    async with serving(server) as url:
        private = url.replace("http://", "http://me:pa55word@")
        spec = RunSpec(
            write_dataset(tmp_path / "dataset"),
            (f"{url}?token=t0ken",),
            (f"{private}/metrics?token=t0ken",),
            api_key="k3y",
            salt="s4lt",
            outputs=tmp_path / "outputs",
        )
        outcome = await run_dataset(spec, Silent())

    assert server.headers[-1]["Authorization"] == "Bearer k3y"
    assert server.sent[-1]["cache_salt"] == "s4lt"
    written = b"".join(path.read_bytes() for path in (outcome.folder / "runtime").glob("*.json*"))
    for secret in ("pa55word", "t0ken", "k3y", "s4lt", "400,401", "400, 401"):
        assert secret.encode() not in written
        assert secret not in repr(spec)
        assert secret not in "".join(capfd.readouterr())


async def test_a_user_and_a_key(tmp_path: Path) -> None:
    """A user in the address is sent as such; together with a key it is refused before any request."""
    dataset, server = write_dataset(tmp_path / "dataset"), FakeOpenAI()
    async with serving(server) as url:
        private = url.replace("http://", "http://me:pa55word@")
        await run_dataset(RunSpec(dataset, (private,), mode=COLD, outputs=tmp_path), Silent())
        with pytest.raises(UsageError, match="one of them"):
            await run_dataset(RunSpec(dataset, (private,), api_key="k3y"), Silent())

    assert server.headers[-1]["Authorization"].startswith("Basic ")


async def test_an_output_folder_of_ones_own(tmp_path: Path) -> None:
    """``output`` is used as it is; one that holds something is refused before any request."""
    server = FakeOpenAI()

    outcome = await make_run(server, tmp_path, mode=COLD, output=tmp_path / "mine")

    assert outcome.folder == tmp_path / "mine"
    sent = len(server.bodies)
    with pytest.raises(UsageError, match="not an empty folder"):
        await make_run(server, tmp_path, output=tmp_path / "mine")
    assert len(server.bodies) == sent


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"timeout_s": 0}, {"max_requests": 0}, {"urls": ()}])
async def test_numbers_that_make_no_run(tmp_path: Path, options: dict[str, Any]) -> None:
    """Nothing in flight, no time and no request are usage errors."""
    with pytest.raises(UsageError):
        await make_run(FakeOpenAI(), tmp_path, **options)


@pytest.mark.usefixtures("sampled")
async def test_usage_is_sampled_by_a_process_of_its_own(tmp_path: Path) -> None:
    """A process of its own reads the page while requests are in flight; its samples fall into the pass."""
    server, read = FakeOpenAI(), asyncio.Event()

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await asyncio.wait_for(fake.sampled.wait(), 20)
        read.set()
        return await fake.stream(request, body)

    server.answer = answer
    outcome = await make_run(server, tmp_path, mode=COLD)

    samples = load_run(outcome.folder).prefix_cache["usage_samples"]
    assert read.is_set()
    assert {sample["kv_cache_usage"] for sample in samples} == {0.25}
    assert {sample["pass"] for sample in samples} <= {"cold", None}
