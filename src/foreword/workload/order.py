"""Send order and lanes (RFC 3.3.9, 3.3.10, 2.7; decisions 3 and 4).

An order is an array of generation indices in the sequence in which they are sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConfigError
from foreword.terms import CacheScope, IntArray, draw_key, permutation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foreword.config.dataset import AcrossGroup, OrderConfig, OrderMode, RoutingConfig, WithinGroup
    from foreword.workload.groups import Groups

_ACROSS_MODES = ("grouped", "interleave", "weighted_interleave")
_INT64_END = 2**63
_RADIX_END = 2**16


@dataclass(frozen=True, slots=True)
class SendOrder:
    """An order with every slot filled in: either the whole set by ``whole``, or ``within`` and ``across`` groups."""

    whole: OrderMode | None
    within: WithinGroup
    across: AcrossGroup
    keep_group_order: bool

    @property
    def needs_prefix(self) -> bool:
        """Whether the order depends on the planned prefix lengths."""
        return (self.whole or self.within).startswith("prefix_len")


@dataclass(frozen=True, slots=True)
class Routing:
    """Data-parallel ranks: how many, how requests get theirs, and whether each has its own cache.

    ``ranks`` are those that the config itself gives, by group or by request in generation order.
    """

    dp_size: int
    assignment: str
    local: bool
    ranks: Mapping[str, int] | tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """Planned rank, cache domain and lane of each request, in generation order."""

    dp: IntArray
    domain: IntArray
    lane: IntArray


def send_order(config: OrderConfig, *, progressive: bool) -> SendOrder:
    """Fill the slots that a config leaves open: progressive runs send short prompts first, groups take turns."""
    whole, within, across = config.mode, config.within_group, config.across_group
    default_within: WithinGroup = "input_len_asc" if progressive else "sequential"
    if whole in _ACROSS_MODES:
        whole, across = None, whole
    elif whole is None and within is None and across is None and not progressive:
        whole = "sequential"
    return SendOrder(whole, within or default_within, across or "interleave", config.preserve_group_dependency)


def routing(config: RoutingConfig, *, order: SendOrder) -> Routing:
    """Fill the slots of a routing; groups stick to a rank unless told otherwise."""
    sticky = config.sticky_routing or config.bind_prefix_group_to_dp
    assignment = config.assignment or ("bind" if sticky else "round_robin")
    if assignment == "by_send_order" and order.needs_prefix:
        raise ConfigError(
            "routing.assignment: by_send_order needs an order that does not depend on prefix lengths",
            field="routing.assignment",
            advice="use bind or round_robin, or another request_order",
        )
    return Routing(config.rank_count, assignment, config.cache_scope is CacheScope.DP_LOCAL, config.ranks)


def lanes(route: Routing, groups: Groups, *, order: IntArray) -> Lanes:
    """Assign ranks from group and position, before order where the runner enforces them (X8, X9)."""
    group = groups.of_request
    match route.assignment:
        case "bind":
            dp = group % route.dp_size
        case "sticky":
            _, first, place = np.unique(group, return_index=True, return_inverse=True)
            dp = (np.argsort(np.argsort(first)) % route.dp_size)[place]
        case "explicit":
            dp = _given_ranks(route.ranks, groups)
        case "round_robin":
            dp = _rank_within(group, np.arange(len(group))) % route.dp_size
        case _:
            dp = np.empty_like(group)
            dp[order] = np.arange(len(order)) % route.dp_size
    domain = dp if route.local else np.zeros_like(dp)
    return Lanes(dp=dp, domain=domain, lane=domain * len(groups.ids) + group)


def _given_ranks(ranks: Mapping[str, int] | tuple[int, ...], groups: Groups) -> IntArray:
    """Ranks as the config gives them; every group or every request needs one."""
    if isinstance(ranks, tuple):
        if len(ranks) != len(groups.of_request):
            raise ConfigError(
                f"routing.ranks: {len(ranks)} ranks for {len(groups.of_request)} requests",
                field="routing.ranks",
                advice="give one rank a request in generation order, or a mapping from groups to ranks",
            )
        return np.asarray(ranks, dtype=np.int64)
    unlike = next((name for name in (*groups.ids, *ranks) if name not in ranks or name not in groups.ids), None)
    if unlike is not None:
        what = "has no rank" if unlike in groups.ids else "is no group"
        raise ConfigError(
            f"routing.ranks: {unlike} {what}", field="routing.ranks", advice=f"groups: {', '.join(groups.ids[:8])}"
        )
    return np.asarray([ranks[name] for name in groups.ids], dtype=np.int64)[groups.of_request]


def arrange(order: SendOrder, groups: Groups, *, input_len: IntArray, prefix_len: IntArray, key: int) -> IntArray:
    """Put requests in send order; ties keep generation order."""
    if order.whole is not None:
        return _sorted_by(order.whole, input_len, prefix_len, key)
    group = groups.of_request
    rank = _rank_within(group, _sorted_by(order.within, input_len, prefix_len, key))
    slot = _merge_slots(order, groups, rank, draw_key("across", key))
    by_group = _stably(group)
    return by_group[_stably(slot[by_group])]


def _sorted_by(mode: str, input_len: IntArray, prefix_len: IntArray, key: int) -> IntArray:
    n = len(input_len)
    if mode == "shuffle":
        return permutation(draw_key("order", key), n)
    if mode == "sequential":
        return np.arange(n)
    values = input_len if mode.startswith("input_len") else prefix_len
    return np.argsort(-values if mode.endswith("desc") else values, kind="stable")


def _rank_within(group: IntArray, order: IntArray) -> IntArray:
    """Position of each request among its group's, in this order."""
    by_group = order[_stably(group[order])]
    sizes = np.bincount(group)
    rank = np.empty_like(group)
    rank[by_group] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank


def _stably(values: IntArray) -> IntArray:
    """Stable ascending order; numbers below 2**16 are sorted by radix, which is linear."""
    small = len(values) > 0 and int(values.min()) >= 0 and int(values.max()) < _RADIX_END
    return np.argsort(values.astype(np.uint16) if small else values, kind="stable")


def _merge_slots(order: SendOrder, groups: Groups, rank: IntArray, key: int) -> IntArray:
    """Sort key of each request across groups; ties go by group order."""
    group = groups.of_request
    match order.across:
        case "grouped":
            return group * (int(rank.max(initial=0)) + 1) + rank
        case "interleave":
            return rank
        case "weighted_interleave":
            return _odd_multiples(rank, group, groups.weights)
        case "shuffle":
            n = len(rank)
            if not order.keep_group_order:
                slot = np.empty_like(rank)
                slot[permutation(key, n)] = np.arange(n)
                return slot
            by_group = np.lexsort((rank, group))
            drawn = np.empty_like(rank)
            drawn[by_group] = _sorted_slots_of(group[permutation(key, n)])
            return drawn


def _sorted_slots_of(group_at_slot: IntArray) -> IntArray:
    """Slots of group 0 in ascending order, then those of group 1, and so on."""
    return np.argsort(group_at_slot, kind="stable")


def _odd_multiples(rank: IntArray, group: IntArray, weights: tuple[float, ...]) -> IntArray:
    """Slots of smooth weighted round robin, ``(2j+1)/(2w)``: exact integers, or their ranks where those overflow."""
    exact = [Fraction(str(weight)) for weight in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    shares = [int(weight * scale) for weight in exact]
    whole = math.lcm(*(share for share in shares if share))
    periods = [whole // share if share else 0 for share in shares]
    if max(periods) * (2 * len(rank) + 1) < _INT64_END:
        return (2 * rank + 1) * np.asarray(periods, dtype=np.int64)[group]
    slots = [(2 * j + 1) * periods[g] for j, g in zip(rank.tolist(), group.tolist(), strict=True)]
    place = {slot: index for index, slot in enumerate(sorted(set(slots)))}
    return np.asarray([place[slot] for slot in slots], dtype=np.int64)
