"""The theory by brute force: real token blocks, and random sets of prompts to serve with them.

Nothing here calls the code under test but to hold its inputs: prompts are built token by token, and the cache is a
tree of token tuples.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from foreword.terms import IntArray, Shape
from foreword.workload.plan import Aim, Prompts

if TYPE_CHECKING:
    from collections.abc import Sequence

_MASTER, _OWN, _TAIL = 1_000_000, 1_000_000_000, 500_000


def at_least(examples: int) -> settings:
    """This many examples, or as many as the hypothesis profile asks for if that is more."""
    return settings(max_examples=max(examples, settings.default.max_examples if settings.default else 0))


def prompt_tokens(prompts: Prompts, index: int, prefix_len: int) -> list[int]:
    """The prompt as an engine sees it: head, master up to ``prefix_len``, tokens of its own, tail."""
    head, tail = prompts.head_len, prompts.tail_len
    tokens = list(range(head))
    first = _MASTER * (int(prompts.group[index]) + 1)
    tokens += range(first + head, first + max(prefix_len, head))
    own = int(prompts.input_len[index]) - tail - len(tokens)
    assert own >= 1, "every prompt has a token of its own"
    start = _OWN + _MASTER * index
    return [*tokens, *range(start, start + own), *range(_TAIL, _TAIL + tail)]


class TokenCache:
    """An unbounded prefix cache of one domain; a block is its tokens below its parent block."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self._nodes: dict[tuple[int, tuple[int, ...]], int] = {}

    def serve(self, tokens: Sequence[int]) -> int:
        """Hit tokens of a prompt (its last token is always computed); then its full blocks are cached."""
        parent, hit, matching = 0, 0, True
        for end in range(self.block_size, len(tokens) + 1, self.block_size):
            key = (parent, tuple(tokens[end - self.block_size : end]))
            matching = matching and key in self._nodes and end < len(tokens)
            hit = end if matching else hit
            parent = self._nodes.setdefault(key, len(self._nodes) + 1)
        return hit


def served(prompts: Prompts, prefix_len: Sequence[int] | IntArray, order: Sequence[int] | IntArray) -> IntArray:
    """Hit tokens of each request, in generation order, when real prompts are served one after another from cold."""
    caches: dict[int, TokenCache] = {}
    hits = np.zeros(len(prompts.input_len), dtype=np.int64)
    for index in map(int, order):
        cache = caches.setdefault(int(prompts.domain[index]), TokenCache(prompts.block_size))
        hits[index] = cache.serve(prompt_tokens(prompts, index, int(prefix_len[index])))
    return hits


def maxima(prompts: Prompts) -> list[int]:
    """``M`` of each request, from the theory's table."""
    private = max(prompts.minimum_non_shared, prompts.tail_len + 1)
    trunk = prompts.head_len - prompts.head_len % prompts.block_size
    return [max((int(size) - private) // prompts.block_size * prompts.block_size, trunk) for size in prompts.input_len]


def hits_of(
    prompts: Prompts, prefix_len: Sequence[int] | IntArray, order: Sequence[int] | IntArray, *, warm: bool
) -> IntArray:
    """Hits of a pass: by replay from cold, or the whole planned prefix where lanes are warm."""
    return np.asarray(prefix_len, dtype=np.int64) if warm else served(prompts, prefix_len, order)


def bounds_of(prompts: Prompts, order: Sequence[int] | IntArray, *, warm: bool) -> tuple[IntArray, int, int]:
    """Hits of the lowest plan by request, and the lowest and highest total."""
    trunk = prompts.head_len - prompts.head_len % prompts.block_size
    lowest = hits_of(prompts, [trunk] * len(prompts.input_len), order, warm=warm)
    highest = hits_of(prompts, maxima(prompts), order, warm=warm)
    return lowest, int(lowest.sum()), int(highest.sum())


def group_bounds(prompts: Prompts, lowest: IntArray, group: int, *, warm: bool) -> tuple[int, int]:
    """Fewest and most hit tokens of one group's requests, given what the trunk alone gives them."""
    mine = prompts.group == group
    trunk = prompts.head_len - prompts.head_len % prompts.block_size
    above = np.asarray(maxima(prompts)) - trunk
    floor = int(lowest[mine].sum())
    lanes = [above[mine & (prompts.lane == lane)] for lane in set(prompts.lane[mine].tolist())]
    return floor, floor + sum(int(lane.sum()) - (0 if warm else int(lane.max())) for lane in lanes)


def miss(got: int, goal: Fraction, bounds: tuple[int, int]) -> Fraction:
    """Distance of a total from the nearest one that bounds allow to ask for."""
    low, high = bounds
    return abs(got - min(max(goal, Fraction(low)), Fraction(high)))


@st.composite
def prompt_sets(draw: st.DrawFn, most: int = 14) -> tuple[Prompts, IntArray]:
    """Prompts with a head, a tail and a private part around the block's size, in lanes; and a send order."""
    block = draw(st.sampled_from([1, 2, 3, 4, 7, 16]))
    around = st.sampled_from(sorted({0, 1, block - 1, block, block + 1, 2 * block + 1}))
    head, tail, private = draw(around), draw(st.sampled_from([0, 0, 1, 3])), draw(around)
    n = draw(st.integers(1, most))
    room = draw(st.sampled_from([0, 3, 4 * block, 13 * block]))
    extra = [draw(st.integers(0, room))] * n if draw(st.booleans()) else draw(_ints(n, room))
    groups, domains = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    group = np.asarray(draw(_ints(n, groups - 1)), dtype=np.int64)
    domain = group % domains if draw(st.booleans()) else np.asarray(draw(_ints(n, domains - 1)), dtype=np.int64)
    lengths = np.asarray(extra, dtype=np.int64) + head + tail + 1
    prompts = Prompts(lengths, group, domain * groups + group, domain, block, private, head, tail)
    return prompts, np.asarray(draw(st.permutations(range(n))), dtype=np.int64)


def _ints(n: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, high), min_size=n, max_size=n)


ratios = st.one_of(
    st.integers(0, 1000).map(lambda thousandths: Fraction(thousandths, 1000)),
    st.floats(0, 1).map(lambda ratio: Fraction(str(ratio))),
    st.sampled_from([Fraction(0), Fraction(1), Fraction(1, 2), Fraction("0.3333333333333333")]),
)


@st.composite
def aims(draw: st.DrawFn, prompts: Prompts) -> Aim:
    """Anything an exact plan can be asked for."""
    per_group = draw(st.booleans())
    count = int(prompts.group.max()) + 1 if per_group else 1
    return Aim(
        targets=tuple(draw(ratios) for _ in range(count)),
        per_group=per_group,
        warm=draw(st.booleans()),
        shape=draw(st.sampled_from(list(Shape))),
        max_iterations=draw(st.sampled_from([1, 2, 7, 1000])),
    )


def goals(prompts: Prompts, aim: Aim) -> list[tuple[int | None, Fraction]]:
    """Wanted hit tokens, exactly: of the whole set (``None``), or of each group that has requests."""
    if not aim.per_group:
        return [(None, aim.targets[0] * int(prompts.input_len.sum()))]
    present = sorted(set(prompts.group.tolist()))
    return [(group, aim.targets[group] * int(prompts.input_len[prompts.group == group].sum())) for group in present]
