"""Data sets as a run reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from foreword.errors import DataError
from foreword.store.requests import read_manifest, read_requests, read_warmup
from foreword.terms import Engine, ExecutionMode, PromptFormat
from tests.support.run_data import SMALL, token_ids, write_dataset

if TYPE_CHECKING:
    from pathlib import Path


def test_requests_in_send_order(tmp_path: Path) -> None:
    """Each request has its plan, and its prompt as the bytes of the file."""
    requests = list(read_requests(write_dataset(tmp_path)))

    assert [request.order_index for request in requests] == [0, 1, 2, 3, 4]
    assert [request.expected_cold for request in requests] == [plan.cold for plan in SMALL]
    assert [request.expected_hot for request in requests] == [plan.shared for plan in SMALL]
    assert json.loads(bytes(requests[0].prompt)) == token_ids(0, SMALL[0])


def test_reading_is_lazy(tmp_path: Path) -> None:
    """The first request is there although a later row is damaged."""
    dataset = write_dataset(tmp_path)
    with (dataset / "data.jsonl").open("a") as file:
        file.write("{broken\n")

    assert next(read_requests(dataset)).request_id == "r0"


def test_a_data_set_of_another_tool(tmp_path: Path) -> None:
    """Metadata with one expectation only uses it for both passes; the order is the line number."""
    dataset = write_dataset(tmp_path)
    rows = [json.loads(line) for line in (dataset / "request_metadata.jsonl").read_text().splitlines()]
    for row in rows:
        for name in ("expected_hit_len_cold", "expected_hit_len_hot", "order_index", "planned_dp_id"):
            del row[name]
    (dataset / "request_metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    request = list(read_requests(dataset))[2]

    assert (request.expected_cold, request.expected_hot, request.order_index, request.planned_dp_id) == (8, 8, 2, 0)


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        ("data.jsonl", 2, "{broken\n", r"data\.jsonl:2: damaged row"),
        ("data.jsonl", 2, '{"request_id": "r1", "max_tokens": 3}\n', r"data\.jsonl:2: neither prompt"),
        ("data.jsonl", 2, '{"request_id": "r9", "max_tokens": 3, "prompt": ""}\n', r"data\.jsonl:2: request r9 stands"),
        ("request_metadata.jsonl", 3, '{"request_id": "r2"}\n', r"request_metadata\.jsonl:3: damaged row"),
        ("request_metadata.jsonl", 5, "", r"request_metadata\.jsonl:5: the file ends before"),
        ("warmup.jsonl", 1, '{"request_id": 7}\n', r"warmup\.jsonl:1: damaged row"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, name: str, line: int, text: str, message: str) -> None:
    """File and line of the damage are in the message."""
    dataset = write_dataset(tmp_path)
    lines = (dataset / name).read_text().splitlines(keepends=True)
    lines[line - 1] = text
    (dataset / name).write_text("".join(lines))

    with pytest.raises(DataError, match=message):
        list(read_warmup(dataset) if name == "warmup.jsonl" else read_requests(dataset))


def test_no_warm_up(tmp_path: Path) -> None:
    """A data set without warm-up says what can be run instead."""
    dataset = write_dataset(tmp_path)
    (dataset / "warmup.jsonl").unlink()

    with pytest.raises(DataError, match="--mode cold"):
        list(read_warmup(dataset))


def test_the_manifest(tmp_path: Path) -> None:
    """What a run needs is read with its meaning; what is not there has its default."""
    config = {"model": "m", "isolation": "reset", "execution": {"concurrency": 4, "warmup_rounds": 0}}
    routing = {"cache_scope": "dp_local", "dp_size": 2}

    plain = read_manifest(write_dataset(tmp_path / "plain"))
    full = read_manifest(write_dataset(tmp_path / "full", config=config, routing=routing, engine={"name": "sglang"}))

    assert (plain.mode, plain.prompt_format) == (ExecutionMode.COMPARE, PromptFormat.COMPLETIONS_IDS)
    assert (plain.model, plain.isolation, plain.concurrency, plain.warmup_rounds, plain.dp_size) == (
        None,
        None,
        1,
        1,
        1,
    )
    assert (full.model, full.isolation, full.concurrency, full.warmup_rounds, full.dp_size) == ("m", "reset", 4, 1, 2)
    assert full.engine is Engine.SGLANG


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "incomplete"}, "the data set is incomplete"),
        ({"execution_mode": "sideways"}, "sideways"),
        ({"request_count": None}, "no manifest"),
        ({"config": ["mode"]}, "no manifest"),
        ({"engine": "vllm"}, "no manifest"),
        ({"files": {"data.jsonl": {"bytes": 1}}}, "not the file that the manifest describes"),
    ],
)
def test_manifests_that_no_run_can_use(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """An unfinished, damaged or mixed-up data set is refused before anything is sent."""
    dataset = write_dataset(tmp_path, **changes)

    with pytest.raises(DataError, match=message):
        read_manifest(dataset)


def test_a_missing_key_and_a_missing_file(tmp_path: Path) -> None:
    """Both are named."""
    dataset = write_dataset(tmp_path)
    manifest = json.loads((dataset / "manifest.json").read_text())
    del manifest["block_size"]
    (dataset / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(DataError, match="block_size is missing"):
        read_manifest(dataset)
    (dataset / "data.jsonl").unlink()
    with pytest.raises(DataError, match=r"data\.jsonl does not exist"):
        read_manifest(dataset)
