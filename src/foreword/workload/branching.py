"""Spreading planned prefixes where single tokens are matched (X16; theory section 3).

A request leaves its master with a first token that no sibling has, so only so many requests can leave at one place as
the tokenizer has words for it. Where a plan asks for more, pairs of requests move away from the place, one to either
side by the same distance: the sum of prefixes stays, and with it the planned total. The longest prefix of a cold lane
is raised for that; it is paid for by its own request, so it changes no total either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from foreword.terms import IntArray
    from foreword.workload.plan import Prompts


def spread(prompts: Prompts, prefix_len: IntArray, *, branches: int, warm: bool) -> IntArray:
    """Prefixes of which at most ``branches`` of a group are equal, as far as room allows; the planned total stays.

    Prefixes that share no content stay as they are. Blocks are single tokens.
    """
    spread_len = prefix_len.copy()
    most = prompts.max_prefix_len
    for group in np.unique(prompts.group).tolist():
        members = np.flatnonzero(prompts.group == group)
        levels, counts = np.unique(spread_len[members], return_counts=True)
        crowded = levels[(counts > branches) & (levels > prompts.head_len)]
        if not len(crowded):
            continue
        _Group(prompts.head_len, members, spread_len, most, branches).spread(crowded, prompts.lane, warm=warm)
    return spread_len


class _Group:
    """One group's requests while they are moved; ``prefix_len`` is changed in place."""

    def __init__(self, floor: int, members: IntArray, prefix_len: IntArray, most: IntArray, branches: int) -> None:
        self._floor = floor
        self._members = members
        self._prefix_len = prefix_len
        self._most = most
        self._branches = branches

    def spread(self, crowded: IntArray, lane: IntArray, *, warm: bool) -> None:
        """Empty the crowded places, the fullest first; on cold lanes under a top that is as high as it can be."""
        counts = np.bincount(self._prefix_len[self._members])
        order = crowded[np.argsort(-counts[crowded], kind="stable")].tolist()
        reach = len(self._members) // max(1, self._branches) + 1
        tops = np.zeros(0, np.int64) if warm else self._raise_tops(lane, reach)
        movable = np.setdiff1d(self._members, tops)
        ceiling = int(self._most[self._members].max()) if warm else self._lowest_top(lane)
        for level in order:
            self._empty(level, movable, ceiling)

    def _raise_tops(self, lane: IntArray, reach: int) -> IntArray:
        """Raise the longest prefix of each lane by as much as pairs may need, which is free, and leave it there."""
        tops = []
        for one in np.unique(lane[self._members]).tolist():
            own = self._members[lane[self._members] == one]
            longest = own[self._prefix_len[own] == self._prefix_len[own].max()]
            top = int(longest[np.argmax(self._most[longest])])
            self._prefix_len[top] = min(self._most[top], self._prefix_len[top] + reach)
            tops.append(top)
        return np.array(tops, dtype=np.int64)

    def _lowest_top(self, lane: IntArray) -> int:
        lanes = lane[self._members]
        return min(int(self._prefix_len[self._members[lanes == one]].max()) for one in np.unique(lanes).tolist())

    def _empty(self, level: int, movable: IntArray, ceiling: int) -> None:
        """Move pairs from a place to the nearest places on either side that have room."""
        here = movable[self._prefix_len[movable] == level]
        here = here[np.argsort(-self._most[here], kind="stable")]
        first, last = 0, len(here)
        for distance in range(1, min(level - self._floor, ceiling - level + 1)):
            excess = self._count(level) - self._branches
            if excess <= 0 or last - first <= 1:
                return
            up, down = level + distance, level - distance
            fitting = int((self._most[here[first:last]] >= up).sum())
            room = self._branches - max(self._count(up), self._count(down))
            pairs = max(0, min(room, (excess + 1) // 2, fitting, (last - first) // 2))
            self._prefix_len[here[first : first + pairs]] = up
            self._prefix_len[here[last - pairs : last]] = down
            first, last = first + pairs, last - pairs

    def _count(self, level: int) -> int:
        return int((self._prefix_len[self._members] == level).sum())
