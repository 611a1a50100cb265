"""Words and start words, probed against a tokenizer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword.errors import TokenizerError
from foreword.workload.tokens import Family, Vocabulary
from foreword.workload.vocabulary import long_words, proved_by_rule, read_lexicon, spans_joint, whole_starts
from tests.support.content import builtin_tokenizer
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.store.tokenizers import LoadedTokenizer


@dataclass(frozen=True)
class Twisted:
    """The built-in tokenizer, except that texts with a certain word get another last id."""

    inner: LoadedTokenizer
    word: str
    name: str = "twisted"
    sha256: str = ""
    vocab_size: int = 8_192

    def encode(self, text: str) -> list[int]:
        """Ids, the last one changed where the word occurs."""
        ids = self.inner.encode(text)
        return [*ids[:-1], ids[-1] + 1] if self.word in text else ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each."""
        return [self.encode(text) for text in texts]

    def token_ends(self, text: str) -> list[int]:
        """Ends of the true tokens."""
        return self.inner.token_ends(text)

    def normalize(self, text: str) -> str:
        """The text itself."""
        return text

    def pieces(self) -> Vocabulary:
        """The true vocabulary."""
        return self.inner.pieces()


def test_the_built_in_vocabulary_has_words_enough() -> None:
    """More than a thousand groups can begin with a word of their own."""
    lexicon = read_lexicon(builtin_tokenizer())

    assert len(lexicon.starts) > 1_000
    assert len(lexicon.words) > 2_000
    assert lexicon.unsafe == 0


@pytest.mark.parametrize("name", ["builtin", "gpt2-like", "sentencepiece", "wordpiece"])
def test_words_keep_their_ids_side_by_side(name: str) -> None:
    """A start word and a hundred words encode to exactly their ids."""
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    lexicon = read_lexicon(tokenizer)
    places = np.random.default_rng(5).integers(0, len(lexicon.words), 100)

    for start in range(len(lexicon.starts)):
        text = lexicon.starts.texts[start] + b"".join(lexicon.words.texts[place] for place in places)
        assert tokenizer.encode(text.decode()) == [lexicon.starts.ids[start], *lexicon.words.ids[places]]


def test_a_word_that_changes_its_neighbour_is_left_out_and_counted() -> None:
    """One unsafe candidate does not take the others of its probe line with it."""
    whole, twisted = read_lexicon(builtin_tokenizer()), read_lexicon(Twisted(builtin_tokenizer(), " apples"))

    assert twisted.unsafe == 1
    assert set(whole.words.texts) - set(twisted.words.texts) == {b" apples"}


def test_a_tokenizer_that_splits_words_from_their_spaces_is_refused() -> None:
    """The refusal names what is possible instead."""
    with pytest.raises(TokenizerError, match=r"^TOKENIZER_NOT_JOINABLE") as caught:
        read_lexicon(small_tokenizer("apart"))

    assert "completions_ids" in caught.value.advice


def test_long_words_and_whole_starts_are_still_many() -> None:
    """Without short words and fragments two words tell over a million requests apart, and hundreds of groups begin."""
    tokenizer = builtin_tokenizer()
    lexicon = read_lexicon(tokenizer)
    words, starts = long_words(lexicon.words), whole_starts(lexicon.starts, tokenizer.pieces())

    assert len(words) // 2 * len(words) > 2 * 1_000_000
    assert len(starts) > 500
    assert all(re.fullmatch(rb" [a-z]{4,14}", text) for text in words.texts)
    assert set(words.texts) < set(lexicon.words.texts)
    assert set(starts.texts) < set(lexicon.starts.texts)
    assert all(tokenizer.encode(text.decode()) == [token] for token, text in zip(starts.ids, starts.texts, strict=True))


def test_words_are_letters_with_a_space_before_them() -> None:
    """No special, added or byte token is ever a word."""
    vocabulary = builtin_tokenizer().pieces()
    lexicon = read_lexicon(builtin_tokenizer())

    assert all(re.fullmatch(rb" [a-z]{3,14}", text) for text in lexicon.words.texts)
    assert vocabulary.plain[lexicon.words.ids].all()
    assert not set(vocabulary.reserved) & {text.decode() for text in lexicon.starts.texts}


@pytest.mark.parametrize(
    ("piece", "spans"),
    [(b"a b", True), (b"\n x", True), (b"  b", False), (b" word", False), (b". ", False), (b"x 1", False)],
)
def test_an_entry_across_a_word_joint_is_found(piece: bytes, *, spans: bool) -> None:
    """Only visible character, space, letter inside one entry breaks word joints."""
    vocabulary = Vocabulary((b"a", piece), np.ones(2, bool), None, (), Family.BYTE_BPE, recognised=True)

    assert spans_joint(vocabulary) is spans
    assert proved_by_rule(vocabulary) is not spans


def test_rules_prove_nothing_for_tokenizers_that_are_not_recognised() -> None:
    """Unknown pre-tokenizers, WordPiece and Unigram are always proved in full."""
    known = builtin_tokenizer().pieces()

    assert proved_by_rule(known)
    assert not proved_by_rule(replace(known, recognised=False))
    assert not proved_by_rule(replace(known, family=Family.WORDPIECE))
    assert not proved_by_rule(small_tokenizer("unknown").pieces())
