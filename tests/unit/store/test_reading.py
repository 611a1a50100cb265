"""Data-set folders as a check reads them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from foreword.errors import DataError
from foreword.store.reading import digest_problems, read_columns, read_data, read_manifest, read_warmup

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST: dict[str, Any] = {
    "state": "complete",
    "prompt_format": "completions_text",
    "config": {},
    "tokenizer": {},
    "groups": [],
    "block_size": 16,
    "engine": {"name": "vllm", "hit_rule": "cap_then_floor"},
    "frame": {"head_len": 1, "tail_len": 2},
    "prefix": {"minimum_non_shared_length": 5},
    "routing": {"cache_scope": "dp_local"},
    "theoretical_result": {"designed_pass": "hot"},
}
ROW = {"request_id": "r0000003", "max_tokens": 4, "prefix_group_id": "A", "prompt": "Hello"}


def folder_with(path: Path, **files: object) -> Path:
    """A folder with these files: text as it is, anything else as JSON; ``_`` stands for the dot."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return path


def test_the_manifest_says_what_a_proof_stands_on(tmp_path: Path) -> None:
    """Block size, rule, frame, private part, cache scope and designed pass are taken from the manifest."""
    _, layout = read_manifest(folder_with(tmp_path, manifest__json=MANIFEST))

    assert (layout.block_size, layout.rule.value, layout.head_len, layout.tail_len) == (16, "cap_then_floor", 1, 2)
    assert (layout.minimum_non_shared, layout.local, layout.designed_cold) == (5, True, False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": "incomplete"}, "state is incomplete"),
        ({"state": None}, "state is None"),
        ({"block_size": 0}, "block_size is 0"),
        ({"block_size": "16"}, "block_size is '16'"),
        ({"engine": {}}, "hit_rule is missing"),
        ({"engine": {"hit_rule": "guess"}}, "guess"),
        ({"frame": None}, "manifest.json"),
        ({"prompt_format": "poem"}, "poem"),
        ({"config": []}, "config is missing or damaged"),
        ({"tokenizer": "builtin"}, "tokenizer is missing or damaged"),
        ({"groups": {}}, "groups is missing or damaged"),
        ({"routing": {}}, "cache_scope is missing"),
    ],
)
def test_a_manifest_that_says_too_little_is_damaged(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    """What is missing or impossible is named on one line."""
    folder = folder_with(tmp_path, manifest__json={**MANIFEST, **changes})

    with pytest.raises(DataError) as failure:
        read_manifest(folder)

    assert words in str(failure.value)
    assert "\n" not in str(failure.value)


def test_digests_and_sizes_are_compared(tmp_path: Path) -> None:
    """A file that is missing, longer or other than stated is a problem each."""
    folder = folder_with(tmp_path, same="one", longer="three", other="six")
    facts = {
        name: {"bytes": 3, "sha256": hashlib.sha256(b"one").hexdigest()} for name in ("same", "longer", "other", "gone")
    }

    found = {(problem.file, problem.field) for problem in digest_problems(folder, {"files": facts})}

    assert found == {("longer", "bytes"), ("other", "sha256"), ("gone", "file")}


def test_rows_come_in_pieces(tmp_path: Path) -> None:
    """Requests are read as many at a time as asked for, the last piece with what is left."""
    lines = "".join(json.dumps({**ROW, "request_id": f"r{index}"}) + "\n" for index in range(5))

    pieces = list(read_data(folder_with(tmp_path, data__jsonl=lines), chunk=2))

    assert [[row.request_id for row in piece] for piece in pieces] == [["r0", "r1"], ["r2", "r3"], ["r4"]]


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "system": "x"},
        {**ROW, "max_tokens": "4"},
        {**ROW, "prompt": 3},
        {name: value for name, value in ROW.items() if name != "max_tokens"},
    ],
)
def test_a_row_of_another_shape_is_named_by_file_line_and_request(row: dict[str, Any], tmp_path: Path) -> None:
    """Whatever is wrong with a row, it is told which one it is."""
    lines = json.dumps(ROW) + "\n" + json.dumps({**row, "request_id": "r0000009"}) + "\n"

    with pytest.raises(DataError, match=r"data\.jsonl:2: damaged row of request r0000009") as failure:
        list(read_data(folder_with(tmp_path, data__jsonl=lines), chunk=9))

    assert failure.value.request_id == "r0000009"


def test_a_number_beyond_all_arrays_is_named(tmp_path: Path) -> None:
    """An integer that no 64-bit column holds is damage of its line, not a crash."""
    names = (
        "planned_dp_id", "input_len", "planned_prefix_len", "order_index", "cached_watermark_before",
        "cached_watermark_after", "new_cached_len", "divergence_len", "suffix_len", "expected_hit_len_cold",
        "expected_hit_len_hot",
    )  # fmt: skip
    texts = {"request_id": "r0", "prefix_group_id": "A", "request_class": "full hit", "expected_hit_ratio": 0.5}
    row = dict.fromkeys(names, 0) | texts | {"expected_hit_len": 2**70}

    with pytest.raises(DataError, match=r"request_metadata\.jsonl:1"):
        read_columns(folder_with(tmp_path, request_metadata__jsonl=json.dumps(row) + "\n"), group_ids=["A"])


def test_the_metadata_becomes_columns(tmp_path: Path) -> None:
    """Numbers stand in arrays in file order; groups are numbered as the manifest lists them."""
    numbers = (
        "planned_dp_id", "input_len", "planned_prefix_len", "order_index", "cached_watermark_before",
        "expected_hit_len", "cached_watermark_after", "new_cached_len", "divergence_len", "suffix_len",
        "expected_hit_len_cold", "expected_hit_len_hot",
    )  # fmt: skip
    rows = [
        {name: place * 100 + index for index, name in enumerate(numbers)}
        | {"request_id": f"r{place}", "prefix_group_id": group, "request_class": "full hit", "expected_hit_ratio": 0.5}
        for place, group in enumerate(("B", "A", "B"))
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)

    columns = read_columns(folder_with(tmp_path, request_metadata__jsonl=lines), group_ids=["A", "B"])

    assert columns.metadata.group.tolist() == [1, 0, 1]
    assert columns.metadata.input_len.tolist() == [1, 101, 201]
    assert columns.written["expected_hit_len_hot"].tolist() == [11, 111, 211]
    assert columns.fingerprints == ["", "", ""]


def test_warm_up_rows_carry_their_lane(tmp_path: Path) -> None:
    """A warm-up request says where it goes and how much it warms."""
    row = {**ROW, "planned_dp_id": 1, "input_len": 40, "planned_prefix_len": 32}

    found = read_warmup(folder_with(tmp_path, warmup__jsonl=json.dumps(row) + "\n"))

    assert [(one.planned_dp_id, one.input_len, one.planned_prefix_len) for one in found] == [(1, 40, 32)]
