"""Proof that prompts encode to their planned ids (design: content, 5).

``full`` encodes every prompt again as written. ``window`` encodes only what composing has newly put side by side: the
end of the shared prefix, the divergence words, the separator and the head of the first sample, and a cut sample with
the words after it; everything else was encoded in its context when it was read. Windows are sound for tokenizers whose
word joints are proved by rule; others are always proved in full.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from foreword.workload.suffix import NO_SAMPLE
from foreword.workload.tokens import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.terms import BoolArray, IntArray
    from foreword.workload.materials import Draft, Materials
    from foreword.workload.tokens import EncodeBatch, Frame

_JOINT = re.compile(rb"(?<=[!-~]) (?=[A-Za-z])")
_LINE = re.compile(rb"\n(?=[^\s/])")
_FEWEST_TOKENS = 6
_HEAD_BYTES = 24


class ProofCounts(NamedTuple):
    """What was checked: windows, prompts in full, how many of them were wrong, repaired, or kept although wrong."""

    windows: int = 0
    full: int = 0
    wrong: int = 0
    repaired: int = 0
    kept: int = 0

    def __add__(self, other: object) -> ProofCounts:
        """Counts of both."""
        if not isinstance(other, ProofCounts):
            return NotImplemented
        return ProofCounts(*(mine + its for mine, its in zip(self, other, strict=True)))


class _Window(NamedTuple):
    """Text to encode and the ids that it must give."""

    row: int
    text: str
    ids: list[int]


class Prover:
    """Checks drafts against the tokenizer; keeps where windows begin. ``second`` takes whole prompts first."""

    def __init__(self, materials: Materials, frame: Frame = NO_FRAME, *, second: EncodeBatch | None = None) -> None:
        self._materials = materials
        self._second = second
        self._frame = frame if frame.in_text else NO_FRAME
        self._openings: dict[tuple[int, int], tuple[int, str, list[int]]] = {}
        self._heads: dict[int, tuple[str, list[int]]] = {}

    def check(
        self,
        drafts: Sequence[Draft],
        prompts: Sequence[tuple[bytes, IntArray]],
        *,
        full: BoolArray,
        level: Literal["none", "window", "full"],
    ) -> tuple[list[int], ProofCounts]:
        """Rows that are wrong, and counts; rows marked ``full`` are encoded whole at any level but ``none``."""
        if level == "none":
            return [], ProofCounts()
        whole = [row for row in range(len(drafts)) if level == "full" or full[row]]
        wrong = self._wrong_in_full(whole, prompts)
        windows = [] if level == "full" else [w for row, draft in enumerate(drafts) for w in self._windows(row, draft)]
        encoded = self._materials.tokenizer.encode_batch([window.text for window in windows])
        wrong |= {window.row for window, ids in zip(windows, encoded, strict=True) if ids != window.ids}
        return sorted(wrong), ProofCounts(windows=len(windows), full=len(whole), wrong=len(wrong))

    def encoded(self, escaped: bytes) -> list[int]:
        """Ids of a prompt's content as it is written."""
        ids = self._materials.tokenizer.encode(self._frame.around(unescaped(escaped)))
        return ids[self._frame.head_len : len(ids) - self._frame.tail_len]

    def _wrong_in_full(self, rows: Sequence[int], prompts: Sequence[tuple[bytes, IntArray]]) -> set[int]:
        """Rows that do not encode to their ids; what a second engine doubts the tokenizer itself decides."""
        doubtful = rows if self._second is None else self._unequal(rows, prompts, self._second)
        return set(self._unequal(doubtful, prompts, self._materials.tokenizer.encode_batch))

    def _unequal(
        self, rows: Sequence[int], prompts: Sequence[tuple[bytes, IntArray]], encode_batch: EncodeBatch
    ) -> list[int]:
        frame = self._frame
        encoded = encode_batch([frame.around(unescaped(prompts[row][0])) for row in rows])
        wanted = (frame.ids_around(prompts[row][1].tolist()) for row in rows)
        return [row for row, ids, known in zip(rows, encoded, wanted, strict=True) if ids != known]

    def _windows(self, row: int, draft: Draft) -> list[_Window]:
        materials = self._materials
        start, sentinel, ids = self._opening(draft.group, draft.cut)
        master = materials.masters[draft.group]
        text, ids, words = sentinel, list(ids), draft.words
        if draft.cut:
            begin = int(master.stops[start - 1]) if start else 0
            text += master.raw[begin : int(master.stops[draft.cut - 1])].decode()
            ids += master.ids[start : draft.cut].tolist()
        elif words:
            text += materials.starts.texts[words[0]].decode()
            ids.append(int(materials.starts.ids[words[0]]))
            words = words[1:]
        text += b"".join(materials.words.texts[place] for place in words).decode()
        ids += materials.words.ids[words].tolist()
        return self._with_ending(_Window(row, text, ids), draft)

    def _with_ending(self, window: _Window, draft: Draft) -> list[_Window]:
        """Add what follows the divergence words; a cut sample gets a window of its own."""
        materials, ending = self._materials, draft.ending
        filler_text = b"".join(materials.words.texts[place] for place in draft.fillers).decode()
        filler_ids = materials.words.ids[draft.fillers].tolist()
        if ending.end == NO_SAMPLE:
            return [self._ended(window.row, window.text + filler_text, window.ids + filler_ids)]
        opening = window.text + materials.separator.left
        opened = window.ids + materials.separator_ids.tolist()
        raw, ids = materials.cut_end(ending)
        end = _Window(window.row, raw.decode() + filler_text, ids.tolist() + filler_ids)
        if not ending.units:
            return [self._ended(window.row, opening + end.text, opened + end.ids)]
        head, head_ids = self._head(ending.units[0])
        windows = [_Window(window.row, opening + head, opened + head_ids)]
        if draft.fillers or ending.cut < len(materials.units.end_ids[ending.end]):
            context = materials.separator
            windows.append(self._ended(window.row, context.opening + end.text, [*context.before, *end.ids]))
        return windows

    def _ended(self, row: int, text: str, ids: list[int]) -> _Window:
        """A window that reaches the end of the prompt, with what the frame puts there."""
        return _Window(row, text + self._frame.tail_text, [*ids, *self._frame.tail_ids])

    def _opening(self, group: int, cut: int) -> tuple[int, str, list[int]]:
        """Where the window of a cut begins in the master: token, sentinel text, sentinel ids."""
        if (group, cut) not in self._openings:
            self._openings[group, cut] = self._find_opening(group, cut)
        return self._openings[group, cut]

    def _find_opening(self, group: int, cut: int) -> tuple[int, str, list[int]]:
        if cut <= _FEWEST_TOKENS:
            return 0, self._frame.head_text, list(self._frame.head_ids)
        master = self._materials.masters[group]
        stops = master.stops.tolist()
        limit = stops[cut - _FEWEST_TOKENS - 1]
        places = [(match.start(), "q") for match in _JOINT.finditer(master.raw, 0, limit)]
        places += [(match.end(), "q\n") for match in _LINE.finditer(master.raw, 0, limit)]
        for place, sentinel in sorted(places, reverse=True):
            if place in stops:
                return stops.index(place) + 1, sentinel, self._materials.tokenizer.encode(sentinel)
        return 0, self._frame.head_text, list(self._frame.head_ids)

    def _head(self, unit: int) -> tuple[str, list[int]]:
        """The unit up to its first word joint, or to its end with what follows it."""
        if unit not in self._heads:
            self._heads[unit] = self._find_head(unit)
        return self._heads[unit]

    def _find_head(self, unit: int) -> tuple[str, list[int]]:
        units = self._materials.units
        raw, stops, ids = units.end_raw[unit], units.end_stops[unit].tolist(), units.ids[unit]
        for match in _JOINT.finditer(raw, _HEAD_BYTES):
            if match.start() in stops:
                return raw[: match.start()].decode(), ids[: stops.index(match.start()) + 1].tolist()
        return raw.decode(), units.end_ids[unit].tolist()


def unescaped(text: bytes) -> str:
    """Text of a JSON string without its quotes."""
    return str(json.loads(b'"' + text + b'"'))
