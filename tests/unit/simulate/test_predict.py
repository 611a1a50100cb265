"""Serial predictions of small plans, both passes, after the engine's rule."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.cache.rules import HitRule
from foreword.simulate.predict import CLASSES, predict
from foreword.terms import RequestClass
from foreword.workload.plan import Prompts


def _ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(values, dtype=np.int64)


def _prompts(lanes: tuple[int, ...], *, size: int = 160, head: int = 0) -> Prompts:
    lane = _ints(*lanes)
    return Prompts(np.full_like(lane, size), lane, lane, np.zeros_like(lane), 16, 1, head)


def test_arrays_stand_in_send_order() -> None:
    """The first to be sent pays, wherever it stands in generation order."""
    found = predict(_prompts((0, 0, 0)), _ints(16, 32, 48), order=_ints(2, 0, 1), rule=HitRule.CAP_THEN_FLOOR)

    assert found.cold_hit.tolist() == [0, 16, 32]
    assert found.hot_hit.tolist() == [48, 16, 32]
    assert found.cold.after.tolist() == [48, 48, 48]


def test_classes_say_what_a_request_does_to_its_lane() -> None:
    """First of its lane, longer than what is cached, all of it cached, or nothing planned."""
    found = predict(
        _prompts((0, 0, 0, 0, 1)), _ints(16, 48, 32, 0, 0), order=_ints(0, 1, 2, 3, 4), rule=HitRule.CAP_THEN_FLOOR
    )

    assert [CLASSES[index] for index in found.request_class] == [
        RequestClass.FIRST_OF_LANE,
        RequestClass.EXTENDS_LANE,
        RequestClass.FULL_HIT,
        RequestClass.NONE_PLANNED,
        RequestClass.FIRST_OF_LANE,
    ]


def test_a_group_that_starts_late_finds_the_template() -> None:
    """The head of a block is hit across groups, from the second request of the domain on."""
    found = predict(_prompts((0, 1, 1), head=20), _ints(16, 48, 48), order=_ints(0, 1, 2), rule=HitRule.CAP_THEN_FLOOR)

    assert found.cold_hit.tolist() == [0, 16, 48]


@pytest.mark.parametrize(
    ("rule", "hit"),
    [(HitRule.CAP_THEN_FLOOR, 144), (HitRule.CAP_ONLY, 159), (HitRule.FLOOR_THEN_GIVE_BACK_ONE, 159)],
)
def test_the_engine_rule_has_the_last_word(rule: HitRule, hit: int) -> None:
    """A prompt that is shared as a whole still computes its last token, each engine in its way."""
    found = predict(_prompts((0, 0)), _ints(160, 160), order=_ints(0, 1), rule=rule)

    assert found.cold_hit.tolist() == [0, hit]
    assert found.hot_hit.tolist() == [hit, hit]
