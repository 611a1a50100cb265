"""Tokenizers from files, and what servers add to text."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword.errors import TokenizerError
from foreword.store.tokenizers import load_tokenizer
from foreword.workload.tokens import Family, Frame
from tests.support.content import builtin_tokenizer
from tests.support.small_tokenizers import NAMES, small_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

MIXED = "Ångström's 水 café — 12½ €\n\tdone 👩‍🚀 \u200b ok"


def test_the_built_in_file_is_the_one_whose_digest_is_shipped() -> None:
    """Its sha256 stands beside it and is what the loader reports."""
    folder = files("foreword") / "data"
    content = (folder / "tokenizer.json").read_bytes()
    stated = (folder / "tokenizer.json.sha256").read_text().split()[0]

    assert hashlib.sha256(content).hexdigest() == stated == builtin_tokenizer().sha256
    assert builtin_tokenizer().vocab_size == 8_192


def test_a_tokenizer_loads_from_its_file_or_folder(tmp_path: Path) -> None:
    """Both paths give the same tokenizer; its name is that of the folder, never a path."""
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes((files("foreword") / "data" / "tokenizer.json").read_bytes())

    by_folder, by_file = load_tokenizer(str(folder)), load_tokenizer(str(folder / "tokenizer.json"))

    assert by_folder.name == by_file.name == "my-model"
    assert by_folder.sha256 == by_file.sha256 == builtin_tokenizer().sha256
    assert by_file.encode(MIXED) == builtin_tokenizer().encode(MIXED)


def test_a_missing_file_is_one_line_with_a_way_out(tmp_path: Path) -> None:
    """The message names the file that was looked for."""
    with pytest.raises(TokenizerError, match=r"cannot read tokenizer file .*nothing") as caught:
        load_tokenizer(str(tmp_path / "nothing"))

    assert "builtin" in caught.value.advice
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b'{"model": 3}', b'{"a": 1}', b"\xff\xfe"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    """Damaged JSON and other JSON alike."""
    path = tmp_path / "other.json"
    path.write_bytes(content)

    with pytest.raises(TokenizerError, match="other is not a tokenizer"):
        load_tokenizer(str(path))


def test_a_hub_name_needs_a_revision() -> None:
    """Without one the data set could not be made again."""
    with pytest.raises(TokenizerError, match="names no revision") as caught:
        load_tokenizer("hub:Qwen/Qwen3-8B")

    assert "NAME@REV" in caught.value.advice


def test_a_hub_name_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is optional."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    with pytest.raises(TokenizerError, match="needs the extra hub"):
        load_tokenizer("hub:Qwen/Qwen3-8B@main")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen-like", Frame()),
        ("sentencepiece", Frame(head_ids=(1,))),
        ("wordpiece", Frame(head_ids=(1,), tail_ids=(2,))),
    ],
)
def test_the_frame_of_text_is_what_the_post_processor_adds(name: str, expected: Frame) -> None:
    """Head and tail as an engine with special tokens on has them."""
    tokenizer = small_tokenizer(name)

    assert tokenizer.frame() == expected
    assert tokenizer.engine.encode("Some text").ids == [
        *expected.head_ids,
        *tokenizer.encode("Some text"),
        *expected.tail_ids,
    ]


@pytest.mark.parametrize("name", ["builtin", *NAMES])
def test_token_ends_are_the_offsets_of_the_tokens(name: str) -> None:
    """In ASCII text they are where the library's own offsets end, blanks aside."""
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    text = "Alice counted 12 apples. She was pleased"

    ends = tokenizer.token_ends(text)

    assert ends == [stop for _, stop in tokenizer.engine.encode(text, add_special_tokens=False).offsets]


@pytest.mark.parametrize("name", ["builtin", "qwen-like", "gpt2-like"])
def test_widths_add_up_to_the_bytes_of_any_text(name: str) -> None:
    """The bytes of the tokens, joined, are the text."""
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    vocabulary, ids = tokenizer.pieces(), tokenizer.encode(MIXED)
    assert vocabulary.widths is not None

    assert b"".join(vocabulary.pieces[token] for token in ids) == MIXED.encode()
    assert vocabulary.widths[ids].sum() == len(MIXED.encode())


@pytest.mark.parametrize(
    ("name", "family", "recognised"),
    [
        ("qwen-like", Family.BYTE_BPE, True),
        ("gpt2-like", Family.BYTE_BPE, True),
        ("tekken-like", Family.BYTE_BPE, True),
        ("unknown", Family.BYTE_BPE, False),
        ("sentencepiece", Family.SENTENCEPIECE_BPE, True),
        ("wordpiece", Family.WORDPIECE, False),
        ("unigram", Family.UNIGRAM, False),
    ],
)
def test_families_are_recognised_by_their_file(name: str, family: Family, *, recognised: bool) -> None:
    """Only known patterns and normalisers count as recognised."""
    vocabulary = small_tokenizer(name).pieces()

    assert (vocabulary.family, vocabulary.recognised) == (family, recognised)
    assert small_tokenizer(name).kind == family.value


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"dropout": 0.1}},
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    ],
)
def test_a_changed_rule_is_not_recognised(tmp_path: Path, change: dict[str, dict[str, object]]) -> None:
    """Anything that the proofs do not cover leads to the full proof."""
    definition = json.loads((files("foreword") / "data" / "tokenizer.json").read_text(encoding="utf-8"))
    for part, values in change.items():
        definition[part] = {**definition[part], **values} if part == "model" else values
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(definition), encoding="utf-8")

    assert not load_tokenizer(str(path)).pieces().recognised


def test_special_added_and_byte_ids_are_not_plain() -> None:
    """They may not stand in a prompt of random ids."""
    tokenizer = small_tokenizer("sentencepiece")
    vocabulary = tokenizer.pieces()
    names = [str(tokenizer.engine.id_to_token(int(token))) for token in np.flatnonzero(~vocabulary.plain)]

    assert {"<unk>", "<s>", "</s>", "<0x0A>", "<0xE4>"} <= set(names)
    assert len(names) == 3 + 256
    assert set(vocabulary.reserved) == {"<unk>", "<s>", "</s>"}
