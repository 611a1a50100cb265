"""The private text after the divergence words: samples without repetition, ending at the exact token.

The last sample is one that has exactly the tokens left; where there is none, up to two samples are undone and it is
tried again; else a sample is cut where text may stop and words fill the rest (design: content, 3.4).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foreword.terms import draw_key, permutation
from foreword.workload.draws import coprime_step, drawn, keyed
from foreword.workload.units import too_small

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foreword.terms import IntArray
    from foreword.workload.units import Units

SHORTEST_TEXT = 5
NO_SAMPLE = -1
_UNDO = 2
_GROW = 1.3
_PACES = 64


class Ending(NamedTuple):
    """The suffix of one prompt: whole units, then an end unit or the first ``cut`` tokens of one, then words.

    With ``end`` NO_SAMPLE there is no sample, and no separator either: words fill the room of both.
    """

    units: list[int]
    end: int
    cut: int
    fillers: int


@dataclass(frozen=True, slots=True)
class SuffixPool:
    """Units that a suffix may use, in keyed order; ``by_length`` finds the end units of exactly n tokens."""

    order: IntArray
    lengths: IntArray
    by_length: dict[int, list[int]]
    key: int

    def __len__(self) -> int:
        """Number of units."""
        return len(self.order)


def suffix_pool(units: Units, excluded: frozenset[int], *, seed_key: int) -> SuffixPool | None:
    """The units that are not excluded; None if there is none."""
    everything = permutation(draw_key("suffix order", seed_key), len(units))
    outside = np.array([place not in excluded for place in everything.tolist()], dtype=bool)
    kept = everything[outside]
    if not len(kept):
        return None
    buckets: dict[int, list[int]] = defaultdict(list)
    for place in kept.tolist():
        buckets[int(units.end_lengths[place])].append(place)
    return SuffixPool(kept, units.lengths[kept], dict(buckets), seed_key)


def plan_endings(
    pool: SuffixPool,
    numbers: IntArray,
    *,
    rooms: IntArray,
    retry: int,
    cut_of: Callable[[int, int], int],
) -> list[Ending]:
    """Samples for suffixes of exactly ``rooms`` tokens each; ``cut_of(unit, most)`` is the longest good cut."""
    order, cumulative = _walks(pool, numbers, int(rooms.max(initial=0)), retry)
    whole = (cumulative <= rooms[:, None]).sum(axis=1)
    salts = keyed(draw_key("ending", pool.key, retry), numbers)
    endings = []
    for row, room in enumerate(rooms.tolist()):
        walk = order[row]
        sums = cumulative[row]
        endings.append(_ending(pool, walk, sums, (int(whole[row]), room, int(salts[row])), cut_of))
    return endings


def _walks(pool: SuffixPool, numbers: IntArray, most: int, retry: int) -> tuple[IntArray, IntArray]:
    """For each request its walk over the pool, and the tokens after each step; long enough for ``most`` tokens."""
    count = len(pool)
    paces = np.array([coprime_step(count, "suffix step", pool.key, pace) for pace in range(_PACES)], dtype=np.int64)
    starts = drawn(draw_key("suffix start", pool.key, retry), numbers, limit=count)[:, None]
    steps = paces[drawn(draw_key("suffix pace", pool.key, retry), numbers, limit=_PACES)][:, None]
    columns = min(count, 2 + int(_GROW * most / max(1.0, float(pool.lengths.mean()))))
    while True:
        places = (starts + steps * np.arange(columns, dtype=np.int64)) % count
        cumulative = np.cumsum(pool.lengths[places], axis=1)
        if columns == count or bool((cumulative[:, -1] > most).all()):
            return pool.order[places], cumulative
        columns = min(count, 2 * columns)


def _ending(
    pool: SuffixPool,
    walk: IntArray,
    sums: IntArray,
    facts: tuple[int, int, int],
    cut_of: Callable[[int, int], int],
) -> Ending:
    """Close one suffix; ``facts`` are its whole units, its tokens, and its salt."""
    whole, room, salt = facts
    for kept in range(whole, max(-1, whole - _UNDO - 1), -1):
        left = room - (int(sums[kept - 1]) if kept else 0)
        candidates = pool.by_length.get(left)
        if candidates:
            units = walk[:kept].tolist()
            end = _unused(candidates, units, salt)
            if end is not None:
                return Ending(units, end, left, 0)
    return _cut_ending(walk, sums, (whole, room), cut_of)


def _unused(candidates: Sequence[int], units: Sequence[int], salt: int) -> int | None:
    """A candidate that the prompt does not hold yet, by keyed start."""
    used = set(units)
    count = len(candidates)
    for offset in range(min(count, len(used) + 1)):
        end = candidates[(salt + offset) % count]
        if end not in used:
            return end
    return None


def _cut_ending(walk: IntArray, sums: IntArray, facts: tuple[int, int], cut_of: Callable[[int, int], int]) -> Ending:
    whole, room = facts
    if whole >= len(walk):
        raise too_small(
            f"the {int(sums[-1])} tokens that a prefix leaves of the text do not fill a suffix of {room} tokens "
            "without a repetition",
            field="suffix.source",
        )
    for kept in range(whole, -1, -1):
        left = room - (int(sums[kept - 1]) if kept else 0)
        end = int(walk[kept])
        cut = cut_of(end, left)
        if cut:
            return Ending(walk[:kept].tolist(), end, cut, left - cut)
    return Ending([], NO_SAMPLE, 0, room)
