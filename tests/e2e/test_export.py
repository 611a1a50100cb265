"""Data sets for other tools: each file read by the rules of its reader, and what cannot be said is refused."""

from __future__ import annotations

import ast
import itertools
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from foreword.cli.app import main
from tests.support.datasets import generate, read_rows, reseal, small, write_rows
from tests.support.replaying import document, group, instance

ONE_LANE = {"request_order": {"across_group": "interleave"}, "model": "tiny", "execution": {"concurrency": 3}}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty text prompts in two groups."""
    return generate(tmp_path_factory.mktemp("export") / "dataset", small(**ONE_LANE))


@pytest.fixture(scope="module")
def with_ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as token ids, on two ranks."""
    config = small(**ONE_LANE, prompt_format="completions_ids", routing={"dp_size": 2, "cache_scope": "dp_local"})
    return generate(tmp_path_factory.mktemp("export") / "ids", config)


def exported(dataset: Path, target: str, output: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What ``export`` says."""
    address = "http://127.0.0.1:8100"
    capsys.readouterr()
    code = main(
        ["export", "--dataset", str(dataset), "--format", target, "--output", str(output), "--url", address, "--json"]
    )
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0
    assert said["requests"] == 40
    return said


@pytest.mark.parametrize(
    ("target", "prompt", "length"),
    [
        ("aisbench", "question", "max_tokens"),
        ("aisbench-mooncake", "input_text", "output_length"),
        ("vllm", "prompt", "output_tokens"),
        ("sglang-autobench", "prompt", "output_len"),
        ("aiperf", "text", "output_length"),
        ("aiperf-mooncake", "text_input", "output_length"),
        ("guidellm", "prompt", "output_tokens_count"),
    ],
)
def test_prompts_and_lengths_stand_where_the_reader_looks(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, prompt: str, length: str
) -> None:
    """Every prompt unchanged, in send order, with its own answer length; every row has the same columns."""
    file = exported(dataset, target, tmp_path, capsys)["files"][0]

    ours, theirs = read_rows(dataset / "data.jsonl"), read_rows(Path(file))
    assert [row[prompt] for row in theirs] == [row["prompt"] for row in ours]
    assert [row[length] for row in theirs] == [row["max_tokens"] for row in ours]
    assert len({tuple(row) for row in theirs}) == 1


def test_mooncake_readers_sort_by_time(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Timestamps rise from row to row, so that sorting keeps the order."""
    for target, file in (
        ("aisbench-mooncake", "aisbench_mooncake.jsonl"),
        ("aiperf-mooncake", "aiperf_mooncake.jsonl"),
    ):
        exported(dataset, target, tmp_path, capsys)
        times = [row["timestamp"] for row in read_rows(tmp_path / file)]

        assert times == sorted(set(times))


def test_columns_that_a_reader_would_take_wrongly_are_not_there(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guidellm takes prefix and system as prompts; SGLang sends unknown keys; AISBench makes A and B a choice."""
    for target in ("guidellm", "sglang-autobench", "aisbench"):
        exported(dataset, target, tmp_path, capsys)

    assert not {"prefix", "system", "system_prompt"} & set(read_rows(tmp_path / "guidellm.jsonl")[0])
    known = {"prompt", "prompt_len", "output_len", "routing_key", "metadata"}
    assert set(read_rows(tmp_path / "sglang_autobench.jsonl")[0]) == known
    assert set(read_rows(tmp_path / "aisbench.jsonl")[0]) == {"question", "answer", "max_tokens"}


def test_vllm_is_told_to_leave_the_data_set_alone(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would shuffle, apply a template, draw again, send a first request to see whether the server is there."""
    words = shlex.split(exported(dataset, "vllm", tmp_path, capsys)["command"])

    options = dict(itertools.pairwise(words))
    for flag in ("--disable-shuffle", "--skip-chat-template", "--no-oversample", "--ignore-eos"):
        assert flag in words
    assert (options["--num-prompts"], options["--max-concurrency"], options["--custom-output-len"]) == ("40", "3", "-1")
    assert (options["--ready-check-timeout-sec"], options["--num-warmups"]) == ("0", "0")
    assert (options["--base-url"], options["--model"]) == ("http://127.0.0.1:8100", "tiny")
    assert options["--dataset-path"] == str(tmp_path / "vllm.jsonl")


def test_aisbench_gets_a_whole_config(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A Python file that names the data, the server, bare prompts and no retry."""
    made = exported(dataset, "aisbench", tmp_path, capsys)

    tree = ast.parse((tmp_path / "aisbench_config.py").read_text("utf-8"))
    named = {
        each.arg: ast.unparse(each.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for each in node.keywords
    }
    assert named["path"] == repr(str(tmp_path / "aisbench.jsonl"))
    assert (named["host_ip"], named["host_port"], named["retry"]) == ("'127.0.0.1'", "8100", "1")
    assert (named["template"], named["ignore_eos"], named["batch_size"]) == ("'{question}'", "True", "3")
    assert made["command"].startswith(f"ais_bench {tmp_path / 'aisbench_config.py'} ")


def unlimited(ranks: list[int]) -> dict[str, Any]:
    """A replay with a pool of vLLM's without a limit for each rank."""
    pools = [group(instances=[instance(f"dp{rank}", policy="vllm", block_size=16)], name=f"g{rank}") for rank in ranks]
    return {**document(*pools), "output_result_path": "replayed"}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, planned for caches that hold its prefixes."""
    config = small(**ONE_LANE | {"execution": {"mode": "warmup", "concurrency": 3}})
    return generate(tmp_path_factory.mktemp("export") / "warm", config)


@pytest.mark.parametrize("kind", ["dataset", "with_ids", "warm"])
def test_a_trace_replays_to_the_designed_hits(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Law 4 through files: the replay of an exported plan hits what each request was planned to hit."""
    source: Path = request.getfixturevalue(kind)
    column = "expected_hit_len_hot" if kind == "warm" else "expected_hit_len_cold"
    exported(source, "trace", tmp_path, capsys)
    planned = read_rows(source / "request_metadata.jsonl")
    ranks = sorted({row["planned_dp_id"] for row in planned})
    (tmp_path / "replay.json").write_text(json.dumps(unlimited(ranks)))

    assert main(["replay", "--config", str(tmp_path / "replay.json")]) == 0

    for rank in ranks:
        table = (tmp_path / "replayed" / f"dp{rank}_hit_rates.csv").read_text().splitlines()
        place = table[0].split(",").index("HitTokens")
        found = [int(line.split(",")[place]) for line in table[1:]]
        assert found == [row[column] for row in planned if row["planned_dp_id"] == rank]


@pytest.mark.parametrize("target", ["vllm", "aisbench", "guidellm", "evalscope"])
def test_prompts_that_a_format_cannot_say_are_refused(
    with_ids: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    """Token ids are no text: one line that says what would do, and no file."""
    code = main(["export", "--dataset", str(with_ids), "--format", target, "--output", str(tmp_path / "out")])

    told = capsys.readouterr().err
    assert code == 2
    assert f"{target} takes completions_text prompts" in told
    assert "prompt_format: completions_text" in told
    assert not (tmp_path / "out").exists()


def test_sglang_takes_ids(with_ids: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exact prompts, and a key that keeps a group on its rank."""
    exported(with_ids, "sglang-autobench", tmp_path, capsys)

    ours, facts = read_rows(with_ids / "data.jsonl"), read_rows(with_ids / "request_metadata.jsonl")
    theirs = read_rows(tmp_path / "sglang_autobench.jsonl")
    assert [row["prompt"] for row in theirs] == [row["prompt_token_ids"] for row in ours]
    assert [row["prompt_len"] for row in theirs] == [len(row["prompt_token_ids"]) for row in ours]
    lanes = [f"{row['prefix_group_id']}@{row['planned_dp_id']}" for row in facts]
    assert [row["routing_key"] for row in theirs] == lanes


def damaged(dataset: Path, folder: Path, text: str) -> Path:
    """A copy whose third prompt holds a text."""
    shutil.copytree(dataset, folder)
    lines = read_rows(folder / "data.jsonl")
    lines[2]["prompt"] += text
    write_rows(folder / "data.jsonl", lines)
    reseal(folder)
    return folder


@pytest.mark.parametrize(
    ("target", "text", "told"),
    [("aisbench", " {answer} ", "holds {answer}, which AISBench replaces"), ("evalscope", "\nmore", "several lines")],
)
def test_a_prompt_that_a_reader_would_change_is_named(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, text: str, told: str
) -> None:
    """The request is named, and no half file is left."""
    source = damaged(dataset, tmp_path / "dataset", text)
    wrong = text.strip() if target == "aisbench" else "\n"
    bad = next(row["request_id"] for row in read_rows(source / "data.jsonl") if wrong in row["prompt"])

    code = main(["export", "--dataset", str(source), "--format", target, "--output", str(tmp_path / "out")])

    assert code == 5
    assert f"request {bad}: " in (message := capsys.readouterr().err)
    assert told in message
    assert list((tmp_path / "out").iterdir()) == []
