"""The words that the built-in model answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from foreword.errors import TokenizerError
from foreword.server.words import Words, choose_words
from foreword.store.tokenizers import load_tokenizer
from tests.support.builtin import builtin_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def assert_text_and_ids_agree(tokenizer: Tokenizer) -> None:
    """Words behind a text encode to their own ids, whatever their order."""
    words = choose_words(tokenizer)
    start = words.start(b"prompt")
    text = "A text" + words.answer_text(start, 300)

    bare = tokenizer.encode("A text", add_special_tokens=False).ids
    assert tokenizer.encode(text, add_special_tokens=False).ids == [*bare, *words.answer_ids(start, 300)]
    assert len(words.ids) > 100


def test_answers_encode_to_their_ids() -> None:
    """The built-in tokenizer has hundreds of plain words."""
    assert_text_and_ids_agree(builtin_tokenizer().engine)


@pytest.mark.tokenizers
@pytest.mark.parametrize("name", ["qwen", "deepseek", "sp32000"])
def test_answers_encode_to_their_ids_in_real_tokenizers(name: str, tokenizer_file: Callable[[str], Path]) -> None:
    """Byte-level and SentencePiece vocabularies alike."""
    assert_text_and_ids_agree(load_tokenizer(str(tokenizer_file(name))).engine)


def test_a_tokenizer_without_words_is_refused() -> None:
    """A vocabulary without space-led words cannot answer in text that agrees with its ids."""
    with pytest.raises(TokenizerError, match="no plain word tokens"):
        choose_words(Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a")))


def test_long_answers_go_round() -> None:
    """An answer longer than the list of words starts over, piece by piece as in one go."""
    words = Words([7, 8, 9], [" a", " b", ' "'])

    assert words.answer_ids(2, 7) == [9, 7, 8, 9, 7, 8, 9]
    assert words.answer_text(2, 4) == ' " a b "'
    assert words.pieces(2, 1, end=4) == [b" a", b" b", b' \\"']
    assert [words.pieces(2, n, end=n + 1)[0] for n in range(4)] == words.pieces(2, 0, end=4)
