"""Data-set folders: what may be replaced, and what a reader sees while one grows."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from foreword import flow
from foreword.config.dataset import DatasetConfig
from foreword.errors import UsageError
from foreword.store import making
from foreword.store.dataset import check_folder, write_json
from tests.support.datasets import DATA, FILES, MANIFEST, METADATA, read_document, small

if TYPE_CHECKING:
    from pathlib import Path


def config(**changes: object) -> DatasetConfig:
    """The small config with changes."""
    return DatasetConfig.parse(small(**changes), root="prefix_cache_dataset")


def state_of(folder: Path, content: str) -> Path:
    """A folder with this manifest and a file of the user's."""
    folder.mkdir()
    (folder / MANIFEST).write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_or_empty_folder_may_be_used(overwrite: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """Nothing is made or changed by looking."""
    (tmp_path / "empty").mkdir()

    check_folder(tmp_path / "empty", overwrite=overwrite)
    check_folder(tmp_path / "new" / "below", overwrite=overwrite)

    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


@pytest.mark.parametrize(
    ("content", "unfinished"),
    [('{"state": "incomplete"}', True), ('{"state": "complete"}', False), ("{", False), ("[]", False)],
)
def test_what_stands_in_a_folder_gives_way_only_when_asked(
    content: str,
    unfinished: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
) -> None:
    """A data set is replaced with --overwrite, and an unfinished one also goes on with --resume."""
    folder = state_of(tmp_path / "dataset", content)

    check_folder(folder, overwrite=True)
    with pytest.raises(UsageError, match="--overwrite"):
        check_folder(folder, overwrite=False)
    if unfinished:
        check_folder(folder, overwrite=False, resume=True)
    else:
        with pytest.raises(UsageError, match="--overwrite"):
            check_folder(folder, overwrite=False, resume=True)


def test_files_of_the_user_s_stay(tmp_path: Path) -> None:
    """Replacing a data set removes its own files, partial ones too, and no other."""
    folder = state_of(tmp_path / "dataset", '{"state": "incomplete"}')
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / f"{DATA}.partial").write_text("old", encoding="utf-8")
    (folder / ".parts").mkdir()
    (folder / ".parts" / "data-0000000000").write_text("old", encoding="utf-8")

    flow.generate(config(), folder, making=flow.Making(overwrite=True))

    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "notes.txt"])


def test_json_is_replaced_in_one_step(tmp_path: Path) -> None:
    """The digest that is returned is that of the file, and no temporary file is left."""
    path = tmp_path / MANIFEST
    write_json(path, {"n": 1})

    facts = write_json(path, {"text": "苹果"})

    assert json.loads(path.read_bytes()) == {"text": "苹果"}
    assert facts == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size, "rows": 1}
    assert [one.name for one in tmp_path.iterdir()] == [MANIFEST]


def test_a_reader_never_takes_half_a_data_set_for_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it grows the manifest says incomplete, and no data file has its name yet."""
    monkeypatch.setattr(making, "TASK_REQUESTS", 10)
    seen: list[tuple[Any, bool, bool]] = []
    folder = tmp_path / "dataset"

    def look(_done: int, _total: int) -> None:
        state = read_document(folder / MANIFEST)["state"]
        seen.append((state, (folder / DATA).exists(), (folder / METADATA).exists()))

    flow.generate(config(), folder, making=flow.Making(), progress=look)

    assert seen == [("incomplete", False, False)] * 4
    assert read_document(folder / MANIFEST)["state"] == "complete"


def test_the_manifest_has_the_digest_of_every_other_file(tmp_path: Path) -> None:
    """Digest, size and rows of the files are those on the disk."""
    flow.generate(config(), tmp_path / "dataset", making=flow.Making())

    stated = read_document(tmp_path / "dataset" / MANIFEST)["files"]

    assert sorted(stated) == sorted(set(FILES) - {MANIFEST})
    for name, facts in stated.items():
        content = (tmp_path / "dataset" / name).read_bytes()
        assert facts["sha256"] == hashlib.sha256(content).hexdigest()
        assert facts["bytes"] == len(content)
        assert facts["rows"] == (content.count(b"\n") if name.endswith(".jsonl") else 1)


@pytest.mark.parametrize(
    ("changes", "proof", "level"),
    [({}, "window", "window"), ({}, "full", "full"), ({"prompt_format": "completions_ids"}, "window", "ids")],
)
def test_the_level_of_proof_is_stated(changes: dict[str, Any], proof: Any, level: str, tmp_path: Path) -> None:  # noqa: ANN401 - one of two words
    """Manifest and report say how prompts were re-encoded, and that none was wrong."""
    made = flow.generate(config(**changes), tmp_path / "dataset", making=flow.Making(proof=proof)).written

    found = made.report["reencode"]
    assert (found["level"], found["wrong"]) == (level, 0)
    assert found == made.manifest["reencode"]
    assert found["checked"] == {"ids": 0, "full": 40, "window": 40}[level]
    least, most = (40, 80) if level == "window" else (0, 0)
    assert least <= found["windows"] <= most, "a prompt has one window, and one more where its last sample is cut"
