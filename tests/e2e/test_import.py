"""``foreword import``: settings of AISBench's plugin and tools become configs that plan what they ask for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from foreword import flow
from foreword.cli.app import main
from foreword.store.configs import load_dataset_config

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN: dict[str, Any] = {
    "schema_version": "1.0",
    "run": {"run_id": "plugin", "random_seed": 7},
    "tokenizer": {"path": "builtin", "block_size": 16},
    "corpus": {"path": "questions.jsonl", "selection": {"mode": "indices", "values": [0, 2]}},
    "requests": {"count": 20, "input_length": {"mode": "fixed", "value": 320}, "output_length": {"value": 4}},
    "prefix_cache": {"mode": "cold", "target_hit_rate": 0.6, "order": {"strategy": "input_len_asc"}},
    "service": {
        "inference_url": "http://[::1]:9000/v1/completions",
        "metrics_url": "",
        "dp_size": 1,
        "api_key": "sk-hidden",
    },
}
COMMAND = """#!/bin/bash
# python3 aisbench_test.py --input_len 9
python3 aisbench_test.py --input_len 2048 --output_len 8 --data_num 30 --concurrency 4 \\
    --dataset_type prefix_cache --repeat_rate {rate} --prefix_num 3 --seed 200 {more}
"""
SETTINGS = """MODEL_NAME = "ds"
HOST_IP = "fe80::1"
HOST_PORT = "8004"
API_KEY = "sk-hidden"
POD_INFO = ["10.0.0.1:8000", "[::1]:9000"]
"""
TWO_RANGES = [{"min": 64, "max": 64, "count": 15}, {"min": 96, "max": 96, "count": 5}]
UNWEIGHED = {"count": 2, "assignment": {"mode": "weights"}}
BY_HASH = {"mode": "question_sha256", "values": ["ab"]}


def written(path: Path, content: object) -> Path:
    """A file of text, or of a value as JSON."""
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def imported(source: str, output: Path, *inputs: Path, more: tuple[str, ...] = ()) -> int:
    """Exit code of the command."""
    files = [part for path in inputs for part in ("--input", str(path))]
    return main(["import", "--format", source, *files, "--output", str(output), *more])


def test_a_scenario_plans_what_it_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty prompts of 320 tokens to be hit at 60 % cold: the nearest total of blocks; no key is copied."""
    output = tmp_path / "made" / "config.yaml"
    output.parent.mkdir()
    assert imported("aisbench-plugin", output, written(tmp_path / "s.json", PLUGIN), more=("--json",)) == 0
    said = json.loads(capsys.readouterr().out)

    design = flow.plan(load_dataset_config(output))

    assert int(design.designed_hit.sum()) == 3840
    assert (design.config.seed, design.config.dataset_id, design.facts.block_size) == (7, "plugin", 16)
    assert design.config.suffix.path == str(tmp_path / "questions.jsonl")
    assert design.config.suffix.samples == ("questions:1", "questions:3")
    assert (said["url"], said["metrics_urls"]) == ("http://[::1]:9000", [])
    assert any("api_key" in note for note in said["notes"])
    assert "sk-hidden" not in output.read_text(encoding="utf-8") + json.dumps(said)


@pytest.mark.parametrize(
    ("length", "shortest", "longest", "count"),
    [
        ({"mode": "explicit", "values": [64, 96] * 10}, 64, 96, {64: 10, 96: 10}),
        ({"mode": "range", "ranges": TWO_RANGES}, 64, 96, {64: 15, 96: 5}),
        ({"mode": "truncated_normal", "min": 64, "max": 128}, 64, 128, {}),
        ({"mode": "truncated_normal", "min": 80, "max": 80}, 80, 80, {80: 20}),
        ({"mode": "csv", "path": "lengths.csv"}, 64, 83, {}),
    ],
)
def test_lengths_are_those_of_the_scenario(
    length: dict[str, Any], shortest: int, longest: int, count: dict[int, int], tmp_path: Path
) -> None:
    """Every mode of the plugin; closed intervals include their ends."""
    written(tmp_path / "lengths.csv", "id,content_tokens\n" + "".join(f"{row},{64 + row}\n" for row in range(20)))
    scenario = {**PLUGIN, "requests": {"count": 20, "input_length": length}}
    output = tmp_path / "config.yaml"
    assert imported("aisbench-plugin", output, written(tmp_path / "s.json", scenario)) == 0

    lengths = flow.plan(load_dataset_config(output)).prompts.input_len.tolist()

    assert len(lengths) == 20
    assert shortest <= min(lengths) <= max(lengths) <= longest
    assert {value: lengths.count(value) for value in count} == count


@pytest.mark.parametrize(
    ("assignment", "counts"),
    [
        ({"mode": "uniform"}, [7, 7, 6]),
        ({"mode": "zipf", "exponent": 1.0}, [11, 5, 4]),
        ({"mode": "weights", "weights": [0.5, 0.3, 0.2]}, [10, 6, 4]),
    ],
)
def test_groups_get_the_requests_that_the_scenario_deals_out(
    assignment: dict[str, Any], counts: list[int], tmp_path: Path
) -> None:
    """Twenty requests over three groups by largest remainder."""
    cache = {**PLUGIN["prefix_cache"], "groups": {"count": 3, "assignment": assignment}}
    output = tmp_path / "config.yaml"
    assert imported("aisbench-plugin", output, written(tmp_path / "s.json", {**PLUGIN, "prefix_cache": cache})) == 0

    assert flow.plan(load_dataset_config(output)).groups.sizes.tolist() == counts


@pytest.mark.parametrize(("rate", "more", "designed"), [("0.5", "", 27), ("50%", "--prefix_test", 30)])
def test_a_repeat_rate_is_said_to_be_what_it_is(
    rate: str,
    more: str,
    designed: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Half of each prompt is shared: half is hit where caches are warm, less the first of three groups where not."""
    script = written(tmp_path / "run.sh", COMMAND.format(rate=rate, more=more))
    settings, output = written(tmp_path / "config.py", SETTINGS), tmp_path / "config.yaml"
    assert imported("aisbench-tool", output, script, settings, more=("--json",)) == 0
    said = json.loads(capsys.readouterr().out)

    design = flow.plan(load_dataset_config(output))

    assert int(design.prediction.hot_hit.sum()) == 30 * 1024
    assert int(design.prediction.cold_hit.sum()) == 27 * 1024
    assert int(design.designed_hit.sum()) == designed * 1024
    assert said["url"] == "http://[fe80::1]:8004"
    assert said["metrics_urls"] == ["http://10.0.0.1:8000/metrics", "http://[::1]:9000/metrics"]
    assert design.config.model == "ds"
    assert "sk-hidden" not in output.read_text(encoding="utf-8")


def test_the_config_says_what_is_left_out(tmp_path: Path) -> None:
    """Notes stand in the file as comments; the rest is a config with the usual root."""
    output = tmp_path / "config.yaml"
    imported("aisbench-plugin", output, written(tmp_path / "s.json", PLUGIN))
    text = output.read_text(encoding="utf-8")

    assert "# - aisbench: foreword run sends the requests itself" in text
    assert list(yaml.safe_load(text)) == ["prefix_cache_dataset"]


@pytest.mark.parametrize(
    ("source", "name", "content", "message"),
    [
        ("aisbench-plugin", "s.json", "{", "is not JSON"),
        ("aisbench-plugin", "s.json", "[]", "must be a JSON object"),
        ("aisbench-plugin", "s.json", {**PLUGIN, "schema_version": "2.0"}, "scenario.schema_version"),
        ("aisbench-plugin", "s.json", {**PLUGIN, "request": {}}, "scenario.request: unknown key"),
        ("aisbench-plugin", "s.json", {"requests": {"input_length": {"mode": "csv"}}}, "input_length.path: required"),
        ("aisbench-plugin", "s.json", {"requests": {"input_length": {"mode": "csv", "path": "x"}}}, "cannot read"),
        ("aisbench-plugin", "s.json", {"prefix_cache": {"minimum_non_shared_length": 8}}, "below seed_blocks"),
        ("aisbench-plugin", "s.json", {"prefix_cache": {"groups": {"overrides": {"group-0": {}}}}}, "groups.overrides"),
        ("aisbench-plugin", "s.json", {"prefix_cache": {"groups": UNWEIGHED}}, "0 weights for 2 groups"),
        ("aisbench-plugin", "s.json", {"corpus": {"selection": BY_HASH}}, "question_sha256"),
        ("aisbench-tool", "run.sh", "echo nothing", "no command line with aisbench_test.py"),
        ("aisbench-tool", "run.sh", "aisbench_test.py --input_len x", "--input_len: must be a whole number"),
        ("aisbench-tool", "run.sh", "aisbench_test.py --input_len $i", "not a shell variable"),
        ("aisbench-tool", "run.sh", "aisbench_test.py --speed 3", "--speed: unknown option"),
        ("aisbench-tool", "run.sh", "aisbench_test.py --input_len 9 'a", "cannot be read as a command"),
        ("aisbench-tool", "run.sh", "aisbench_test.py --input_len 9 --output_len 1", "--data_num: required"),
        ("aisbench-tool", "run.sh", COMMAND.format(rate="7", more=""), "--repeat_rate: must lie between 0 and 1"),
        ("aisbench-tool", "run.sh", COMMAND.format(rate="half", more=""), "--repeat_rate: must be like 0.5 or 50%"),
        ("aisbench-tool", "config.py", "MODEL_NAME = (", "is not Python"),
        ("aisbench-tool", "config.py", "MODEL_NAME = name()", "MODEL_NAME: is no plain value"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    source: str, name: str, content: object, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key, the option or the line is named, and no config is left."""
    output = tmp_path / "config.yaml"

    code = imported(source, output, written(tmp_path / name, content))
    said = capsys.readouterr().err

    assert code in {2, 5}
    assert message in said
    assert "Traceback" not in said
    assert not output.exists()


def test_a_pod_without_a_port_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An address of counters needs both."""
    script = written(tmp_path / "run.sh", COMMAND.format(rate="0.5", more=""))
    settings = written(tmp_path / "config.py", 'POD_INFO = ["10.0.0.1"]\n')

    assert imported("aisbench-tool", tmp_path / "config.yaml", script, settings) == 2
    assert "POD_INFO: '10.0.0.1' is no address and port" in capsys.readouterr().err
