"""Serial prediction: what every request of a plan finds, cold and hot (theory section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache import watermark
from foreword.cache.rules import HitRule, usable_hit_tokens
from foreword.terms import RequestClass

if TYPE_CHECKING:
    from foreword.cache.watermark import Watermarks
    from foreword.terms import IntArray
    from foreword.workload.plan import Prompts

CLASSES = tuple(RequestClass)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Watermarks and hits of both passes in send order, after the engine's hit rule, in tokens."""

    cold: Watermarks
    hot: Watermarks
    cold_hit: IntArray
    hot_hit: IntArray
    request_class: IntArray


def predict(prompts: Prompts, prefix_len: IntArray, *, order: IntArray, rule: HitRule) -> Prediction:
    """Serve a plan serially in send order, once from empty caches and once from warmed ones.

    ``request_class`` indexes ``CLASSES`` and speaks of the cold pass.
    """
    shared, lane = prefix_len[order], prompts.lane[order]
    cold = watermark.cold(shared, lane, domain=prompts.domain[order], trunk_len=prompts.trunk_len)
    hot = watermark.warm(shared, lane)
    return Prediction(
        cold=cold,
        hot=hot,
        cold_hit=_usable(prompts, cold.hit, order, rule),
        hot_hit=_usable(prompts, hot.hit, order, rule),
        request_class=_classes(shared, lane, cold.before),
    )


def _usable(prompts: Prompts, shared: IntArray, order: IntArray, rule: HitRule) -> IntArray:
    return usable_hit_tokens(
        rule, prompt_tokens=prompts.input_len[order], shared_tokens=shared, block_size=prompts.block_size
    )


def _classes(shared: IntArray, lane: IntArray, before: IntArray) -> IntArray:
    """First of its lane, nothing planned, longer than what is cached, or all of it cached."""
    first = np.zeros(len(lane), dtype=bool)
    first[np.unique(lane, return_index=True)[1]] = True
    kinds = [first, shared == 0, shared > before]
    names = [RequestClass.FIRST_OF_LANE, RequestClass.NONE_PLANNED, RequestClass.EXTENDS_LANE]
    fallback = CLASSES.index(RequestClass.FULL_HIT)
    return np.select(kinds, [CLASSES.index(name) for name in names], default=fallback).astype(np.int64)
