"""A manifest is enough to make its data set again, and to see where it was changed (RFC 3.4.2)."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.datasets import DATA, FILES, MANIFEST, generate, read_document, small

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({}, ()),
        ({"prompt_format": "completions_ids"}, ()),
        ({"seed_scope": "content", "request_order": {"mode": "prefix_len_desc"}}, ("--proof", "full")),
        ({"input_length": {"mode": "explicit", "values": list(range(60, 100))}}, ("--compress", "zstd")),
    ],
)
def test_a_data_set_is_made_again(changes: dict[str, Any], flags: tuple[str, ...], tmp_path: Path) -> None:
    """The manifest is moved away from its data set, and every file comes out the same, itself included."""
    dataset = generate(tmp_path / "dataset", small(**changes), *flags)
    manifest = shutil.copy(dataset / MANIFEST, tmp_path / "kept.json")

    code = main(["regenerate", "--manifest", str(manifest), "--output", str(tmp_path / "again")])

    assert code == 0
    names = {path.name for path in dataset.iterdir()}
    assert names == {path.name for path in (tmp_path / "again").iterdir()}
    assert all((dataset / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in names)


def test_a_changed_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A manifest with another digest than what comes out is DIFFERENT, exit 5, and the file is named."""
    dataset = generate(tmp_path / "dataset", small())
    manifest = read_document(dataset / MANIFEST)
    manifest["files"][DATA]["sha256"] = "0" * 64
    (dataset / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    capsys.readouterr()

    assert main(["regenerate", "--manifest", str(dataset), "--json"]) == 5

    told = json.loads(capsys.readouterr().out)
    assert (told["equal"], [problem["file"] for problem in told["problems"]]) == (False, [DATA])
    assert sorted(path.name for path in dataset.iterdir()) == sorted(FILES)


def test_another_version_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes are promised for one version only, so the note says which one made it."""
    dataset = generate(tmp_path / "dataset", small())
    manifest = read_document(dataset / MANIFEST)
    manifest["generator_version"] = "foreword 0.0.1"
    (dataset / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    capsys.readouterr()

    assert main(["regenerate", "--manifest", str(dataset / MANIFEST)]) == 0

    assert "made by foreword 0.0.1" in capsys.readouterr().err


def test_files_that_the_manifest_masks_have_to_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Paths are masked by default; tokenizer and corpus are then named on the command line."""
    tokenizer = shutil.copy(str(files("foreword.data") / "tokenizer.json"), tmp_path / "mine.json")
    corpus = tmp_path / "texts.txt"
    corpus.write_text("\n\n".join(f"Paragraph {n} tells of {n * 7} ships and their cargo." for n in range(400)))
    plan = small(tokenizer=str(tokenizer), suffix={"source": "text", "path": str(corpus)})
    dataset = generate(tmp_path / "dataset", plan)
    capsys.readouterr()

    assert main(["regenerate", "--manifest", str(dataset)]) == 2
    assert "--tokenizer" in capsys.readouterr().err
    assert main(["regenerate", "--manifest", str(dataset), "--tokenizer", str(tokenizer)]) == 2
    assert "--corpus" in capsys.readouterr().err
    given = ["--tokenizer", str(tokenizer), "--corpus", str(corpus)]
    assert main(["regenerate", "--manifest", str(dataset), *given]) == 0


@pytest.mark.parametrize("content", ["{", "[]", '{"state": "incomplete"}', '{"state": "complete"}'])
def test_what_is_no_manifest_is_refused(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit 5."""
    (tmp_path / MANIFEST).write_text(content, encoding="utf-8")

    assert main(["regenerate", "--manifest", str(tmp_path)]) == 5

    assert len(capsys.readouterr().err.splitlines()) == 1
