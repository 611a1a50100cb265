"""When tiktoken may stand in for a tokenizer, and what is said where it may not."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from foreword.errors import TokenizerError, UsageError
from foreword.store.second_engine import SecondEngine, second_engine
from foreword.store.tokenizers import load_tokenizer
from tests.support.content import builtin_tokenizer
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from foreword.store.tokenizers import LoadedTokenizer


def _changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> LoadedTokenizer:
    """The built-in tokenizer with something else in its file."""
    definition = json.loads((files("foreword") / "data" / "tokenizer.json").read_text())
    change(definition)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(definition))
    return load_tokenizer(str(path))


def _swap_merges(definition: dict[str, Any]) -> None:
    merges = definition["model"]["merges"]
    merges[10], merges[11] = merges[11], merges[10]


def _merge_from_the_end(definition: dict[str, Any]) -> None:
    """Give a token of three bytes a pair that never meets: its first two merge before."""
    model = definition["model"]
    made = {"".join(merge) if isinstance(merge, list) else merge.replace(" ", "") for merge in model["merges"]}
    for place, merge in enumerate(model["merges"]):
        left, right = merge if isinstance(merge, list) else merge.split(" ")
        if len(left) == 2 and len(right) == 1 and left[1] + right in made:
            model["merges"][place] = [left[0], left[1] + right]
            return


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_swap_merges, "order of their ids"),
        (_merge_from_the_end, "encodes to others"),
        (lambda definition: definition.update(normalizer={"type": "NFKC"}), "normalizer is NFKC"),
        (lambda definition: definition["model"].update(ignore_merges=True), "ignore_merges"),
        (
            lambda definition: definition["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=r"\w+|\s+"),
            "pre-tokenizer",
        ),
    ],
)
def test_a_tokenizer_whose_ids_may_differ_is_refused(
    change: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path
) -> None:
    """In one line that says why and what to use."""
    with pytest.raises(TokenizerError, match=reason) as refusal:
        second_engine(_changed(tmp_path, change))

    assert "--proof-engine tokenizers" in str(refusal.value.advice)


@pytest.mark.parametrize("name", ["sentencepiece", "wordpiece", "unigram"])
def test_other_kinds_of_tokenizers_are_refused(name: str) -> None:
    """Ranks and one pattern say nothing about them."""
    with pytest.raises(TokenizerError, match="not byte_bpe"):
        second_engine(small_tokenizer(name))


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, before anything is made."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)

    with pytest.raises(UsageError, match="needs tiktoken") as refusal:
        second_engine(builtin_tokenizer())

    assert "foreword[tiktoken]" in str(refusal.value.advice)


def test_a_corpus_that_it_encodes_otherwise_is_refused() -> None:
    """The last check before it is trusted: all samples, by both engines."""
    second = second_engine(builtin_tokenizer())
    second.check(["The whole corpus", "一切"])
    wrong = SecondEngine(second.first, (), _Shifted(second.encoding))

    with pytest.raises(TokenizerError, match="sample of the corpus"):
        wrong.check(["The whole corpus"])


def test_added_tokens_with_rules_of_their_own_are_left_to_the_first_engine(tmp_path: Path) -> None:
    """A token that takes the blanks around it is found by tokenizers alone."""
    tokenizer = _changed(tmp_path, lambda definition: definition["added_tokens"][0].update(lstrip=True))
    second = second_engine(tokenizer)
    content = second.reserved[0]

    text = f"before  {content} after"

    assert second.encode_batch([text]) == [tokenizer.encode(text)]
    assert second.encoding.encode_ordinary(text) != tokenizer.encode(text)


class _Shifted:
    """An encoding whose ids are one too high."""

    def __init__(self, encoding: Any) -> None:  # noqa: ANN401 - tiktoken's
        self._encoding = encoding

    def encode(self, text: str, **given: Any) -> list[int]:  # noqa: ANN401 - passed on
        return [token + 1 for token in self._encoding.encode(text, **given)]
