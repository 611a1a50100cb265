"""The planner: shared prefix lengths that meet a target exactly (theory section 2).

Everything is in engine space: lengths include the template and BOS. Symbols as in the theory: ``L`` input_len,
``P`` prefix_len, ``M`` max_prefix_len, ``B`` block_size, ``h0`` trunk_len. Inside the search, blocks count from the
trunk: ``P = h0 + B * blocks``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConfigError
from foreword.terms import IntArray, Semantics, Shape, TargetScope, request_id
from foreword.workload.branching import spread
from foreword.workload.staircase import Staircase, bisect, close

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foreword.config.dataset import TargetConfig

_LENGTH_BITS = 62
_RATIO_BITS = 40
_INT64_END = 2**63


@dataclass(frozen=True, slots=True)
class Prompts:
    """What the planner may share: lengths in generation order and where requests see each other's blocks.

    ``group``, ``lane`` and ``domain`` are indices; a lane belongs to one group and one domain.
    """

    input_len: IntArray
    group: IntArray
    lane: IntArray
    domain: IntArray
    block_size: int
    minimum_non_shared: int
    head_len: int = 0
    tail_len: int = 0

    @property
    def trunk_len(self) -> int:
        """Whole blocks of the head, shared by every request of a domain (``h0``)."""
        return self.head_len // self.block_size * self.block_size

    @property
    def private_len(self) -> int:
        """Tokens that stay private at the end of every prompt; one content token at least."""
        return max(self.minimum_non_shared, self.tail_len + 1)

    @property
    def max_prefix_len(self) -> IntArray:
        """Most tokens that each request may share (``M``)."""
        room = np.maximum(self.input_len - self.private_len, 0)
        shared: IntArray = np.maximum(room // self.block_size * self.block_size, self.trunk_len)
        return shared

    @property
    def shortest(self) -> int:
        """Fewest tokens that a prompt can have."""
        return self.head_len + self.tail_len + 1


@dataclass(frozen=True, slots=True)
class Aim:
    """What to plan for.

    ``targets`` has one ratio for each group, or a single one for the whole set. ``warm`` plans for lanes that hold
    their longest prefix already. ``branches``, for blocks of one token, are the requests of a group that
    may share the same prefix; others share a little more or less.
    """

    targets: tuple[Fraction, ...]
    per_group: bool
    warm: bool
    shape: Shape = Shape.PROPORTIONAL
    nested: bool = True
    calibrate: bool = True
    max_iterations: int = 1000
    branches: int | None = None


@dataclass(frozen=True, slots=True)
class PrefixPlan:
    """Planned prefix lengths and each group's budget of hit tokens, the trunk included."""

    prefix_len: IntArray
    group_target_hit_tokens: IntArray
    strategy: str


@dataclass(frozen=True, slots=True)
class _Cells:
    """Requests sorted by group and lane, and what was sorted."""

    order: IntArray
    stairs: Staircase
    cap: IntArray
    input_len: IntArray
    group: IntArray
    input_tokens: IntArray


def aim_of(target: TargetConfig, group_ids: Sequence[str]) -> Aim:
    """What a target asks of these groups; groups without one of their own inherit ``hit_ratio``."""
    per_group = target.scope is TargetScope.PER_GROUP
    own = {entry.id: entry.hit_ratio for entry in target.groups}
    ratios = [own.get(id_, target.hit_ratio) for id_ in group_ids] if per_group else [target.hit_ratio]
    return Aim(
        targets=tuple(Fraction(str(ratio)) for ratio in ratios),
        per_group=per_group,
        warm=target.semantics is Semantics.STATIC_PREFIX_RATIO,
    )


def private_split(private_tokens: int, block_size: int) -> tuple[int, int]:
    """Divergence and suffix tokens of a prompt with so many content tokens of its own."""
    divergence = min(block_size, private_tokens)
    return divergence, private_tokens - divergence


def check_prompts(prompts: Prompts) -> None:
    """Raise ``ConfigError`` for the first prompt that is too short to hold one token of its own."""
    short = np.flatnonzero(prompts.input_len < prompts.shortest)
    if len(short):
        index = int(short[0])
        message = f"request {request_id(index)} has {int(prompts.input_len[index])} tokens"
        raise ConfigError(
            f"{message}, but head, tail and one token of its own need {prompts.shortest}",
            field="input_length",
            request_id=request_id(index),
            advice="raise the shortest length, or send completions_ids",
        )


def plan_prefixes(prompts: Prompts, aim: Aim, *, order: IntArray) -> PrefixPlan:
    """Plan ``P`` for every request.

    ``order`` is the send order as far as it is known before planning; it decides who pays for the trunk and where
    a warm plan carries remainders. The error of the total is at most half a block wherever the target lies between
    floor and ceiling (Law 3); beyond them the nearest plan is returned.
    """
    cells = _cells(prompts, aim)
    trunk = trunk_hits(prompts, order, warm=aim.warm)
    goals = _goals(prompts, aim, cells, trunk)
    budgets = _budgets(prompts, aim, cells, trunk, goals)
    if not aim.nested:
        sorted_blocks, strategy = _one_prefix_a_group(cells, budgets, goals, aim), "one_prefix_a_group"
    elif aim.warm:
        sorted_blocks, strategy = _warm_blocks(prompts, aim, cells, budgets, order), "carry_along_send_order"
    else:
        sorted_blocks, strategy = _cold_blocks(prompts, aim, cells, budgets), f"{aim.shape}_water_filling"
    blocks = np.empty_like(sorted_blocks)
    blocks[cells.order] = sorted_blocks
    targets = np.zeros(len(trunk), dtype=np.int64)
    targets[cells.group] = budgets * prompts.block_size + trunk[cells.group]
    prefix_len = prompts.trunk_len + blocks * prompts.block_size
    if aim.branches is not None and aim.nested:
        prefix_len = spread(prompts, prefix_len, branches=aim.branches, warm=aim.warm)
    return PrefixPlan(prefix_len, targets, strategy)


def _cells(prompts: Prompts, aim: Aim) -> _Cells:
    order = np.lexsort((prompts.lane, prompts.group))
    group, lane = prompts.group[order], prompts.lane[order]
    cell_starts = _starts(group)
    stairs = Staircase(_starts(lane), cell_starts, len(order), cold=not aim.warm)
    cap = (most_shared(prompts, nested=aim.nested)[order] - prompts.trunk_len) // prompts.block_size
    input_len = prompts.input_len[order]
    return _Cells(order, stairs, cap, input_len, group[cell_starts], np.add.reduceat(input_len, cell_starts))


def _starts(sorted_values: IntArray) -> IntArray:
    return np.concatenate(([0], np.flatnonzero(np.diff(sorted_values)) + 1))


def most_shared(prompts: Prompts, *, nested: bool) -> IntArray:
    """Most tokens each request may share; with one prefix a group, what the group's shortest request may."""
    if nested:
        return prompts.max_prefix_len
    shortest = np.full(int(prompts.group.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, prompts.group, prompts.max_prefix_len)
    return shortest[prompts.group]


def trunk_hits(prompts: Prompts, order: IntArray, *, warm: bool) -> IntArray:
    """Hit tokens that the head alone gives each group: all its requests, but the first of a cold domain."""
    groups = int(prompts.group.max()) + 1
    hits = np.bincount(prompts.group, minlength=groups) * prompts.trunk_len
    if not warm:
        first = order[np.unique(prompts.domain[order], return_index=True)[1]]
        hits = hits - np.bincount(prompts.group[first], minlength=groups) * prompts.trunk_len
    return hits.astype(np.int64)


def _goals(prompts: Prompts, aim: Aim, cells: _Cells, trunk: IntArray) -> list[Fraction]:
    """Blocks above the trunk that the targets ask for, exactly: one goal a cell, or a single one."""
    if not aim.per_group:
        hits = aim.targets[0] * int(cells.input_tokens.sum()) - int(trunk[cells.group].sum())
        return [hits / prompts.block_size]
    shares = zip(cells.group, cells.input_tokens, trunk[cells.group], strict=True)
    return [(aim.targets[g] * int(tokens) - int(base)) / prompts.block_size for g, tokens, base in shares]


def _budgets(prompts: Prompts, aim: Aim, cells: _Cells, trunk: IntArray, goals: list[Fraction]) -> IntArray:
    """Whole blocks above the trunk that each cell has to hit, none above its ceiling."""
    ceilings = cells.stairs.totals(cells.cap)
    if aim.per_group:
        limits = zip(goals, ceilings.tolist(), strict=True)
        return np.asarray([min(max(_nearest(goal), 0), limit) for goal, limit in limits], dtype=np.int64)
    total = min(max(_nearest(goals[0]), 0), int(ceilings.sum()))
    base = trunk[cells.group] // prompts.block_size
    return _pour(total, weights=cells.input_tokens, base=base, ceilings=ceilings)


def _nearest(value: Fraction) -> int:
    """Nearest integer, ties to the smaller."""
    return -((-value + Fraction(1, 2)).__floor__())


def _pour(total: int, *, weights: IntArray, base: IntArray, ceilings: IntArray) -> IntArray:
    """Share ``total`` blocks by weight, what the trunk gives counted in, no cell above its ceiling (water-filling)."""
    whole = Staircase(np.asarray([0]), np.asarray([0]), len(weights), cold=False)
    shift = _LENGTH_BITS - int(weights.max()).bit_length()
    top = np.asarray([1 << shift], dtype=np.int64)

    def level(height: IntArray) -> IntArray:
        shares: IntArray = np.clip((weights * height[0] >> shift) - base, 0, ceilings)
        return shares

    want = np.asarray([total], dtype=np.int64)
    low, _ = bisect(level, whole, want=want, top=top, max_iterations=64)
    return close(whole, low, high=ceilings, want=want)


def _cold_blocks(prompts: Prompts, aim: Aim, cells: _Cells, budgets: IntArray) -> IntArray:
    at, top = _shape(prompts, aim, cells)
    low, high = bisect(at, cells.stairs, want=budgets, top=top, max_iterations=aim.max_iterations)
    if not aim.calibrate:
        return _nearer(cells.stairs, low, high, budgets)
    return close(cells.stairs, low, high=high, want=budgets)


def _shape(prompts: Prompts, aim: Aim, cells: _Cells) -> tuple[Callable[[IntArray], IntArray], IntArray]:
    """Blocks as a growing function of each cell's parameter, and the parameter that reaches every cap."""
    if aim.shape is Shape.UNIFORM_CAP:
        top = np.maximum.reduceat(cells.cap, cells.stairs.cell_starts)
        return lambda x: np.minimum(cells.cap, cells.stairs.spread(x)), top
    bits = min(_RATIO_BITS, _LENGTH_BITS - int(cells.input_len.max()).bit_length())
    trunk_blocks = prompts.trunk_len // prompts.block_size

    def proportional(ratio: IntArray) -> IntArray:
        raw = (cells.stairs.spread(ratio) * cells.input_len >> bits) // prompts.block_size
        blocks: IntArray = np.clip(raw - trunk_blocks, 0, cells.cap)
        return blocks

    return proportional, np.full(len(cells.group), 1 << bits, dtype=np.int64)


def _nearer(stairs: Staircase, low: IntArray, high: IntArray, want: IntArray) -> IntArray:
    """Without calibration: whichever end of the last step is nearer, ties to the smaller."""
    below, above = want - stairs.totals(low), stairs.totals(high) - want
    return np.where(stairs.spread((above < below).astype(np.int64)) > 0, high, low)


def _warm_blocks(prompts: Prompts, aim: Aim, cells: _Cells, budgets: IntArray, order: IntArray) -> IntArray:
    """``align_down(T * L)`` with the remainder carried along the send order, then what caps refused elsewhere."""
    carried = np.clip(_carried(prompts, aim, order)[cells.order], 0, cells.cap)
    if not aim.calibrate:
        return carried
    if aim.per_group:
        return _meet(cells.stairs, carried, cells.cap, budgets)
    whole = Staircase(np.asarray([0]), np.asarray([0]), cells.stairs.n, cold=False)
    return _meet(whole, carried, cells.cap, np.asarray([budgets.sum()]))


def _carried(prompts: Prompts, aim: Aim, order: IntArray) -> IntArray:
    """Blocks above the trunk of each request; with calibration a cell's remainders never exceed one block."""
    blocks = np.zeros(len(order), dtype=np.int64)
    for members, target in _carry_lines(prompts, aim, order):
        lengths = prompts.input_len[members]
        if aim.calibrate:
            reached = np.concatenate(([0], _blocks_of(np.cumsum(lengths), target, prompts.block_size)))
            blocks[members] = np.diff(reached)
        else:
            blocks[members] = _blocks_of(lengths, target, prompts.block_size)
    return blocks - prompts.trunk_len // prompts.block_size


def _carry_lines(prompts: Prompts, aim: Aim, order: IntArray) -> list[tuple[IntArray, Fraction]]:
    if not aim.per_group:
        return [(order, aim.targets[0])]
    by_group = order[np.argsort(prompts.group[order], kind="stable")]
    starts = _starts(prompts.group[by_group])
    return [(part, aim.targets[int(prompts.group[part[0]])]) for part in np.split(by_group, starts[1:])]


def _blocks_of(tokens: IntArray, target: Fraction, block_size: int) -> IntArray:
    """``floor(target * tokens / block_size)`` in exact integers."""
    over = target.denominator * block_size
    if max(int(tokens.max()) * target.numerator, over) < _INT64_END:
        return tokens * target.numerator // over
    return np.asarray([int(value) * target.numerator // over for value in tokens], dtype=np.int64)


def _meet(stairs: Staircase, blocks: IntArray, cap: IntArray, want: IntArray) -> IntArray:
    """Raise or lower blocks, evenly and within caps, to the wanted totals."""
    missing = stairs.spread(want - stairs.totals(blocks))
    low = np.where(missing >= 0, blocks, 0)
    high = np.where(missing >= 0, cap, blocks)
    return close(stairs, low, high=high, want=want)


def _one_prefix_a_group(cells: _Cells, budgets: IntArray, goals: list[Fraction], aim: Aim) -> IntArray:
    """``nested_prefix: false``: one prefix length for all requests of a group.

    A group moves in steps of all the requests that it pays for; what one cannot meet goes to the next, larger steps
    first, and what is left over goes round once more.
    """
    caps = cells.cap[cells.stairs.cell_starts].tolist()
    steps = cells.stairs.totals(np.ones(cells.stairs.n, dtype=np.int64)).tolist()
    chosen = [0] * len(caps)
    if aim.per_group:
        wanted, left = goals, Fraction(0)
    else:
        wanted = [Fraction(budget) for budget in budgets.tolist()]
        left = goals[0] - int(budgets.sum())
    by_step = [cell for cell in sorted(range(len(steps)), key=lambda cell: -steps[cell]) if steps[cell]]
    for cell in by_step if aim.per_group else by_step * 2:
        want = wanted[cell] + left
        chosen[cell] = min(max(_nearest(want / steps[cell]), 0), caps[cell])
        if not aim.per_group:
            left = want - chosen[cell] * steps[cell]
            wanted[cell] = Fraction(chosen[cell] * steps[cell])
    return cells.stairs.spread(np.asarray(chosen, dtype=np.int64))
