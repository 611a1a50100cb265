"""Exact prompts with every family of tokenizer, each prompt encoded again in full."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foreword.store.corpora import load_corpus
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer
from foreword.workload.content import ContentOptions, prepare
from foreword.workload.joints import ends_visibly
from foreword.workload.vocabulary import read_lexicon
from tests.support.content import (
    as_seen,
    builtin_tokenizer,
    chinese_text,
    few_stories,
    planned_hits,
    problems,
    random_words,
    served_hits,
    spread_plan,
    strange_text,
)
from tests.support.small_tokenizers import NAMES, small_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from foreword.workload.units import Corpus

JOINABLE = tuple(name for name in NAMES if name != "apart")
REAL = ("qwen", "deepseek", "sp32000")


def _corpus(source: str) -> Corpus:
    match source:
        case "words":
            return random_words()
        case "strange":
            return strange_text()
        case "own zh":
            return chinese_text(600)
        case "zh" | "mixed":
            return few_stories(source, 1_500)
        case _:
            return few_stories("en", 1_500)


def _check(tokenizer: LoadedTokenizer, corpus: Corpus, *, block_size: int, count: int) -> None:
    """Lengths, prefixes, ids and hits of a spread plan."""
    frame = tokenizer.frame()
    plan = spread_plan(count, block_size=block_size, frame=frame, groups=8, seed=block_size)
    composer = prepare(tokenizer, corpus, plan=plan, options=ContentOptions(full_least=0, full_share=0))

    chunk = composer.compose_chunk(range(count))

    assert chunk.proof.wrong == 0
    assert problems(tokenizer, composer, plan, chunk.prompts) == []
    seen = [as_seen(prompt, frame) for prompt in chunk.prompts]
    assert served_hits(seen, block_size) == planned_hits(plan)


@pytest.mark.parametrize("source", ["en", "mixed", "strange", "words"])
@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("name", JOINABLE)
def test_every_family_gives_exact_prompts(name: str, block_size: int, source: str) -> None:
    """Byte-level, SentencePiece-type, WordPiece, Unigram and unknown tokenizers."""
    _check(small_tokenizer(name), _corpus(source), block_size=block_size, count=60)


@pytest.mark.parametrize("source", ["en", "zh", "mixed", "strange", "words"])
@pytest.mark.parametrize("block_size", [1, 16, 32, 128])
def test_a_thousand_built_in_prompts_are_exact(block_size: int, source: str) -> None:
    """The default tokenizer with each text and block size."""
    _check(builtin_tokenizer(), _corpus(source), block_size=block_size, count=1_000)


@pytest.mark.parametrize("block_size", [16, 128])
def test_prompts_of_a_users_chinese_text_are_exact(block_size: int) -> None:
    """Characters of two and three tokens, masters put together from clauses."""
    _check(builtin_tokenizer(), _corpus("own zh"), block_size=block_size, count=1_000)


@pytest.mark.tokenizers
@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers_give_exact_prompts_of_a_users_chinese_text(
    name: str, tokenizer_file: Callable[[str], Path]
) -> None:
    """The same text with one token a character, more, and less."""
    _check(_real(str(tokenizer_file(name))), _corpus("own zh"), block_size=16, count=500)


@pytest.mark.parametrize("block_size", [1, 16])
def test_a_tokenizer_that_cannot_be_joined_takes_ids(block_size: int) -> None:
    """What TOKENIZER_NOT_JOINABLE offers works."""
    plan = spread_plan(60, block_size=block_size, as_ids=True)

    prompts = prepare(small_tokenizer("apart"), few_stories(), plan=plan).compose(range(60))

    assert served_hits([as_seen(prompt, plan.frame) for prompt in prompts], block_size) == planned_hits(plan)


@cache
def _words(name: str) -> tuple[LoadedTokenizer, list[tuple[int, str]]]:
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    words = read_lexicon(tokenizer).words
    return tokenizer, [(token, text.decode()) for token, text in zip(words.ids.tolist(), words.texts, strict=True)]


_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)


@settings(max_examples=150)
@given(
    _TEXT, st.integers(0, 10**6), st.sampled_from(["builtin", "qwen-like", "gpt2-like", "tekken-like", "sentencepiece"])
)
def test_a_word_after_anything_visible_is_its_id(left: str, place: int, name: str) -> None:
    """Joint 2: what stands before a word keeps its ids, and the word is one token."""
    tokenizer, words = _words(name)
    left = tokenizer.normalize(f"q{left}")
    token, word = words[place % len(words)]
    assume(ends_visibly(left.encode()))

    assert tokenizer.encode(left + word) == [*tokenizer.encode(left), token]


@pytest.mark.tokenizers
@pytest.mark.parametrize("source", ["en", "zh", "mixed", "strange", "words"])
@pytest.mark.parametrize("block_size", [1, 16, 32, 128])
@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers_give_exact_prompts(
    name: str, block_size: int, source: str, tokenizer_file: Callable[[str], Path]
) -> None:
    """A thousand prompts for each tokenizer, text and block size."""
    _check(_real(str(tokenizer_file(name))), _corpus(source), block_size=block_size, count=1_000)


@pytest.mark.tokenizers
@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_real_tokenizers_give_exact_prompts_of_gsm8k(
    name: str, tokenizer_file: Callable[[str], Path], test_data: Path
) -> None:
    """The RFC's own source."""
    corpus = load_corpus("gsm8k", path=str(test_data / "data" / "gsm8k"))
    few = replace(corpus, samples=corpus.samples[::4])

    _check(_real(str(tokenizer_file(name))), few, block_size=16, count=500)


@pytest.mark.tokenizers
@pytest.mark.parametrize(("name", "head"), [("qwen", ()), ("deepseek", ()), ("sp32000", (1,))])
def test_real_tokenizers_are_recognised(
    name: str, head: tuple[int, ...], tokenizer_file: Callable[[str], Path]
) -> None:
    """Windows are sound for them, words abound, and the 32,000 one has BOS before the text."""
    tokenizer = _real(str(tokenizer_file(name)))
    lexicon = read_lexicon(tokenizer)

    assert tokenizer.pieces().recognised
    assert tokenizer.frame().head_ids == head
    assert len(lexicon.words) > 9_000
    assert len(lexicon.starts) > 2_000


@cache
def _real(path: str) -> LoadedTokenizer:
    return load_tokenizer(path)
