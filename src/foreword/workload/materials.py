"""Everything that prompts are joined from: words, start words, masters, samples and the separator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreword.workload.escaping import escaped
from foreword.workload.joints import NEXT_SAMPLE
from foreword.workload.suffix import NO_SAMPLE, suffix_pool
from foreword.workload.units import too_small

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foreword.terms import IntArray
    from foreword.workload.joints import CutTester, Separator
    from foreword.workload.masters import Master
    from foreword.workload.suffix import Ending, Picking, SuffixPool
    from foreword.workload.tokens import TokenizerProtocol
    from foreword.workload.units import Units
    from foreword.workload.vocabulary import Words

_MOST_POOLS = 64


class Draft(NamedTuple):
    """What one prompt is made of, as places.

    ``cut`` content tokens of the group's master, divergence ``words`` (the first one a start word where ``cut`` is 0),
    a ``marker`` (words of a short line of its own, for prompts that failed without one), samples and their ending, and
    words that fill it up.
    """

    group: int
    cut: int
    words: list[int]
    ending: Ending
    fillers: list[int]
    marker: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Materials:
    """Pieces with known ids; ``starts`` are the start words that begin no master.

    ``common`` holds the samples outside all masters, if they are enough for every suffix, or those that the suffix
    config names (``named``). ``same_text`` says that masters and suffixes are made of the same samples;
    ``prefix_names`` are the names of those of masters. ``longest`` are the tokens of the longest suffix.
    """

    tokenizer: TokenizerProtocol
    words: Words
    starts: Words
    masters: tuple[Master, ...]
    units: Units
    common: SuffixPool | None
    same_text: bool
    prefix_names: tuple[str, ...]
    named: tuple[int, ...]
    picking: Picking
    longest: int
    seed_key: int
    separator: Separator
    separator_text: bytes
    separator_ids: IntArray
    cuts: CutTester | None
    proved_by_rule: bool
    diagnostics: Mapping[str, object]
    warnings: tuple[str, ...]
    _pools: dict[frozenset[int], SuffixPool] = field(default_factory=dict)
    _longest: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def marker_text(self) -> bytes:
        """How a marker begins: as a sample does."""
        return escaped((self.separator.right + NEXT_SAMPLE).encode()) if self.cuts else b""

    @property
    def marker_ids(self) -> IntArray:
        """Ids of the beginning of a marker."""
        return np.array(self.separator.next_sample, dtype=np.int64)

    def pool_of(self, group: int, cut: int) -> SuffixPool:
        """Samples for the suffix of a prompt with this shared text: none that stands in it."""
        if self.common is not None:
            return self.common
        held = self.masters[group].held(cut) if self.same_text else frozenset()
        if held not in self._pools:
            pool = suffix_pool(
                self.units, held, seed_key=self.seed_key, picking=self.picking, named=self.named, longest=self.longest
            )
            if pool is None:
                raise too_small(f"a prefix of {cut} tokens holds all samples of the text", field="suffix.source")
            if len(self._pools) >= _MOST_POOLS:
                self._pools.clear()
            self._pools[held] = pool
        return self._pools[held]

    def longest_cut(self, unit: int, most: int) -> int:
        """Most tokens of an end unit, up to ``most``, after which text may stop or go on with a word; 0 if none."""
        if (unit, most) not in self._longest:
            self._longest[unit, most] = self._find_cut(unit, most)
        return self._longest[unit, most]

    def _find_cut(self, unit: int, most: int) -> int:
        ids, stops, raw = self.units.end_ids[unit], self.units.end_stops[unit], self.units.end_raw[unit]
        longest = min(most, len(ids))
        if self.cuts is None:
            return longest
        context, before = self.separator.opening, self.separator.before
        for count in range(longest, 0, -1):
            if self.cuts.good(context, before, cuts=[(raw[: int(stops[count - 1])], ids, count)])[0]:
                return count
        return 0

    def cut_end(self, ending: Ending) -> tuple[bytes, IntArray]:
        """Plain text and ids of the last sample of an ending, as far as it is used."""
        units = self.units
        stop = int(units.end_stops[ending.end][ending.cut - 1])
        return units.end_raw[ending.end][:stop], units.end_ids[ending.end][: ending.cut]

    def pieces_of(self, draft: Draft) -> tuple[list[bytes], list[IntArray]]:
        """Escaped texts and ids of a prompt, in order."""
        master = self.masters[draft.group]
        texts: list[bytes] = []
        ids: list[IntArray] = []
        words = draft.words
        if draft.cut:
            texts.append(master.text[: int(master.text_stops[draft.cut - 1])])
            ids.append(master.ids[: draft.cut])
        elif words:
            texts.append(self.starts.texts[words[0]])
            ids.append(self.starts.ids[words[:1]])
            words = words[1:]
        texts += [self.words.texts[place] for place in words]
        ids.append(self.words.ids[words])
        if draft.marker:
            texts += [self.separator_text, self.marker_text, *(self.words.texts[place] for place in draft.marker)]
            ids += [self.separator_ids, self.marker_ids, self.words.ids[list(draft.marker)]]
        self._add_ending(draft.ending, texts, ids)
        texts += [self.words.texts[place] for place in draft.fillers]
        ids.append(self.words.ids[draft.fillers])
        return texts, ids

    def samples_of(self, draft: Draft) -> tuple[str, ...]:
        """Names of the samples in a prompt's suffix, in order; of the last one the beginning may be used alone."""
        ending, names = draft.ending, self.units.names
        if ending.end == NO_SAMPLE:
            return ()
        return (*(names[place] for place in ending.units), names[ending.end])

    def _add_ending(self, ending: Ending, texts: list[bytes], ids: list[IntArray]) -> None:
        if ending.end == NO_SAMPLE:
            return
        units, end = self.units, ending.end
        texts.append(self.separator_text)
        ids.append(self.separator_ids)
        texts += [units.texts[place] for place in ending.units]
        ids += [units.ids[place] for place in ending.units]
        whole = ending.cut == len(units.end_ids[end])
        texts.append(units.end_texts[end] if whole else escaped(self.cut_end(ending)[0]))
        ids.append(units.end_ids[end] if whole else units.end_ids[end][: ending.cut])
