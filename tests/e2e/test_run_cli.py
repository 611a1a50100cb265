"""``foreword run`` as a command of its own, against a scripted server in another thread."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.web import Response

from foreword.store.runs import read_rows
from tests.support.fake_openai import FakeOpenAI, begin, served
from tests.support.run_data import SMALL_COLD_HITS, SMALL_TOKENS, Planned, write_dataset
from tests.support.stored_run import load_run

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web


def command(folder: Path, *arguments: str, dataset: Path | None = None) -> list[str]:
    """Command line of a run of the small data set."""
    dataset = dataset or write_dataset(folder / "dataset")
    return [sys.executable, "-m", "foreword", "run", "--dataset", str(dataset), *arguments]


def run(folder: Path, *arguments: str, dataset: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end."""
    line = command(folder, *arguments, dataset=dataset)
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_run_ends_with_a_summary(tmp_path: Path) -> None:
    """Passes with designed and measured ratios, and the folder, are on standard output; nothing else is."""
    with served(FakeOpenAI()) as url:
        done = run(tmp_path, "--url", url, "--metrics-url", f"{url}/metrics")

    assert (done.returncode, done.stderr) == (0, "")
    assert "cold            5       0   25.00 %   25.00 %      25.00 %" in done.stdout
    assert done.stdout.rstrip().endswith("run folder: outputs/run_001")


def test_json_is_one_object(tmp_path: Path) -> None:
    """``--json`` prints the outcome, with numbers and warnings, and nothing else."""
    with served(FakeOpenAI(honours_salt=False)) as url:
        done = run(tmp_path, "--url", url, "--mode", "cold", "--json", "--output", "mine")

    told = json.loads(done.stdout)
    assert (told["run_dir"], told["state"]) == ("mine", "complete")
    assert told["passes"][0]["usage_hit_ratio"] == SMALL_COLD_HITS / SMALL_TOKENS
    assert told["warnings"] == ["the server ignores cache_salt: what it has cached before is not kept apart"]
    assert done.stderr == f"warning: {told['warnings'][0]}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--url", "http://127.0.0.1:1"), 4, "cannot be reached: connection refused"),
        (("--url", "{url}/nowhere"), 4, "HTTP 404"),
        (("--url", "{url}/v1/chat/completions"), 2, "does not take completions_ids prompts"),
        (("--url", "{url}", "--metrics-url", "{url}/v1/models"), 4, "JSON, which is not the Prometheus text format"),
        (("--url", "{url}", "--metrics-url", "http://127.0.0.1:1"), 4, "connection refused"),
        (("--url", "{url}", "--api-key-env", "NO_SUCH_VARIABLE"), 2, "the environment has no NO_SUCH_VARIABLE"),
        (("--url", "{url}", "--model", "other"), 4, "no model other"),
        (("--url", "{url},{url}"), 2, "planned for 1 data-parallel lane"),
        (("--url", "{url}", "--concurrency", "0"), 2, "above 0"),
    ],
)
def test_nothing_is_sent_and_one_line_says_why(
    tmp_path: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    """Problems that show before the first request have their exit code, one line and no traceback."""
    server = FakeOpenAI()
    with served(server) as url:
        done = run(tmp_path, *(argument.format(url=url) for argument in arguments))

    assert done.returncode == code
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert server.sent == []
    assert not (tmp_path / "outputs").exists()


def test_every_request_fails(tmp_path: Path) -> None:
    """The run is written, the exit code is the server's, the first error is told."""
    server = FakeOpenAI(broken_status=503)
    with served(server) as url:
        done = run(tmp_path, "--url", url, "--mode", "cold", "--isolation", "none")

    assert done.returncode == 4
    assert "5 of 5 requests of the cold pass failed (http 5); the first: HTTP 503: no room" in done.stderr
    assert [row.error_kind for row in read_rows(tmp_path / "outputs/run_001/runtime/request_results.jsonl")] == [
        "http"
    ] * 5


def test_a_data_set_that_misses_its_target_is_said(tmp_path: Path) -> None:
    """A whole data set of another ratio than was asked for is sent, with one line about it."""
    theory = {"validation_status": "FAIL", "reason": "GRANULARITY", "designed_hit_ratio": 0.25, "target_hit_ratio": 0.9}
    dataset = write_dataset(tmp_path / "dataset", theoretical_result=theory)
    with served(FakeOpenAI()) as url:
        done = run(tmp_path, "--url", url, "--mode", "cold", dataset=dataset)

    assert done.returncode == 0
    assert done.stderr == (
        "warning: the data set misses its target (GRANULARITY): 25.00 % is designed for a target of 90.00 %\n"
    )


def test_some_requests_fail(tmp_path: Path) -> None:
    """Fewer failures than successes leave 0, with a warning that says how many, of what kind, and why."""

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) in {2, 4}:
            return Response(status=400, text='{"error": {"message": "not this one"}}')
        return await fake.stream(request, body)

    with served(FakeOpenAI(answer=answer)) as url:
        done = run(tmp_path, "--url", url, "--mode", "cold")

    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == (
        "warning: 2 of 5 requests of the cold pass failed (http 2); the first: HTTP 400: not this one"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    """A signal ends a run within seconds although a stream hangs; what was done is there, the exit code is 130."""
    plans = tuple(Planned("a", 8, 16, cold=8 if number else 0) for number in range(20))
    dataset, hanging = write_dataset(tmp_path / "dataset", plans), threading.Event()

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) < 4:
            return await fake.stream(request, body)
        response = await begin(request)
        hanging.set()
        await asyncio.Event().wait()
        return response

    with served(FakeOpenAI(answer=answer)) as url:
        line = command(tmp_path, "--url", url, "--mode", "cold", dataset=dataset)
        process = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert hanging.wait(30)
        process.send_signal(number)
        begun = time.monotonic()
        out, err = process.communicate(timeout=30)
        took_s = time.monotonic() - begun

    assert process.returncode == 130
    assert took_s < 10
    assert "interrupted; everything so far is in outputs/run_001" in err
    assert "run folder: outputs/run_001" in out
    stored = load_run(tmp_path / "outputs/run_001")
    assert stored.run["state"] == "interrupted"
    assert [row.request_id for row in stored.rows()] == ["r0", "r1", "r2"]


def test_help_names_the_flags() -> None:
    """``--help`` says what the command does and lists what it takes."""
    line = [sys.executable, "-m", "foreword", "run", "--help"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)

    assert "Send a data set to a server" in done.stdout
    for flag in ("--url", "--metrics-url", "--api-key-env", "--concurrency", "--mode", "--model", "--salt", "--json"):
        assert flag in done.stdout


def test_a_config_can_name_the_server(tmp_path: Path) -> None:
    """``execution.url`` stands in for ``--url``; with neither, the command says what is missing."""
    with served(FakeOpenAI()) as url:
        config = tmp_path / "C.yaml"
        config.write_text(
            "prefix_cache_dataset:\n  dataset_id: x\n  request_count: 1\n  input_length: 64\n  target: {hit_ratio: 0}\n"
            f"  execution: {{url: {url}, metrics_url: {url}/metrics}}\n"
        )
        done = run(tmp_path, "--config", str(config))

    assert done.returncode == 0, done.stderr
    assert run(tmp_path).returncode == 2
