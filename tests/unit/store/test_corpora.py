"""Corpora from files, folders and the story generator."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from foreword.errors import ConfigError, DataError
from foreword.store.corpora import Source, load_corpus, stories_for
from foreword.workload.stories import story

if TYPE_CHECKING:
    from pathlib import Path


def test_the_built_in_corpus_is_stories_by_number() -> None:
    """Names say language and number, and the digest depends on all of it."""
    corpus = load_corpus("builtin", language="en", seed=4, stories=30)

    assert corpus.samples[7].text == story(7, 4, language="en")
    assert corpus.samples[7].name == "en:7"
    assert corpus.sha256 == load_corpus("builtin", language="en", seed=4, stories=30).sha256
    assert corpus.sha256 != load_corpus("builtin", language="en", seed=4, stories=29).sha256
    assert corpus.sha256 != load_corpus("builtin", language="en", seed=5, stories=30).sha256


@pytest.mark.parametrize(
    ("longest", "shared", "total", "expected"),
    [(1, 1, 1, 1_024), (4_096, 4_096, 40_960_000, 8_192), (131_072, 0, 131_072, 8_192), (4_096, 2_048_000, 9, 65_536)],
)
def test_the_pool_grows_with_what_the_data_set_needs(longest: int, shared: int, total: int, expected: int) -> None:
    """Long prompts and many masters need more stories; a power of two keeps small changes from changing it."""
    assert stories_for(longest=longest, shared=shared, total=total) == expected


def test_gsm8k_is_question_and_answer_of_both_files(tmp_path: Path) -> None:
    """Names are file and line, so that a manifest can say what was used."""
    for name, count in (("train", 2), ("test", 1)):
        rows = [{"question": f"{name} {row}?", "answer": f"It is {row}.\n#### {row}"} for row in range(count)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    samples = load_corpus("gsm8k", path=str(tmp_path)).samples

    assert [sample.name for sample in samples] == ["train:1", "train:2", "test:1"]
    assert samples[1].text == "train 1?\nIt is 1.\n#### 1"


def test_gsm8k_may_have_one_file_only(tmp_path: Path) -> None:
    """The training set alone is a corpus."""
    (tmp_path / "train.jsonl").write_text('{"question": "q", "answer": "a"}\n\n', encoding="utf-8")

    assert len(load_corpus("gsm8k", path=str(tmp_path)).samples) == 1


def test_gsm8k_without_its_files_says_what_is_missing(tmp_path: Path) -> None:
    """And offers the source that needs none."""
    with pytest.raises(ConfigError, match=r"no train.jsonl or test.jsonl") as caught:
        load_corpus("gsm8k", path=str(tmp_path))

    assert "builtin" in caught.value.advice


@pytest.mark.parametrize(("row", "problem"), [("{", "not JSON"), ('{"question": 1}', "no question and answer")])
def test_a_damaged_row_is_named_by_file_and_line(tmp_path: Path, row: str, problem: str) -> None:
    """The good line before it is not the one that is named."""
    (tmp_path / "train.jsonl").write_text('{"question": "q", "answer": "a"}\n' + row, encoding="utf-8")

    with pytest.raises(DataError, match=f"train.jsonl line 2: {problem}"):
        load_corpus("gsm8k", path=str(tmp_path))


@pytest.mark.parametrize("source", ["gsm8k", "text"])
def test_sources_of_files_need_a_path(source: Source) -> None:
    """The message names the key to set."""
    with pytest.raises(ConfigError, match="needs a path") as caught:
        load_corpus(source)

    assert "suffix.path" in caught.value.advice


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the folder is offered."""
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(ConfigError, match="extra hub"):
        load_corpus("gsm8k", path="hub")


def test_text_files_are_split_into_paragraphs(tmp_path: Path) -> None:
    """Blank lines end a sample; its own line breaks stay."""
    path = tmp_path / "notes.txt"
    path.write_text("One line.\nAnother.\n\n \nSecond part.\n", encoding="utf-8")

    samples = load_corpus("text", path=str(path)).samples

    assert [(sample.name, sample.text) for sample in samples] == [
        ("notes.txt:1", "One line.\nAnother."),
        ("notes.txt:2", "Second part."),
    ]


def test_long_paragraphs_are_split_at_sentences(tmp_path: Path) -> None:
    """No sample is so long that masters and endings could not use it, and no word is lost."""
    sentences = [f"Sentence number {number} is here." for number in range(400)]
    path = tmp_path / "long.md"
    path.write_text(" ".join(sentences), encoding="utf-8")

    samples = load_corpus("text", path=str(path)).samples

    assert len(samples) > 5
    assert max(len(sample.text) for sample in samples) <= 2_000
    assert " ".join(sample.text for sample in samples) == " ".join(sentences)


def test_splitting_a_long_paragraph_puts_nothing_into_it(tmp_path: Path) -> None:
    """Chinese sentences get no spaces between them, and numbers with a point stay whole."""
    text = "".join(f"第{number}天的气温是{number}.5度。" for number in range(400))
    path = tmp_path / "zh.txt"
    path.write_text(text, encoding="utf-8")

    samples = load_corpus("text", path=str(path)).samples

    assert len(samples) > 2
    assert "".join(sample.text for sample in samples) == text
    assert all(sample.text.endswith("度。") for sample in samples)


def test_a_folder_is_read_in_order_of_name(tmp_path: Path) -> None:
    """Whatever the disk's order, the samples and their digest are the same; other files are left alone."""
    (tmp_path / "b.txt").write_text("second", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.jsonl").write_text('{"text": "third"}\n"fourth"\n{"prompt": "fifth"}', encoding="utf-8")
    (tmp_path / "a.md").write_text("first", encoding="utf-8")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")

    texts = [sample.text for sample in load_corpus("text", path=str(tmp_path)).samples]

    assert texts == ["first", "second", "third", "fourth", "fifth"]


def test_bytes_that_are_no_text_become_samples_that_are_dropped_later(tmp_path: Path) -> None:
    """One bad byte does not make a whole folder useless."""
    path = tmp_path / "mixed.txt"
    path.write_bytes(b"good text\n\nbad \xff byte\n")

    assert [sample.text for sample in load_corpus("text", path=str(path)).samples] == ["good text", "bad \udcff byte"]


@pytest.mark.parametrize("name", ["missing.txt", "empty"])
def test_text_that_is_not_there_is_an_error(tmp_path: Path, name: str) -> None:
    """A missing file and an empty folder."""
    (tmp_path / "empty").mkdir()

    with pytest.raises((ConfigError, DataError), match=r"cannot read|holds no text"):
        load_corpus("text", path=str(tmp_path / name))


def test_random_words_have_no_samples() -> None:
    """The lexicon is all that they need."""
    assert load_corpus("random_tokens").samples == ()
