"""What keys of a data-set config have to be to each other; each check gives a problem in words, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.errors import ConfigError
from foreword.terms import ExecutionMode, PlanAim, TargetScope

if TYPE_CHECKING:
    from foreword.config.dataset import DatasetConfig


def _target_problem(config: DatasetConfig) -> str:
    target, names = config.target, set(config.prefix.group_ids)
    given = [group.id for group in target.groups]
    unknown = [id_ for id_ in given if id_ not in names]
    if unknown and config.prefix.assignment is None:
        return f"target.groups names {unknown[0]}, which is no group"
    if len(set(given)) < len(given):
        return f"target.groups names {next(id_ for id_ in given if given.count(id_) > 1)} twice"
    if target.scope is TargetScope.PER_GROUP and target.hit_ratio is None:
        missing = sorted(names - set(given))
        if missing:
            return f"group {missing[0]} has no target; add one, or target.hit_ratio for all"
    return ""


def _aim_problem(config: DatasetConfig) -> str:
    if config.planning.aim is PlanAim.PREDICTED and config.target.scope is TargetScope.PER_GROUP:
        return "planning.aim predicted needs one target for all: target.scope is per_group"
    return ""


def _tiers_problem(config: DatasetConfig) -> str:
    if config.tiers is None:
        return ""
    if config.capacity_blocks is not None:
        return "capacity_blocks and tiers both say how large the cache is; keep one of them"
    try:
        replay = config.replay_of_tiers
    except ConfigError as failure:
        return failure.message
    one = len(replay.instance_groups) == 1 and len(replay.instance_groups[0].instances) == 1
    size = replay.instance_groups[0].instances[0].block_size
    if not one:
        return "tiers: has to have one instance group with one instance, which stands for each cache"
    if isinstance(config.block_size, int) and size != config.block_size:
        return f"tiers: its instance has block_size {size}, the data set {config.block_size}"
    return ""


def _warmup_problem(config: DatasetConfig) -> str:
    warmed = config.execution_mode in {ExecutionMode.WARMUP, ExecutionMode.COMPARE}
    if warmed and config.execution.warmup_rounds == 0:
        return f"execution.warmup_rounds is 0, but {config.execution_mode} needs a warm-up; give 1"
    return ""


def _nonce_problem(config: DatasetConfig) -> str:
    if config.isolation != "nonce":
        return ""
    if config.nonce is None:
        return "isolation nonce needs nonce, a word that no data set before had, such as a date and a number"
    if config.execution_mode is ExecutionMode.COMPARE:
        return "isolation nonce keeps one pass apart, but compare makes two; use salt or reset"
    return ""


def _count_problem(config: DatasetConfig) -> str:
    counts = [group.request_count for group in config.prefix.groups if group.request_count is not None]
    if counts and sum(counts) != config.request_count:
        return f"prefix.groups request_count sum to {sum(counts)}, but request_count is {config.request_count}"
    law = config.input_length
    if law.mode == "explicit" and law.values is not None and len(law.values) != config.request_count:
        return f"input_length.values has {len(law.values)} lengths, but request_count is {config.request_count}"
    given = config.prefix.assignment
    if isinstance(given, tuple) and len(given) != config.request_count:
        return f"prefix.assignment names {len(given)} requests, but request_count is {config.request_count}"
    return ""


CHECKS = (
    _target_problem,
    _count_problem,
    _warmup_problem,
    _nonce_problem,
    _aim_problem,
    _tiers_problem,
)
