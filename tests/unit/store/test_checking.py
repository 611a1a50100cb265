"""What a check says, and what it does without tokenizer or corpus."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from foreword import flow
from foreword.errors import TokenizerError
from foreword.simulate.validate import Problem
from foreword.store.checking import Check
from tests.support.damage import in_suffix, token
from tests.support.datasets import DATA, MANIFEST, generate, read_document, reseal, small, write_document

if TYPE_CHECKING:
    from pathlib import Path


def corpus(path: Path) -> Path:
    """A text of short paragraphs, each different."""
    names, things = ("Ann", "Ben", "Cho", "Dana", "Eli"), ("apples", "bridges", "candles", "drums", "engines", "flutes")
    paragraphs = [
        f"{name} counts {number} {thing} beside the river, then paints {number % 7 + 2} more before the evening."
        for number in range(60)
        for name in names
        for thing in things
    ]
    path.write_text("\n\n".join(paragraphs), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def from_text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data set from a text file that the manifest names without its folder, and the file."""
    folder = tmp_path_factory.mktemp("text")
    text = corpus(folder / "stories.txt")
    dataset = generate(folder / "dataset", small(suffix={"source": "text", "path": str(text)}))
    return dataset, text


def test_without_the_corpus_everything_else_is_checked(from_text: tuple[Path, Path]) -> None:
    """Every prompt is encoded and replayed, and the check says why none was composed again."""
    found = flow.validate(from_text[0])

    assert (found.problems, found.checked, found.recomposed) == ([], 40, 0)
    assert "stories.txt" in found.not_recomposed_because
    assert "not composed again" in found.summary()


def test_with_the_corpus_every_prompt_is_composed_again(from_text: tuple[Path, Path], tmp_path: Path) -> None:
    """With it a changed prompt is found although its fingerprint was changed with it."""
    dataset, text = from_text
    assert flow.validate(dataset, corpus=text).recomposed == 40
    damaged = shutil.copytree(dataset, tmp_path / "damaged")
    request = token(in_suffix, fingerprint=True)(damaged)
    reseal(damaged)

    assert flow.validate(damaged).problems == []
    (problem,) = flow.validate(damaged, corpus=text).problems

    assert (problem.file, problem.field, problem.request_id) == (DATA, "prompt", request)


def test_another_corpus_is_no_damage(from_text: tuple[Path, Path], tmp_path: Path) -> None:
    """A file with other text cannot compose the data set again, and the check says that."""
    other = corpus(tmp_path / "other.txt")
    other.write_text(other.read_text(encoding="utf-8").replace("river", "lake"), encoding="utf-8")

    found = flow.validate(from_text[0], corpus=other)

    assert (found.problems, found.recomposed) == ([], 0)
    assert found.not_recomposed_because == "the corpus at hand is another one"


def test_the_name_of_a_tokenizer_s_file_does_not_matter(tmp_path: Path) -> None:
    """A data set is composed again with the same bytes under another name."""
    dataset = generate(tmp_path / "dataset", small())
    manifest = read_document(dataset / MANIFEST)
    manifest["tokenizer"]["name"] = "another-name"
    write_document(dataset / MANIFEST, manifest)

    found = flow.validate(dataset)

    assert (found.recomposed, found.not_recomposed_because) == (40, "")


def test_a_tokenizer_that_is_not_at_hand_is_asked_for(tmp_path: Path) -> None:
    """Text cannot be checked without its tokenizer; the advice is the flag that names it."""
    dataset = generate(tmp_path / "dataset", small())
    manifest = read_document(dataset / MANIFEST)
    manifest["config"]["tokenizer"] = "mine.json"
    write_document(dataset / MANIFEST, manifest)

    with pytest.raises(TokenizerError, match="--tokenizer"):
        flow.validate(dataset)


def test_ids_are_checked_without_a_tokenizer(tmp_path: Path) -> None:
    """Prompts of ids are replayed as they are; an id outside the vocabulary is named."""
    dataset = generate(tmp_path / "dataset", small(prompt_format="completions_ids"))
    assert flow.validate(dataset).problems == []
    rows = [json.loads(line) for line in (dataset / DATA).read_text(encoding="utf-8").splitlines()]
    rows[3]["prompt_token_ids"][-1] = 10**6
    (dataset / DATA).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    reseal(dataset)

    found = flow.validate(dataset)

    assert (DATA, "prompt", rows[3]["request_id"]) in {(one.file, one.field, one.request_id) for one in found.problems}


def test_a_summary_counts_problems_and_a_document_lists_them() -> None:
    """People read how many, programs read which."""
    check = Check("set", problems=[Problem("data.jsonl", "prompt", "is wrong", "r1")], input_tokens=100)
    check.cold_hit_tokens, check.checked, check.wrong = 25, 4, 1

    assert check.exit_code == 5
    assert check.summary().startswith("DAMAGED: 1 problems  set\n")
    assert "25.00 %" in check.summary()
    assert check.document()["problems"] == [
        {"file": "data.jsonl", "field": "prompt", "message": "is wrong", "request_id": "r1"}
    ]
    assert check.document()["valid"] is False
