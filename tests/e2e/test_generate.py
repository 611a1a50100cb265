"""Generated data sets by another route: prompts encoded by the tokenizers library and replayed as tuples of ids."""

from __future__ import annotations

import itertools
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.datasets import (
    DATA,
    FILES,
    MANIFEST,
    METADATA,
    REPORT,
    WARMUP,
    encoder,
    generate,
    read_document,
    read_rows,
    replayed,
    small,
    token_ids,
    write_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

LOCAL = {"cache_scope": "dp_local", "dp_size": 3, "assignment": "round_robin"}
BOUND = {"cache_scope": "dp_local", "dp_size": 2, "assignment": "bind"}
LONG = {"mode": "truncated_normal", "min": 200, "max": 900, "mean": 500, "std": 200}
SHORT = {"mode": "truncated_normal", "min": 5, "max": 90, "mean": 40, "std": 30}
THREE = {
    "mode": "multi_prefix",
    "groups": [{"id": name, "request_count": n} for name, n in (("a", 9), ("b", 1), ("c", 30))],
}
MODES = ("cold", "progressive_prefix_fill", "warmup", "hot", "compare")
SEMANTICS = ("order_aware_global", "static_prefix_ratio")

CASES = {
    "two-groups": {},
    "one-group": {"prefix": {}, "request_order": {}},
    "three-groups-one-of-a-single-request": {"prefix": THREE},
    "ten-groups": {"prefix": {"mode": "multi_prefix", "group_count": 10}, "request_order": {"mode": "shuffle"}},
    "ids": {"prompt_format": "completions_ids"},
    "random-ids": {"prompt_format": "completions_ids", "suffix": {"source": "random_tokens"}},
    "random-text": {"suffix": {"source": "random_tokens"}},
    "chinese": {"suffix": {"source": "builtin", "language": "zh"}},
    "blocks-of-1": {"block_size": 1, "input_length": SHORT},
    "blocks-of-1-ids": {"block_size": 1, "input_length": SHORT, "prompt_format": "completions_ids"},
    "blocks-of-32": {"block_size": 32},
    "blocks-of-128": {"block_size": 128, "input_length": LONG},
    "blocks-of-128-ids": {"block_size": 128, "input_length": LONG, "prompt_format": "completions_ids"},
    "round-robin": {"routing": LOCAL},
    "round-robin-ids": {"routing": LOCAL, "prompt_format": "completions_ids"},
    "bound": {"routing": BOUND, "prefix": THREE},
    "nothing-private": {"prefix": {"minimum_non_shared_length": 0}, "target": {"hit_ratio": 0.8}},
    "nothing-private-fixed": {
        "prefix": {"minimum_non_shared_length": 0}, "target": {"hit_ratio": 0.8}, "input_length": 96,
    },
    "much-private": {"prefix": {"minimum_non_shared_length": 40}, "target": {"hit_ratio": 0.3}},
    "all-at-the-ceiling": {"target": {"hit_ratio": 0.76}},
    "nothing-shared": {"target": {"hit_ratio": 0}},
    "longest-first": {"request_order": {"within_group": "prefix_len_desc", "across_group": "shuffle"}},
    "fixed-prefix": {"prefix": {"nested_prefix": False}, "input_length": 160},
}  # fmt: skip


def facts_of(dataset: Path) -> list[dict[str, Any]]:
    """Rows of the metadata."""
    return read_rows(dataset / METADATA)


def check_hits(dataset: Path, tokenizer: Tokenizer | None = None) -> dict[str, int]:
    """Compare every request with the replay of the written prompts; returns hit tokens of both passes."""
    facts = facts_of(dataset)
    totals = {}
    for name, warm in (("cold", False), ("hot", True)):
        found = list(replayed(dataset, warm=warm, tokenizer=tokenizer))
        planned = [(row["request_id"], row["input_len"], row[f"expected_hit_len_{name}"]) for row in facts]
        assert found == planned
        totals[name] = sum(hit for _, _, hit in found)
    return totals


def assert_on_target(dataset: Path, hit_tokens: int) -> None:
    """Law 3: the hits are half a block or less from the target."""
    manifest = read_document(dataset / MANIFEST)
    wanted = manifest["target"]["hit_ratio"] * sum(row["input_len"] for row in facts_of(dataset))
    assert abs(hit_tokens - wanted) <= manifest["block_size"] / 2


@pytest.mark.parametrize("changes", list(CASES.values()), ids=list(CASES))
def test_the_written_prompts_hit_what_is_planned(changes: dict[str, Any], tmp_path: Path) -> None:
    """Law 5: each prompt has its length and its hits, cold and warmed; Law 3: their sum is the target."""
    dataset = generate(tmp_path / "dataset", small(**changes))

    totals = check_hits(dataset)

    nested = changes.get("prefix", {}).get("nested_prefix", True)
    if nested:
        assert_on_target(dataset, totals["cold"])
    assert main(["validate", "--dataset", str(dataset)]) == 0


@pytest.mark.parametrize(("mode", "semantics"), list(itertools.product(MODES, SEMANTICS)))
def test_mode_and_semantics_decide_which_pass_is_designed(mode: str, semantics: str, tmp_path: Path) -> None:
    """Decision 1: the target speaks of the cold or the warmed pass, and the designed numbers are those of the run."""
    changes = {"target": {"hit_ratio": 0.5, "semantics": semantics}, "execution": {"mode": mode}}
    dataset = generate(tmp_path / "dataset", small(**changes))
    targeted = "cold" if semantics == "order_aware_global" else "hot"
    designed = {"cold": "cold", "progressive_prefix_fill": "cold", "warmup": "hot", "hot": "hot"}.get(mode, targeted)

    totals = check_hits(dataset)

    result = read_document(dataset / MANIFEST)["theoretical_result"]
    assert_on_target(dataset, totals[targeted])
    assert result["designed_pass"] == designed
    assert result["designed_hit_tokens"] == totals[designed]
    assert [row["expected_hit_len"] for row in facts_of(dataset)] == [
        row[f"expected_hit_len_{designed}"] for row in facts_of(dataset)
    ]
    assert {name: result[name]["hit_tokens"] for name in totals} == totals
    assert result["validation_status"] == "PASS"


def test_a_row_holds_what_is_sent_and_nothing_else(tmp_path: Path) -> None:
    """Decision 6: four columns in send order, and the metadata stands line for line beside it."""
    dataset = generate(tmp_path / "dataset", small(output_length=5))

    rows, facts = read_rows(dataset / DATA), facts_of(dataset)

    assert {tuple(row) for row in rows} == {("request_id", "prompt", "max_tokens", "prefix_group_id")}
    assert {row["max_tokens"] for row in rows} == {5}
    assert [row["order_index"] for row in facts] == list(range(40))
    for name in ("request_id", "prefix_group_id"):
        assert [row[name] for row in rows] == [row[name] for row in facts]
    assert sorted(path.name for path in dataset.iterdir()) == sorted(FILES)


def test_every_group_gets_its_share(tmp_path: Path) -> None:
    """Ten prompts over three prefixes are ten prompts (case 7)."""
    prefix = {"mode": "multi_prefix", "group_count": 3}
    dataset = generate(tmp_path / "dataset", small(request_count=10, prefix=prefix, target={"hit_ratio": 0.25}))

    groups = [row["prefix_group_id"] for row in read_rows(dataset / DATA)]

    assert sorted(groups.count(group) for group in set(groups)) == [3, 3, 4]


def test_metadata_adds_up(tmp_path: Path) -> None:
    """Shared prefix, divergence and suffix make up each prompt; watermarks follow lane by lane."""
    dataset = generate(tmp_path / "dataset", small(routing=LOCAL))

    level: dict[tuple[str, int], int] = {}
    for row in facts_of(dataset):
        lane = (row["prefix_group_id"], row["planned_dp_id"])
        assert row["planned_prefix_len"] + row["divergence_len"] + row["suffix_len"] == row["input_len"]
        assert row["cached_watermark_before"] == level.get(lane, 0)
        level[lane] = max(level.get(lane, 0), row["planned_prefix_len"])
        assert row["cached_watermark_after"] == level[lane]
        assert row["expected_hit_ratio"] == pytest.approx(row["expected_hit_len"] / row["input_len"])


def test_warm_up_has_content_of_its_own(tmp_path: Path) -> None:
    """One prompt a lane covers the lane's longest prefix and ends in text that no request has (case 31)."""
    dataset = generate(tmp_path / "dataset", small(routing=LOCAL, execution={"mode": "warmup"}))
    requests = token_ids(read_rows(dataset / DATA))

    warmups = read_rows(dataset / WARMUP)

    longest: dict[tuple[str, int], int] = {}
    for row in facts_of(dataset):
        lane = (row["prefix_group_id"], row["planned_dp_id"])
        longest[lane] = max(longest.get(lane, 0), row["planned_prefix_len"])
    assert {(row["prefix_group_id"], row["planned_dp_id"]): row["planned_prefix_len"] for row in warmups} == longest
    for row, ids in zip(warmups, token_ids(warmups), strict=True):
        assert len(ids) == row["input_len"] > row["planned_prefix_len"]
        next_block = ids[: row["planned_prefix_len"] + 16]
        assert not any(request[: len(next_block)] == next_block for request in requests)


def test_the_report_counts_lengths_as_they_are(tmp_path: Path) -> None:
    """Count, extremes, mean and classes of the validation report come out of the prompts themselves."""
    dataset = generate(tmp_path / "dataset", small())
    lengths = [len(ids) for ids in token_ids(read_rows(dataset / DATA))]
    classes = [row["request_class"] for row in facts_of(dataset)]

    report = read_document(dataset / REPORT)

    told = report["lengths"]
    assert (told["count"], told["sum"], told["min"], told["max"]) == (40, sum(lengths), min(lengths), max(lengths))
    assert told["mean"] == sum(lengths) / 40
    assert {name: count for name, count in report["request_classes"].items() if count} == {
        name: classes.count(name) for name in set(classes)
    }


def with_start_token(path: Path) -> Path:
    """The shipped tokenizer with a start token that it puts before every text."""
    definition = json.loads((files("foreword") / "data" / "tokenizer.json").read_bytes())
    start = max(definition["model"]["vocab"].values()) + len(definition["added_tokens"]) + 1
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    definition["added_tokens"].append({"id": start, "content": "<start>", **flags})
    definition["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<start>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<start>": {"id": "<start>", "ids": [start], "tokens": ["<start>"]}},
    }
    path.write_text(json.dumps(definition, ensure_ascii=False), encoding="utf-8")
    return path


@pytest.mark.parametrize("changes", [{}, {"block_size": 1, "input_length": SHORT}, {"routing": LOCAL}], ids=str)
def test_a_start_token_is_part_of_the_prompt(changes: dict[str, Any], tmp_path: Path) -> None:
    """A token that the server puts in front counts in lengths, and shifts nothing in the hits."""
    tokenizer = with_start_token(tmp_path / "tokenizer.json")
    dataset = generate(tmp_path / "dataset", small(tokenizer=str(tokenizer), **changes))

    totals = check_hits(dataset, encoder(tokenizer))

    assert read_document(dataset / MANIFEST)["frame"] == {"head_len": 1, "tail_len": 0}
    assert_on_target(dataset, totals["cold"])
    assert main(["validate", "--dataset", str(dataset), "--tokenizer", str(tokenizer)]) == 0


def test_a_prompt_of_a_start_token_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Length 1 leaves nothing to say where the server adds a token (case 4); length 2 leaves one token."""
    tokenizer = with_start_token(tmp_path / "tokenizer.json")
    changes = {"tokenizer": str(tokenizer), "target": {"hit_ratio": 0}, "request_count": 4, "prefix": {}}
    config = write_config(tmp_path / "one.yaml", small(input_length=1, **changes))

    code = main(["generate", "--config", str(config), "--output", str(tmp_path / "one")])

    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    assert "r0000000" in error or "input_length" in error
    dataset = generate(tmp_path / "two", small(input_length=2, **changes))
    assert {len(ids) for ids in token_ids(read_rows(dataset / DATA), encoder(tokenizer))} == {2}
    assert all(row["prompt"] for row in read_rows(dataset / DATA))


REAL = {
    "round-robin": {"routing": LOCAL},
    "blocks-of-1": {"block_size": 1, "input_length": SHORT},
    "blocks-of-1-ids": {"block_size": 1, "input_length": SHORT, "prompt_format": "completions_ids"},
    "blocks-of-32-chinese": {"block_size": 32, "suffix": {"source": "builtin", "language": "zh"}},
    "blocks-of-128-warmed": {"block_size": 128, "input_length": LONG, "execution": {"mode": "warmup"}},
}


@pytest.mark.tokenizers
@pytest.mark.parametrize("changes", list(REAL.values()), ids=list(REAL))
@pytest.mark.parametrize("name", ["qwen", "deepseek", "sp32000"])
def test_real_tokenizers_hit_what_is_planned(
    name: str, changes: dict[str, Any], tmp_path: Path, tokenizer_file: Callable[[str], Path]
) -> None:
    """Law 5 with the vocabularies of real models."""
    path = tokenizer_file(name)
    dataset = generate(tmp_path / "dataset", small(tokenizer=str(path), **changes))

    totals = check_hits(dataset, encoder(path))

    assert_on_target(dataset, totals["cold"])
    assert main(["validate", "--dataset", str(dataset), "--tokenizer", str(path)]) == 0
