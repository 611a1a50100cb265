"""Separators, and the joints between samples.

Text between two samples is split at its last blank: what is left of it ends the sample before, the blank begins the
sample after. Every pair of (last character of a sample, first character of a sample) is tried once through the
separator; characters whose joints move are named, and their samples are left out (design: content, L4).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from foreword.errors import TokenizerError
from foreword.workload.vocabulary import NEXT_WORD, SENTINEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foreword.terms import IntArray
    from foreword.workload.tokens import TokenizerProtocol

NEXT_SAMPLE = "The"


@dataclass(frozen=True, slots=True)
class Separator:
    """Text between samples: ``left`` ends the sample before it, ``right`` begins the sample after it.

    ``after_word`` are the ids of ``left`` behind a word, ``before`` those of the sentinel and ``left``,
    ``next_sample`` those of ``right`` and the sentinel that stands for the next sample.
    """

    left: str
    right: str
    before: tuple[int, ...]
    after_word: tuple[int, ...]
    next_sample: tuple[int, ...]

    @property
    def opening(self) -> str:
        """Text that stands before a sample when it is probed."""
        return SENTINEL + self.left


def read_separator(tokenizer: TokenizerProtocol, text: str) -> Separator:
    """Split and probe a separator; SEPARATOR_UNSAFE where words do not keep their ids around it.

    A separator may have no ids (WordPiece, Unigram); only tokenizers that know no widths may do so.
    """
    left, right = (text[:-1], " ") if text.endswith(" ") else (text, "")
    if not text or text[0].isalnum() or text[-1].isalnum():
        raise _unsafe(text, "it must begin and end with something else than a letter or digit")
    probe = SENTINEL + left + right + NEXT_SAMPLE
    whole, ends = tokenizer.encode(probe), tokenizer.token_ends(probe)
    word_end = len(SENTINEL.encode())
    left_end = word_end + len(left.encode())
    start, stop = bisect_right(ends, word_end), bisect_right(ends, left_end)
    silent = start == stop and tokenizer.pieces().widths is None
    if word_end not in ends or not (left_end in ends or silent):
        raise _unsafe(text, "a token spans the word or the sample beside it")
    if whole[:start] != tokenizer.encode(SENTINEL):
        raise _unsafe(text, "it changes the ids of the word before it")
    return Separator(left, right, tuple(whole[:stop]), tuple(whole[start:stop]), tuple(whole[stop:]))


def check_words(tokenizer: TokenizerProtocol, separator: Separator, *, words: Sequence[tuple[int, str]]) -> list[bool]:
    """Whether each word, given with its text from the last boundary on, keeps its id before the separator.

    A word with a leading space is probed behind the sentinel, a start word at the start of a text.
    """
    following = separator.left + separator.right + NEXT_SAMPLE
    sentinel = tokenizer.encode(SENTINEL)
    texts = [(SENTINEL + word if word.startswith(" ") else word) + following for _, word in words]
    expected = [
        [*(sentinel if word.startswith(" ") else ()), token, *separator.after_word, *separator.next_sample]
        for token, word in words
    ]
    return [ids == wanted for ids, wanted in zip(tokenizer.encode_batch(texts), expected, strict=True)]


def probe_units(
    tokenizer: TokenizerProtocol, separator: Separator, *, samples: Sequence[str]
) -> list[tuple[int, ...] | None]:
    """Ids of each sample with the separator's parts around it, in the context of other samples."""
    closing = separator.left + separator.right + NEXT_SAMPLE
    texts = [separator.opening + separator.right + sample + closing for sample in samples]
    before, after = list(separator.before), list(separator.next_sample)
    return [_between(ids, before, after) for ids in tokenizer.encode_batch(texts)]


def probe_ends(
    tokenizer: TokenizerProtocol, separator: Separator, *, samples: Sequence[str]
) -> list[tuple[int, ...] | None]:
    """Ids of each sample at the end of a prompt."""
    texts = [separator.opening + separator.right + sample for sample in samples]
    before = list(separator.before)
    return [_between(ids, before, []) for ids in tokenizer.encode_batch(texts)]


def bad_joints(
    tokenizer: TokenizerProtocol, separator: Separator, *, lasts: Iterable[str], firsts: Iterable[str]
) -> list[tuple[str, str]]:
    """Pairs of (last, first) character whose ids change when one sample follows the other."""
    ending, beginning = sorted(set(lasts)), sorted(set(firsts))
    units = dict(zip(ending, probe_units(tokenizer, separator, samples=[f"q{char}" for char in ending]), strict=True))
    ends = dict(
        zip(beginning, probe_ends(tokenizer, separator, samples=[f"{char}q" for char in beginning]), strict=True)
    )
    pairs = [(last, first) for last in ending for first in beginning]
    middle = separator.left + separator.right
    texts = [f"{separator.opening}{separator.right}q{last}{middle}{first}q" for last, first in pairs]
    bad = []
    for (last, first), ids in zip(pairs, tokenizer.encode_batch(texts), strict=True):
        unit, end = units[last], ends[first]
        if unit is None or end is None or ids != [*separator.before, *unit, *end]:
            bad.append((last, first))
    return bad


def unsafe_characters(bad: Sequence[tuple[str, str]]) -> tuple[frozenset[str], frozenset[str]]:
    """Fewest characters (greedily) whose removal removes all bad joints: (as last, as first)."""
    lasts: set[str] = set()
    firsts: set[str] = set()
    while rest := [(last, first) for last, first in bad if last not in lasts and first not in firsts]:
        by_first = Counter(first for _, first in rest)
        by_last = Counter(last for last, _ in rest)
        first, first_count = min(by_first.items(), key=lambda item: (-item[1], item[0]))
        last, last_count = min(by_last.items(), key=lambda item: (-item[1], item[0]))
        if first_count >= last_count:
            firsts.add(first)
        else:
            lasts.add(last)
    return frozenset(lasts), frozenset(firsts)


class CutTester:
    """Whether text may stop, or go on with a word, after a token (design: content, cut test); answers are kept."""

    def __init__(self, tokenizer: TokenizerProtocol) -> None:
        self._tokenizer = tokenizer
        self._next_word = tokenizer.encode(SENTINEL + NEXT_WORD)[-1]
        self._known: dict[int, bool] = {}

    def good(
        self, context: str, context_ids: Sequence[int], *, cuts: Sequence[tuple[bytes, IntArray, int]]
    ) -> list[bool]:
        """Answer for each (text up to the cut, ids, token count up to the cut); the text stands behind the context."""
        keys = [
            xxhash.xxh3_128_intdigest(b"\0".join((context.encode(), raw, ids[:count].tobytes())))
            for raw, ids, count in cuts
        ]
        asked = {
            key: (context + raw.decode(), [*context_ids, *ids[:count].tolist()])
            for key, (raw, ids, count) in zip(keys, cuts, strict=True)
            if key not in self._known and ends_visibly(raw)
        }
        encoded = self._tokenizer.encode_batch([text + more for text, _ in asked.values() for more in ("", NEXT_WORD)])
        for place, (key, (_, wanted)) in enumerate(asked.items()):
            stops, goes_on = encoded[2 * place : 2 * place + 2]
            self._known[key] = stops == wanted and goes_on == [*wanted, self._next_word]
        return [self._known.get(key, False) for key in keys]


def ends_visibly(raw: bytes) -> bool:
    """Whether UTF-8 text ends with a whole, visible character."""
    last = raw[-4:].decode("utf-8", "ignore")[-1:]
    return last != "" and raw.endswith(last.encode()) and last.isprintable() and not last.isspace()


def _between(ids: list[int], before: list[int], after: list[int]) -> tuple[int, ...] | None:
    stop = len(ids) - len(after)
    whole = ids[: len(before)] == before and ids[stop:] == after and stop > len(before)
    return tuple(ids[len(before) : stop]) if whole else None


def _unsafe(separator: str, reason: str) -> TokenizerError:
    return TokenizerError(
        f"SEPARATOR_UNSAFE: the separator {separator!r} cannot stand between samples: {reason}",
        advice='use a separator that ends in a line break, such as "\\n\\n"',
        stage="content",
        field="suffix.separator",
    )
