"""The fifteen error cases of RFC 3.4.4, each through the command line: exit code, one line, what it names.

``test_every_case_is_here`` keeps the list whole; cases 11 to 15 are runs against a scripted server.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.web import Response

from foreword.cli.app import main
from tests.support.datasets import (
    METADATA,
    REPORT,
    generate,
    read_document,
    read_rows,
    reseal,
    small,
    write_config,
    write_rows,
)
from tests.support.fake_openai import FakeOpenAI, served

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

NORMAL = {"mode": "truncated_normal", "std": 10}
CASES = (
    "illegal length range",
    "mean outside the truncation",
    "no requests",
    "target outside 0 to 1",
    "unreachable target",
    "prefix longer than its request",
    "too few private tokens",
    "tokenizer that cannot be loaded",
    "GSM8K that is too small",
    "retries used up",
    "metrics that cannot be reached",
    "counters that start again",
    "instance that restarts",
    "requests that fail",
    "instance without metrics",
)


@pytest.fixture
def _log(tmp_path: Path) -> Any:  # noqa: ANN401 - a generator of nothing
    """Remove the handlers that --log-file leaves behind."""
    yield
    for handler in logging.getLogger("foreword").handlers[1:]:
        handler.close()
        logging.getLogger("foreword").removeHandler(handler)


def failures(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines of stderr that say why a command failed."""
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("foreword: ")]


FEW = '{"question": "How many?", "answer": "Two, as one and one are two.\\n#### 2"}\n'
REPEATING = {
    "source": "builtin",
    "mode": "named",
    "samples": ["en:1", "en:2"],
    "repeat_samples": True,
    "collision_detection": {"cache_match_semantics": "independent_block", "max_retries": 2},
}

REFUSED: dict[int, tuple[dict[str, Any], int, tuple[str, ...]]] = {
    1: ({"input_length": {**NORMAL, "min": 500, "max": 100, "mean": 200}}, 2, ("input_length", "min 500", "max 100")),
    2: ({"input_length": {**NORMAL, "min": 100, "max": 500, "mean": 900}}, 2, ("input_length", "mean 900", "move")),
    3: ({"request_count": 0}, 2, ("request_count", "greater than or equal to 1", "got 0")),
    4: ({"target": {"hit_ratio": 1.2}}, 2, ("target.hit_ratio", "between 0 and 1", "1.2")),
    8: ({"tokenizer": "nowhere/tokenizer.json"}, 2, ("nowhere/tokenizer.json", "give builtin")),
    9: ({"suffix": {"source": "gsm8k", "path": "few"}}, 3, ("CORPUS_TOO_SMALL", "tokens", "use more text")),
    10: ({"suffix": REPEATING}, 3, ("collisions", "request r", "after 2 retries", "on_conflict")),
}


@pytest.mark.parametrize("case", list(REFUSED))
@pytest.mark.usefixtures("_log")
def test_what_cannot_be_built_is_refused_on_one_line(
    case: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 3.4.4, cases 1-4 and 8-10: exit code, field or file, and advice; the log has them as fields (3.4.3)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "train.jsonl").write_text(FEW, encoding="utf-8")
    changes, expected, words = REFUSED[case]
    config = write_config(tmp_path / "config.yaml", small(**changes))

    code = main(["--log-file", "log.jsonl", "generate", "--config", str(config), "--output", "dataset"])

    lines = failures(capsys)
    assert (code, len(lines)) == (expected, 1), lines
    assert [word for word in words if word not in lines[0]] == []
    logged = json.loads((tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert (logged["level"], logged["exit_code"]) == ("error", expected)
    assert {"stage", "error"} <= set(logged)
    assert case not in {1, 2, 3, 4} or (logged["stage"], bool(logged["field"])) == ("config", True)
    assert case != 10 or {"request_id", "group", "retry", "field", "advice", "dataset_id"} <= set(logged)


@pytest.mark.parametrize(
    ("case", "changes", "words"),
    [
        (5, {"target": {"hit_ratio": 0.87}, "input_length": 160}, "request_count"),
        (7, {"prefix": {"minimum_non_shared_length": 400}, "target": {"hit_ratio": 0.3}}, "minimum_non_shared_length"),
    ],
)
def test_what_cannot_be_reached_is_built_as_near_as_possible(
    case: int, changes: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RFC 3.4.4, cases 5 and 7: exit 3, the bound, and computed suggestions that name the key."""
    config = write_config(tmp_path / "config.yaml", small(**changes))

    code = main(["generate", "--config", str(config), "--output", str(tmp_path / "dataset")])

    out = capsys.readouterr().out
    report = read_document(tmp_path / "dataset" / REPORT)
    assert code == 3
    assert "cannot be planned: these requests allow at most" in out
    assert (report["status"], report["reason"]) == ("FAIL", "TARGET_UNREACHABLE")
    assert words in {one["field"].rpartition(".")[2] for one in report["suggestions"]}, case


def test_a_prefix_longer_than_its_request_is_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 3.4.4, case 6: no plan has one; a data set that says so is named with request and bounds, exit 5."""
    dataset = generate(tmp_path / "dataset", small())
    rows = read_rows(dataset / METADATA)
    rows[3]["planned_prefix_len"] = rows[3]["input_len"] + 16
    write_rows(dataset / METADATA, rows)
    reseal(dataset)
    capsys.readouterr()

    code = main(["validate", "--dataset", str(dataset)])

    named = [line for line in failures(capsys) if "planned_prefix_len" in line]
    assert code == 5
    assert named
    assert rows[3]["request_id"] in named[0]


def ran(url: str, tmp_path: Path, *arguments: str) -> int:
    """Exit code of a cold run of five requests."""
    sizes = {"request_count": 5, "block_size": 4, "input_length": 40, "target": {"hit_ratio": 0.4}}
    dataset = generate(tmp_path / "dataset", small(prompt_format="completions_ids", **sizes))
    output = ["--output", str(tmp_path / "run"), "--mode", "cold", "--isolation", "none"]
    return main(["run", "--dataset", str(dataset), "--url", url, *output, *arguments])


def test_metrics_that_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 3.4.4, case 11: a metrics address that was asked for and does not answer ends the run at once, exit 4."""
    with served(FakeOpenAI()) as url:
        code = ran(url, tmp_path, "--metrics-url", "http://127.0.0.1:1/metrics")

    (line,) = [line for line in failures(capsys) if "metrics" in line]
    assert code == 4
    assert "metrics" in line
    assert "connection refused" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("case", [12, 13])
def test_counters_that_start_again(case: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 3.4.4, cases 12 and 13: a restart is told, growth is no negative number, the report has a notice."""
    server = FakeOpenAI(queries=10_000, hits=5_000)

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) == 3:
            fake.queries = fake.hits = 0
            if case == 13:
                fake.cached.clear()
        return await fake.stream(request, body)

    server.answer = answer
    with served(server) as url:
        code = ran(url, tmp_path, "--metrics-url", f"{url}/metrics")

    told = capsys.readouterr().err
    assert code == 0
    assert "warning: " in told
    assert "counters restarted during the cold pass" in told
    counted = read_document(tmp_path / "run" / "runtime" / "prefix_cache_metrics.json")["passes"][0]
    assert counted["queries_delta"] > 0
    assert counted["hits_delta"] >= 0
    assert main(["report", "--run-dir", str(tmp_path / "run")]) == 0
    report = read_document(tmp_path / "run" / "report" / "prefix_cache_report.json")
    assert "COUNTER_RESET" in {notice["code"] for notice in report["notices"]}


def test_requests_that_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 3.4.4, case 14: failures are rows of their own kind, counted and told; the others stand."""

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if len(fake.sent) == 2:
            return Response(status=500, text='{"error": {"message": "out of memory"}}')
        return await fake.stream(request, body)

    with served(FakeOpenAI(answer=answer)) as url:
        code = ran(url, tmp_path)

    assert code == 0
    assert "1 of 5 requests of the cold pass failed (http 1); the first: HTTP 500: out of memory" in (
        capsys.readouterr().err
    )
    rows = read_rows(tmp_path / "run" / "runtime" / "request_results.jsonl")
    assert [row["error_kind"] for row in rows].count("http") == 1


def test_an_instance_without_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RFC 3.4.4, case 15: an instance whose page is gone after the pass is told; nothing is made up for it."""

    async def answer(fake: FakeOpenAI, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        fake.metrics = "missing"
        return await fake.stream(request, body)

    with served(FakeOpenAI(answer=answer)) as url:
        code = ran(url, tmp_path, "--metrics-url", f"{url}/metrics")

    assert code == 0
    assert "were gone after it" in capsys.readouterr().err
    counted = read_document(tmp_path / "run" / "runtime" / "prefix_cache_metrics.json")["passes"][0]
    assert counted["queries_delta"] is None


def test_every_case_is_here() -> None:
    """Each of the fifteen has a test that cites it."""
    tests = [test for name, test in vars(sys.modules[__name__]).items() if name.startswith("test_")]
    cited = " ".join(test.__doc__ for test in tests if test.__doc__.startswith("RFC 3.4.4"))

    assert len(CASES) == 15
    assert {*REFUSED, 5, 6, 7, *range(11, 16)} == set(range(1, 16))
    assert cited.count("RFC 3.4.4") == 7
