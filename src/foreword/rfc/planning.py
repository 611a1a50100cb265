"""The RFC's planning functions (P3.5.2): lengths, groups, reachability, prefixes, watermarks, verdict."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache import watermark
from foreword.cache.rules import HitRule, usable_hit_tokens
from foreword.rfc.arrays import Ends, Members
from foreword.rfc.types import (
    PrefixCacheSimulationResult,
    PrefixGroupPlan,
    PrefixPlanningResult,
    ReachabilityResult,
    SimulatedRequest,
    ValidationReport,
)
from foreword.simulate.verdict import Tolerance, judge
from foreword.terms import CacheScope, Shape, draw_key
from foreword.workload import groups as grouping
from foreword.workload.lengths import sample_lengths
from foreword.workload.plan import aim_of, plan_prefixes, private_split
from foreword.workload.reach import Reach, group_reaches, reach_of, suggestions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from foreword.rfc.types import LengthDistributionConfig, PrefixGroupConfig, RequestPlan, TargetHitRateConfig
    from foreword.terms import IntArray
    from foreword.workload.plan import Aim, PrefixPlan, Prompts

DEFAULT_BLOCK_SIZE = 16
DEFAULT_SEED = 42
NO_ENDS = Ends()


def generate_request_lengths(
    config: LengthDistributionConfig, request_count: int, seed: int, *, dataset_id: str = "", minimum: int = 1
) -> list[int]:
    """Draw prompt lengths in tokens, none below ``minimum``; equal arguments give equal lengths (F3.3.1).

    With the ``dataset_id`` of a config these are the lengths of that data set. Raises ``ConfigError``.
    """
    key = draw_key("input_length", seed, dataset_id)
    lengths: list[int] = sample_lengths(config, request_count, key=key, minimum=minimum).tokens.tolist()
    return lengths


def allocate_prefix_groups(
    requests: Sequence[RequestPlan], config: PrefixGroupConfig, *, seed: int = DEFAULT_SEED, dataset_id: str = ""
) -> dict[str, PrefixGroupPlan]:
    """Give every request exactly one group: one, equal, by count, by weight or by an explicit list (F3.3.2).

    Groups come in the order of the config; one without requests stays, empty. Raises ``ConfigError``.
    """
    allocated = grouping.allocate(config, len(requests), key=draw_key("groups", seed, dataset_id))
    members: dict[str, list[RequestPlan]] = {name: [] for name in allocated.ids}
    for request, index in zip(requests, allocated.of_request.tolist(), strict=True):
        name = allocated.ids[index]
        members[name].append(replace(request, prefix_group_id=name))
    return {
        name: PrefixGroupPlan(name, len(own), requests=tuple(own), weight=weight)
        for (name, own), weight in zip(members.items(), allocated.weights, strict=True)
    }


def validate_target_reachability(
    groups: Mapping[str, PrefixGroupPlan],
    target: TargetHitRateConfig,
    block_size: int,
    minimum_non_shared_length: int,
    *,
    cache_scope: str = CacheScope.GLOBAL.value,
    ends: Ends = NO_ENDS,
) -> ReachabilityResult:
    """What these groups can give at most and at least, before anything is planned (Law 2; F3.3.6).

    A target for each group is reachable if each group's is. Raises ``ConfigError`` for prompts that are too short.
    """
    members = Members.of(groups)
    prompts = members.prompts(block_size, minimum_non_shared_length, cache_scope=cache_scope, ends=ends)
    aim = aim_of(target, members.groups.ids)
    whole = reach_of(prompts, warm=aim.warm)
    by_group = group_reaches(prompts, len(members.groups.ids), order=members.send_order, aim=aim)
    pairs = [
        (wanted, reach)
        for wanted, reach in zip(aim.targets, by_group if aim.per_group else [whole], strict=True)
        if reach is not None
    ]
    wanted = _mean_target(pairs)
    reachable = all(reach.floor <= ratio <= reach.ceiling for ratio, reach in pairs)
    return ReachabilityResult(
        target_hit_ratio=float(wanted),
        min_reachable_hit_ratio=float(whole.floor),
        max_reachable_hit_ratio=float(whole.ceiling),
        reachable=reachable,
        by_group={
            name: None if reach is None else float(reach.ceiling)
            for name, reach in zip(members.groups.ids, by_group, strict=True)
        },
        suggestions=() if reachable else tuple(item.text for item in suggestions(prompts, wanted, aim=aim)),
    )


def plan_prefix_lengths(
    groups: Mapping[str, PrefixGroupPlan],
    target: TargetHitRateConfig,
    block_size: int,
    minimum_non_shared_length: int,
    *,
    cache_scope: str = CacheScope.GLOBAL.value,
    ends: Ends = NO_ENDS,
    shape: Shape = Shape.PROPORTIONAL,
    nested_prefix: bool = True,
) -> PrefixPlanningResult:
    """Plan every request's shared prefix; the total misses the target by at most half a block (Law 3; F3.3.5).

    Beyond floor or ceiling the nearest plan is returned. Raises ``ConfigError`` for prompts that are too short.
    """
    members = Members.of(groups)
    prompts = members.prompts(block_size, minimum_non_shared_length, cache_scope=cache_scope, ends=ends)
    aim = replace(aim_of(target, members.groups.ids), shape=shape, nested=nested_prefix)
    plan = plan_prefixes(prompts, aim, order=members.send_order)
    requests = [
        _with_prefix(request, prefix, block_size, ends)
        for request, prefix in zip(members.requests, plan.prefix_len.tolist(), strict=True)
    ]
    hits, lost = _planned_hits(members, prompts, plan.prefix_len, aim)
    return PrefixPlanningResult(
        groups=_described(members, prompts, aim, plan, (members.regrouped(groups, requests), lost)),
        planned_hit_tokens=hits,
        input_tokens=int(prompts.input_len.sum()),
        strategy=plan.strategy,
    )


def _planned_hits(members: Members, prompts: Prompts, prefix_len: IntArray, aim: Aim) -> tuple[int, list[int]]:
    """Hit tokens of the pass that was planned for, and what filling the cache costs each group in a cold one."""
    order = members.send_order
    shared, lane = prefix_len[order], prompts.lane[order]
    cold = watermark.cold(shared, lane, domain=prompts.domain[order], trunk_len=prompts.trunk_len)
    hits = watermark.warm(shared, lane).hit if aim.warm else cold.hit
    lost = grouping.sum_by(members.groups.of_request[order], shared - cold.hit, count=len(members.groups.ids))
    return int(hits.sum()), lost.tolist()


def _described(
    members: Members,
    prompts: Prompts,
    aim: Aim,
    plan: PrefixPlan,
    planned: tuple[Mapping[str, PrefixGroupPlan], list[int]],
) -> dict[str, PrefixGroupPlan]:
    """Groups with what their plan comes to."""
    groups, lost = planned
    reaches = group_reaches(prompts, len(groups), order=members.send_order, aim=aim)
    goals = [*plan.group_target_hit_tokens.tolist(), *[0] * len(groups)]
    return {
        name: replace(
            group,
            master_prefix_len=max((request.planned_prefix_len for request in group.requests), default=0),
            target_hit_tokens=goals[index],
            max_reachable_hit_ratio=None if (reach := reaches[index]) is None else float(reach.ceiling),
            cold_start_loss=lost[index],
        )
        for index, (name, group) in enumerate(groups.items())
    }


def simulate_prefix_cache_watermarks(
    requests: Sequence[RequestPlan],
    cache_scope: str,
    *,
    warm: bool = False,
    block_size: int = DEFAULT_BLOCK_SIZE,
    hit_rule: HitRule = HitRule.CAP_THEN_FLOOR,
    head_len: int = 0,
) -> PrefixCacheSimulationResult:
    """Serve requests one after another in list order, each lane with a watermark of its own (F3.3.4, F3.3.7).

    A lane is a group, or with ``dp_local`` a group on one rank. ``warm`` starts with every lane's longest prefix.
    """
    names = {name: index for index, name in enumerate(dict.fromkeys(each.prefix_group_id for each in requests))}
    group = _column(names[each.prefix_group_id] for each in requests)
    rank = _column(each.planned_dp_id for each in requests)
    domain = rank if CacheScope(cache_scope) is CacheScope.DP_LOCAL else np.zeros_like(rank)
    lane = domain * len(names) + group
    shared = _column(each.planned_prefix_len for each in requests)
    trunk_len = head_len // block_size * block_size
    marks = watermark.warm(shared, lane) if warm else watermark.cold(shared, lane, domain=domain, trunk_len=trunk_len)
    hits = usable_hit_tokens(
        hit_rule,
        prompt_tokens=_column(each.input_len for each in requests),
        shared_tokens=marks.hit,
        block_size=block_size,
    )
    rows = zip(requests, marks.before.tolist(), hits.tolist(), marks.after.tolist(), strict=True)
    simulated = tuple(
        SimulatedRequest(each.request_id, each.prefix_group_id, each.planned_dp_id, each.input_len, before, hit, after)
        for each, before, hit, after in rows
    )
    return PrefixCacheSimulationResult(simulated, cache_scope, warm)


def validate_theoretical_hit_rate(
    simulation: PrefixCacheSimulationResult,
    target_hit_ratio: float,
    pass_tolerance: float,
    warning_tolerance: float,
    *,
    reachability: ReachabilityResult | None = None,
    block_size: int = DEFAULT_BLOCK_SIZE,
    allow_nearest: bool = False,
) -> ValidationReport:
    """Judge a simulated ratio against a target, in exact fractions (F3.3.17; decision 2).

    Only with ``reachability`` can a miss be told to be unreachable. Tolerances are ratios, 0.01 for one point.
    """
    target, designed = Fraction(str(target_hit_ratio)), Fraction(simulation.hit_tokens, simulation.input_tokens)
    verdict = judge(
        target=target,
        achieved=designed,
        reach=_reach(reachability, simulation.input_tokens),
        block_size=block_size,
        tolerance=Tolerance(Fraction(str(pass_tolerance)), Fraction(str(warning_tolerance)), allow_nearest),
    )
    return ValidationReport(
        target_hit_ratio=target_hit_ratio,
        designed_hit_ratio=float(designed),
        signed_deviation=float(designed - target),
        absolute_deviation=float(abs(designed - target)),
        validation_status=verdict.status,
        reason=verdict.reason,
        message=verdict.message,
    )


def _with_prefix(request: RequestPlan, prefix_len: int, block_size: int, ends: Ends) -> RequestPlan:
    own = request.input_len - max(prefix_len, ends.head_len) - ends.tail_len
    divergence, suffix = private_split(own, block_size)
    return replace(request, planned_prefix_len=prefix_len, divergence_len=divergence, suffix_len=suffix)


def _mean_target(pairs: Sequence[tuple[Fraction, Reach]]) -> Fraction:
    """Targets weighted by input tokens."""
    tokens = sum(reach.input_tokens for _, reach in pairs)
    return sum((ratio * reach.input_tokens for ratio, reach in pairs), Fraction(0)) / tokens


def _reach(found: ReachabilityResult | None, input_tokens: int) -> Reach:
    """Bounds in tokens; everything counts as reachable where nobody looked."""
    if found is None:
        return Reach(0, input_tokens, input_tokens)
    floor, ceiling = found.min_reachable_hit_ratio, found.max_reachable_hit_ratio
    return Reach(round(floor * input_tokens), round(ceiling * input_tokens), input_tokens)


def _column(values: Iterable[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)
