"""Master prefixes: one text a group, which can be cut wherever a prompt leaves it.

A master begins with words that no other group begins with, then holds samples. Text may stop and go on with a word at
each length at which a prompt of the group leaves its master (design: content, 3.2): a sample in which that is not so is
split into clauses, and words are put in only where no clause helps.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConstructionError, TokenizerError
from foreword.terms import draw_key, permutation
from foreword.workload.draws import drawn
from foreword.workload.escaping import escaped, escaped_ends
from foreword.workload.joints import CutTester, ends_visibly
from foreword.workload.paragraphs import WINDOW, Paragraph, Rest, Writer
from foreword.workload.units import too_small
from foreword.workload.vocabulary import SENTINEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.terms import IntArray
    from foreword.workload.joints import Separator
    from foreword.workload.tokens import TokenizerProtocol
    from foreword.workload.units import Units
    from foreword.workload.vocabulary import Words

WORDWISE_BLOCK = 4
_CROWDED = 16
_AHEAD = 4
_LONGEST = 1 << 40
_MOST_PADDING = 64
_WORD_TRIES = 4_000
_FEWEST_KEPT = 50
_PIECE = re.compile(r"[^\s，。；：？！、]+[，。；：？！、]?")
_SPACED = re.compile(r"[!-~]")


@dataclass(frozen=True, slots=True)
class Master:
    """A group's shared text: ids, text, and the bytes at which each token ends (plain and escaped).

    ``samples`` are the samples in it, each with the content tokens before it.
    """

    ids: IntArray
    raw: bytes
    text: bytes
    stops: IntArray
    text_stops: IntArray
    samples: tuple[tuple[int, int], ...] = ()

    def __len__(self) -> int:
        """Number of content tokens."""
        return len(self.ids)

    def held(self, tokens: int) -> frozenset[int]:
        """Places of the samples that begin in the first ``tokens`` content tokens."""
        return frozenset(place for before, place in self.samples if before < tokens)


@dataclass(frozen=True, slots=True)
class MasterCounts:
    """What building masters met.

    Samples used; samples split into clauses; words put in to reach a length at which prompts leave the master; samples
    used by two groups; words kept of those tried, where nearly every token end is such a length.
    """

    samples: int
    split: int
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

    def boundaries(self) -> range:
        """All content lengths at which a block ends."""
        first = self.block_size - self.head_len % self.block_size
        return range(first, _LONGEST, self.block_size)


@dataclass(slots=True)
class _Growth:
    """A master under construction; ``cuts`` are the lengths at which it must be cut, ascending."""

    cuts: Sequence[int]
    ids: list[IntArray] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    stops: list[IntArray] = field(default_factory=list)
    samples: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0
    byte_length: int = 0

    def add(self, ids: IntArray, raw: bytes, *, stops: IntArray) -> None:
        """Append tokens; ``stops`` count from the start of ``raw``."""
        self.ids.append(ids)
        self.raw.append(raw)
        self.stops.append(stops + self.byte_length)
        self.length += len(ids)
        self.byte_length += len(raw)

    def inside(self, size: int) -> list[int]:
        """Cuts in the next ``size`` tokens, counted from here."""
        start, stop = bisect_right(self.cuts, self.length), bisect_right(self.cuts, self.length + size)
        return [cut - self.length for cut in self.cuts[start:stop]]

    def finished(self) -> Master:
        """The master so far."""
        empty = np.zeros(0, np.int64)
        raw = b"".join(self.raw)
        stops = np.concatenate([empty, *self.stops])
        ids, text = np.concatenate([empty, *self.ids]), escaped(raw)
        return Master(ids, raw, text, stops, escaped_ends(raw, stops), tuple(self.samples))


class MasterBuilder:
    """Builds the masters of all groups of a data set; each depends on its group's place and the seed alone."""

    def __init__(self, source: MasterSource, layout: Layout, group_count: int, *, allowed: IntArray) -> None:
        self._source = source
        self._layout = layout
        self._group_count = group_count
        self._cuts = None if source.as_ids else CutTester(source.tokenizer)
        self._ahead = max(0, min(_AHEAD, (layout.block_size - 1 - len(source.separator.after_word)) // 2))
        self._writer = Writer(
            source.tokenizer, source.separator, units=source.units, cuts=self._cuts, ahead=self._ahead
        )
        everything = permutation(draw_key("master order", layout.seed_key), len(source.units))
        self._order = everything[np.isin(everything, allowed)]
        self._widths = source.tokenizer.pieces().widths
        self._used: set[int] = set()
        self._split: set[int] = set()
        self._padding = self._reused = self._kept = self._tried = 0

    @property
    def used_units(self) -> frozenset[int]:
        """Places of the samples that some master holds."""
        return frozenset(self._used)

    @property
    def text_tokens(self) -> int:
        """Tokens of all samples that masters may use."""
        return int(self._source.units.lengths[self._order].sum())

    @property
    def counts(self) -> MasterCounts:
        """Diagnostics so far."""
        return MasterCounts(len(self._used), len(self._split), self._padding, self._reused, self._kept, self._tried)

    def build(self, group: int, opening: Sequence[tuple[int, bytes]], *, shared: int, cuts: Sequence[int]) -> Master:
        """A master of ``shared`` content tokens and a block more, which begins with the opening words; proved whole.

        It can be cut after each of ``cuts`` content tokens (ascending).
        """
        growth = _Growth(() if self._source.as_ids else cuts)
        length = shared + self._layout.block_size
        if shared > 0:
            for token, text in opening:
                growth.add(np.array([token], np.int64), text, stops=np.array([len(text)], np.int64))
            if not len(self._source.units):
                self._pad(growth, group, length - growth.length)
            elif self._layout.block_size <= WORDWISE_BLOCK and _crowded(
                growth.cuts[: bisect_right(growth.cuts, shared)]
            ):
                self._grow_by_words(growth, group, length)
            else:
                self._grow_by_units(growth, group, length)
        master = growth.finished()
        held = master.held(len(master))
        self._reused += len(held & self._used)
        self._used |= held
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

    def _draws(self, group: int) -> Iterator[Rest]:
        """Samples for a group: its own share of the corpus first, then the shares of others."""
        count, groups = len(self._order), self._group_count
        shift = draw_key("master share", self._layout.seed_key, group) % count
        others = (place for place in chain(range(shift, count), range(shift)) if place % groups != group)
        for place in chain(range(group, count, groups), others):
            yield Rest(int(self._order[place]))

    def _grow_by_units(self, growth: _Growth, group: int, length: int) -> None:
        self._separate(growth, group)
        draws, tried = self._draws(group), list[Rest]()
        while growth.length < length:
            tried += islice(draws, max(0, WINDOW - len(tried)))
            found = self._whole(growth, tried) or self._writer.composed(tried, growth.inside)
            found = found or self._writer.cut_short(tried, growth.inside)
            if found is None:
                raise self._ended(growth, tried, length)
            growth.samples += [(growth.length, place) for place in found.places]
            growth.add(*found.piece[:2], stops=found.piece.stops)
            if found.words:
                self._pad(growth, group, found.words)
                self._padding += found.words
                self._separate(growth, group)
            tried = list(found.rests)
            self._split.update(rest.place for rest in found.rests if rest.start)

    def _whole(self, growth: _Growth, tried: Sequence[Rest]) -> Paragraph | None:
        """The first sample, or rest of a sample, that can be cut where it must."""
        for index, rest in enumerate(tried):
            piece = self._writer.whole(rest, growth.inside)
            if piece is not None:
                return Paragraph(piece, (rest.place,), (*tried[:index], *tried[index + 1 :]))
        return None

    def _ended(self, growth: _Growth, tried: Sequence[Rest], length: int) -> ConstructionError:
        if tried:
            return _not_cuttable(f"none of {len(tried)} samples can be cut near token {growth.length}")
        return self._used_up(growth, length)

    def _used_up(self, growth: _Growth, length: int) -> ConstructionError:
        what = f"all are used after {growth.length} of {length} tokens of a master prefix"
        return too_small(f"the text has {self.text_tokens} tokens, {what}", field="prefix.source")

    def _separate(self, growth: _Growth, group: int) -> None:
        """Append a separator where no cut lies in it or close behind it, words before it if need be."""
        separator = self._source.separator
        size, before = len(separator.after_word), growth.length
        while growth.inside(size + self._ahead):
            self._pad(growth, group, 1)
            if growth.length - before > _MOST_PADDING:
                raise _not_cuttable("the separator is as long as a block")
        self._padding += growth.length - before
        left = b"" if self._source.as_ids else separator.left.encode()
        stops = self._separator_stops(separator, len(left))
        growth.add(np.array(separator.after_word, np.int64), left, stops=stops)

    def _separator_stops(self, separator: Separator, width: int) -> IntArray:
        if self._widths is not None and not self._source.as_ids:
            return np.cumsum(self._widths[list(separator.after_word)])
        return np.full(len(separator.after_word), width, np.int64)

    def _grow_by_words(self, growth: _Growth, group: int, length: int) -> None:
        """Words of samples that can be cut where they must and where they end, for blocks of a few tokens."""
        context = b"".join(growth.raw).decode()
        known = self._source.tokenizer.encode(context)
        for place, _ in self._draws(group):
            growth.samples.append((growth.length, place))
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
            raise self._used_up(growth, length)
        raise _not_cuttable(f"{self._kept} of {self._tried} words can be cut where they must")

    def _add_word(self, growth: _Growth, context: str, known: list[int], word: str) -> str:
        """Append a word if text can be cut in it where it must, and return it as written; empty if it cannot.

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
        counts = sorted({*growth.inside(len(ids)), len(ids)})
        cuts = [(raw[: int(stops[count - 1])], ids, count) for count in counts]
        if not all(ends_visibly(cut[0]) for cut in cuts) or not all(self._cuts.good(context, known, cuts=cuts)):
            return ""
        growth.add(ids, raw, stops=stops)
        return text


def _crowded(cuts: Sequence[int]) -> bool:
    """Whether so many cuts lie close together that whole samples cannot have them all."""
    return any(later - cut <= _CROWDED for cut, later in zip(cuts, cuts[WORDWISE_BLOCK:], strict=False))


def _not_cuttable(reason: str) -> ConstructionError:
    return ConstructionError(
        f"CORPUS_NOT_CUTTABLE: this text cannot be cut where prompts leave their prefix: {reason}",
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
