"""What the built-in model says: plain words of the tokenizer's vocabulary, one token each.

The words are chosen so that the text of an answer, appended to text, encodes to the ids that were reported.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, TypeVar

import xxhash

from foreword.errors import TokenizerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

_WORD = re.compile("[\u0120\u2581]([a-z]{2,12})")  # the space signs of byte-level and SentencePiece vocabularies
_MOST_WORDS = 2048

Item = TypeVar("Item")


class Words:
    """Word tokens: ids, and their text as it stands inside a JSON string."""

    def __init__(self, ids: Sequence[int], texts: Sequence[str]) -> None:
        self.ids = list(ids)
        self.texts = list(texts)
        self.escaped = [json.dumps(text)[1:-1].encode() for text in texts]

    def start(self, prompt: bytes) -> int:
        """Where the answer to a prompt (its ids as bytes) begins: the same prompt always gets the same answer."""
        return xxhash.xxh3_64_intdigest(prompt) % len(self.ids)

    def answer_ids(self, start: int, count: int) -> list[int]:
        """Ids of the first ``count`` tokens of an answer."""
        return _cyclic(self.ids, start, count)

    def answer_text(self, start: int, count: int) -> str:
        """Text of the first ``count`` tokens of an answer."""
        return "".join(_cyclic(self.texts, start, count))

    def pieces(self, start: int, first: int, *, end: int) -> list[bytes]:
        """JSON-escaped texts of the answer's tokens from ``first`` up to ``end``."""
        return _cyclic(self.escaped, start + first, end - first)


def choose_words(tokenizer: Tokenizer) -> Words:
    """Find word tokens that stay one token after other text; raises ``TokenizerError`` when there are none."""
    found = sorted(
        (token_id, f" {match[1]}")
        for piece, token_id in tokenizer.get_vocab(with_added_tokens=False).items()
        if (match := _WORD.fullmatch(piece))
    )
    kept = _stable(tokenizer, found[:_MOST_WORDS])
    if not kept:
        raise TokenizerError(
            "this tokenizer has no plain word tokens to answer with",
            advice="serve a byte-level or SentencePiece BPE tokenizer, or builtin",
        )
    return Words(*zip(*kept, strict=True))


def _stable(tokenizer: Tokenizer, words: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Words that encode to their own id behind another word."""
    if not words:
        return []
    anchor = words[0][1]
    alone = tokenizer.encode(anchor, add_special_tokens=False).ids
    encoded = tokenizer.encode_batch_fast([anchor + text for _, text in words], add_special_tokens=False)
    return [word for word, encoding in zip(words, encoded, strict=True) if encoding.ids == [*alone, word[0]]]


def _cyclic(table: list[Item], first: int, count: int) -> list[Item]:
    size = len(table)
    first %= size
    if first + count <= size:
        return table[first : first + count]
    return [table[(first + i) % size] for i in range(count)]
