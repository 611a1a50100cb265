"""Engines that match blocks or chunks wherever they stand: what repeats, found with sets, and what the command says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xxhash

from foreword.cli.app import main
from tests.support.datasets import (
    DATA,
    MANIFEST,
    METADATA,
    REPORT,
    WARMUP,
    generate,
    read_document,
    read_rows,
    reseal,
    small,
    token_ids,
    write_config,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BLOCK = 16
RANKS = {"cache_scope": "dp_local", "dp_size": 2, "assignment": "round_robin"}


def matching(
    semantics: str, *, detection: dict[str, Any] | None = None, suffix: dict[str, Any] | None = None, **changes: object
) -> dict[str, Any]:
    """A config for an engine that matches like this."""
    asked = {"cache_match_semantics": semantics, **(detection or {})}
    return small(suffix={"source": "builtin", **(suffix or {}), "collision_detection": asked}, **changes)


def blocks_behind(ids: Sequence[int], shared: int) -> list[tuple[int, ...]]:
    """Full blocks behind the shared prefix, as tuples of ids."""
    return [tuple(ids[at : at + BLOCK]) for at in range(shared, len(ids) - BLOCK + 1, BLOCK)]


def chunks_behind(ids: Sequence[int], shared: int) -> list[tuple[int, ...]]:
    """Chunks that end behind the shared prefix: 32 to 256 tokens, closed where the last eight digest to 0 mod 64."""
    chunks, start = [], 0
    for stop in range(1, len(ids) + 1):
        last = np.array(ids[max(0, stop - 8) : stop], dtype="<i4").tobytes()
        closes = stop >= 8 and xxhash.xxh3_64_intdigest(last) % 64 == 0
        if (stop - start >= 32 and (closes or stop - start == 256)) or stop == len(ids):
            chunks.append((start, stop))
            start = stop
    return [tuple(ids[start:stop]) for start, stop in chunks if stop > shared]


RULES = {"independent_block": blocks_behind, "content_defined_chunk": chunks_behind}


def repeated(dataset: Path, semantics: str) -> list[int]:
    """Blocks or chunks of each request that a warm-up, a master or a request before it has, found with sets."""
    rule, local = RULES[semantics], read_document(dataset / MANIFEST)["routing"]["cache_scope"] == "dp_local"
    seen: dict[int, set[tuple[int, ...]]] = {0: set(), 1: set()}
    warmups = read_rows(dataset / WARMUP)
    for row, ids in zip(warmups, token_ids(warmups), strict=True):
        seen[row["planned_dp_id"] if local else 0].update(rule(ids, 0))
    found = []
    facts = read_rows(dataset / METADATA)
    for row, ids in zip(facts, token_ids(read_rows(dataset / DATA)), strict=True):
        units, known = rule(ids, row["planned_prefix_len"]), seen[row["planned_dp_id"] if local else 0]
        found.append(sum(unit in known or unit in units[:place] for place, unit in enumerate(units)))
        known.update(units)
    return found


SETS = {
    "blocks-of-stories": matching("independent_block"),
    "blocks-of-words": matching("independent_block", suffix={"source": "random_tokens"}),
    "blocks-on-two-ranks": matching("independent_block", routing=RANKS),
    "blocks-of-ids": matching("independent_block", prompt_format="completions_ids"),
    "chunks-of-stories": matching("content_defined_chunk", input_length=600, request_count=12),
}


@pytest.mark.parametrize("document", list(SETS.values()), ids=list(SETS))
def test_nothing_private_repeats_in_a_cache_domain(document: dict[str, Any], tmp_path: Path) -> None:
    """Every block or chunk behind the prefix is new to its domain, by ids of another tokenizer path."""
    dataset = generate(tmp_path / "dataset", document)

    semantics = document["suffix"]["collision_detection"]["cache_match_semantics"]
    assert repeated(dataset, semantics) == [0] * document["request_count"]
    collisions = read_document(dataset / MANIFEST)["collisions"]
    assert collisions["cache_match_semantics"] == semantics
    assert collisions["units_checked"] > document["request_count"]
    assert main(["validate", "--dataset", str(dataset)]) == 0


def formulaic(path: Path, count: int = 400) -> Path:
    """Paragraphs that have a long beginning in common, so that their blocks repeat."""
    sentence = "Before the harbour opened for the day the pilot walked along the whole quay and counted all ropes, "
    parts = [f"{sentence}and on day {number} she found {number * 7 % 113} of them wet." for number in range(count)]
    path.write_text("\n\n".join(parts), encoding="utf-8")
    return path


def of_formulas(tmp_path: Path, **detection: object) -> dict[str, Any]:
    """A data set whose text repeats itself."""
    suffix = {"source": "text", "path": str(formulaic(tmp_path / "quay.txt"))}
    prefix = {"source": "builtin"}
    return matching("independent_block", detection=detection, suffix=suffix, prefix=prefix, request_count=60)


@pytest.mark.parametrize(("policy", "status"), [("warn", "PASS_WITH_WARNING"), ("accept_with_warning", "PASS")])
def test_what_repeats_is_kept_and_counted(
    policy: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each request says how much it repeats, the manifest sums it up, the command warns; warn lowers the status."""
    dataset = generate(tmp_path / "dataset", of_formulas(tmp_path, on_conflict=policy))

    said = capsys.readouterr()
    facts, collisions = read_rows(dataset / METADATA), read_document(dataset / MANIFEST)["collisions"]
    conflicts = [row["collision_conflicts"] for row in facts]
    assert conflicts == repeated(dataset, "independent_block")
    assert collisions["conflicts"] == sum(conflicts) > 0
    assert collisions["kept_with_conflicts"] == sum(count > 0 for count in conflicts)
    assert [row["collision_status"] == "conflict" for row in facts] == [count > 0 for count in conflicts]
    assert collisions["made_otherwise"] == sum(row["collision_status"] == "repaired" for row in facts)
    assert read_document(dataset / REPORT)["status"] == status
    assert f"warning: {collisions['kept_with_conflicts']} of 60 requests were kept" in said.err
    assert said.out.startswith(f"{status}  small")
    assert main(["validate", "--dataset", str(dataset)]) == 0


def test_what_repeats_is_refused_by_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3 and one line with request, counts, retries and what would help."""
    config = write_config(tmp_path / "config.yaml", of_formulas(tmp_path, max_retries=3))

    code = main(["generate", "--config", str(config), "--output", str(tmp_path / "dataset")])

    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("foreword: ")]
    assert code == 3
    assert len(lines) == 1
    for words in ("collisions: request r00000", "private blocks", "after 3 retries", "on_conflict: warn"):
        assert words in lines[0]


@pytest.mark.parametrize("policy", ["error", "warn"])
def test_a_text_that_is_too_small_is_told_before_anything_is_written(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Decision 9: the supply is counted first, and the figure is in the message."""
    suffix = {"source": "text", "path": str(formulaic(tmp_path / "quay.txt", count=60))}
    document = matching(
        "independent_block",
        detection={"on_conflict": policy, "max_retries": 0},
        suffix=suffix,
        prefix={"source": "builtin"},
        target={"hit_ratio": 0.1},
    )
    config = write_config(tmp_path / "config.yaml", document)

    code = main(["generate", "--config", str(config), "--output", str(tmp_path / "dataset")])

    told = capsys.readouterr().err
    assert code == {"error": 3, "warn": 0}[policy]
    assert "private tokens have to be unlike in blocks, the text has" in told
    assert (tmp_path / "dataset").exists() == (policy == "warn")


def test_repairs_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    """Two processes and one give the same bytes."""
    document = of_formulas(tmp_path, on_conflict="accept_with_warning")
    alone = generate(tmp_path / "alone", document)

    together = generate(tmp_path / "together", document, "--workers", "2")

    assert read_document(alone / MANIFEST)["collisions"]["made_otherwise"] > 0
    for name in (DATA, METADATA, MANIFEST):
        assert (together / name).read_bytes() == (alone / name).read_bytes()


def test_forged_counts_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Validate counts again on the prompts as they stand."""
    dataset = generate(tmp_path / "dataset", matching("independent_block"))
    rows = read_rows(dataset / METADATA)
    rows[9]["collision_conflicts"] = 2
    write_rows(dataset / METADATA, rows)
    reseal(dataset)
    capsys.readouterr()

    code = main(["validate", "--dataset", str(dataset), "--json"])

    problems = json.loads(capsys.readouterr().out)["problems"]
    assert code == 5
    assert [(one["field"], one["request_id"]) for one in problems] == [("collision_conflicts", rows[9]["request_id"])]
