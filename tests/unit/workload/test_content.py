"""Composing: errors with numbers, repairs, corrupted text, and edge lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword.errors import ConstructionError, TokenizerError
from foreword.workload.content import ContentOptions, ContentPlan, prepare
from foreword.workload.proof import Prover
from foreword.workload.tokens import Frame, Vocabulary
from foreword.workload.units import Corpus, Sample
from tests.support.content import (
    as_seen,
    builtin_tokenizer,
    few_stories,
    problems,
    random_words,
    spread_plan,
    text_of,
)
from tests.support.small_tokenizers import small_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.store.tokenizers import LoadedTokenizer
    from foreword.workload.content import OnConflict, ProofLevel


@dataclass(frozen=True)
class Moody:
    """The built-in tokenizer, except that long texts that hold a certain word get another last id."""

    word: str
    always: bool = False
    name: str = "moody"
    sha256: str = ""
    vocab_size: int = 8_192

    @property
    def inner(self) -> LoadedTokenizer:
        """The true tokenizer."""
        return builtin_tokenizer()

    def encode(self, text: str) -> list[int]:
        """Ids; long texts with the word, or all long texts, end differently."""
        ids = self.inner.encode(text)
        wrong = len(ids) > 150 and (self.always or self.word in text)
        return [*ids[:-1], ids[-1] ^ 1] if wrong else ids

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
        """The true vocabulary, as if its rules were not known."""
        return replace(self.inner.pieces(), recognised=False)


def _plan(*, prefix: int = 0, length: int = 200, count: int = 30) -> ContentPlan:
    return ContentPlan(
        np.zeros(count, np.int64), np.full(count, length), np.full(count, prefix), ("g",), 16, 1, Frame(), 3
    )


def _short_stories() -> Corpus:
    corpus = few_stories()
    return replace(corpus, samples=tuple(sample for sample in corpus.samples if len(sample.text) < 300))


def test_prompts_that_do_not_prove_are_made_again() -> None:
    """Other words and samples are tried, counted, and the prompt stays exact."""
    tokenizer = Moody(" school")
    plan = _plan()
    composer = prepare(tokenizer, _short_stories(), plan=plan)

    chunk = composer.compose_chunk(range(30))

    assert composer.proof_level == "full"
    assert 0 < chunk.proof.wrong == chunk.proof.repaired < 30
    assert chunk.proof.kept == 0
    for prompt in chunk.prompts:
        assert tokenizer.encode(text_of(prompt)) == prompt.ids.tolist()
        assert len(prompt.ids) == 200
        assert (prompt.status == "repaired") is (prompt.retries > 0)


def test_the_last_resort_is_a_line_of_its_own_before_the_samples() -> None:
    """From the third retry on a marker stands between divergence words and samples, and the prompt stays exact."""
    composer = prepare(builtin_tokenizer(), _short_stories(), plan=_plan())
    jobs = composer._jobs(np.arange(10))

    for retry, lines in ((0, 0), (2, 0), (3, 1), (8, 1)):
        for draft in composer._drafts(jobs, retry=retry):
            prompt = composer._prompt(draft)
            second = text_of(prompt).split("\n\n")[1]
            assert second.startswith("The ") * (len(second.split()) == 4) == lines
            assert builtin_tokenizer().encode(text_of(prompt)) == prompt.ids.tolist()
            assert len(prompt.ids) == 200


def test_more_requests_than_words_can_number_are_refused() -> None:
    """The refusal has the count that is possible."""
    plan = _plan(prefix=16, length=40, count=50_000)

    with pytest.raises(TokenizerError, match=r"^NOT_ENOUGH_WORDS: 50000 requests .* apart"):
        prepare(small_tokenizer("qwen-like"), random_words(), plan=plan)


def test_a_prompt_that_never_proves_ends_the_build_with_its_number() -> None:
    """The default policy is an error that names request, group and retries."""
    composer = prepare(Moody("", always=True), _short_stories(), plan=_plan(), options=ContentOptions(max_retries=2))

    with pytest.raises(ConstructionError, match=r"^JOINT_NOT_PROVED: request 4 .* 2 retries") as caught:
        composer.compose([4])

    assert (caught.value.group, caught.value.retry, caught.value.stage) == ("g", 2, "content")


@pytest.mark.parametrize("policy", ["warn", "accept_with_warning"])
def test_other_policies_keep_the_prompt_with_the_ids_that_a_server_sees(policy: OnConflict) -> None:
    """It is marked, counted, and theory gets the true ids."""
    tokenizer = Moody("", always=True)
    options = ContentOptions(max_retries=1, on_conflict=policy)

    chunk = prepare(tokenizer, _short_stories(), plan=_plan(), options=options).compose_chunk([4])

    assert chunk.proof.kept == 1
    assert (chunk.prompts[0].status, chunk.prompts[0].retries) == ("conflict", 1)
    assert chunk.prompts[0].ids.tolist() == tokenizer.encode(text_of(chunk.prompts[0]))


@pytest.mark.parametrize("level", ["window", "full"])
def test_both_levels_find_corrupted_divergence_words(level: ProofLevel) -> None:
    """One changed word after the prefix is found by the window as by the full proof."""
    plan = spread_plan(30, block_size=16)
    composer = prepare(builtin_tokenizer(), few_stories(), plan=plan, options=ContentOptions(proof="none"))
    drafts = composer._drafts(composer._jobs(np.arange(30)), retry=0)
    prompts = [(prompt.escaped, prompt.ids) for prompt in map(composer._prompt, drafts)]
    words = composer._materials.words
    other = replace(words, texts=(words.texts[-1], *words.texts[:-1]))
    changed = replace(composer._materials, words=other)
    texts = [b"".join(changed.pieces_of(draft)[0]) for draft in drafts]
    rows = [(text, ids) for text, (_, ids) in zip(texts, prompts, strict=True)]

    wrong, counts = Prover(changed).check(drafts, rows, full=np.zeros(30, bool), level=level)

    worded = [row for row, draft in enumerate(drafts) if len(draft.words) - (draft.cut == 0) or draft.fillers]
    assert wrong == worded
    assert counts.wrong == len(worded) > 20


def test_the_tokenizer_decides_what_a_second_engine_doubts() -> None:
    """Prompts that a second engine finds right are not encoded again; those that it finds wrong are, and stand."""
    tokenizer, asked = builtin_tokenizer(), list[int]()

    def second(texts: Sequence[str]) -> list[list[int]]:
        asked.append(len(texts))
        return [[0] if place == 3 else ids for place, ids in enumerate(tokenizer.encode_batch(texts))]

    plan = spread_plan(30, block_size=16)
    doubting = ContentOptions(proof="full", second=second)
    chunk = prepare(tokenizer, few_stories(), plan=plan, options=doubting).compose_chunk(np.arange(30))

    assert asked == [30]
    assert (chunk.proof.full, chunk.proof.wrong) == (30, 0)


def test_a_second_engine_finds_what_is_wrong() -> None:
    """A prompt that neither engine encodes to its ids is wrong, one that both do is not."""
    tokenizer = builtin_tokenizer()
    composer = prepare(tokenizer, few_stories(), plan=spread_plan(30, block_size=16))
    drafts = composer._drafts(composer._jobs(np.arange(30)), retry=0)
    prompts = [(prompt.escaped, prompt.ids) for prompt in map(composer._prompt, drafts)]
    prompts[7] = (prompts[7][0] + b" more", prompts[7][1])
    prover = Prover(composer._materials, second=tokenizer.encode_batch)

    assert prover.check(drafts, prompts, full=np.zeros(30, bool), level="full")[0] == [7]


@pytest.mark.parametrize("level", ["window", "full"])
def test_both_levels_find_a_prefix_cut_at_the_wrong_byte(level: ProofLevel) -> None:
    """A master whose text is a byte off at the cut is found."""
    plan = replace(spread_plan(30, block_size=16, groups=1), prefix_len=np.full(30, 48))
    composer = prepare(
        builtin_tokenizer(),
        few_stories(),
        plan=replace(plan, input_len=np.full(30, 200)),
        options=ContentOptions(proof="none"),
    )
    master = composer._materials.masters[0]
    shifted = replace(master, stops=master.stops - 1, text_stops=master.text_stops - 1)
    materials = replace(composer._materials, masters=(shifted,))
    drafts = composer._drafts(composer._jobs(np.arange(30)), retry=0)
    prompts = [(b"".join(texts), np.concatenate(ids)) for texts, ids in map(materials.pieces_of, drafts)]

    wrong, _ = Prover(materials).check(drafts, prompts, full=np.zeros(30, bool), level=level)

    assert wrong == list(range(30))


def test_a_share_of_prompts_is_always_encoded_in_full() -> None:
    """At the window level one percent, and at least as many as asked for, are proved whole."""
    plan = spread_plan(300, block_size=16, lengths=(64, 80))
    options = ContentOptions(full_share=0.05, full_least=10)

    chunk = prepare(builtin_tokenizer(), random_words(), plan=plan, options=options).compose_chunk(range(300))

    assert (chunk.proof.full, chunk.proof.wrong) == (15, 0)


def test_a_suffix_longer_than_the_corpus_is_refused_with_the_numbers() -> None:
    """Samples are not repeated to fill a prompt."""
    corpus = few_stories()
    few = replace(corpus, samples=corpus.samples[:5])

    with pytest.raises(ConstructionError, match=r"^CORPUS_TOO_SMALL: the text has \d+ tokens, .* 3984 ") as caught:
        prepare(builtin_tokenizer(), few, plan=_plan(length=4_000)).compose([0])

    assert "suffix.source: builtin" in caught.value.advice


def test_a_corpus_without_a_usable_sample_is_refused_with_the_reasons() -> None:
    """The message counts why samples were dropped."""
    corpus = Corpus("text", (Sample("a", "x <|endoftext|>"), Sample("b", "y\0z")), "")

    with pytest.raises(ConstructionError, match=r"^CORPUS_TOO_SMALL: none of 2 .*NUL 1, special text 1"):
        prepare(builtin_tokenizer(), corpus, plan=_plan())


@pytest.mark.parametrize("length", range(1, 30))
def test_prompts_of_a_few_tokens_are_exact(length: int) -> None:
    """From one token on: words only, then separator and the start of a sample."""
    plan = _plan(length=length)
    composer = prepare(builtin_tokenizer(), few_stories(), plan=plan, options=ContentOptions(proof="full"))

    assert problems(builtin_tokenizer(), composer, plan, composer.compose(range(30))) == []


def test_ids_are_plain_ids_of_the_vocabulary() -> None:
    """Random ids are never special, added or beyond the tokenizer, and no byte fallback."""
    tokenizer = small_tokenizer("sentencepiece")
    plan = spread_plan(200, block_size=16, as_ids=True)

    composer = prepare(tokenizer, random_words(), plan=plan)
    ids = np.concatenate([prompt.ids for prompt in composer.compose(range(200))])
    pieces = {str(tokenizer.engine.id_to_token(int(token))) for token in set(ids.tolist())}

    assert composer.proof_level == "ids"
    assert all(prompt.escaped == b"" for prompt in composer.compose(range(5)))
    assert ids.max() < tokenizer.vocab_size
    assert not any(piece.startswith("<") and piece.endswith(">") for piece in pieces)
    assert len(pieces) > 3_000


def test_ids_of_text_are_the_text_of_the_corpus() -> None:
    """Prompts of ids from stories read as stories."""
    plan = replace(spread_plan(3, block_size=16, lengths=(400, 400), as_ids=True), prefix_len=np.full(3, 160))
    tokenizer = builtin_tokenizer()
    composer = prepare(tokenizer, few_stories(), plan=plan)

    for prompt in composer.compose(range(3)):
        text = tokenizer.engine.decode(prompt.ids.tolist())
        assert sum(sample.text in text for sample in few_stories().samples) >= 2


def test_masters_may_have_a_source_of_their_own() -> None:
    """Chinese masters, English suffixes."""
    plan = replace(spread_plan(5, block_size=16, lengths=(400, 400)), prefix_len=np.full(5, 208))
    tokenizer = builtin_tokenizer()
    composer = prepare(tokenizer, few_stories("en"), plan=plan, prefix_corpus=few_stories("zh"))

    for number, prompt in enumerate(composer.compose(range(5))):
        shared, text = composer.masters[plan.group_ids[plan.group[number]]], text_of(prompt)
        head = shared.raw[: shared.stops[207]].decode()
        assert text.startswith(head)
        assert not head.isascii()
        assert text[len(head) :].isascii()


def test_extra_hits_that_cannot_be_avoided_are_counted() -> None:
    """More siblings than words with one-token blocks: a warning with the number, not an error."""
    tokenizer = small_tokenizer("qwen-like")
    plan = replace(_plan(prefix=16, length=40, count=400), block_size=1)
    composer = prepare(tokenizer, random_words(), plan=plan)
    words = composer.diagnostics["words"]
    assert isinstance(words, int)

    prompts = composer.compose(range(400))
    firsts = [int(prompt.ids[16]) for prompt in prompts]

    assert composer.diagnostics["requests_beyond_first_token"] == 400 - (words - 1) == 400 - len(set(firsts))
    assert str(composer.diagnostics["warnings"]).startswith("['108 requests")
    assert composer.masters["g"].ids[16] not in firsts


def test_tokenizers_without_a_known_server_are_named() -> None:
    """WordPiece is allowed, proved in full, and warned of."""
    composer = prepare(small_tokenizer("wordpiece"), few_stories(), plan=_plan())

    assert composer.proof_level == "full"
    assert composer.diagnostics["warnings"] == ["no known server has a prefix cache for a wordpiece tokenizer"]


def test_a_warm_up_is_no_longer_than_the_longest_request() -> None:
    """A block beyond the prefix where there is room, else just the private tokens that every request keeps."""
    frame = Frame((1, 2, 3), (9,))
    plan = replace(_plan(prefix=160, length=164), frame=frame)
    roomy = replace(plan, input_len=np.full(30, 400))

    for each, expected in ((plan, 164), (roomy, 177)):
        composer = prepare(builtin_tokenizer(), few_stories(), plan=each)
        prompt = composer.warmup_prompt("g", 160, lane=0)
        assert len(as_seen(prompt, frame)) == composer.warmup_len(160) == expected
