"""Words whose ids are known wherever they stand.

A *word* is a vocabulary entry that reads space and letters; after any visible character it is one token, and what
stands before it keeps its ids (design: content, L3). A *start word* is the same without its space, capitalised, as the
first token of a prompt. Both are probed against the tokenizer when it is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import TokenizerError
from foreword.workload.tokens import Family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.terms import IntArray
    from foreword.workload.tokens import TokenizerProtocol, Vocabulary

SENTINEL = "q and"
NEXT_WORD = " and"
FEWEST_WORDS = 64

_WORD = re.compile(rb" [a-z]{3,14}")
_START = re.compile(rb" ?[A-Z][a-z]{2,13}")
_LONG_WORD = re.compile(rb" ?[a-z]{4,}")
_LONG_START = re.compile(rb"[A-Z][a-z]{4,}")
_SPANS_JOINT = re.compile(rb"[^ ] [A-Za-z]")
_PROBE_WORDS = 64


@dataclass(frozen=True, slots=True)
class Words:
    """Ids, and the text of each as JSON-escaped bytes (empty where prompts are ids)."""

    ids: IntArray
    texts: tuple[bytes, ...]

    def __len__(self) -> int:
        """Number of words."""
        return len(self.ids)

    def only(self, kept: Sequence[int]) -> Words:
        """The words at these places."""
        return Words(self.ids[np.asarray(kept, dtype=np.int64)], tuple(self.texts[place] for place in kept))


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words and start words of a tokenizer; ``unsafe`` candidates failed their probe."""

    words: Words
    starts: Words
    unsafe: int


def spans_joint(vocabulary: Vocabulary) -> bool:
    """Whether an entry spans *visible, space, letter*, so that word joints are not proved by rule (L3, 3)."""
    entries = (*vocabulary.pieces, *(text.encode() for text in vocabulary.reserved))
    return any(_SPANS_JOINT.search(piece) for piece in entries)


def proved_by_rule(vocabulary: Vocabulary) -> bool:
    """Whether word joints of this tokenizer need no proof of their own."""
    known = vocabulary.family in {Family.BYTE_BPE, Family.SENTENCEPIECE_BPE} and vocabulary.recognised
    return known and not spans_joint(vocabulary)


def read_lexicon(tokenizer: TokenizerProtocol) -> Lexicon:
    """Probe the vocabulary for words and start words; TOKENIZER_NOT_JOINABLE where there are too few."""
    vocabulary = tokenizer.pieces()
    candidates = _candidates(vocabulary, _WORD)
    words = _safe_words(tokenizer, candidates)
    if len(words) < FEWEST_WORDS:
        raise TokenizerError(
            f"TOKENIZER_NOT_JOINABLE: only {len(words)} of {len(candidates)} candidate words keep their ids in text, "
            f"{FEWEST_WORDS} are needed",
            advice="set prompt_format: completions_ids, which needs no joints",
            stage="content",
            field="tokenizer",
        )
    starters = _candidates(vocabulary, _START)
    if len(starters) < FEWEST_WORDS:
        starters = [*starters, *candidates]
    starts = _safe_starts(tokenizer, starters)
    return Lexicon(words, starts, len(candidates) - len(words))


def long_words(words: Words) -> Words:
    """Words of four letters and more; shorter ones are often pieces of words."""
    return words.only([place for place, text in enumerate(words.texts) if _LONG_WORD.fullmatch(text)])


def whole_starts(starts: Words, vocabulary: Vocabulary) -> Words:
    """Start words of five letters and more that the vocabulary has after a space too: rarely pieces of words."""
    known = set(vocabulary.pieces)
    return starts.only(
        [
            place
            for place, text in enumerate(starts.texts)
            if _LONG_START.fullmatch(text) and not known.isdisjoint((b" " + text, b" " + text.lower()))
        ]
    )


def id_lexicon(vocabulary: Vocabulary) -> Lexicon:
    """Every plain id as a word without text, for prompts that are sent as ids."""
    ids = np.flatnonzero(vocabulary.plain).astype(np.int64)
    words = Words(ids, (b"",) * len(ids))
    return Lexicon(words, words, 0)


def _candidates(vocabulary: Vocabulary, pattern: re.Pattern[bytes]) -> list[tuple[int, str]]:
    plain = np.flatnonzero(vocabulary.plain).tolist()
    found = ((token, vocabulary.pieces[token]) for token in plain)
    return [(token, piece.decode("ascii")) for token, piece in found if pattern.fullmatch(piece)]


def _safe_words(tokenizer: TokenizerProtocol, candidates: Sequence[tuple[int, str]]) -> Words:
    """Candidates that encode to themselves between words; probed in long lines, singly where a line fails."""
    lines = [candidates[i : i + _PROBE_WORDS] for i in range(0, len(candidates), _PROBE_WORDS)]
    doubtful: list[tuple[int, str]] = []
    safe: list[tuple[int, str]] = []
    for line, good in zip(lines, _hold(tokenizer, lines), strict=True):
        (safe if good else doubtful).extend(line)
    singles = [[candidate] for candidate in doubtful]
    safe += [line[0] for line, good in zip(singles, _hold(tokenizer, singles), strict=True) if good]
    return _as_words(sorted(safe))


def _hold(tokenizer: TokenizerProtocol, lines: Sequence[Sequence[tuple[int, str]]]) -> list[bool]:
    """Whether all words of a line keep their ids between the sentinel and a further word."""
    before, after = tokenizer.encode(SENTINEL), _next_word_id(tokenizer)
    texts = [SENTINEL + "".join(text for _, text in line) + NEXT_WORD for line in lines]
    expected = [[*before, *(token for token, _ in line), after] for line in lines]
    return [ids == wanted for ids, wanted in zip(tokenizer.encode_batch(texts), expected, strict=True)]


def _next_word_id(tokenizer: TokenizerProtocol) -> int:
    before, both = tokenizer.encode(SENTINEL), tokenizer.encode(SENTINEL + NEXT_WORD)
    if len(both) != len(before) + 1 or both[:-1] != before:
        raise TokenizerError(
            "TOKENIZER_NOT_JOINABLE: adding a word changes the ids before it or takes more than one token",
            advice="set prompt_format: completions_ids, which needs no joints",
            stage="content",
            field="tokenizer",
        )
    return both[-1]


def _safe_starts(tokenizer: TokenizerProtocol, candidates: Sequence[tuple[int, str]]) -> Words:
    """Candidates that are one token at the start of a text, before a word and before a blank line."""
    after = _next_word_id(tokenizer)
    names = sorted({text.lstrip(" ") for _, text in candidates})
    alone = tokenizer.encode_batch(names)
    followed = tokenizer.encode_batch([name + NEXT_WORD for name in names])
    safe = [
        (ids[0], name)
        for name, ids, both in zip(names, alone, followed, strict=True)
        if len(ids) == 1 and both == [*ids, after]
    ]
    return _as_words(sorted({token: (token, name) for token, name in safe}.values()))


def _as_words(pairs: Sequence[tuple[int, str]]) -> Words:
    ids = np.fromiter((token for token, _ in pairs), dtype=np.int64, count=len(pairs))
    return Words(ids, tuple(text.encode() for _, text in pairs))
