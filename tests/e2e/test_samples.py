"""Which samples prompts are made of, by the command line: named, cycled, repeated, and text that is not safe."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.datasets import (
    DATA,
    MANIFEST,
    METADATA,
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
    from pathlib import Path

LANGUAGES = {
    "english": "The lighthouse keeper counts {n} ships before noon, and writes each name into a heavy book.",
    "chinese": "港口的守塔人在中午之前数了{n}艘船，并把每一个名字写进一本厚厚的簿子里。",
    "emoji": "Ship {n} 🚢 went by 👩‍🚀, flag 🏳️‍🌈 up, and the crew 👨‍👩‍👧‍👦 waved 👋🏽 from the deck.",
}


def paragraphs(language: str, count: int = 300) -> list[str]:
    """Text of a user's own."""
    return [LANGUAGES[language].format(n=number) for number in range(1, count + 1)]


def text_file(path: Path, samples: list[str | bytes]) -> Path:
    """A text file of these paragraphs."""
    raw = [sample.encode() if isinstance(sample, str) else sample for sample in samples]
    path.write_bytes(b"\n\n".join(raw) + b"\n")
    return path


def of_text(path: Path, **suffix: object) -> dict[str, Any]:
    """A config whose suffixes are of this file, and whose masters are stories."""
    return small(suffix={"source": "text", "path": str(path), **suffix}, prefix={"source": "builtin"})


def parts(row: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """The private part of a prompt behind its divergence words, split at blank lines."""
    private: list[str] = row["prompt"].split("\n\n")
    return private[len(private) - len(facts["suffix_sample_ids"]) :]


@pytest.mark.parametrize("language", list(LANGUAGES))
@pytest.mark.parametrize("mode", ["named_then_random", "named", "cycle"])
def test_named_samples_stand_word_for_word_in_every_prompt(mode: str, language: str, tmp_path: Path) -> None:
    """By number and by hash, in Chinese and with joined emoji, whole but for the last one; and the set is valid."""
    samples = paragraphs(language)
    path = text_file(tmp_path / "mine.txt", list(samples))
    third = hashlib.sha256(samples[2].encode()).hexdigest()
    names = ["mine.txt:7", f"sha256:{third[:16]}"]
    repeat = {} if mode == "named_then_random" else {"repeat_samples": True}
    dataset = generate(tmp_path / "dataset", of_text(path, mode=mode, samples=names, **repeat))

    for row, facts in zip(read_rows(dataset / DATA), read_rows(dataset / METADATA), strict=True):
        used = facts["suffix_sample_ids"]
        texts = [samples[int(name.partition(":")[2]) - 1] for name in used]
        first = int(facts["request_id"][1:]) % 2 if mode == "cycle" else 0
        assert used[:2] == ["mine.txt:7", "mine.txt:3", "mine.txt:7"][first : first + len(used[:2])]
        assert parts(row, facts)[:-1] == texts[:-1]
        assert [part[0] for part in parts(row, facts)] == [text[0] for text in texts]
        assert mode != "named_then_random" or len(set(used)) == len(used)
    assert main(["validate", "--dataset", str(dataset)]) == 0


def test_unsafe_samples_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text of control tokens, broken UTF-8 and NUL reach no prompt, and the command says how many were left out."""
    unsafe: list[str | bytes] = ["end <|end|> of turn", b"broken \xff\xfe bytes", "a\0b", "<|endoftext|>"]
    path = text_file(tmp_path / "mine.txt", [*unsafe, *paragraphs("english")])

    dataset = generate(tmp_path / "dataset", of_text(path))

    data = (dataset / DATA).read_bytes()
    content = read_document(dataset / MANIFEST)["content"]
    assert content["samples_dropped"] == {"NUL": 1, "lone surrogate": 1, "special text": 2}
    assert not [part for part in (b"<|end|>", b"<|endoftext|>", b"broken", b"\\u0000") if part in data]
    assert json.loads(data.splitlines()[0])
    assert "4 samples of the text are left out" in capsys.readouterr().err
    assert [len(ids) for ids in token_ids(read_rows(dataset / DATA))] == [
        row["input_len"] for row in read_rows(dataset / METADATA)
    ]


REFUSED = {
    "special-text": ({"mode": "named", "samples": ["mine.txt:1"]}, 3, "SPECIAL_TEXT", "mine.txt:1"),
    "broken-utf-8": ({"mode": "named", "samples": ["mine.txt:2"]}, 3, "lone surrogate", "mine.txt:2"),
    "no-such-sample": ({"mode": "named", "samples": ["mine.txt:900"]}, 2, "mine.txt:900", "mine.txt:1 to mine.txt:302"),
    "short-hash": ({"mode": "named", "samples": ["sha256:abc"]}, 2, "suffix", "8 to 64"),
    "no-names": ({"mode": "named"}, 2, "suffix", "needs samples"),
    "names-for-nothing": ({"samples": ["mine.txt:4"]}, 2, "suffix", "named_then_random"),
    "twice": ({"mode": "cycle", "samples": ["mine.txt:4", "mine.txt:4"]}, 2, "suffix", "mine.txt:4 is named twice"),
    "too-short": ({"mode": "named", "samples": ["mine.txt:4"]}, 3, "CORPUS_TOO_SMALL", "repeat_samples"),
}


@pytest.mark.parametrize(("suffix", "code", "first", "second"), list(REFUSED.values()), ids=list(REFUSED))
def test_samples_that_cannot_be_used_are_named(
    suffix: dict[str, Any],
    code: int,
    first: str,
    second: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line that names the sample or the key, and says what is possible."""
    path = text_file(tmp_path / "mine.txt", ["<|end|>", b"broken \xff", *paragraphs("english")])
    config = write_config(tmp_path / "config.yaml", of_text(path, **suffix))

    found = main(["generate", "--config", str(config), "--output", str(tmp_path / "dataset")])

    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("foreword: ")]
    assert found == code
    assert len(lines) == 1
    assert first in lines[0]
    assert second in lines[0]


def test_masters_are_made_of_the_samples_that_are_named_for_them(tmp_path: Path) -> None:
    """prefix.samples: no other sample stands in a master, none of them in a suffix, and the manifest names them."""
    names = [f"en:{number}" for number in range(40)]
    dataset = generate(tmp_path / "dataset", small(prefix={"samples": names}))

    manifest, facts = read_document(dataset / MANIFEST), read_rows(dataset / METADATA)

    (master,) = manifest["masters"]
    assert set(master["sample_ids"]) <= set(names)
    assert not {name for row in facts for name in row["suffix_sample_ids"]} & set(master["sample_ids"])


def test_a_forged_list_of_samples_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Validate composes each prompt again and compares the names of its samples too."""
    dataset = generate(tmp_path / "dataset", small())
    rows = read_rows(dataset / METADATA)
    rows[5]["suffix_sample_ids"] = ["en:1"]
    write_rows(dataset / METADATA, rows)
    reseal(dataset)

    code = main(["validate", "--dataset", str(dataset)])

    assert code == 5
    assert "suffix_sample_ids" in capsys.readouterr().err
