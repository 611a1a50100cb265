"""Master prefixes: their own first words, and cuts at every block boundary."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword.errors import ConstructionError, TokenizerError
from foreword.workload.content import ContentOptions, ContentPlan, prepare
from foreword.workload.tokens import Frame
from foreword.workload.units import Corpus, Sample
from tests.support.content import builtin_tokenizer, chinese_text, few_stories, random_words, text_of

if TYPE_CHECKING:
    from foreword.workload.content import Composer
    from foreword.workload.stories import StoryLanguage


def _plan(
    groups: int, *, block_size: int, prefix: int, head: int = 0, at_root: int = 0, every_cut: bool = False
) -> ContentPlan:
    """One request a group with this prefix, and some that share nothing."""
    trunk = head // block_size * block_size
    prefix_len = np.array([prefix] * groups + [trunk] * at_root)
    return ContentPlan(
        np.arange(groups + at_root) % groups,
        np.full(groups + at_root, prefix + head + 200),
        prefix_len,
        tuple(f"g{place}" for place in range(groups)),
        block_size,
        1,
        Frame(tuple(range(head))),
        7,
        every_cut=every_cut,
    )


def _prepared(plan: ContentPlan, corpus: Corpus | None = None) -> Composer:
    return prepare(builtin_tokenizer(), corpus or few_stories(), plan=plan, options=ContentOptions(proof="none"))


@pytest.mark.parametrize("language", ["en", "zh", "mixed"])
@pytest.mark.parametrize(("block_size", "head"), [(1, 0), (3, 1), (16, 0), (16, 5), (128, 40)])
def test_text_can_stop_and_go_on_at_every_boundary(language: StoryLanguage, block_size: int, head: int) -> None:
    """Where asked for, the master's text encodes to its ids at each block boundary, alone and before a word."""
    tokenizer = builtin_tokenizer()
    prefix = 640 if block_size == 128 else 240
    plan = _plan(2, block_size=block_size, prefix=prefix, head=head, every_cut=True)
    composer = _prepared(plan, few_stories(language, 900))
    after = tokenizer.encode("q and")[-1]

    for master in composer.masters.values():
        for length in range(1, prefix - head + 1):
            if (length + head) % block_size == 0:
                text, ids = master.raw[: master.stops[length - 1]].decode(), master.ids[:length].tolist()
                assert tokenizer.encode(text) == ids
                assert tokenizer.encode(f"{text} and") == [*ids, after]


def test_masters_are_a_block_longer_than_their_longest_prefix() -> None:
    """The token after every cut is known, so that divergence words can differ from it."""
    composer = _prepared(_plan(3, block_size=16, prefix=160))

    assert all(len(master) >= 176 for master in composer.masters.values())


def test_groups_have_different_first_words_and_samples() -> None:
    """No two masters have a first token or a story in common."""
    composer = _prepared(_plan(12, block_size=16, prefix=320))
    masters = list(composer.masters.values())
    stories = [story for master in masters for story in master.raw.decode().split("\n\n")[1:-1] if "####" in story]

    assert len({int(master.ids[0]) for master in masters}) == 12
    assert len(set(stories)) == len(stories) > 12


def test_a_master_does_not_depend_on_the_length_of_another() -> None:
    """A longer plan makes the same master longer, where it can be cut at every block."""
    short = _prepared(_plan(4, block_size=16, prefix=160, every_cut=True))
    long = _prepared(_plan(4, block_size=16, prefix=640, every_cut=True))

    for group, master in short.masters.items():
        assert long.masters[group].raw.startswith(master.raw[: master.stops[159]])


def test_more_groups_than_start_words_are_told_apart_by_a_second_word() -> None:
    """A thousand groups and more are possible with blocks of two tokens and more."""
    composer = _prepared(_plan(1_500, block_size=16, prefix=16, at_root=2), random_words())

    firsts = {tuple(master.ids[:16].tolist()) for master in composer.masters.values()}

    assert len(firsts) == 1_500


def test_more_groups_than_start_words_are_refused_where_one_token_must_tell_them_apart() -> None:
    """With one-token blocks the refusal has both numbers."""
    with pytest.raises(TokenizerError, match=r"^NOT_ENOUGH_WORDS: 1500 groups .* 1125 ") as caught:
        _prepared(_plan(1_500, block_size=1, prefix=16), random_words())

    assert "fewer groups" in caught.value.advice


def test_a_corpus_that_cannot_be_cut_is_refused_with_the_share() -> None:
    """Characters of several tokens cannot be cut at one-token blocks; the refusal names the way out."""
    samples = tuple(Sample(f"s:{place}", f"ᚠᚢᚦᚨᚱᚲ{chr(0x16A0 + place)}") for place in range(70))

    with pytest.raises(ConstructionError, match=r"^CORPUS_NOT_CUTTABLE: .* 0 of \d+ words") as caught:
        _prepared(_plan(1, block_size=1, prefix=64, every_cut=True), Corpus("text", samples, ""))

    assert "completions_ids" in caught.value.advice


def test_a_corpus_shorter_than_a_master_is_refused_with_the_numbers() -> None:
    """Two stories do not make a thousand tokens; the refusal says how many there are, are needed, and what to do."""
    corpus = few_stories()
    two = replace(corpus, samples=corpus.samples[:2])
    there = sum(len(builtin_tokenizer().encode(f"{sample.text}\n\n")) for sample in two.samples)

    with pytest.raises(ConstructionError, match=rf"the text has {there} tokens, .* needs 1008 ") as caught:
        _prepared(_plan(1, block_size=16, prefix=992), two)

    assert str(caught.value).startswith("CORPUS_TOO_SMALL: ")
    assert "use more text, shorter prefixes" in caught.value.advice
    assert "suffix.source: builtin" in caught.value.advice


def test_a_small_corpus_is_no_corpus_that_cannot_be_cut() -> None:
    """With one-token blocks too, what lacks is text when nearly every word was kept."""
    corpus = few_stories()
    few = replace(corpus, samples=corpus.samples[:4])

    with pytest.raises(ConstructionError, match=r"^CORPUS_TOO_SMALL: the text has \d+ tokens, .* 993 "):
        _prepared(_plan(1, block_size=1, prefix=992, every_cut=True), few)


def test_groups_that_share_nothing_need_no_master() -> None:
    """max(P) = 0 is a plan like any other."""
    plan = replace(_plan(2, block_size=16, prefix=0), input_len=np.array([50, 60]))

    composer = _prepared(plan)

    assert [len(prompt.ids) for prompt in composer.compose([0, 1])] == [50, 60]
    assert [len(master) for master in composer.masters.values()] == [0, 0]


def _own_text(plan: ContentPlan, corpus: Corpus) -> tuple[Composer, int]:
    """The composer, and how many tokens the corpus has."""
    tokens = builtin_tokenizer().encode_batch([f"{sample.text}\n\n" for sample in corpus.samples])
    return _prepared(plan, corpus), sum(map(len, tokens))


def _strays(composer: Composer, shared: int) -> list[str]:
    """Words in ASCII in Chinese masters, behind their first word."""
    texts = [master.raw[: master.stops[shared - 1]].decode() for master in composer.masters.values()]
    return [word for text in texts for word in re.findall(r"[A-Za-z]+", text)[1:]]


def test_one_cut_a_group_leaves_samples_whole() -> None:
    """Where all prompts of a group leave the master at one length, it is whole paragraphs up to the last one."""
    corpus = chinese_text()
    composer, _ = _own_text(_plan(4, block_size=16, prefix=2_048), corpus)
    texts = {sample.text for sample in corpus.samples}

    for master in composer.masters.values():
        assert set(master.raw.decode().split("\n\n")[1:-1]) <= texts
    assert _strays(composer, 2_048) == []


def test_a_master_can_be_cut_wherever_a_request_leaves_it() -> None:
    """At each planned length, and only these need it, text stops and goes on with a word."""
    tokenizer = builtin_tokenizer()
    lengths = np.arange(32, 1_600, 48)
    plan = replace(
        _plan(1, block_size=16, prefix=0),
        group=np.zeros(len(lengths), np.int64),
        input_len=lengths + 100,
        prefix_len=lengths,
    )
    master = _prepared(plan, chinese_text()).masters["g0"]
    after = tokenizer.encode("q and")[-1]

    for length in lengths.tolist():
        text, ids = master.raw[: master.stops[length - 1]].decode(), master.ids[:length].tolist()
        assert tokenizer.encode(text) == ids
        assert tokenizer.encode(f"{text} and") == [*ids, after]


def test_samples_are_split_at_clauses_before_words_are_put_in() -> None:
    """Chinese of two and three tokens a character, cut every 16 tokens: one stray word in 500 tokens at most."""
    composer, _ = _own_text(_plan(4, block_size=16, prefix=2_048, every_cut=True), chinese_text())

    assert len(_strays(composer, 2_048)) * 500 <= 4 * 2_048


def test_what_is_left_of_a_split_sample_is_used() -> None:
    """A master of nine tenths of the corpus, which can be cut every 16 tokens, repeats no sentence of it."""
    corpus = chinese_text(40)
    _, there = _own_text(_plan(1, block_size=16, prefix=16), corpus)
    prefix = there * 9 // 10 // 16 * 16
    composer = _prepared(_plan(1, block_size=16, prefix=prefix, every_cut=True), corpus_with_numbers(corpus))
    numbers = re.findall(r"\d+", composer.masters["g0"].raw.decode())

    assert len(composer.masters["g0"]) > prefix
    assert len(numbers) == len(set(numbers)) > 100


def corpus_with_numbers(corpus: Corpus) -> Corpus:
    """The corpus with a number of its own in each clause."""
    count = itertools.count(100)
    samples = (
        Sample(sample.name, re.sub("[，。！？；]", lambda mark: f"{next(count)}{mark[0]}", sample.text))
        for sample in corpus.samples
    )
    return replace(corpus, samples=tuple(samples))


def test_groups_share_samples_where_the_text_is_small_but_no_prompt_repeats_one() -> None:
    """Masters of more tokens than the corpus has are built with a warning; each prompt has a paragraph once at most."""
    corpus = chinese_text(60)
    plan = replace(_plan(8, block_size=16, prefix=4_096), input_len=np.full(8, 9_000))
    composer, there = _own_text(plan, corpus)

    assert 9_000 < there < 8 * 4_096
    warnings = composer.diagnostics["warnings"]
    assert f"masters need {8 * 4_096} tokens, the text has {there}" in str(warnings)
    for prompt in composer.compose(range(8)):
        paragraphs = re.findall(r"[^\n]{40,}", text_of(prompt))
        assert len(paragraphs) == len(set(paragraphs)) > 30


def test_a_prompt_longer_than_the_text_is_refused_with_the_numbers() -> None:
    """Masters fit, a prompt does not: the refusal says so before anything is composed."""
    corpus = chinese_text(60)
    plan = replace(_plan(2, block_size=16, prefix=4_096), input_len=np.full(2, 90_000))

    with pytest.raises(
        ConstructionError, match=r"^CORPUS_TOO_SMALL: the text has \d+ tokens, the longest prompt .* 89984 "
    ):
        _prepared(plan, corpus)


def test_masters_begin_with_whole_words() -> None:
    """A dozen groups begin with words of five letters and more, as they stand in running text."""
    plan = replace(_plan(12, block_size=16, prefix=160), minimum_non_shared=16)

    for master in _prepared(plan).masters.values():
        first = master.raw.decode().split()[0]
        assert re.fullmatch(r"[A-Z][a-z]{4,}", first)
        assert 1 in {len(builtin_tokenizer().encode(f"q {word}")) - 1 for word in (first, first.lower())}
