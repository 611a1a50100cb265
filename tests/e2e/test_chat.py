"""Chat data sets from config to report, on the built-in server, with templates of several kinds."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.server.running import server_process
from tests.support.chat import DATED, KINDS, chat_config, tokenizer_folder

if TYPE_CHECKING:
    from pathlib import Path

LENGTHS = {"mode": "truncated_normal", "min": 60, "max": 300, "mean": 170, "std": 60}


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(folder: Path, **changes: object) -> Path:
    config = json.loads(chat_config().model_dump_json(include={"dataset_id", "request_count", "target", "prefix"}))
    config |= {"prompt_format": "chat", "input_length": LENGTHS, "output_length": 2, "engine": "vllm", **changes}
    path = folder / "config.yaml"
    path.write_text(json.dumps({"prefix_cache_dataset": config}), encoding="utf-8")
    return path


@pytest.mark.parametrize(("kind", "block_size"), [*((kind, 16) for kind in KINDS), ("builtin", 1), ("builtin", 32)])
def test_a_chat_hits_what_was_planned(tmp_path: Path, kind: str, block_size: int) -> None:
    """Every request has the planned length and hits the planned tokens, cold and hot, in usage and counters."""
    model = "builtin" if kind == "builtin" else str(tokenizer_folder(tmp_path / "model", KINDS[kind]))
    config = _write(tmp_path, tokenizer=model, block_size=block_size, execution={"mode": "compare"}, isolation="salt")
    dataset, run = tmp_path / "dataset", tmp_path / "run"

    assert main(["generate", "--config", str(config), "--output", str(dataset)]) == 0
    assert main(["validate", "--dataset", str(dataset), "--tokenizer", model]) == 0
    server = ServerConfig(
        port=0, tokenizer=model, block_size=block_size, decode_tokens_per_s=None, prefill_tokens_per_s=1e9
    )
    with server_process(server) as url:
        assert main(["run", "--dataset", str(dataset), "--url", url, "--output", str(run)]) == 0
    assert main(["report", "--run-dir", str(run)]) == 0

    frame = json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))["frame"]
    facts = json.loads((run / "report" / "prefix_cache_report.json").read_text(encoding="utf-8"))["facts"]
    page = (run / "report" / "prefix_cache_report.html").read_text(encoding="utf-8")
    assert (facts["head_tokens"], facts["tail_tokens"]) == (frame["head_len"], frame["tail_len"])
    assert f"{frame['head_len']} tokens before, {frame['tail_len']} behind; template" in page

    planned = {row["request_id"]: row for row in _rows(dataset / "request_metadata.jsonl")}
    found = _rows(run / "runtime" / "request_results.jsonl")
    compared = [row for row in found if row["pass"] in {"cold", "hot"}]
    assert len(compared) == 2 * len(planned)
    for row in compared:
        plan = planned[row["request_id"]]
        assert row["prompt_tokens"] == plan["input_len"]
        assert row["cached_tokens"] == plan[f"expected_hit_len_{row['pass']}"]


def test_a_file_of_the_data_set_is_made_again_without_its_template(tmp_path: Path) -> None:
    """The manifest holds head and tail, so neither check nor regeneration needs the template file."""
    (tmp_path / "mine.jinja").write_text(KINDS["system"], encoding="utf-8")
    config = _write(tmp_path, chat_template="mine.jinja", block_size=16)
    dataset = tmp_path / "dataset"
    assert main(["generate", "--config", str(config), "--output", str(dataset)]) == 0
    (tmp_path / "mine.jinja").unlink()

    assert main(["validate", "--dataset", str(dataset)]) == 0
    assert main(["regenerate", "--manifest", str(dataset / "manifest.json")]) == 0

    manifest = json.loads((dataset / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["template"]["source"] == manifest["config"]["chat_template"] == "mine.jinja"
    assert manifest["frame"]["head_len"] == len(manifest["template"]["head_ids"])


@pytest.mark.parametrize("damage", ["head_ids", "sha256"])
def test_another_template_than_the_tokenizers_is_found(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A manifest whose template is not what comes with the tokenizer at hand is damaged."""
    model = tokenizer_folder(tmp_path / "model", KINDS["marked"])
    config, dataset = _write(tmp_path, tokenizer=str(model), block_size=16), tmp_path / "dataset"
    assert main(["generate", "--config", str(config), "--output", str(dataset)]) == 0
    source = "<|pad|>" + KINDS["marked"] if damage == "head_ids" else KINDS["marked"] + "{# other #}"
    (model / "chat_template.jinja").write_text(source, encoding="utf-8")
    capsys.readouterr()

    assert main(["validate", "--dataset", str(dataset), "--tokenizer", str(model)]) == 5

    assert "template" in capsys.readouterr().err


def test_a_template_with_a_date_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 33, from the command line: one line that says where the date stands and how to fix it; then it works."""
    model = tokenizer_folder(tmp_path / "model", DATED)
    config, dataset = _write(tmp_path, tokenizer=str(model), block_size=16), tmp_path / "dataset"

    assert main(["generate", "--config", str(config), "--output", str(dataset)]) == 2
    told = capsys.readouterr().err
    assert "TEMPLATE_HAS_DATE" in told
    assert "chat_template_kwargs" in told
    assert not dataset.exists()

    fixed = ["--set", "chat_template_kwargs.date_string=1 May 2026"]
    assert main(["generate", "--config", str(config), "--output", str(dataset), *fixed]) == 0
    server = ServerConfig(port=0, tokenizer=str(model), decode_tokens_per_s=None, prefill_tokens_per_s=1e9)
    run = tmp_path / "run"
    with server_process(server) as url:
        assert main(["run", "--dataset", str(dataset), "--url", url, "--output", str(run)]) == 0
    planned = {row["request_id"]: row["expected_hit_len"] for row in _rows(dataset / "request_metadata.jsonl")}
    hits = {row["request_id"]: row["cached_tokens"] for row in _rows(run / "runtime" / "request_results.jsonl")}
    assert hits == planned


def test_a_chat_that_the_template_refuses_is_a_bad_request(tmp_path: Path) -> None:
    """The server says what the template said."""
    source = (
        "{% if messages[0].role != 'user' %}{{ raise_exception('a user speaks first') }}{% endif %}" + KINDS["marked"]
    )
    server = ServerConfig(port=0, tokenizer=str(tokenizer_folder(tmp_path / "model", source)))
    body = json.dumps({"messages": [{"role": "assistant", "content": "Hi"}]}).encode()
    with server_process(server) as url:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/v1/chat/completions", data=body, timeout=10)  # noqa: S310 - a loopback URL
        assert caught.value.code == 400
        assert "a user speaks first" in caught.value.read().decode()
