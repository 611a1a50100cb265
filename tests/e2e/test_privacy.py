"""What is written of prompts, paths and secrets, and how a run stays apart from earlier ones by its text alone."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.run.session import run_dataset
from foreword.run.spec import Isolation, RunSpec, Silent
from foreword.server.running import start
from foreword.terms import ExecutionMode
from tests.support.builtin import builtin_tokenizer
from tests.support.datasets import DATA, MANIFEST, METADATA, generate, read_document, read_rows, small, token_ids

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.run.spec import RunOutcome

KEY = "sk-very-secret-4711"


async def cold_runs(folder: Path, *datasets: Path, isolation: Isolation) -> list[RunOutcome]:
    """One cold pass over each data set, on one server."""
    fast = ServerConfig(port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None)
    server = await start(fast, builtin_tokenizer())
    try:
        specs = [
            RunSpec(dataset, (server.url,), (), KEY, mode=ExecutionMode.COLD, isolation=isolation, outputs=folder)
            for dataset in datasets
        ]
        return [await run_dataset(spec, Silent()) for spec in specs]
    finally:
        await server.close()


@pytest.mark.parametrize("asked", [False, True])
async def test_prompts_are_in_results_only_where_they_were_asked_for(asked: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """save_prompts: each row has the prompt that was sent; without it no file of the run but the data set has any."""
    privacy = {"save_prompts": asked}
    dataset = generate(tmp_path / "dataset", small(privacy=privacy))

    (outcome,) = await cold_runs(tmp_path / "runs", dataset, isolation=Isolation.NONE)

    main(["report", "--run-dir", str(outcome.folder)])
    sent = {row["request_id"]: row["prompt"] for row in read_rows(dataset / DATA)}
    rows = read_rows(outcome.folder / "runtime" / "request_results.jsonl")
    assert [row.get("prompt") for row in rows] == [sent[row["request_id"]] if asked else None for row in rows]
    piece = json.dumps(next(iter(sent.values()))[40:80])[1:-1].encode()
    holders = [path for path in outcome.folder.rglob("*") if path.is_file() and piece in path.read_bytes()]
    names = {path.name for path in holders if path.parent.name != "dataset"}
    assert names == ({"request_results.jsonl"} if asked else set())


async def test_no_file_of_a_run_has_the_key(tmp_path: Path) -> None:
    """Keys and headers reach no result, no manifest and no report."""
    dataset = generate(tmp_path / "dataset", small())

    (outcome,) = await cold_runs(tmp_path / "runs", dataset, isolation=Isolation.NONE)

    main(["report", "--run-dir", str(outcome.folder)])
    files = [path for path in outcome.folder.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert not [path for path in files if KEY.encode() in path.read_bytes() or b"Bearer" in path.read_bytes()]


@pytest.mark.parametrize("masked", [True, False])
def test_the_manifest_names_files_without_their_folders(masked: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """mask_paths: a folder of the user's machine is in the manifest only where it was allowed."""
    text = tmp_path / "my-folder" / "mine.txt"
    text.parent.mkdir()
    text.write_text("\n\n".join(f"The keeper writes down ship {n} and its flag." for n in range(400)), encoding="utf-8")
    suffix = {"source": "text", "path": str(text)}

    dataset = generate(
        tmp_path / "dataset", small(suffix=suffix, prefix={"source": "builtin"}, privacy={"mask_paths": masked})
    )

    manifest = (dataset / MANIFEST).read_text(encoding="utf-8")
    assert ("my-folder" in manifest) is not masked
    assert "mine.txt" in manifest
    assert "The keeper" not in manifest
    assert main(["validate", "--dataset", str(dataset), "--corpus", str(text)]) == 0


async def test_another_nonce_is_another_text_with_the_same_hits(tmp_path: Path) -> None:
    """Without salt or reset a second data set hits what the first did, and nothing that the first left."""
    one, other = (generate(tmp_path / name, small(nonce=name, isolation="nonce")) for name in ("monday", "tuesday"))

    outcomes = await cold_runs(tmp_path / "runs", one, other, isolation=Isolation.NONCE)

    designed = read_document(one / MANIFEST)["theoretical_result"]["designed_hit_ratio"]
    assert [outcome.passes[0].usage_hit_ratio for outcome in outcomes] == [designed, designed]
    plain = [
        [{k: row[k] for k in ("request_id", "input_len", "planned_prefix_len")} for row in read_rows(path / METADATA)]
        for path in (one, other)
    ]
    assert plain[0] == plain[1]
    starts = [{tuple(ids[:16]) for ids in token_ids(read_rows(path / DATA))} for path in (one, other)]
    assert not starts[0] & starts[1]


async def test_the_same_data_set_again_is_no_clean_run(tmp_path: Path) -> None:
    """Case 10: what the first run left is hit by a second one of the same text, and the run says so."""
    dataset = generate(tmp_path / "dataset", small(nonce="once", isolation="nonce"))

    first, second = await cold_runs(tmp_path / "runs", dataset, dataset, isolation=Isolation.NONCE)

    hits = [outcome.passes[0].usage_hit_ratio or 0 for outcome in (first, second)]
    assert hits[1] > hits[0] + 0.3
    assert not [text for text in first.warnings if "cached" in text]
    assert [text for text in second.warnings if "cached" in text]


def test_the_manifest_has_all_that_is_needed_to_make_the_set_again(tmp_path: Path) -> None:
    """RFC 3.4.2: versions, config, tokenizer, corpus, block size, seed, groups, order, routing, retries, theory."""
    dataset = generate(tmp_path / "dataset", small())

    manifest = read_document(dataset / MANIFEST)

    order = [int(row["request_id"][1:]) for row in read_rows(dataset / METADATA)]
    digest = hashlib.sha256(b"".join(index.to_bytes(8, "little") for index in order)).hexdigest()
    assert manifest["order_sha256"] == digest
    assert manifest["generator_version"].startswith("foreword ")
    assert manifest["config"]["prefix"]["groups"][0]["id"] == "A"
    assert len(manifest["tokenizer"]["sha256"]) == len(manifest["corpus"]["suffix"]["sha256"]) == 64
    assert (manifest["seed"], manifest["block_size"]) == (7, 16)
    assert manifest["routing"]["assignment"] == "bind"
    assert {"retries", "repaired", "kept_unproved"} <= set(manifest["collisions"])
    assert manifest["theoretical_result"]["designed_hit_tokens"] > 0
    assert {facts["sha256"] for facts in manifest["files"].values()} == {
        hashlib.sha256((dataset / name).read_bytes()).hexdigest() for name in manifest["files"]
    }
