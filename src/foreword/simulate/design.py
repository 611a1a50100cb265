"""From a config to a designed data set without text: lengths, groups, lanes, plan, order, predicted hits.

Pure: the config and the facts that were found outside it (tokenizer, engine, template) go in, a value comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConfigError
from foreword.simulate.aiming import aimed
from foreword.simulate.predict import Prediction, predict
from foreword.simulate.verdict import Tolerance, Verdict, judge, percent, worst
from foreword.terms import (
    ExecutionMode,
    IntArray,
    PlanAim,
    Reason,
    Semantics,
    Status,
    TargetScope,
    draw_key,
    request_id,
)
from foreword.workload import groups as grouping
from foreword.workload import order as ordering
from foreword.workload.lengths import LengthSample, sample_lengths
from foreword.workload.plan import Aim, PrefixPlan, Prompts, aim_of, check_prompts, plan_prefixes, trunk_hits
from foreword.workload.reach import Reach, Suggestion, group_reaches, reach_of, suggestions

if TYPE_CHECKING:
    from foreword.cache.rules import HitRule
    from foreword.config.dataset import DatasetConfig
    from foreword.workload.groups import Groups
    from foreword.workload.order import Lanes, Routing

_TRUNK_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """What a config leaves to the tokenizer, the template and the engine.

    ``branches`` are the requests that can leave a master at one place, where single tokens are matched.
    """

    block_size: int
    rule: HitRule
    head_len: int = 0
    tail_len: int = 0
    branches: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDesign:
    """One group's share of the design; ratios are ``None`` for a group without requests."""

    group_id: str
    request_count: int
    planned_dp_ids: tuple[int, ...]
    master_prefix_len: int
    input_tokens: int
    target_hit_tokens: int
    designed_hit_tokens: int
    cold_start_loss_tokens: int
    max_reachable_hit_ratio: float | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Design:
    """A data set before its text. Arrays of ``prompts`` and ``plan`` are in generation order; ``order`` sends them."""

    config: DatasetConfig
    facts: Facts
    lengths: LengthSample
    output_len: IntArray
    groups: Groups
    route: Routing
    lanes: Lanes
    prompts: Prompts
    plan: PrefixPlan
    order: IntArray
    prediction: Prediction
    reach: Reach
    target: Fraction
    verdict: Verdict
    by_group: tuple[GroupDesign, ...]
    suggestions: tuple[Suggestion, ...]
    warnings: tuple[str, ...]

    @property
    def input_tokens(self) -> int:
        """Tokens of all prompts."""
        return self.reach.input_tokens

    @property
    def designed_cold(self) -> bool:
        """Whether the designed pass is the cold one (decision 1)."""
        return designed_cold(self.config)

    @property
    def designed_hit(self) -> IntArray:
        """Expected hit tokens of the designed pass, in send order."""
        return self.prediction.cold_hit if self.designed_cold else self.prediction.hot_hit

    @property
    def designed(self) -> Fraction:
        """Designed hit ratio."""
        return Fraction(int(self.designed_hit.sum()), self.input_tokens)


def designed_cold(config: DatasetConfig) -> bool:
    """Which pass a config designs for: cold, but hot after a warm-up, and by semantics when both run."""
    if config.execution_mode is ExecutionMode.COMPARE:
        return config.target.semantics is Semantics.ORDER_AWARE_GLOBAL
    return config.execution_mode.designed_cold


def design(config: DatasetConfig, facts: Facts) -> Design:
    """Plan a data set.

    Laws that name a file must have been given its values. Raises ``ConfigError`` for lengths that cannot be sent.
    """
    if config.planning.aim is PlanAim.DESIGNED:
        return _designed(config, facts)
    return aimed(config, lambda ratio: _designed(_aiming_at(config, ratio), facts))


def _aiming_at(config: DatasetConfig, ratio: float) -> DatasetConfig:
    """The config with another target, which may lie beyond what can be reached."""
    return config.model_copy(update={"target": config.target.model_copy(update={"hit_ratio": ratio})})


def _designed(config: DatasetConfig, facts: Facts) -> Design:
    """The design whose serial ratio meets the target."""
    sample, output_len = _lengths(config, facts)
    groups = grouping.allocate(config.prefix, config.request_count, key=_key(config, "groups"))
    progressive = config.execution_mode is ExecutionMode.PROGRESSIVE_PREFIX_FILL
    how = ordering.send_order(config.request_order, progressive=progressive)
    route = ordering.routing(config.routing, order=how)
    arrangement = _Arrangement(config, how, groups, sample.tokens)
    early = arrangement.early()
    lanes = ordering.lanes(route, groups, order=early)
    prompts = _prompts(config, facts, groups, lanes, sample.tokens)
    check_prompts(prompts)
    aim = replace(_aim(config, groups), branches=facts.branches)
    plan, order = _plan_and_order(prompts, aim, arrangement, early)
    prediction = predict(prompts, plan.prefix_len, order=order, rule=facts.rule)
    reach = reach_of(prompts, warm=aim.warm, nested=aim.nested)
    target = _global_target(aim, prompts)
    by_group = _by_group(config, groups, prompts, plan, (order, prediction, lanes.dp))
    verdict = _verdict(config, prompts, reach, prediction, (target, by_group))
    wanted = (
        _suggestions(prompts, aim, verdict=verdict, by_group=by_group) if config.planning.reachability_check else []
    )
    warnings = (*sample.notes, *_warnings(config, groups, prompts, route))
    return Design(
        config, facts, sample, output_len, groups, route, lanes, prompts, plan, order, prediction, reach, target,
        verdict, by_group, tuple(wanted), warnings,
    )  # fmt: skip


def _key(config: DatasetConfig, purpose: str) -> int:
    return draw_key(purpose, config.seed, config.dataset_id)


def content_key(config: DatasetConfig) -> int:
    """Seed of everything that a prompt says; sets with different targets share no content unless asked to."""
    target = config.target
    ratios = (target.hit_ratio, *(f"{group.id}={group.hit_ratio}" for group in target.groups))
    scope = ratios if config.seed_scope == "target" else ()
    nonce = () if config.nonce is None else ("nonce", config.nonce)
    return draw_key("content", config.seed, config.dataset_id, *scope, *nonce)


def _lengths(config: DatasetConfig, facts: Facts) -> tuple[LengthSample, IntArray]:
    shortest, n = facts.head_len + facts.tail_len + 1, config.request_count
    sample = sample_lengths(config.input_length, n, key=_key(config, "input_length"), minimum=shortest)
    output = sample_lengths(config.output_length, n, key=_key(config, "output_length"))
    limit = config.max_model_len
    over = np.flatnonzero(sample.tokens + output.tokens > (limit or np.iinfo(np.int64).max))
    if len(over):
        first = int(over[0])
        sizes = f"{int(sample.tokens[first])} input and {int(output.tokens[first])} output tokens"
        message = f"request {request_id(first)} has {sizes}, more than max_model_len {limit}"
        advice = f"{len(over)} of {n} requests are too long; lower input_length or output_length"
        raise ConfigError(message, field="max_model_len", request_id=request_id(first), advice=advice)
    return sample, output.tokens


@dataclass(frozen=True, slots=True)
class _Arrangement:
    config: DatasetConfig
    how: ordering.SendOrder
    groups: Groups
    input_len: IntArray

    def early(self) -> IntArray:
        """The order as far as it is known before planning: generation order if it needs the plan."""
        return np.arange(len(self.input_len)) if self.how.needs_prefix else self.final(self.input_len)

    def final(self, prefix_len: IntArray) -> IntArray:
        key = _key(self.config, "order")
        return ordering.arrange(self.how, self.groups, input_len=self.input_len, prefix_len=prefix_len, key=key)


def _prompts(config: DatasetConfig, facts: Facts, groups: Groups, lanes: Lanes, input_len: IntArray) -> Prompts:
    wanted = config.prefix.minimum_non_shared_length
    return Prompts(
        input_len=input_len,
        group=groups.of_request,
        lane=lanes.lane,
        domain=lanes.domain,
        block_size=facts.block_size,
        minimum_non_shared=facts.block_size if wanted is None else wanted,
        head_len=facts.head_len,
        tail_len=facts.tail_len,
    )


def _aim(config: DatasetConfig, groups: Groups) -> Aim:
    return replace(
        aim_of(config.target, groups.ids),
        shape=config.prefix.shape,
        nested=config.prefix.nested_prefix,
        calibrate=config.planning.block_residual_calibration,
        max_iterations=config.planning.max_iterations,
    )


def _plan_and_order(
    prompts: Prompts, aim: Aim, arrangement: _Arrangement, early: IntArray
) -> tuple[PrefixPlan, IntArray]:
    """Plan, then order; where the order decides who pays for the trunk, plan again until the payer is the assumed one.

    First for the payers that the orders themselves give, then for each group in turn. A group that pays shares more,
    which can move it behind another one for ever; then the last order stays and is planned for: the bound is exact,
    and some neighbours in the order may differ by a block the wrong way.
    """
    plan = plan_prefixes(prompts, aim, order=early)
    if not arrangement.how.needs_prefix:
        return plan, early
    order = arrangement.final(plan.prefix_len)
    if not prompts.trunk_len or aim.warm:
        return plan, order
    groups = range(int(prompts.group.max()) + 1)
    assumed, tries = early, iter(groups)
    for attempt in range(_TRUNK_ROUNDS + len(groups)):
        if np.array_equal(trunk_hits(prompts, assumed, warm=False), trunk_hits(prompts, order, warm=False)):
            return plan, order
        assumed = order if attempt < _TRUNK_ROUNDS else np.argsort(prompts.group != next(tries), kind="stable")
        plan = plan_prefixes(prompts, aim, order=assumed)
        order = arrangement.final(plan.prefix_len)
    return plan_prefixes(prompts, aim, order=order), order


def _global_target(aim: Aim, prompts: Prompts) -> Fraction:
    """The target of the whole set; for targets by group their mean over input tokens."""
    if not aim.per_group:
        return aim.targets[0]
    tokens = np.bincount(prompts.group, weights=prompts.input_len, minlength=len(aim.targets)).astype(np.int64)
    wanted = sum(target * int(count) for target, count in zip(aim.targets, tokens, strict=True))
    return Fraction(wanted) / int(tokens.sum())


def _by_group(
    config: DatasetConfig,
    groups: Groups,
    prompts: Prompts,
    plan: PrefixPlan,
    sent: tuple[IntArray, Prediction, IntArray],
) -> tuple[GroupDesign, ...]:
    order, prediction, dp = sent
    count, warm = len(groups.ids), config.target.semantics is Semantics.STATIC_PREFIX_RATIO
    shared = prediction.cold_hit if designed_cold(config) else prediction.hot_hit
    planned = prediction.hot_hit if warm else prediction.cold_hit
    group = groups.of_request[order]
    hits, status_hits = (grouping.sum_by(group, values, count=count) for values in (shared, planned))
    tokens = grouping.sum_by(groups.of_request, prompts.input_len, count=count)
    lost = grouping.sum_by(group, plan.prefix_len[order] - prediction.cold_hit, count=count)
    masters = np.zeros(count, dtype=np.int64)
    np.maximum.at(masters, groups.of_request, plan.prefix_len)
    reaches = group_reaches(prompts, count, order=order, aim=_aim(config, groups))
    verdicts = _group_verdicts(config, groups, prompts, status_hits, reaches)
    targets = np.zeros(count, dtype=np.int64)
    targets[: len(plan.group_target_hit_tokens)] = plan.group_target_hit_tokens
    sizes, ranks = groups.sizes, _ranks(groups, dp)
    return tuple(
        GroupDesign(
            group_id=groups.ids[g],
            request_count=int(sizes[g]),
            planned_dp_ids=ranks[g],
            master_prefix_len=int(masters[g]),
            input_tokens=int(tokens[g]),
            target_hit_tokens=int(targets[g]),
            designed_hit_tokens=int(hits[g]),
            cold_start_loss_tokens=int(lost[g]),
            max_reachable_hit_ratio=_ceiling(reaches[g]),
            verdict=verdicts[g],
        )
        for g in range(count)
    )


def _ranks(groups: Groups, dp: IntArray) -> list[tuple[int, ...]]:
    """Planned ranks of each group, ascending."""
    width = int(dp.max()) + 1
    found: list[list[int]] = [[] for _ in groups.ids]
    for pair in np.unique(groups.of_request * width + dp).tolist():
        found[pair // width].append(pair % width)
    return [tuple(ranks) for ranks in found]


def _group_verdicts(
    config: DatasetConfig, groups: Groups, prompts: Prompts, hits: IntArray, reaches: list[Reach | None]
) -> list[Verdict | None]:
    """Each group's own status, where each has its own target."""
    if config.target.scope is not TargetScope.PER_GROUP:
        return [None] * len(groups.ids)
    aim, tolerance = _aim(config, groups), Tolerance.of(config)
    return [
        _named(
            groups.ids[g],
            judge(
                target=aim.targets[g],
                achieved=Fraction(int(hits[g]), reach.input_tokens),
                reach=reach,
                block_size=prompts.block_size,
                tolerance=tolerance,
            ),
        )
        if reach is not None
        else None
        for g, reach in enumerate(reaches)
    ]


def _named(group_id: str, verdict: Verdict) -> Verdict:
    return replace(verdict, message=f"group {group_id}: {verdict.message}")


def _suggestions(
    prompts: Prompts, aim: Aim, *, verdict: Verdict, by_group: tuple[GroupDesign, ...]
) -> list[Suggestion]:
    """What would make an unreachable target reachable: for the set, or for each group that misses its own."""
    if not aim.per_group:
        unreachable = verdict.reason is Reason.TARGET_UNREACHABLE
        return suggestions(prompts, aim.targets[0], aim=aim) if unreachable else []
    found = []
    for index, group in enumerate(by_group):
        if group.verdict is not None and group.verdict.reason is Reason.TARGET_UNREACHABLE:
            own = suggestions(_only(prompts, index), aim.targets[index], aim=aim)
            found += [replace(item, text=f"group {group.group_id} {item.text}") for item in own]
    return found


def _only(prompts: Prompts, group: int) -> Prompts:
    """One group's prompts as a set of their own."""
    mine = prompts.group == group
    input_len, domain = prompts.input_len[mine], prompts.domain[mine]
    return replace(prompts, input_len=input_len, group=np.zeros_like(domain), lane=domain, domain=domain)


def _ceiling(reach: Reach | None) -> float | None:
    return None if reach is None else float(reach.ceiling)


def _verdict(
    config: DatasetConfig,
    prompts: Prompts,
    reach: Reach,
    prediction: Prediction,
    aims: tuple[Fraction, tuple[GroupDesign, ...]],
) -> Verdict:
    """Status by the ratio that the semantics speak of, with a note where the designed pass is another one."""
    target, by_group = aims
    warm = config.target.semantics is Semantics.STATIC_PREFIX_RATIO
    hits = prediction.hot_hit if warm else prediction.cold_hit
    achieved = Fraction(int(hits.sum()), reach.input_tokens)
    overall = judge(
        target=target,
        achieved=achieved,
        reach=reach,
        block_size=prompts.block_size,
        tolerance=Tolerance.of(config),
    )
    missed = [group.verdict for group in by_group if group.verdict and group.verdict.status is not Status.PASS]
    verdict = worst([*missed, overall])
    if warm != designed_cold(config):
        return verdict
    other = prediction.cold_hit if warm else prediction.hot_hit
    passes = ("hot", "cold") if warm else ("cold", "hot")
    ratio = percent(Fraction(int(other.sum()), reach.input_tokens))
    note = f"; the target speaks of the {passes[0]} pass, the run makes the {passes[1]} one, designed {ratio}"
    return replace(verdict, message=verdict.message + note)


def _warnings(config: DatasetConfig, groups: Groups, prompts: Prompts, route: Routing) -> list[str]:
    found = [f"group {id_} has no requests" for id_ in groups.empty]
    if int(prompts.max_prefix_len.max()) == prompts.trunk_len and (config.target.hit_ratio or 0) > 0:
        found.append(f"no prompt is long enough to share one block of {prompts.block_size} tokens")
    spread = len(np.unique(prompts.lane)) - len(np.unique(prompts.group))
    if route.local and spread:
        found.append(f"groups are spread over ranks that share no cache: {spread} more cold starts than groups")
    return found
