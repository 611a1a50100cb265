"""What a ``tokenizer.json`` says about its vocabulary and about the rules by which it joins text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.workload.tokens import SPACE_MARK, Family, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from foreword.terms import IntArray

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_PLAIN_NORMALIZERS = frozenset({"NFC", "Prepend", "Replace"})

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
)
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SLASHED_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_DEEPSEEK_TEXT = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

KNOWN_PATTERNS = frozenset(
    {
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}|{_SIGNS}|{_BLANKS}",
        rf"{_CONTRACTIONS}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS}|{_BLANKS}",
        "|".join([*(f"{word}{_CONTRACTIONS}?" for word in _CASED), r"\p{N}{1,3}", _SLASHED_SIGNS, _BLANKS]),
        "|".join([*_CASED, r"\p{N}", _SLASHED_SIGNS, _BLANKS]),
        r"\p{N}{1,3}",
        "[一-龥\u3040-ゟ゠-ヿ]+",
        _DEEPSEEK_TEXT,
    }
)
"""Pre-tokenizer patterns in which no alternative matches *visible, space, letter*, by their exact text: GPT-2, Qwen,
Llama 3, o200k, Tekken, and the three of DeepSeek."""


def read_vocabulary(definition: dict[str, Any], size: int) -> Vocabulary:
    """The vocabulary of a parsed ``tokenizer.json`` with at least ``size`` ids."""
    family = family_of(definition)
    entries = _entries(definition["model"])
    added = {int(token["id"]): token for token in definition.get("added_tokens") or []}
    count = 1 + max([size - 1, *entries.values(), *added])
    pieces, plain = [b""] * count, np.zeros(count, dtype=np.bool_)
    spell = _SPELLINGS[family]
    for text, token in entries.items():
        piece = spell(text)
        pieces[token], plain[token] = piece, bool(piece) and not _BYTE.fullmatch(text)
    for token, entry in added.items():
        pieces[token], plain[token] = str(entry["content"]).encode(), False
    if unknown := definition["model"].get("unk_token"):
        plain[entries.get(str(unknown), 0)] = False
    widths: IntArray | None = None
    if family in {Family.BYTE_BPE, Family.SENTENCEPIECE_BPE}:
        widths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    reserved = tuple(str(entry["content"]) for entry in added.values() if str(entry["content"]).strip())
    return Vocabulary(tuple(pieces), plain, widths, reserved, family, _recognised(definition, family))


def family_of(definition: dict[str, Any]) -> Family:
    """How the tokenizer makes tokens."""
    kinds = {leaf["type"] for leaf in _leaves(definition.get("pre_tokenizer"))}
    match definition["model"].get("type"):
        case "WordPiece":
            return Family.WORDPIECE
        case "Unigram":
            return Family.UNIGRAM
        case "BPE" if "ByteLevel" in kinds:
            return Family.BYTE_BPE
        case "BPE" if any(map(_marks_spaces, _leaves(definition.get("normalizer")))):
            return Family.SENTENCEPIECE_BPE
        case _:
            return Family.UNKNOWN


def keeps_ascii(definition: dict[str, Any]) -> bool:
    """Whether the normaliser leaves ASCII text as it is (marks for spaces aside)."""
    return {leaf["type"] for leaf in _leaves(definition.get("normalizer"))} <= _PLAIN_NORMALIZERS


def _recognised(definition: dict[str, Any], family: Family) -> bool:
    """Whether normaliser, pre-tokenizer and model are those of the proofs L1 to L3 (design: content, 2)."""
    model = definition["model"]
    if any(model.get(name) for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix")):
        return False
    splits = list(_leaves(definition.get("pre_tokenizer")))
    match family:
        case Family.BYTE_BPE:
            normal = {leaf["type"] for leaf in _leaves(definition.get("normalizer"))} <= {"NFC"}
            return normal and all(map(_known_split, splits))
        case Family.SENTENCEPIECE_BPE:
            marks = [leaf for leaf in _leaves(definition.get("normalizer")) if leaf["type"] != "Prepend"]
            return all(map(_marks_spaces, marks)) and all(leaf.get("pattern") == {"String": " "} for leaf in splits)
        case Family.WORDPIECE | Family.UNIGRAM | Family.UNKNOWN:
            return False


def _leaves(node: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Parts of a normaliser or pre-tokenizer, with sequences opened."""
    if node is None:
        return
    if node["type"] != "Sequence":
        yield node
        return
    for part in node.get("normalizers") or node.get("pretokenizers") or ():
        yield from _leaves(part)


def _marks_spaces(leaf: dict[str, Any]) -> bool:
    return leaf["type"] == "Replace" and (leaf["content"], leaf["pattern"]) == (SPACE_MARK, {"String": " "})


def _known_split(leaf: dict[str, Any]) -> bool:
    if leaf["type"] == "ByteLevel":
        return not leaf.get("add_prefix_space", False)
    known = leaf["type"] == "Split" and leaf["pattern"].get("Regex") in KNOWN_PATTERNS
    return known and not leaf.get("invert", False) and leaf["behavior"] == "Isolated"


def _entries(model: dict[str, Any]) -> dict[str, int]:
    """Text of each model entry to its id; Unigram lists them with scores."""
    vocab = model["vocab"]
    if isinstance(vocab, list):
        return {str(entry[0]): place for place, entry in enumerate(vocab)}
    return dict(vocab)


def _byte_alphabet() -> dict[int, int]:
    """Code points that stand for bytes in byte-level vocabularies."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(0x100)) - set(visible))
    return {byte: byte for byte in visible} | {0x100 + place: byte for place, byte in enumerate(hidden)}


_ALPHABET = _byte_alphabet()


def byte_entries() -> list[str]:
    """Entries of a byte-level vocabulary that stand for one byte each."""
    return [chr(code) for code in _ALPHABET]


def _spell_bytes(text: str) -> bytes:
    """Bytes of a byte-level entry; none for an entry outside the alphabet."""
    try:
        return text.translate(_ALPHABET).encode("latin-1")
    except UnicodeEncodeError:
        return b""


def _spell_marked(text: str) -> bytes:
    """Bytes of an entry in which a mark stands for each space, and ``<0xNN>`` for one byte."""
    if code := _BYTE.fullmatch(text):
        return bytes([int(code[1], 16)])
    return text.replace(SPACE_MARK, " ").encode()


def _spell_word(text: str) -> bytes:
    """Bytes of a WordPiece entry, a space before those that begin a word."""
    return text[2:].encode() if text.startswith("##") else b" " + text.encode()


_SPELLINGS: dict[Family, Callable[[str], bytes]] = {
    Family.BYTE_BPE: _spell_bytes,
    Family.SENTENCEPIECE_BPE: _spell_marked,
    Family.WORDPIECE: _spell_word,
    Family.UNIGRAM: _spell_marked,
    Family.UNKNOWN: _spell_marked,
}
