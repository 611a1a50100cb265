"""Predictions of designs side by side, and plans that aim at the predicted ratio."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from foreword.cache.rules import HitRule
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError
from foreword.report.plan import plan_text
from foreword.simulate.design import Design, Facts, design
from foreword.simulate.documents import predictions
from foreword.simulate.forecast import forecast
from foreword.terms import Reason, Status

FACTS = Facts(block_size=16, rule=HitRule.CAP_THEN_FLOOR)
FAST = {"step_tokens": 100_000, "slots": 64}
TIERS: dict[str, Any] = {
    "eviction_params": {"eviction_mode": 3, "eviction_batch_size_per_instance": 1},
    "instance_groups": [
        {
            "group_name": "g",
            "quota_capacity": -1,
            "used_percentage": 1.0,
            "tier_strategy": {"hierarchical_eviction_enabled": True},
            "storages": [
                {
                    "unique_name": "hbm",
                    "storage_type": "HBM",
                    "band_width_mbps": 1,
                    "priority": 0,
                    "capacity": 2 * 16 / 2**30,
                }
            ],
            "instances": [
                {
                    "instance_id": "a",
                    "block_size": 16,
                    "bytes_per_token": 1,
                    "eviction_policy_type": "lru",
                    "eviction_policy_params": {},
                }
            ],
        }
    ],
}


def designed(**changes: Any) -> Design:  # noqa: ANN401 - config values
    """A plan of 40 prompts of 160 tokens that share half, all in one lane."""
    smallest = {"dataset_id": "d", "request_count": 40, "input_length": 160, "target": {"hit_ratio": 0.5}}
    cold = {"execution": {"mode": "cold"}}
    return design(DatasetConfig.parse({**smallest, **cold, **changes}, root=ROOT), FACTS)


def test_nothing_is_predicted_that_nobody_asks_about() -> None:
    """One request at a time in an endless cache is the design."""
    found = predictions(designed())

    assert found["serial"] == {"hit_tokens": 3200, "hit_ratio": 0.5}
    assert (found["in_flight_bounded"], found["simulated"], found["capacity_bounded"]) == (None, None, None)


def test_predictions_stand_side_by_side() -> None:
    """Forty requests of one step: with late visibility all of the first eight miss, and in the rest nobody does."""
    late = designed(execution={"mode": "cold", "concurrency": 8}, engine="sglang", serving=FAST, capacity_blocks=2000)
    found = forecast(late)
    first_eight = int(late.designed_hit[:8].sum())

    assert int(found.serial.sum()) == 3200
    assert found.simulated is not None
    assert int(found.simulated.sum()) == 3200 - first_eight
    assert found.in_flight is not None
    assert int(found.in_flight.sum()) <= int(found.simulated.sum())
    assert found.capacity_bounded is not None
    assert found.capacity_bounded.tolist() == found.simulated.tolist()


def test_vllm_loses_nothing_under_load_but_in_a_small_cache() -> None:
    """Its blocks are seen at once; a cache of two prompts forgets the masters of three groups in turn."""
    groups = {"prefix": {"mode": "multi_prefix", "group_count": 3}, "request_order": {"mode": "interleave"}}
    small = designed(execution={"mode": "cold", "concurrency": 2}, engine="vllm", capacity_blocks=24, **groups)
    found = forecast(small)

    assert found.simulated is not None
    assert found.simulated.tolist() == found.serial.tolist()
    assert found.predicted is found.capacity_bounded
    assert int(found.predicted.sum()) < int(found.serial.sum()) // 2


def test_tiers_are_those_of_a_replay() -> None:
    """A tier of two blocks holds nothing of the next prompt's prefix; one without a limit holds all of it."""
    small, endless = designed(tiers=TIERS), designed(tiers=_without_limit())

    assert int(forecast(small).predicted.sum()) == 0
    assert int(forecast(endless).predicted.sum()) == 3200


def _without_limit() -> dict[str, Any]:
    (group,) = TIERS["instance_groups"]
    (tier,) = group["storages"]
    return {**TIERS, "instance_groups": [{**group, "storages": [{**tier, "capacity": -1}]}]}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_plan_can_aim_at_the_predicted_ratio(engine: str) -> None:
    """The prediction is within half a block of the target, and the design above it by what concurrency costs."""
    made = designed(
        engine=engine, execution={"mode": "cold", "concurrency": 8}, serving=FAST, planning={"aim": "predicted"}
    )
    predicted = int(forecast(made).predicted.sum())

    assert abs(predicted - 3200) <= 8 * 16
    assert made.target == Fraction(1, 2)
    assert made.verdict.status is Status.PASS
    assert (made.designed > Fraction(1, 2)) is (engine == "sglang")
    assert "predicted under load" in made.verdict.message
    assert made.config.target.hit_ratio == 0.5


def test_a_prediction_that_cannot_be_reached_is_said() -> None:
    """With all forty in the first step nothing can hit."""
    made = designed(
        engine="sglang", execution={"mode": "cold", "concurrency": 40}, serving=FAST, planning={"aim": "predicted"}
    )

    assert made.verdict.reason is Reason.TARGET_UNREACHABLE
    assert made.verdict.status is Status.FAIL


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity_blocks": 10}, "needs 11 blocks, more than capacity_blocks 10"),
        ({"capacity_blocks": 10, "tiers": TIERS}, "capacity_blocks and tiers both say"),
        ({"tiers": {**TIERS, "instance_groups": []}}, "tiers.instance_groups"),
        ({"tiers": TIERS, "block_size": 32}, "tiers: its instance has block_size 16, the data set 32"),
        ({"tiers": {**TIERS, "speed": 1}}, "tiers.speed: unknown key"),
        ({"serving": {"slots": 0}}, "serving.slots"),
        ({"serving": {"visibility": "never"}}, "serving.visibility"),
        (
            {"planning": {"aim": "predicted"}, "target": {"hit_ratio": 0.5, "scope": "per_group"}},
            "planning.aim predicted needs one target for all",
        ),
        (
            {"planning": {"aim": "predicted"}, "target": {"hit_ratio": 0.5, "semantics": "static_prefix_ratio"}},
            "planning.aim: predicted needs a target of the designed pass",
        ),
    ],
)
def test_what_cannot_be_predicted_is_refused(changes: dict[str, Any], message: str) -> None:
    """One line that names the key."""
    with pytest.raises(ConfigError, match=message):
        predictions(designed(**changes))


def test_an_open_loop_has_no_bound_by_requests_under_way() -> None:
    """Requests that come at a rate: the plan says the rate, and simulates."""
    made = designed(engine="sglang", serving={**FAST, "requests_per_s": 0.1})
    found = predictions(made)

    assert (found["requests_per_s"], found["concurrency"], found["in_flight_bounded"]) == (0.1, None, None)
    assert found["simulated"] == found["serial"]
    assert "with 0.1 requests a second" in plan_text(made)
