"""Which samples can stand in a prompt, and what their ids are."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.workload.joints import read_separator
from foreword.workload.units import Sample, Units, read_id_units, read_units
from tests.support.content import builtin_tokenizer, few_stories
from tests.support.small_tokenizers import small_tokenizer

PLAIN = "Alice has three apples and a pear in the old basket."


def _units(*texts: str, name: str = "builtin") -> Units:
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    samples = [Sample(f"text:{place}", text) for place, text in enumerate(texts)]
    return read_units(tokenizer, samples, separator=read_separator(tokenizer, "\n\n"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("a\0b", "NUL"),
        ("broken \ud83d half", "lone surrogate"),
        ("closing <|endoftext|> here", "special text"),
        (PLAIN, "repeated"),
    ],
)
def test_samples_that_break_prompts_are_dropped_and_counted(text: str, reason: str) -> None:
    """They are not repaired: nothing of them is used, and the reason is counted."""
    units = _units(PLAIN, text)

    assert units.names == ("text:0",)
    assert units.dropped == {reason: 1}


def test_blanks_around_a_sample_do_not_matter() -> None:
    """A prompt never ends in a blank that the source had."""
    assert _units(f"\n  {PLAIN}\n").end_raw == (PLAIN.encode(),)


def test_a_replacement_character_of_the_source_is_kept_and_counted() -> None:
    """U+FFFD is a legal character of a text; a warning tells of it."""
    units = _units("A page with \ufffd in it, as it was found.")

    assert len(units) == 1
    assert units.replacement_characters == 1


def test_decomposed_text_is_normalised_first() -> None:
    """What is sent is what the tokenizer sees, so that ids are final."""
    units = _units("\u0041\u030angstro\u0308m lives in a cafe\u0301.")

    assert units.end_raw == ("Ångström lives in a café.".encode(),)


def test_a_mark_that_is_no_space_does_not_keep_text_from_being_normalised() -> None:
    """Byte-level vocabularies have no mark for spaces: it is a character like any other."""
    units = _units("| a | b | c | d \u2581 A\u030angstro\u0308m lives | a | b | c | d | a | b")

    assert units.end_raw == ("| a | b | c | d \u2581 Ångström lives | a | b | c | d | a | b".encode(),)


def test_a_first_character_that_line_breaks_swallow_drops_its_samples() -> None:
    """Bad joints are left out, not repaired."""
    units = _units(PLAIN, "/usr/bin holds programs.", name="tekken-like")

    assert units.names == ("text:0",)
    assert units.dropped == {"joint moves": 1}


def test_text_with_the_mark_for_spaces_is_dropped_where_it_means_a_space() -> None:
    """In SentencePiece-type vocabularies the mark would be read as a space."""
    units = _units(PLAIN, "A line with \u2581 in the middle of it.", name="sentencepiece")

    assert units.names == ("text:0",)
    assert units.dropped == {"space mark": 1}


@pytest.mark.parametrize("name", ["builtin", "gpt2-like", "sentencepiece", "wordpiece", "unigram", "unknown"])
@pytest.mark.parametrize("language", ["en", "mixed"])
def test_units_joined_in_any_order_keep_their_ids(name: str, language: str) -> None:
    """Twenty samples and an end, joined by bytes, encode to their joined ids."""
    tokenizer = builtin_tokenizer() if name == "builtin" else small_tokenizer(name)
    separator = read_separator(tokenizer, "\n\n")
    corpus = few_stories("mixed" if language == "mixed" else "en")
    units = read_units(tokenizer, corpus.samples, separator=separator)

    for start in range(0, len(units) - 21, 21):
        inner, end = range(start, start + 20), start + 20
        text = separator.opening.encode() + b"".join(units.raw[place] for place in inner) + units.end_raw[end]
        expected = [*separator.before, *np.concatenate([*(units.ids[place] for place in inner), units.end_ids[end]])]
        assert tokenizer.encode(text.decode()) == expected


def test_token_ends_cut_the_text_of_an_end_unit() -> None:
    """The text up to a token's end is the bytes of the tokens up to it."""
    units = _units(PLAIN, "水果店有５０个苹果，还有 a few pears.")
    pieces = builtin_tokenizer().pieces().pieces

    for raw, ids, stops in zip(units.end_raw, units.end_ids, units.end_stops, strict=True):
        for count, stop in enumerate(stops.tolist(), start=1):
            assert raw[:stop] == b"".join(pieces[token] for token in ids[:count])


def test_units_of_ids_need_no_joints() -> None:
    """For prompts that are ids a sample is encoded alone and has no text."""
    tokenizer = small_tokenizer("apart")
    separator = read_separator(builtin_tokenizer(), "\n\n")

    units = read_id_units(tokenizer, [Sample("one", PLAIN)], separator=separator)

    assert units.end_ids[0].tolist() == tokenizer.encode(PLAIN)
    assert units.end_raw == (b"",)
