"""Law 7: the same config, tokenizer, corpus and seed give the same bytes, and nothing of the machine is in them."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foreword.store import making
from tests.support.datasets import (
    DATA,
    FILES,
    MANIFEST,
    METADATA,
    generate,
    read_document,
    read_rows,
    small,
    write_config,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

ON_TWO_RANKS = {"cache_scope": "dp_local", "dp_size": 2, "assignment": "round_robin"}
FEW = {"request_count": 12, "input_length": {"mode": "truncated_normal", "min": 30, "max": 90, "mean": 60, "std": 20}}


def digests(dataset: Path) -> Mapping[str, str]:
    """Digest of every file."""
    return {name: hashlib.sha256((dataset / name).read_bytes()).hexdigest() for name in FILES}


def made_by_process(folder: Path, config: Path, *flags: str, hash_seed: str = "random") -> Path:
    """A data set from a fresh process, with its own working folder and environment."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Tokyo", "HOME": str(folder)}
    command = [sys.executable, "-m", "foreword", "generate", "--config", str(config), "--output", "out", *flags]
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture
def several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small data set be made in several stretches."""
    monkeypatch.setattr(making, "TASK_REQUESTS", 7)


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize(("workers", "hash_seed"), [(2, "0"), (3, "random")])
def test_workers_and_hash_seed_change_nothing(
    workers: int, hash_seed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of processes, each with its own hash seed, gives the bytes that one process gives."""
    document = small(routing=ON_TWO_RANKS)
    alone = generate(tmp_path / "alone", document)
    monkeypatch.setenv("PYTHONHASHSEED", hash_seed)

    together = generate(tmp_path / "together", document, "--workers", str(workers))

    assert digests(together) == digests(alone)


def test_a_fresh_process_with_another_hash_seed_gives_the_same(tmp_path: Path) -> None:
    """Neither the process, its hash seed, its folder, home nor time zone is in the bytes."""
    config = write_config(tmp_path / "config.yaml", small())
    here = generate(tmp_path / "here", small())

    there = made_by_process(tmp_path / "there", config, hash_seed="1")

    assert digests(there) == digests(here)


@pytest.mark.parametrize("requests", [1, 7, 1000])
def test_the_size_of_a_task_changes_nothing(requests: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests are made at a time, the bytes are the same."""
    at_once = generate(tmp_path / "at-once", small())
    monkeypatch.setattr(making, "TASK_REQUESTS", requests)

    in_parts = generate(tmp_path / "in-parts", small())

    assert digests(in_parts) == digests(at_once)


def test_full_proof_changes_no_prompt(tmp_path: Path) -> None:
    """Proving more says so in manifest and report; prompts and metadata stay."""
    window = digests(generate(tmp_path / "window", small()))

    full = digests(generate(tmp_path / "full", small(), "--proof", "full"))

    assert [name for name in FILES if window[name] != full[name]] in ([], ["manifest.json", "validation_report.json"])


def test_either_engine_of_a_full_proof_writes_the_same_bytes(tmp_path: Path) -> None:
    """Tiktoken finds what tokenizers finds, so not even the manifest differs."""
    first = digests(generate(tmp_path / "first", small(), "--proof", "full"))

    second = digests(generate(tmp_path / "second", small(), "--proof", "full", "--proof-engine", "tiktoken"))

    assert second == first


def test_another_seed_shares_no_prompt(tmp_path: Path) -> None:
    """Two seeds have no prompt in common, and not even the start of a master."""
    one, other = (read_rows(generate(tmp_path / str(seed), small(seed=seed)) / DATA) for seed in (7, 8))

    assert not {row["prompt"] for row in one} & {row["prompt"] for row in other}
    assert not {row["prompt"][:60] for row in one} & {row["prompt"][:60] for row in other}


def test_another_target_has_other_content(tmp_path: Path) -> None:
    """By default (T3.2.4) a data set of another target shares no block with this one."""
    starts = [
        {
            row["prompt"][:60]
            for row in read_rows(generate(tmp_path / str(ratio), small(target={"hit_ratio": ratio})) / DATA)
        }
        for ratio in (0.3, 0.6)
    ]

    assert not starts[0] & starts[1]


def test_seed_scope_content_keeps_the_content_of_other_targets(tmp_path: Path) -> None:
    """With seed_scope: content two targets draw from the same masters, so that only the sharing differs."""
    ratios = (0.3, 0.6)
    few, many = (
        read_rows(generate(tmp_path / str(ratio), small(target={"hit_ratio": ratio}, seed_scope="content")) / DATA)
        for ratio in ratios
    )
    facts = [read_rows(tmp_path / str(ratio) / METADATA) for ratio in ratios]
    shared = {
        row["prefix_group_id"]: row["prompt"]
        for row, fact in zip(few, facts[0], strict=True)
        if fact["planned_prefix_len"] >= 32
    }

    for row, fact in zip(many, facts[1], strict=True):
        if fact["planned_prefix_len"] >= 32:
            assert row["prompt"][:60] == shared[row["prefix_group_id"]][:60]


def test_nothing_of_the_machine_is_in_the_files(tmp_path: Path) -> None:
    """No path, host, user, date or number of processes stands in any file, wherever corpus and tokenizer are."""
    corpus = tmp_path / "a-folder-of-mine"
    corpus.mkdir()
    story = Path(__file__).with_name("test_generate.py").read_text(encoding="utf-8")
    words = re.findall(r"[A-Za-z]{2,}", story)
    lines = [" ".join(words[start : start + 24]).capitalize() + "." for start in range(0, len(words) - 24, 3)]
    (corpus / "corpus.txt").write_text("\n\n".join(lines), encoding="utf-8")
    source = {"source": "text", "path": str(corpus / "corpus.txt")}
    config = write_config(tmp_path / "config.yaml", small(**FEW, suffix=source, target={"hit_ratio": 0.2}))

    one = made_by_process(tmp_path / "one", config, "--workers", "1")
    two = made_by_process(tmp_path / "two", config, "--workers", "2")

    assert digests(one) == digests(two)
    text = "".join((one / name).read_text(encoding="utf-8") for name in (MANIFEST, "validation_report.json", METADATA))
    telling = [str(tmp_path), "a-folder-of-mine", str(Path.cwd()), str(Path.home()), socket.gethostname(), sys.prefix]
    assert [word for word in telling if word in text] == []
    assert re.findall(r"\b20\d\d-\d\d-\d\d|\d\d:\d\d:\d\d|workers?\b|\butc\b", text, re.IGNORECASE) == []
    assert read_document(one / MANIFEST)["config"]["suffix"]["path"] == "corpus.txt"
