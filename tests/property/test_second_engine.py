"""tiktoken in the tokenizer's place: the same ids whatever the text, or a refusal."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.store.second_engine import SecondEngine, second_engine
from foreword.store.tokenizers import load_tokenizer
from tests.support.content import builtin_tokenizer
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from foreword.store.tokenizers import LoadedTokenizer

_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<|im_", "|>")
_ODD = ("\u0301", "e\u0301", "Å", "\u200d", "\ufffd", "\u3000", "\u00a0", "\u2028", "'S", "'ſ", "\r\n", "  ", "12345")
_PIECES = st.one_of(
    st.text(max_size=12),
    st.text("我你他的中文字，。你好", max_size=8),
    st.text("👩🚀🏽😀🇩🇪‍", max_size=6),
    st.text("abcXYZ '\n\t.,!", max_size=24),
    st.sampled_from((*_SPECIAL, *_ODD)),
)
_TEXT = st.lists(_PIECES, max_size=12).map("".join)


@cache
def _pair(name: str) -> tuple[LoadedTokenizer, SecondEngine]:
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    return tokenizer, second_engine(tokenizer)


@settings(max_examples=300, deadline=None)
@given(_TEXT, st.sampled_from(["builtin", "qwen-like", "tekken-like"]))
def test_both_engines_give_the_same_ids(text: str, name: str) -> None:
    """Chinese, emoji, decomposed accents, blanks and the texts of special tokens included."""
    tokenizer, second = _pair(name)

    assert second.encode_batch([text]) == [tokenizer.encode(text)]


@pytest.mark.tokenizers
def test_both_engines_give_the_same_ids_with_a_real_tokenizer(tokenizer_file: Callable[[str], Path]) -> None:
    """Qwen's own file, whose special tokens stand beside ordinary added ones."""
    tokenizer = load_tokenizer(str(tokenizer_file("qwen")))
    second = second_engine(tokenizer)

    @settings(max_examples=500, deadline=None)
    @given(_TEXT)
    def alike(text: str) -> None:
        assert second.encode_batch([text]) == [tokenizer.encode(text)]

    alike()
