"""Data sets that were interrupted go on where they stopped, to the same bytes; large files may be compressed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from foreword import flow
from foreword.cli.app import main
from foreword.config.dataset import DatasetConfig
from foreword.errors import DataError
from foreword.store import making
from tests.support.datasets import DATA, FILES, MANIFEST, METADATA, read_document, small, write_config

if TYPE_CHECKING:
    from pathlib import Path

STRETCH = 10


@pytest.fixture(autouse=True)
def _short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty requests in four stretches."""
    monkeypatch.setattr(making, "TASK_REQUESTS", STRETCH)


def config(**changes: object) -> DatasetConfig:
    """The small config with changes."""
    return DatasetConfig.parse(small(**changes), root="prefix_cache_dataset")


def interrupted(folder: Path, after: int, *, asked: DatasetConfig | None = None, **how: Any) -> None:  # noqa: ANN401 - fields of Making
    """A data set whose making stopped when so many requests were written."""

    def stop(done: int, _total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flow.generate(asked or config(), folder, making=flow.Making(**how), progress=stop)


def contents(folder: Path) -> dict[str, bytes]:
    """Files by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("after", [10, 30])
def test_a_resumed_data_set_is_the_uninterrupted_one(after: int, compress: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """Rows that stand are not made again, and every file ends with the same bytes."""
    flow.generate(config(), tmp_path / "whole", making=flow.Making(compress=compress))
    interrupted(tmp_path / "dataset", after, compress=compress)
    assert read_document(tmp_path / "dataset" / MANIFEST)["state"] == "incomplete"

    seen: list[int] = []
    flow.generate(
        config(),
        tmp_path / "dataset",
        making=flow.Making(resume=True, compress=compress),
        progress=lambda done, _total: seen.append(done),
    )

    assert seen[0] == after + STRETCH
    assert contents(tmp_path / "dataset") == contents(tmp_path / "whole")


@pytest.mark.parametrize("damage", ["row cut off", "journal cut off", "no journal", "file too short"])
def test_what_a_kill_cut_off_is_made_again(damage: str, tmp_path: Path) -> None:
    """Bytes behind the last whole stretch are dropped; lines of the journal without their rows do not count."""
    flow.generate(config(), tmp_path / "whole", making=flow.Making())
    interrupted(tmp_path / "dataset", 20)
    growing, journal = tmp_path / "dataset" / f"{DATA}.partial", tmp_path / "dataset" / ".parts" / "journal.jsonl"
    match damage:
        case "row cut off":
            growing.write_bytes(growing.read_bytes() + b'{"request_id": "r00')
        case "journal cut off":
            journal.write_bytes(journal.read_bytes()[:-30])
        case "no journal":
            journal.unlink()
        case _:
            growing.write_bytes(growing.read_bytes()[:-1])

    flow.generate(config(), tmp_path / "dataset", making=flow.Making(resume=True))

    assert contents(tmp_path / "dataset") == contents(tmp_path / "whole")


@pytest.mark.parametrize("change", [{"seed": 8}, {"input_length": 100}, {"suffix": {"separator": "\n"}}])
def test_another_config_does_not_go_on(change: dict[str, Any], tmp_path: Path) -> None:
    """What stands is not mixed with what another config makes; nothing is lost by trying."""
    interrupted(tmp_path / "dataset", 20)
    before = contents(tmp_path / "dataset" / ".parts")

    with pytest.raises(DataError, match="another config"):
        flow.generate(config(**change), tmp_path / "dataset", making=flow.Making(resume=True))

    assert contents(tmp_path / "dataset" / ".parts") == before
    flow.generate(config(), tmp_path / "dataset", making=flow.Making(resume=True))
    assert read_document(tmp_path / "dataset" / MANIFEST)["state"] == "complete"


def test_what_was_seen_before_an_interruption_still_counts(tmp_path: Path) -> None:
    """Blocks of requests that stand already may not be repeated after it, and counts are those of one go."""
    sentence = "Before the harbour opened for the day the pilot walked along the whole quay and counted all ropes, "
    text = tmp_path / "quay.txt"
    text.write_text("\n\n".join(f"{sentence}and then {n} more." for n in range(400)), encoding="utf-8")
    detection = {"cache_match_semantics": "independent_block", "on_conflict": "warn", "max_retries": 2}
    suffix = {"source": "text", "path": str(text), "collision_detection": detection}
    asked = config(suffix=suffix, prefix={"source": "builtin"})
    flow.generate(asked, tmp_path / "whole", making=flow.Making())
    assert read_document(tmp_path / "whole" / MANIFEST)["collisions"]["kept_with_conflicts"] > 0
    interrupted(tmp_path / "dataset", 20, asked=asked)

    flow.generate(asked, tmp_path / "dataset", making=flow.Making(resume=True))

    assert contents(tmp_path / "dataset") == contents(tmp_path / "whole")


def test_resume_begins_where_there_is_nothing(tmp_path: Path) -> None:
    """A script may always say --resume."""
    flow.generate(config(), tmp_path / "dataset", making=flow.Making(resume=True))

    assert sorted(contents(tmp_path / "dataset")) == sorted(FILES)


def test_compressed_files_hold_the_plain_bytes(tmp_path: Path) -> None:
    """Data and metadata take less room and say the same."""
    flow.generate(config(), tmp_path / "plain", making=flow.Making())
    flow.generate(config(), tmp_path / "packed", making=flow.Making(compress=True))

    for name in (DATA, METADATA):
        packed = tmp_path / "packed" / f"{name}.zst"
        with packed.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as text:
            assert text.read() == (tmp_path / "plain" / name).read_bytes()
        assert packed.stat().st_size < (tmp_path / "plain" / name).stat().st_size
        assert not (tmp_path / "packed" / name).exists()


def test_a_compressed_data_set_is_validated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks read it as any other, and name a damaged file."""
    path = write_config(tmp_path / "config.yaml", small())
    folder = tmp_path / "dataset"
    assert main(["generate", "--config", str(path), "--output", str(folder), "--compress", "zstd"]) == 0
    assert main(["validate", "--dataset", str(folder)]) == 0
    capsys.readouterr()

    packed = folder / f"{DATA}.zst"
    packed.write_bytes(packed.read_bytes()[:-40])
    assert main(["validate", "--dataset", str(folder), "--json"]) == 5

    assert DATA in json.dumps(json.loads(capsys.readouterr().out))
