"""Plans whose predicted ratio, under load and in a cache of the config's size, meets the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from foreword.errors import ConfigError
from foreword.simulate.forecast import forecast
from foreword.simulate.verdict import Tolerance, judge, percent
from foreword.terms import Semantics
from foreword.workload.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.config.dataset import DatasetConfig
    from foreword.simulate.design import Design


@dataclass(frozen=True, slots=True)
class _Tried:
    """A design and the hit tokens that are predicted of it."""

    design: Design
    hit_tokens: int


def aimed(config: DatasetConfig, plan: Callable[[float], Design]) -> Design:
    """The design whose predicted ratio is nearest to the target; ``plan`` makes the one for a designed ratio.

    The designed ratio is searched in whole blocks by bisection: more shared blocks are taken to give more hits. Where a
    small cache makes that untrue, the nearest of those that were tried stands. Raises ``ConfigError`` where the target
    speaks of another pass than the one that is designed.
    """
    lowest, highest = _tried(plan(0.0)), _tried(plan(1.0))
    _check_pass(config, lowest.design)
    wanted = Fraction(repr(config.target.hit_ratio)) * lowest.design.input_tokens
    tried, low, high = [lowest, highest], _blocks(lowest.design), _blocks(highest.design)
    while high - low > 1:
        middle = (low + high) // 2
        tried.append(_tried(plan(middle * lowest.design.facts.block_size / lowest.design.input_tokens)))
        low, high = (middle, high) if tried[-1].hit_tokens < wanted else (low, middle)
    best = min(tried, key=lambda each: abs(each.hit_tokens - wanted))
    return _judged(best, config, sorted(each.hit_tokens for each in tried))


def _tried(design: Design) -> _Tried:
    return _Tried(design, int(forecast(design).predicted.sum()))


def _blocks(design: Design) -> int:
    return int(design.designed_hit.sum()) // design.facts.block_size


def _check_pass(config: DatasetConfig, design: Design) -> None:
    if (config.target.semantics is Semantics.STATIC_PREFIX_RATIO) is design.designed_cold:
        raise ConfigError(
            "planning.aim: predicted needs a target of the designed pass",
            field="planning.aim",
            advice=f"target.semantics {config.target.semantics} speaks of the other pass of {config.execution_mode}",
        )


def _judged(best: _Tried, config: DatasetConfig, found: list[int]) -> Design:
    """The design under its own config, with the verdict on what is predicted of it."""
    design, target = best.design, Fraction(repr(config.target.hit_ratio))
    verdict = judge(
        target=target,
        achieved=Fraction(best.hit_tokens, design.input_tokens),
        reach=Reach(found[0], found[-1], design.input_tokens),
        block_size=design.facts.block_size,
        tolerance=Tolerance.of(config),
    )
    message = verdict.message.replace("designed", "predicted under load", 1)
    message += f"; one request at a time the same plan gives {percent(design.designed)}"
    return replace(design, config=config, target=target, verdict=replace(verdict, message=message), suggestions=())
