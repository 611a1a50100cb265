"""Reachability: what a set of prompts can give at least and at most, and what would give more (Law 2; RFC 3.3.6).

Every suggestion is computed on the prompts at hand and checked before it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache import watermark
from foreword.workload.plan import most_shared, trunk_hits

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.terms import IntArray
    from foreword.workload.plan import Aim, Prompts

_MOST_REQUESTS = 4_000_000
_SAME_PERCENT, _LONGEST_PERCENT = 100, 6400


@dataclass(frozen=True, slots=True)
class Reach:
    """Fewest and most hit tokens of any plan, over the prompts' tokens."""

    floor_tokens: int
    ceiling_tokens: int
    input_tokens: int

    @property
    def floor(self) -> Fraction:
        """Lowest hit ratio: what the head alone gives."""
        return Fraction(self.floor_tokens, self.input_tokens)

    @property
    def ceiling(self) -> Fraction:
        """Highest hit ratio for these lanes."""
        return Fraction(self.ceiling_tokens, self.input_tokens)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that makes a target reachable, and the ceiling that it gives."""

    field: str
    text: str
    ceiling: float


def reach_of(prompts: Prompts, *, warm: bool, nested: bool = True) -> Reach:
    """Floor and ceiling of a cold pass, or of one over warmed lanes."""
    lowest = np.full_like(prompts.input_len, prompts.trunk_len)
    most = most_shared(prompts, nested=nested)
    floor, ceiling = (_total(prompts, prefix, warm=warm) for prefix in (lowest, most))
    return Reach(floor, ceiling, int(prompts.input_len.sum()))


def group_reaches(prompts: Prompts, groups: int, *, order: IntArray, aim: Aim) -> list[Reach | None]:
    """Floor and ceiling of each group in this send order; ``None`` for a group without requests.

    Of a cold domain's trunk, only the group that sends first pays.
    """
    above = most_shared(prompts, nested=aim.nested) - prompts.trunk_len
    floors, tokens, gains = (np.zeros(groups, dtype=np.int64) for _ in range(3))
    trunk = trunk_hits(prompts, order, warm=aim.warm)
    floors[: len(trunk)] = trunk
    np.add.at(tokens, prompts.group, prompts.input_len)
    np.add.at(gains, prompts.group, above)
    if not aim.warm:
        lanes, first = np.unique(prompts.lane, return_index=True)
        best = np.zeros(int(prompts.lane.max()) + 1, dtype=np.int64)
        np.maximum.at(best, prompts.lane, above)
        np.subtract.at(gains, prompts.group[first], best[lanes])
    rows = zip(floors.tolist(), gains.tolist(), tokens.tolist(), strict=True)
    return [Reach(floor, floor + gain, count) if count else None for floor, gain, count in rows]


def suggestions(prompts: Prompts, target: Fraction, *, aim: Aim) -> list[Suggestion]:
    """Changes that would make an unreachable target reachable, the least intrusive of each kind."""
    search = _Search(prompts, target, warm=aim.warm, nested=aim.nested)
    found = [search.more_requests(), search.fewer_groups(), search.one_domain(), search.shorter_private()]
    found += [search.equal_lengths(), search.longer(), search.smaller_blocks(), search.warmed()]
    return [suggestion for suggestion in found if suggestion is not None]


def _total(prompts: Prompts, prefix_len: IntArray, *, warm: bool) -> int:
    if warm:
        return int(prefix_len.sum())
    return watermark.cold_total(prefix_len, prompts.lane, domain=prompts.domain, trunk_len=prompts.trunk_len)


@dataclass(frozen=True, slots=True)
class _Search:
    prompts: Prompts
    target: Fraction
    warm: bool
    nested: bool

    def more_requests(self) -> Suggestion | None:
        """Fewest requests with this mix of lengths and groups, to two significant digits."""
        if self.warm or reach_of(self.prompts, warm=True, nested=self.nested).ceiling < self.target:
            return None
        n = len(self.prompts.input_len)
        count = n
        while count < _MOST_REQUESTS and not self._reaches(self._repeated(count)):
            count *= 2
        count = min(count, _MOST_REQUESTS)
        if not self._reaches(self._repeated(count)):
            return None
        count = _smallest(n, count, lambda size: self._reaches(self._repeated(size)))
        count = _rounded_up(count)
        return self._suggestion("request_count", f"from {count:,} requests on", self._repeated(count))

    def fewer_groups(self) -> Suggestion | None:
        """Most groups that still reach the target."""
        groups = int(self.prompts.group.max()) + 1
        if self.warm or groups == 1 or not self._reaches(self._regrouped(1)):
            return None
        fewest_cut = _smallest(1, groups - 1, lambda cut: self._reaches(self._regrouped(groups - cut)))
        count = groups - fewest_cut
        noun = "group" if count == 1 else "groups"
        return self._suggestion("prefix.groups", f"with {count:,} {noun}", self._regrouped(count))

    def one_domain(self) -> Suggestion | None:
        """One cache that all ranks see."""
        if int(self.prompts.domain.max()) == 0 or self.warm:
            return None
        shared = replace(self.prompts, domain=np.zeros_like(self.prompts.domain), lane=self.prompts.group)
        return self._suggestion("routing.cache_scope", "with one cache for all ranks", shared)

    def shorter_private(self) -> Suggestion | None:
        """Largest private part that still reaches the target."""
        longest = self.prompts.private_len
        shortest = self.prompts.tail_len + 1
        if longest <= shortest or not self._reaches(self._private(shortest)):
            return None
        cut = _smallest(1, longest - shortest, lambda by: self._reaches(self._private(longest - by)))
        text = f"with minimum_non_shared_length {longest - cut}"
        return self._suggestion("prefix.minimum_non_shared_length", text, self._private(longest - cut))

    def equal_lengths(self) -> Suggestion | None:
        """All prompts of the mean length: the narrowest spread."""
        lengths = self.prompts.input_len
        mean = max(int(lengths.sum()) // len(lengths), self.prompts.shortest)
        if self.warm or (lengths == mean).all():
            return None
        equal = replace(self.prompts, input_len=np.full_like(lengths, mean))
        return self._suggestion("input_length", f"with all prompts {mean:,} tokens long", equal)

    def longer(self) -> Suggestion | None:
        """Smallest factor on all lengths, in percent, that reaches the target."""
        if self._reaches(self.prompts) or not self._reaches(self._scaled(_LONGEST_PERCENT)):
            return None
        percent = _smallest(_SAME_PERCENT, _LONGEST_PERCENT, lambda factor: self._reaches(self._scaled(factor)))
        lengths = self._scaled(percent).input_len
        mean = int(lengths.sum()) // len(lengths)
        same = int(lengths.min()) == int(lengths.max())
        text = f"with prompts of {mean:,} tokens" if same else f"with prompts {percent / 100:g} times as long"
        return self._suggestion("input_length", text, self._scaled(percent))

    def smaller_blocks(self) -> Suggestion | None:
        """Largest half, quarter, ... of the block size that reaches the target."""
        size = self.prompts.block_size // 2
        while size >= 1 and not self._reaches(self._in_blocks(size)):
            size //= 2
        if size < 1:
            return None
        return self._suggestion("block_size", f"with block_size {size}, if the engine can", self._in_blocks(size))

    def warmed(self) -> Suggestion | None:
        """A warm-up before the measured pass."""
        if self.warm:
            return None
        ceiling = reach_of(self.prompts, warm=True, nested=self.nested).ceiling
        text = "warmed (target.semantics: static_prefix_ratio)"
        return Suggestion("target.semantics", text, float(ceiling)) if ceiling >= self.target else None

    def _suggestion(self, field: str, text: str, prompts: Prompts) -> Suggestion | None:
        ceiling = self._ceiling(prompts)
        return Suggestion(field, text, float(ceiling)) if ceiling >= self.target else None

    def _reaches(self, prompts: Prompts) -> bool:
        return self._ceiling(prompts) >= self.target

    def _ceiling(self, prompts: Prompts) -> Fraction:
        return reach_of(prompts, warm=self.warm, nested=self.nested).ceiling

    def _repeated(self, count: int) -> Prompts:
        index = np.arange(count) % len(self.prompts.input_len)
        taken = {name: getattr(self.prompts, name)[index] for name in ("input_len", "group", "lane", "domain")}
        return replace(self.prompts, **taken)

    def _regrouped(self, count: int) -> Prompts:
        group = self.prompts.group % count
        return replace(self.prompts, group=group, lane=self.prompts.domain * count + group)

    def _scaled(self, percent: int) -> Prompts:
        return replace(self.prompts, input_len=self.prompts.input_len * percent // 100)

    def _in_blocks(self, size: int) -> Prompts:
        """The same prompts in smaller blocks; a private part of one block shrinks with them."""
        private = self.prompts.minimum_non_shared
        kept = size if private == self.prompts.block_size else private
        return replace(self.prompts, block_size=size, minimum_non_shared=kept)

    def _private(self, tokens: int) -> Prompts:
        return replace(self.prompts, minimum_non_shared=tokens)


def _smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Smallest integer of ``[low, high]`` that holds, where ``high`` does and truth grows with the integer."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _rounded_up(count: int) -> int:
    unit: int = 10 ** max(0, len(str(count)) - 2)
    return -(-count // unit) * unit
