"""Separators, joints between samples, and cuts."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.errors import TokenizerError
from foreword.workload.joints import CutTester, bad_joints, ends_visibly, read_separator, unsafe_characters
from tests.support.content import builtin_tokenizer
from tests.support.small_tokenizers import small_tokenizer


@pytest.mark.parametrize(
    ("text", "left", "right"), [("\n\n", "\n\n", ""), (". ", ".", " "), (" | ", " |", " "), ("\n### ", "\n###", " ")]
)
def test_a_separator_is_split_at_its_last_blank(text: str, left: str, right: str) -> None:
    """A trailing space goes to the next sample, the rest stays with the one before."""
    separator = read_separator(builtin_tokenizer(), text)

    assert (separator.left, separator.right) == (left, right)
    assert builtin_tokenizer().encode(f"q and{left}{right}The") == [*separator.before, *separator.next_sample]


@pytest.mark.parametrize("text", ["", "s", "'s"])
def test_a_separator_inside_a_token_is_refused(text: str) -> None:
    """SEPARATOR_UNSAFE names the separator and one that works."""
    with pytest.raises(TokenizerError, match=r"^SEPARATOR_UNSAFE") as caught:
        read_separator(builtin_tokenizer(), text)

    assert repr(text) in caught.value.message
    assert caught.value.field == "suffix.separator"


@pytest.mark.parametrize("name", ["wordpiece", "unigram"])
def test_a_separator_may_have_no_tokens(name: str) -> None:
    """Tokenizers that drop line breaks join samples all the same."""
    separator = read_separator(small_tokenizer(name), "\n\n")

    assert separator.after_word == ()
    assert separator.next_sample


def test_line_breaks_that_swallow_a_slash_are_found() -> None:
    """Tekken's pattern takes slashes into the line breaks before them; Qwen's does not."""
    firsts = "T/1é"
    found = {}
    for name in ("tekken-like", "qwen-like"):
        tokenizer = small_tokenizer(name)
        bad = bad_joints(tokenizer, read_separator(tokenizer, "\n\n"), lasts=".?a", firsts=firsts)
        found[name] = unsafe_characters(bad)[1]

    assert found == {"tekken-like": {"/"}, "qwen-like": frozenset()}


def test_the_fewest_characters_are_given_up() -> None:
    """A first character that is bad after every last one goes, not the last ones; a lone pair costs one."""
    bad = [(last, "/") for last in ".?!"] + [("x", "y")]

    lasts, firsts = unsafe_characters(bad)

    assert firsts == {"/", "y"} or (firsts == {"/"} and lasts == {"x"})
    assert len(lasts) + len(firsts) == 2


@pytest.mark.parametrize(
    ("raw", "good"),
    [
        (b"word", True),
        (b"word ", False),
        (b"word\n", False),
        ("字".encode(), True),
        ("字".encode()[:2], False),
        ("a\u200d".encode(), False),
        (b"", False),
    ],
)
def test_text_stops_after_a_whole_visible_character(raw: bytes, *, good: bool) -> None:
    """Not inside a character, not after a blank or a joiner."""
    assert ends_visibly(raw) is good


def test_a_cut_is_good_where_a_word_can_follow() -> None:
    """Each answer is what encoding the cut text, and the same with a word, gives."""
    tokenizer = builtin_tokenizer()
    separator = read_separator(tokenizer, "\n\n")
    text = "There were 128 stickers on the shelf, weren't there?\n#### 5"
    ids = np.array(tokenizer.encode(separator.opening + text)[len(separator.before) :])
    stops = np.cumsum([len(tokenizer.pieces().pieces[token]) for token in ids])
    cuts = [(text.encode()[:stop], ids, count) for count, stop in enumerate(stops.tolist(), start=1)]
    after = tokenizer.encode("q and")[-1]

    answers = CutTester(tokenizer).good(separator.opening, separator.before, cuts=cuts)

    for (raw, _, count), answer in zip(cuts, answers, strict=True):
        cut, known = separator.opening + raw.decode(), [*separator.before, *ids[:count].tolist()]
        expected = tokenizer.encode(cut) == known and tokenizer.encode(f"{cut} and") == [*known, after]
        assert answer is (expected and not cut[-1].isspace())
    refused = [raw for (raw, _, _), answer in zip(cuts, answers, strict=True) if not answer]
    assert all(raw[-1:].isspace() for raw in refused)
    assert answers.count(False) == 3
