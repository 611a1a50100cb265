"""Paragraphs of a master: whole samples where they can be cut where they must, else clauses of several samples.

A sample whose needed cuts are not all good gives the clauses before the first bad one; what is left of it stays usable.
Clauses follow each other directly, or after a space where one of the neighbours is written with spaces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreword.workload.joints import NEXT_SAMPLE, ends_visibly, probe_ends, probe_units

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foreword.terms import IntArray
    from foreword.workload.joints import CutTester, Separator
    from foreword.workload.tokens import TokenizerProtocol
    from foreword.workload.units import Units

WINDOW = 24
"""Samples, or rests of samples, that are tried for the next paragraph."""

_CLAUSE = re.compile(r"(?<=[。！？；，、…])(?![。！？；，、…”’」』）\s])|(?<=[.!?;])(?=\s)|(?<=\S)(?=\n)")
_SENTENCE_ENDS = "。！？；….!?;”」"
_SPACED = re.compile(r"[!-~]")
_MOST_RUNS = 16
_LONGEST = 128
_SHORTEST = 24
_FARTHEST = 24


class Rest(NamedTuple):
    """A sample from clause ``start`` on."""

    place: int
    start: int = 0


class Piece(NamedTuple):
    """Text with its ids, and the byte at which each token ends."""

    ids: IntArray
    raw: bytes
    stops: IntArray


class Paragraph(NamedTuple):
    """A piece, the samples in it, what is left of those tried, and how many words must end it (0: it is closed)."""

    piece: Piece
    places: tuple[int, ...]
    rests: tuple[Rest, ...]
    words: int = 0


class _Draft(NamedTuple):
    text: str
    places: tuple[int, ...]
    rests: tuple[Rest, ...]


class Writer:
    """Writes paragraphs; ``cuts`` is None where text may be cut anywhere (prompts of ids).

    No cut comes within ``ahead`` tokens of a paragraph's end, so that the next one has room for its first character.
    """

    def __init__(
        self, tokenizer: TokenizerProtocol, separator: Separator, *, units: Units, cuts: CutTester | None, ahead: int
    ) -> None:
        self._ahead = ahead
        self._tokenizer = tokenizer
        self._separator = separator
        self._units = units
        self._cuts = cuts
        self._widths = tokenizer.pieces().widths
        self._clauses: dict[int, list[str]] = {}
        self._closed: dict[Rest, Piece | None] = {}
        mean = int(units.lengths.mean()) if len(units) else 0
        self._enough = max(_SHORTEST, min(mean, _LONGEST))

    def whole(self, rest: Rest, inside: Callable[[int], list[int]]) -> Piece | None:
        """All that is left of a sample, with a separator; None if it cannot be cut where it must (``inside`` tells)."""
        if rest not in self._closed:
            self._closed[rest] = self._unit(rest.place) if not rest.start else self._closing(self._text(rest))
        piece = self._closed[rest]
        return piece if piece is not None and self._fits(piece, inside) else None

    def composed(self, rests: Sequence[Rest], inside: Callable[[int], list[int]]) -> Paragraph | None:
        """A paragraph of clauses of several samples, closed by a separator, at the end of a sentence if possible."""
        draft = _Draft("", (), tuple(rests))
        best: Paragraph | None = None
        for _ in range(_MOST_RUNS):
            longer = self._extended(draft, inside)
            if longer is None:
                break
            draft = longer
            piece = self._closing(draft.text)
            if piece is None or not self._fits(piece, inside):
                continue
            ended = draft.text[-1] in _SENTENCE_ENDS
            if ended or best is None:
                best = Paragraph(piece, draft.places, draft.rests)
            if ended and len(piece.ids) >= self._enough:
                break
        return best

    def cut_short(self, rests: Sequence[Rest], inside: Callable[[int], list[int]]) -> Paragraph | None:
        """The beginning of a sample that needs the fewest words to reach the first cut that it fails; None if none."""
        best: Paragraph | None = None
        for index, rest in enumerate(rests):
            piece = self._closed.get(rest)
            short = None if piece is None else self._shortened(piece, inside)
            if short is not None and (best is None or short[1] < best.words):
                others = [*rests[:index], *self._after(rest, short[0].raw), *rests[index + 1 :]]
                best = Paragraph(short[0], (rest.place,), tuple(others), short[1])
        return best

    def _shortened(self, piece: Piece, inside: Callable[[int], list[int]]) -> tuple[Piece, int] | None:
        wanted = inside(len(piece.ids))
        good = self._good(piece, wanted)
        limit = wanted[good] if good < len(wanted) else len(piece.ids)
        for count in range(limit - 1, max(0, limit - _FARTHEST), -1):
            if self._good(piece, [count]):
                stop = int(piece.stops[count - 1])
                return Piece(piece.ids[:count], piece.raw[:stop], piece.stops[:count]), limit - count
        return None

    def _after(self, rest: Rest, used: bytes) -> list[Rest]:
        """What is left of a rest behind the clause in which the text that was used ends."""
        length = len(self._separator.right.encode())
        for number, clause in enumerate(self._clauses_of(rest.place)[rest.start :], start=rest.start + 1):
            length += len((clause if number > rest.start + 1 else clause.lstrip()).encode())
            if length >= len(used):
                return self._from(rest.place, number)
        return []

    def _from(self, place: int, start: int) -> list[Rest]:
        return [Rest(place, start)] if start < len(self._clauses_of(place)) else []

    def _extended(self, draft: _Draft, inside: Callable[[int], list[int]]) -> _Draft | None:
        """The draft with the longest good run of clauses of the first sample that has one."""
        for index, rest in enumerate(draft.rests):
            clauses = self._clauses_of(rest.place)[rest.start :]
            texts = _run(draft.text, clauses)
            piece = self._ending(texts[-1])
            if piece is None:
                continue
            wanted = inside(len(piece.ids))
            good = self._good(piece, wanted)
            limit = int(piece.stops[wanted[good] - 1]) if good < len(wanted) else len(piece.raw) + 1
            right = len(self._separator.right.encode())
            count = sum(right + len(text.encode()) < limit for text in texts)
            if count:
                others = [*draft.rests[:index], *draft.rests[index + 1 :], *self._from(rest.place, rest.start + count)]
                return _Draft(texts[count - 1], (*draft.places, rest.place), tuple(others))
        return None

    def _clauses_of(self, place: int) -> list[str]:
        if place not in self._clauses:
            text = self._units.end_raw[place].decode()[len(self._separator.right) :]
            self._clauses[place] = [clause for clause in _CLAUSE.split(text) if clause.strip()]
        return self._clauses[place]

    def _text(self, rest: Rest) -> str:
        return "".join(self._clauses_of(rest.place)[rest.start :]).strip()

    def _unit(self, place: int) -> Piece:
        """A sample as it was read; the separator's tokens follow those of the sample."""
        units = self._units
        ids, raw = units.ids[place], units.raw[place]
        if self._cuts is None:
            return Piece(ids, raw, np.zeros(len(ids), np.int64))
        if self._widths is not None:
            return Piece(ids, raw, np.cumsum(self._widths[ids]))
        stops = units.end_stops[place]
        return Piece(ids, raw, np.concatenate([stops, np.full(len(ids) - len(stops), len(raw), np.int64)]))

    def _closing(self, text: str) -> Piece | None:
        separator = self._separator
        ids = probe_units(self._tokenizer, separator, samples=[text])[0]
        closed = separator.right + text + separator.left
        return self._piece(ids, closed, separator.right + NEXT_SAMPLE)

    def _ending(self, text: str) -> Piece | None:
        ids = probe_ends(self._tokenizer, self._separator, samples=[text])[0]
        return self._piece(ids, self._separator.right + text, "")

    def _piece(self, ids: tuple[int, ...] | None, text: str, following: str) -> Piece | None:
        if ids is None:
            return None
        raw, known = text.encode(), np.array(ids, np.int64)
        if self._widths is not None:
            stops: IntArray = np.cumsum(self._widths[known])
            return Piece(known, raw, stops) if stops[-1] == len(raw) else None
        opening, before = self._separator.opening, len(self._separator.before)
        ends = self._tokenizer.token_ends(opening + text + following)[before : before + len(ids)]
        return Piece(known, raw, np.array(ends, np.int64) - len(opening.encode()))

    def _fits(self, piece: Piece, inside: Callable[[int], list[int]]) -> bool:
        wanted = inside(len(piece.ids) + self._ahead)
        if wanted and wanted[-1] > len(piece.ids):
            return False
        if self._cuts is not None and not all(ends_visibly(piece.raw[: int(piece.stops[cut - 1])]) for cut in wanted):
            return False
        return self._good(piece, wanted) == len(wanted)

    def _good(self, piece: Piece, wanted: Sequence[int]) -> int:
        """How many of the cuts (token counts, ascending) are good before the first that is not."""
        if self._cuts is None:
            return len(wanted)
        separator = self._separator
        cuts = [(piece.raw[: int(piece.stops[cut - 1])], piece.ids, cut) for cut in wanted]
        answers = self._cuts.good(separator.opening, separator.before, cuts=cuts)
        return answers.index(False) if False in answers else len(wanted)


def _run(text: str, clauses: Sequence[str]) -> list[str]:
    """The text after each clause of a run that is put behind it."""
    first = clauses[0].lstrip()
    spaced = text and (_SPACED.match(first) or _SPACED.match(text[-1]))
    texts = [text + (" " if spaced else "") + first]
    for clause in clauses[1:]:
        texts.append(texts[-1] + clause)
    return texts
