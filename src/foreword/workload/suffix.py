"""The private text after the divergence words: samples, without repetition unless asked, up to the exact token.

Where samples are drawn, the last one is one that has exactly the tokens left; where there is none, up to two samples
are undone and it is tried again; else, and always where samples are named, the last one is cut where text may stop and
words fill the rest (RFC 3.3.13; design: content, 3.4).
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

    from foreword.config.dataset import PrefixConfig, SuffixConfig, SuffixMode
    from foreword.errors import ConstructionError
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
class Picking:
    """How samples are chosen: ``names`` are those of the suffix in the order given, ``master_names`` of the masters.

    Without names all samples of a source may be used. ``repeat`` allows a sample to stand in one suffix again;
    ``dealt`` gives each request samples of its own, as long as the text lasts, for prompts that must be alike nowhere.
    """

    mode: SuffixMode = "concat"
    names: tuple[str, ...] = ()
    repeat: bool = False
    master_names: tuple[str, ...] = ()
    dealt: bool = False

    @classmethod
    def of(cls, suffix: SuffixConfig, prefix: PrefixConfig | None = None) -> Picking:
        """As a config says."""
        masters = () if prefix is None else prefix.samples
        return cls(suffix.mode, suffix.samples, suffix.repeat_samples, masters, suffix.matched_anywhere)


ANY_SAMPLE = Picking()


@dataclass(frozen=True, slots=True)
class SuffixPool:
    """Units that suffixes may use: ``first`` begin each of them, then come those of ``order``.

    ``order`` is walked by keyed steps, or where there is a ``stride``, each request begins so many units behind the one
    before it and goes on from there. ``lengths`` are those of all units; ``by_length`` finds the end units of exactly
    n tokens among those of keyed walks.
    """

    order: IntArray
    lengths: IntArray
    by_length: dict[int, list[int]]
    key: int
    first: tuple[int, ...] = ()
    stride: int | None = None
    repeat: bool = False

    def __len__(self) -> int:
        """Number of units in ``order``."""
        return len(self.order)

    @property
    def tokens(self) -> int:
        """Tokens of all its units."""
        return int(self.lengths[self.order].sum() + self.lengths[list(self.first)].sum())


def suffix_pool(
    units: Units,
    excluded: frozenset[int],
    *,
    seed_key: int,
    picking: Picking = ANY_SAMPLE,
    named: tuple[int, ...] = (),
    longest: int = 0,
) -> SuffixPool | None:
    """The units that are not excluded, or the named ones; None if there is none.

    ``longest`` are the tokens of the longest suffix, by which samples are dealt.
    """
    lengths = units.lengths
    match picking.mode:
        case "concat" | "named_then_random":
            everything = permutation(draw_key("suffix order", seed_key), len(units))
            kept = _without(everything, excluded | frozenset(named))
            found = SuffixPool(kept, lengths, _by_length(units, kept), seed_key, named, repeat=picking.repeat)
            if picking.dealt and len(kept):
                stride = 2 + int(longest / float(lengths[kept].mean()))
                found = SuffixPool(kept, lengths, {}, seed_key, named, stride, picking.repeat)
        case "named":
            order = np.array(named, dtype=np.int64)
            found = SuffixPool(order, lengths, {}, seed_key, stride=0, repeat=picking.repeat)
        case "cycle":
            order = np.array(named, dtype=np.int64) if named else _without(np.arange(len(units)), excluded)
            found = SuffixPool(order, lengths, {}, seed_key, stride=1, repeat=picking.repeat)
    return found if len(found) else None


def _without(places: IntArray, excluded: frozenset[int]) -> IntArray:
    outside = np.array([place not in excluded for place in places.tolist()], dtype=bool)
    kept: IntArray = places[outside]
    return kept


def _by_length(units: Units, places: IntArray) -> dict[int, list[int]]:
    buckets: dict[int, list[int]] = defaultdict(list)
    for place in places.tolist():
        buckets[int(units.end_lengths[place])].append(place)
    return dict(buckets)


def plan_endings(
    pool: SuffixPool,
    numbers: IntArray,
    *,
    rooms: IntArray,
    retry: int,
    cut_of: Callable[[int, int], int],
) -> list[Ending]:
    """Samples for suffixes of exactly ``rooms`` tokens each; ``cut_of(unit, most)`` is the longest good cut."""
    order, cumulative = _walks(pool, numbers, int(rooms.max(initial=0)), retry=retry)
    whole = (cumulative <= rooms[:, None]).sum(axis=1)
    salts = keyed(draw_key("ending", pool.key, retry), numbers)
    endings = []
    for row, room in enumerate(rooms.tolist()):
        walk = order[row]
        sums = cumulative[row]
        endings.append(_ending(pool, walk, sums, (int(whole[row]), room, int(salts[row])), cut_of))
    return endings


def _walks(pool: SuffixPool, numbers: IntArray, most: int, *, retry: int) -> tuple[IntArray, IntArray]:
    """For each request its walk over the pool, and the tokens after each step; long enough for ``most`` tokens."""
    count = len(pool)
    starts, steps = _paths(pool, numbers, retry)
    first = np.broadcast_to(np.array(pool.first, dtype=np.int64), (len(numbers), len(pool.first)))
    longest = np.iinfo(np.int64).max if pool.repeat else count
    columns = min(longest, 2 + int(_GROW * most / max(1.0, float(pool.lengths[pool.order].mean()))))
    while True:
        places = (starts + steps * np.arange(columns, dtype=np.int64)) % count
        walks = np.concatenate((first, pool.order[places]), axis=1)
        cumulative = np.cumsum(pool.lengths[walks], axis=1)
        if columns == longest or bool((cumulative[:, -1] > most).all()):
            return walks, cumulative
        columns = min(longest, 2 * columns)


def _paths(pool: SuffixPool, numbers: IntArray, retry: int) -> tuple[IntArray, IntArray]:
    """Where each request's walk over ``order`` begins, and its step; columns."""
    count = len(pool)
    if pool.stride is not None:
        again = draw_key("suffix again", pool.key, retry) % count if retry and pool.stride > 1 else 0
        starts = ((numbers * pool.stride + again) % count)[:, None]
        return starts, np.ones_like(starts)
    paces = np.array([coprime_step(count, "suffix step", pool.key, pace) for pace in range(_PACES)], dtype=np.int64)
    starts = drawn(draw_key("suffix start", pool.key, retry), numbers, limit=count)[:, None]
    return starts, paces[drawn(draw_key("suffix pace", pool.key, retry), numbers, limit=_PACES)][:, None]


def _ending(
    pool: SuffixPool,
    walk: IntArray,
    sums: IntArray,
    facts: tuple[int, int, int],
    cut_of: Callable[[int, int], int],
) -> Ending:
    """Close one suffix; ``facts`` are its whole units, its tokens, and its salt."""
    whole, room, salt = facts
    for kept in range(whole, max(len(pool.first) - 1, whole - _UNDO - 1), -1):
        left = room - (int(sums[kept - 1]) if kept else 0)
        candidates = pool.by_length.get(left)
        if candidates:
            units = walk[:kept].tolist()
            end = _unused(candidates, units, salt)
            if end is not None:
                return Ending(units, end, left, 0)
    if whole >= len(walk):
        raise _used_up(pool, int(sums[-1]), room)
    return _cut_ending(walk, sums, (whole, room), cut_of)


def _used_up(pool: SuffixPool, tokens: int, room: int) -> ConstructionError:
    if pool.stride is None or pool.stride > 1:
        what = (
            f"the {tokens} tokens that a prefix leaves of the text do not fill a suffix of {room} tokens "
            "without a repetition"
        )
        return too_small(what, field="suffix.source")
    return too_small(
        f"the samples to choose from ({len(pool)}) have {tokens} tokens, a suffix needs {room}",
        field="suffix.samples",
        advice="name more samples, set suffix.mode: named_then_random, or let them repeat with "
        "suffix.repeat_samples: true",
    )


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
    for kept in range(whole, -1, -1):
        left = room - (int(sums[kept - 1]) if kept else 0)
        end = int(walk[kept])
        cut = cut_of(end, left)
        if cut:
            return Ending(walk[:kept].tolist(), end, cut, left - cut)
    return Ending([], NO_SAMPLE, 0, room)
