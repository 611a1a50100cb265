"""Master prefixes: one text a group, which can be cut at every block boundary.

A master begins with words that no other group begins with, then holds samples. A sample is taken only if text may stop
and go on with a word at every block boundary inside it (design: content, 3.2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConstructionError, TokenizerError
from foreword.terms import draw_key, permutation
from foreword.workload.draws import drawn
from foreword.workload.escaping import escaped, escaped_ends
from foreword.workload.joints import CutTester, ends_visibly
from foreword.workload.vocabulary import SENTINEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.terms import IntArray
    from foreword.workload.joints import Separator
    from foreword.workload.tokens import TokenizerProtocol
    from foreword.workload.units import Units
    from foreword.workload.vocabulary import Words

WORDWISE_BLOCK = 4
_TRIES = 24
_WORD_TRIES = 4_000
_FEWEST_KEPT = 50
_PIECE = re.compile(r"[^\s，。；：？！、]+[，。；：？！、]?")
_SPACED = re.compile(r"[!-~]")


@dataclass(frozen=True, slots=True)
class Master:
    """A group's shared text: ids, text, and the bytes at which each token ends (plain and escaped)."""

    ids: IntArray
    raw: bytes
    text: bytes
    stops: IntArray
    text_stops: IntArray

    def __len__(self) -> int:
        """Number of content tokens."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class MasterCounts:
    """What building masters met: samples refused, words added to reach a boundary, samples used by two groups."""

    samples: int
    refused: int
    padding_words: int
    reused: int
    words_kept: int
    words_tried: int


@dataclass(frozen=True, slots=True)
class MasterSource:
    """What masters are made of; ``units`` is empty for random words, ``as_ids`` allows any cut."""

    tokenizer: TokenizerProtocol
    words: Words
    units: Units
    separator: Separator
    as_ids: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Where blocks end in the content, and the key of all draws."""

    head_len: int
    block_size: int
    seed_key: int

    def boundaries(self, start: int, stop: int) -> range:
        """Content lengths in ``(start, stop]`` at which a block ends."""
        first = start + 1 + (-(start + 1 + self.head_len)) % self.block_size
        return range(first, stop + 1, self.block_size)

    def is_boundary(self, length: int) -> bool:
        """Whether a block ends after this many content tokens."""
        return (length + self.head_len) % self.block_size == 0


@dataclass(slots=True)
class _Growth:
    """A master under construction."""

    ids: list[IntArray] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    stops: list[IntArray] = field(default_factory=list)
    length: int = 0
    byte_length: int = 0

    def add(self, ids: IntArray, raw: bytes, *, stops: IntArray) -> None:
        """Append tokens; ``stops`` count from the start of ``raw``."""
        self.ids.append(ids)
        self.raw.append(raw)
        self.stops.append(stops + self.byte_length)
        self.length += len(ids)
        self.byte_length += len(raw)

    def finished(self) -> Master:
        """The master so far."""
        empty = np.zeros(0, np.int64)
        raw = b"".join(self.raw)
        stops = np.concatenate([empty, *self.stops])
        return Master(np.concatenate([empty, *self.ids]), raw, escaped(raw), stops, escaped_ends(raw, stops))


class MasterBuilder:
    """Builds the masters of all groups of a data set; each depends on its group's place and the seed alone."""

    def __init__(self, source: MasterSource, layout: Layout, group_count: int) -> None:
        self._source = source
        self._layout = layout
        self._group_count = group_count
        self._cuts = None if source.as_ids else CutTester(source.tokenizer)
        self._order = permutation(draw_key("master order", layout.seed_key), len(source.units))
        self._widths = source.tokenizer.pieces().widths
        self._used: set[int] = set()
        self._refused = self._padding = self._reused = self._kept = self._tried = 0

    @property
    def used_units(self) -> frozenset[int]:
        """Places of the samples that some master holds."""
        return frozenset(self._used)

    @property
    def counts(self) -> MasterCounts:
        """Diagnostics so far."""
        return MasterCounts(len(self._used), self._refused, self._padding, self._reused, self._kept, self._tried)

    def build(self, group: int, opening: Sequence[tuple[int, bytes]], *, shared: int) -> Master:
        """A master of ``shared`` content tokens and a block more, which begins with the opening words; proved whole."""
        growth = _Growth()
        length = shared + self._layout.block_size
        if shared > 0:
            for token, text in opening:
                growth.add(np.array([token], np.int64), text, stops=np.array([len(text)], np.int64))
            if not len(self._source.units):
                self._pad(growth, group, length - growth.length)
            elif self._layout.block_size <= WORDWISE_BLOCK and not self._source.as_ids:
                self._grow_by_words(growth, group, length)
            else:
                self._grow_by_units(growth, group, length)
        master = growth.finished()
        if shared > 0 and not self._source.as_ids:
            whole = master.raw[: int(master.stops[shared - 1])].decode()
            if self._source.tokenizer.encode(whole) != master.ids[:shared].tolist():
                raise _not_proved(group)
        return master

    def _pad(self, growth: _Growth, group: int, count: int) -> None:
        """Append words; each is one token, and text can be cut after each."""
        if count <= 0:
            return
        words = self._source.words
        counters = np.arange(growth.length, growth.length + count, dtype=np.int64)
        for place in drawn(draw_key("master word", self._layout.seed_key, group), counters, limit=len(words)).tolist():
            text = words.texts[place]
            growth.add(words.ids[place : place + 1], text, stops=np.array([len(text)], np.int64))

    def _drawn_units(self, group: int) -> Iterator[int]:
        """Places of units for a group: its own share of the corpus first, then the shares of others."""
        count = len(self._order)
        for place in self._order[group :: self._group_count]:
            yield int(place)
        for place in np.roll(self._order, -(draw_key("master share", self._layout.seed_key, group) % count)):
            yield int(place)

    def _grow_by_units(self, growth: _Growth, group: int, length: int) -> None:
        separator = self._source.separator
        if len(separator.after_word) >= self._layout.block_size and not self._source.as_ids:
            raise _not_cuttable("the separator is as long as a block")
        self._separate(growth, group)
        draws = self._drawn_units(group)
        mine: set[int] = set()
        while growth.length < length:
            place, count = self._acceptable(growth, draws, mine)
            if place is None:
                raise _too_small(len(self._source.units), growth.length, length)
            mine.add(place)
            self._reused += place in self._used
            self._used.add(place)
            self._add_unit(growth, group, place, count)

    def _add_unit(self, growth: _Growth, group: int, place: int, count: int) -> None:
        """Append a whole unit, or its first ``count`` tokens, a word or more, and a separator."""
        units = self._source.units
        if count == len(units.ids[place]):
            growth.add(units.ids[place], units.raw[place], stops=self._unit_stops(place))
            return
        stops = self._unit_stops(place)[:count]
        growth.add(units.ids[place][:count], units.raw[place][: int(stops[-1])], stops=stops)
        self._pad(growth, group, 1)
        self._padding += 1
        self._separate(growth, group)

    def _unit_stops(self, place: int) -> IntArray:
        """Bytes at which the tokens of a unit end; the separator's tokens follow those of the sample."""
        units = self._source.units
        if self._source.as_ids:
            return np.zeros(len(units.ids[place]), np.int64)
        if self._widths is not None:
            return np.cumsum(self._widths[units.ids[place]])
        stops = units.end_stops[place]
        extra = len(units.ids[place]) - len(stops)
        return np.concatenate([stops, np.full(extra, len(units.raw[place]), np.int64)])

    def _separate(self, growth: _Growth, group: int) -> None:
        """Append a separator where none of its tokens lies at a block boundary, words before it if need be."""
        separator = self._source.separator
        size, before = len(separator.after_word), growth.length
        while not self._source.as_ids and self._layout.boundaries(growth.length, growth.length + size):
            self._pad(growth, group, 1)
        self._padding += growth.length - before
        left = b"" if self._source.as_ids else separator.left.encode()
        stops = self._separator_stops(separator, len(left))
        growth.add(np.array(separator.after_word, np.int64), left, stops=stops)

    def _separator_stops(self, separator: Separator, width: int) -> IntArray:
        if self._widths is not None and not self._source.as_ids:
            return np.cumsum(self._widths[list(separator.after_word)])
        return np.full(len(separator.after_word), width, np.int64)

    def _acceptable(self, growth: _Growth, draws: Iterator[int], mine: set[int]) -> tuple[int | None, int]:
        """The next unit that can be cut at its boundaries, or the longest good part of those tried."""
        best: tuple[int | None, int] = (None, 0)
        tried = 0
        for place in draws:
            if place in mine:
                continue
            count = self._good_tokens(growth.length, place)
            if count == len(self._source.units.ids[place]):
                return place, count
            self._refused += 1
            tried += 1
            if count > best[1]:
                best = place, count
            if tried >= _TRIES and best[0] is not None:
                break
            if tried >= _TRIES * _TRIES:
                break
        return best

    def _good_tokens(self, at: int, place: int) -> int:
        """How many tokens of a unit can follow: all, or as many as up to its last good cut before a bad one."""
        ids = self._source.units.ids[place]
        cuts = [boundary - at for boundary in self._layout.boundaries(at, at + len(ids))]
        if self._cuts is None or not cuts:
            return len(ids)
        separator, raw, stops = self._source.separator, self._source.units.raw[place], self._unit_stops(place)
        answers = self._cuts.good(
            separator.opening, separator.before, cuts=[(raw[: int(stops[cut - 1])], ids, cut) for cut in cuts]
        )
        if all(answers):
            return len(ids)
        bad = answers.index(False)
        return cuts[bad - 1] if bad else 0

    def _grow_by_words(self, growth: _Growth, group: int, length: int) -> None:
        """Words of samples whose every token end is a good cut, for blocks of a few tokens."""
        context = b"".join(growth.raw).decode()
        known = self._source.tokenizer.encode(context)
        for place in dict.fromkeys(self._drawn_units(group)):
            self._used.add(place)
            for word in _PIECE.findall(self._source.units.end_raw[place].decode()):
                if growth.length >= length:
                    return
                self._tried += 1
                text = self._add_word(growth, context, known, word)
                if text:
                    self._kept += 1
                    context = SENTINEL + text
                    known = self._source.tokenizer.encode(context)
            if self._tried >= _WORD_TRIES and self._kept * _FEWEST_KEPT < self._tried:
                break
        if self._kept * _FEWEST_KEPT >= self._tried:
            raise _too_small(len(self._source.units), growth.length, length)
        raise _not_cuttable(f"{self._kept} of {self._tried} words can be cut after each token")

    def _add_word(self, growth: _Growth, context: str, known: list[int], word: str) -> str:
        """Append a word if text can be cut after each of its tokens, and return it as written; empty if it cannot.

        A space stands before words that begin in ASCII; others follow the text before them directly.
        """
        text = f" {word}" if _SPACED.match(word) else word
        tokenizer, raw = self._source.tokenizer, text.encode()
        whole = tokenizer.encode(context + text)
        ids = np.array(whole[len(known) :], dtype=np.int64)
        if self._widths is not None:
            stops: IntArray = np.cumsum(self._widths[ids])
        else:
            ends = tokenizer.token_ends(context + text)[len(known) :]
            stops = np.array(ends, dtype=np.int64) - len(context.encode())
        whole_bytes = len(ids) > 0 and int(stops[-1]) == len(raw)
        if whole[: len(known)] != known or not whole_bytes or self._cuts is None:
            return ""
        cuts = [(raw[: int(stop)], ids, count + 1) for count, stop in enumerate(stops)]
        if not all(ends_visibly(cut[0]) for cut in cuts) or not all(self._cuts.good(context, known, cuts=cuts)):
            return ""
        growth.add(ids, raw, stops=stops)
        return text


def _too_small(samples: int, have: int, wanted: int) -> ConstructionError:
    return ConstructionError(
        f"CORPUS_TOO_SMALL: the {samples} samples end after {have} of {wanted} tokens of a master prefix",
        advice="use a larger corpus, shorter prefixes or source: random_tokens",
        stage="content",
        field="prefix.source",
    )


def _not_cuttable(reason: str) -> ConstructionError:
    return ConstructionError(
        f"CORPUS_NOT_CUTTABLE: this text cannot be cut at every block boundary: {reason}",
        advice="use a larger block_size, source: random_tokens or prompt_format: completions_ids",
        stage="content",
        field="block_size",
    )


def _not_proved(group: int) -> TokenizerError:
    return TokenizerError(
        f"TOKENIZER_NOT_JOINABLE: the master prefix of group {group} does not encode to the ids it was built from",
        advice="set prompt_format: completions_ids, which needs no joints",
        stage="content",
        field="tokenizer",
    )
