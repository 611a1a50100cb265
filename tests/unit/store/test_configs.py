"""Config files: what they say, what is set over them, and the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from foreword.errors import ConfigError
from foreword.store.configs import load_dataset_config, with_sources
from tests.support.datasets import small, write_config

if TYPE_CHECKING:
    from foreword.config.dataset import DatasetConfig


def loaded(folder: Path, *overrides: str, **changes: object) -> DatasetConfig:
    """The config of a small data set with changes."""
    return load_dataset_config(write_config(folder / "config.yaml", small(**changes)), overrides=overrides)


def test_overrides_reach_any_key_and_keep_their_neighbours(tmp_path: Path) -> None:
    """--set changes one value at any depth, makes keys that are not there, and may spell the root key out."""
    overrides = ("target.hit_ratio=0.25", "prefix_cache_dataset.seed=9", "execution.mode=compare", "model=null")

    config = loaded(tmp_path, *overrides)

    assert (config.target.hit_ratio, config.seed, config.execution_mode, config.model) == (0.25, 9, "compare", None)
    assert config.prefix.mode == "multi_prefix"


def test_the_last_override_of_a_key_wins(tmp_path: Path) -> None:
    """Overrides are applied in order."""
    assert loaded(tmp_path, "seed=1", "seed=2").seed == 2


def test_an_override_takes_yaml(tmp_path: Path) -> None:
    """A value may be a list or a mapping."""
    config = loaded(tmp_path, "input_length={mode: explicit, values: [40, 50]}", "request_count=2")

    assert config.input_length.model_dump()["values"] == (40, 50)


def test_paths_are_taken_from_the_config_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command is run does not matter for files that a config names; home is spelt out."""
    monkeypatch.setenv("HOME", "/elsewhere")
    suffix = {"source": "text", "path": "../stories.txt"}
    prefix = {"source": "text", "path": "~/masters.txt"}

    config = loaded(tmp_path, suffix=suffix, prefix=prefix, request_order={}, tokenizer="model/tokenizer.json")

    assert config.suffix.path == str(tmp_path.parent / "stories.txt")
    assert config.prefix.path == "/elsewhere/masters.txt"
    assert config.tokenizer == str(tmp_path / "model" / "tokenizer.json")


@pytest.mark.parametrize("name", ["builtin", "hub:Qwen/Qwen3-0.6B@main"])
def test_names_of_tokenizers_are_no_paths(name: str, tmp_path: Path) -> None:
    """The shipped tokenizer and those of the hub keep their names."""
    assert loaded(tmp_path, tokenizer=name).tokenizer == name


def test_lengths_and_groups_come_from_files(tmp_path: Path) -> None:
    """The config holds the values afterwards, so that nothing else needs the files."""
    (tmp_path / "lengths.csv").write_text("input_len\n50\n60\n", encoding="utf-8")
    (tmp_path / "groups.txt").write_text("B\nA\n", encoding="utf-8")
    prefix = {"mode": "multi_prefix", "groups": [{"id": "A"}, {"id": "B"}], "assignment": "groups.txt"}
    law = {"mode": "explicit", "path": "lengths.csv"}

    config = loaded(tmp_path, request_count=2, input_length=law, prefix=prefix)

    assert config.input_length.model_dump() == {"mode": "explicit", "values": (50, 60), "path": None, "column": None}
    assert config.prefix.assignment == ("B", "A")


@pytest.mark.parametrize("value", ["0", "-3", "2.5", "many"])
def test_a_length_that_is_none_is_named_with_its_row(value: str, tmp_path: Path) -> None:
    """A file of lengths holds integers of at least 1; the first other value is named with its row."""
    (tmp_path / "lengths.csv").write_text(f"tokens\n50\n{value}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"input_length\.path: row [12] of lengths\.csv has length"):
        loaded(tmp_path, input_length={"mode": "empirical", "path": "lengths.csv"})


def test_a_byte_order_mark_is_no_part_of_the_config(tmp_path: Path) -> None:
    """Editors that mark UTF-8 files do no harm."""
    path = write_config(tmp_path / "config.yaml", small())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert load_dataset_config(path).seed == 7


def test_the_command_line_names_tokenizer_and_corpus(tmp_path: Path) -> None:
    """Both win over the config, and are taken as they are written."""
    config = loaded(tmp_path, suffix={"source": "text", "path": "old.txt"})

    changed = with_sources(config, tokenizer="new.json", corpus=Path("new.txt"))

    assert (changed.tokenizer, changed.suffix.path) == ("new.json", "new.txt")
    assert with_sources(config, tokenizer=None, corpus=None) == config


@pytest.mark.parametrize("source", ["builtin", "random_tokens"])
def test_a_corpus_for_a_source_that_reads_none_is_refused(source: str, tmp_path: Path) -> None:
    """--corpus that would be ignored is an error, but not where the masters have a source that reads it."""
    corpus = Path("stories.txt")

    with pytest.raises(ConfigError, match="reads no file"):
        with_sources(loaded(tmp_path, suffix={"source": source}), tokenizer=None, corpus=corpus)

    config = loaded(tmp_path, suffix={"source": source}, prefix={"source": "text"}, request_order={})
    assert with_sources(config, tokenizer=None, corpus=corpus).suffix.path == "stories.txt"


@pytest.mark.parametrize(
    ("name", "source"), [("train.jsonl", "gsm8k"), ("test.jsonl", "gsm8k"), ("notes.jsonl", "text")]
)
def test_a_corpus_tells_its_source_where_the_config_leaves_it_open(name: str, source: str, tmp_path: Path) -> None:
    """A folder with GSM8K's files is GSM8K, any other is text, and so is a file of such a name by itself."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / name).write_text("{}", encoding="utf-8")
    config = loaded(tmp_path)

    for corpus in (tmp_path / "corpus", tmp_path / "corpus" / name):
        assert with_sources(config, tokenizer=None, corpus=corpus).suffix.source == source
