"""Faults of tools like this one, each with the small input that showed it, on generated data sets and real runs.

The cases that concern one function have their tests beside it: ``grep -rn "case 9" tests`` finds them all.
"""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.run.session import run_dataset
from foreword.run.spec import RunSpec, Silent
from foreword.server.running import start
from foreword.terms import ExecutionMode
from tests.support.builtin import builtin_tokenizer
from tests.support.datasets import (
    DATA,
    MANIFEST,
    METADATA,
    encoder,
    generate,
    read_document,
    read_rows,
    replayed,
    reseal,
    small,
    token_ids,
    write_rows,
)
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

RANDOM = {"suffix": {"source": "random_tokens"}, "prefix": {"mode": "single_prefix", "source": "random_tokens"}}
ADDED = ("<|video_pad|>", "<|tool_call|>", "<think>")


def with_added_tokens(path: Path) -> Path:
    """The shipped tokenizer with tokens that only its added vocabulary has, the last of them not marked special."""
    definition = json.loads((files("foreword") / "data" / "tokenizer.json").read_bytes())
    first = max(*definition["model"]["vocab"].values(), *(token["id"] for token in definition["added_tokens"])) + 1
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    for number, content in enumerate(ADDED):
        special = content != ADDED[-1]
        definition["added_tokens"].append({"id": first + number, "content": content, "special": special, **flags})
    path.write_text(json.dumps(definition, ensure_ascii=False), encoding="utf-8")
    return path


def added_ids(path: Path) -> set[int]:
    """Ids of special and added tokens of a tokenizer file."""
    return {token["id"] for token in json.loads(path.read_text(encoding="utf-8"))["added_tokens"]}


def used_ids(dataset: Path, path: Path) -> set[int]:
    """Every id that a server sees of a data set."""
    return {one for ids in token_ids(read_rows(dataset / DATA), encoder(path)) for one in ids}


def test_wrong_lengths_are_counted_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 1: every prompt re-encodes to its length; three that do not are three, by name, and the check fails."""
    dataset = generate(tmp_path / "dataset", small())
    rows, facts = read_rows(dataset / DATA), read_rows(dataset / METADATA)
    assert [len(ids) for ids in token_ids(rows)] == [row["input_len"] for row in facts]
    for place in (3, 17, 31):
        rows[place]["prompt"] += " and more"
    write_rows(dataset / DATA, rows)
    reseal(dataset)
    capsys.readouterr()

    code = main(["validate", "--dataset", str(dataset), "--json"])

    told = json.loads(capsys.readouterr().out)
    wrong = {problem["request_id"] for problem in told["problems"] if problem["field"] == "input_len"}
    assert code == 5
    assert told["reencode"] == {"level": "full", "checked": 40, "wrong": 3}
    assert wrong == {rows[place]["request_id"] for place in (3, 17, 31)}


@pytest.mark.parametrize("separator", ["\n\n", "\n", " ", ". "], ids=repr)
def test_joints_add_and_change_no_token(separator: str, tmp_path: Path) -> None:
    """Case 2: prefix, separator and text together have the planned length, and start with exactly the planned ids."""
    dataset = generate(tmp_path / "dataset", small(suffix={"source": "builtin", "separator": separator}))
    facts = read_rows(dataset / METADATA)
    prompts = list(zip(facts, token_ids(read_rows(dataset / DATA)), strict=True))

    masters = {}
    for row, ids in sorted(prompts, key=lambda prompt: prompt[0]["planned_prefix_len"]):
        masters[row["prefix_group_id"]] = ids[: row["planned_prefix_len"]]

    for row, ids in prompts:
        shared = row["planned_prefix_len"]
        assert len(ids) == row["input_len"]
        assert ids[:shared] == masters[row["prefix_group_id"]][:shared]
        longer = masters[row["prefix_group_id"]][shared : shared + 16]
        assert not longer or ids[shared : shared + 16] != longer


async def test_a_prefix_of_4096_of_5120_tokens_hits_80_percent(tmp_path: Path) -> None:
    """Case 3: the server counts 5,120 tokens and hits 4,096 of them in every request, not 83.7 %."""
    target = {"hit_ratio": 0.8, "semantics": "static_prefix_ratio"}
    prefix = {"mode": "single_prefix"}
    document = small(request_count=5, input_length=5120, target=target, prefix=prefix, execution={"mode": "warmup"})
    dataset = generate(tmp_path / "dataset", document)
    server = await start(ServerConfig(port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None), builtin_tokenizer())
    try:
        spec = RunSpec(dataset, (server.url,), output=tmp_path / "run", mode=ExecutionMode.WARMUP)
        await run_dataset(spec, Silent())
    finally:
        await server.close()

    rows = read_rows(tmp_path / "run/runtime/request_results.jsonl")
    counted = [(row["prompt_tokens"], row["cached_tokens"]) for row in rows if row["pass"] == "hot"]
    assert counted == [(5120, 4096)] * 5


@pytest.mark.parametrize("prompt_format", ["completions_text", "completions_ids"])
@pytest.mark.parametrize("source", [RANDOM, {}], ids=["random", "stories"])
def test_tokens_of_the_added_vocabulary_are_never_drawn(
    source: dict[str, Any], prompt_format: str, tmp_path: Path
) -> None:
    """Case 5: with all tokens as likely, none that is special, added or chat control is in 16,000 drawn ones."""
    path = with_added_tokens(tmp_path / "tokenizer.json")
    changes = {"request_count": 20, "input_length": 800, "target": {"hit_ratio": 0}, "prompt_format": prompt_format}
    dataset = generate(tmp_path / "dataset", small(tokenizer=str(path), **changes, **source))

    used = used_ids(dataset, path)

    assert used
    assert not used & added_ids(path)
    text = (dataset / DATA).read_text(encoding="utf-8")
    assert not any(content in text for content in ADDED)


@pytest.mark.parametrize("prompt_format", ["completions_text", "completions_ids"])
def test_byte_tokens_are_never_drawn(prompt_format: str, tmp_path: Path) -> None:
    """Case 6: of a vocabulary with ``<0xE4>`` tokens none is drawn, and prompts keep their length."""
    path = tmp_path / "tokenizer.json"
    small_tokenizer("sentencepiece").engine.save(str(path))
    vocabulary = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
    fallback = {number for piece, number in vocabulary.items() if piece.startswith("<0x")}
    changes = {"request_count": 20, "input_length": 800, "target": {"hit_ratio": 0}, "prompt_format": prompt_format}
    dataset = generate(tmp_path / "dataset", small(tokenizer=str(path), **changes, **RANDOM))

    prompts = token_ids(read_rows(dataset / DATA), encoder(path))

    assert len(fallback) == 256
    assert [len(ids) for ids in prompts] == [800] * 20
    assert not {one for ids in prompts for one in ids} & fallback


def test_random_prompts_share_nothing_with_any_number_of_workers(tmp_path: Path) -> None:
    """Case 9: two processes and one seed give the prompts of one process, and random prompts hit nothing."""
    document = small(request_count=64, target={"hit_ratio": 0}, **RANDOM)
    alone = generate(tmp_path / "alone", document)

    together = generate(tmp_path / "together", document, "--workers", "2")

    assert (together / DATA).read_bytes() == (alone / DATA).read_bytes()
    assert [hit for _, _, hit in replayed(together, warm=False)] == [0] * 64
    starts = sorted(tuple(ids[:16]) for ids in token_ids(read_rows(together / DATA)))
    assert all(one != other for one, other in pairwise(starts))
    assert read_document(together / MANIFEST)["theoretical_result"]["designed_hit_tokens"] == 0


async def served_run(folder: Path, document: dict[str, Any], mode: ExecutionMode) -> Path:
    """Folder of a run over a new data set on the built-in server."""
    dataset = generate(folder / "dataset", document)
    server = await start(ServerConfig(port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None), builtin_tokenizer())
    try:
        spec = RunSpec(dataset, (server.url,), (f"{server.url}/metrics",), output=folder / "run", mode=mode)
        await run_dataset(spec, Silent())
    finally:
        await server.close()
    return folder / "run"


async def test_answers_are_no_part_of_what_is_counted_on(tmp_path: Path) -> None:
    """Case 32: the server caches answers of three blocks too, but hits are those of the planned prompts alone."""
    run = await served_run(tmp_path, small(output_length=48), ExecutionMode.COLD)

    rows = read_rows(run / "runtime/request_results.jsonl")
    assert [row["completion_tokens"] for row in rows] == [48] * 40
    assert [row["cached_tokens"] for row in rows] == [row["expected_hit_len"] for row in rows]


async def test_the_whole_chain_from_ids_to_the_verdict(tmp_path: Path) -> None:
    """Case 42: exact ids, cached tokens of each request, counters and verdict agree; capacity is looked at."""
    run = await served_run(tmp_path, small(prompt_format="completions_ids"), ExecutionMode.COMPARE)

    code = main(["report", "--run-dir", str(run)])

    sent = {row["request_id"]: len(row["prompt_token_ids"]) for row in read_rows(run / "dataset" / DATA)}
    report = read_document(run / "report/prefix_cache_report.json")
    rows = read_rows(run / "runtime/request_results.jsonl")
    measured = [row for row in rows if row["pass"] != "warmup"]
    counted = read_document(run / "runtime/prefix_cache_metrics.json")["passes"]
    assert code == 0
    assert all(row["prompt_tokens"] == sent[row["request_id"]] for row in measured)
    assert all(row["cached_tokens"] == row["expected_hit_len"] for row in measured)
    for name in ("cold", "hot"):
        mine = [row for row in measured if row["pass"] == name]
        (delta,) = [one for one in counted if one["pass"] == name]
        assert delta["hits_delta"] == sum(row["cached_tokens"] for row in mine)
        assert delta["queries_delta"] == sum(row["prompt_tokens"] for row in mine)
    assert report["headline"]["runtime"]["verdict"] == "WITHIN_GUIDE"
    assert read_document(run / "runtime/prefix_cache_metrics.json")["cache_capacity_tokens"] is not None
