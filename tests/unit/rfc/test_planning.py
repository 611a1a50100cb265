"""The RFC's planning functions: each alone, with the values that the theory gives."""

from __future__ import annotations

import pytest

import foreword
from foreword.config.dataset import PrefixConfig, TargetConfig
from foreword.config.lengths import FixedLength, TruncatedNormalLength
from foreword.errors import ConfigError
from foreword.rfc.pipeline import RequestPlanner


def groups_of(*lengths: int, ids: tuple[str, ...] = ("default",)) -> dict[str, foreword.PrefixGroupPlan]:
    """Requests of these lengths, dealt out over groups in turn."""
    requests = RequestPlanner.create(lengths)
    names = tuple(ids[index % len(ids)] for index in range(len(lengths)))
    multi = {"mode": "multi_prefix", "groups": [{"id": name} for name in ids], "assignment": names}
    return foreword.allocate_prefix_groups(requests, PrefixConfig.model_validate(multi))


def test_lengths_depend_on_the_seed_alone() -> None:
    """Equal arguments give equal lengths, within the bounds that were asked for."""
    law = TruncatedNormalLength(mode="truncated_normal", min=100, max=900, mean=400, std=200)

    lengths = foreword.generate_request_lengths(law, 500, 7)

    assert lengths == foreword.generate_request_lengths(law, 500, 7)
    assert lengths != foreword.generate_request_lengths(law, 500, 8)
    assert (len(lengths), min(lengths) >= 100, max(lengths) <= 900) == (500, True, True)


def test_every_request_gets_one_group_by_largest_remainder() -> None:
    """10 requests over three equal groups are 4, 3 and 3 (case 7)."""
    config = PrefixConfig.model_validate({"mode": "multi_prefix", "groups": [{"id": name} for name in "abc"]})

    groups = foreword.allocate_prefix_groups(RequestPlanner.create([64] * 10), config)

    assert [plan.request_count for plan in groups.values()] == [4, 3, 3]
    assert sorted(name for plan in groups.values() for name in plan.request_ids) == [f"r{i:07d}" for i in range(10)]
    assert groups["b"].input_lens == (64, 64, 64)


def test_the_rfc_example_of_four_requests_cannot_reach_sixty_percent() -> None:
    """1000/2000/3000/4000 tokens give 5,936 of 10,000 at most (RFC 2.4), and advice that was computed."""
    found = foreword.validate_target_reachability(
        groups_of(1000, 2000, 3000, 4000), TargetConfig(hit_ratio=0.6), 16, 16
    )

    assert not found.reachable
    assert found.max_reachable_hit_ratio == 0.5936
    assert found.min_reachable_hit_ratio == 0.0
    assert found.suggestions


def test_a_plan_misses_by_half_a_block_at_most() -> None:
    """Law 3, for one group and for two, and the groups carry what was planned."""
    for names in (("default",), ("a", "b")):
        groups = groups_of(*range(300, 900, 17), ids=names)
        result = foreword.plan_prefix_lengths(groups, TargetConfig(hit_ratio=0.5), 16, 16)

        assert abs(result.planned_hit_tokens - result.input_tokens / 2) <= 8
        requests = [request for plan in result.groups.values() for request in plan.requests]
        assert all(request.planned_prefix_len % 16 == 0 for request in requests)
        assert all(
            request.planned_prefix_len + request.divergence_len + request.suffix_len == request.input_len
            for request in requests
        )
        tops = {name: max(r.planned_prefix_len for r in plan.requests) for name, plan in result.groups.items()}
        assert {name: plan.master_prefix_len for name, plan in result.groups.items()} == tops
        assert {name: plan.cold_start_loss for name, plan in result.groups.items()} == tops


def test_a_simulation_keeps_a_watermark_for_each_lane() -> None:
    """A1 B1 A2 B2: the first of each group finds nothing, and ranks with caches of their own start anew."""
    request = foreword.RequestPlan
    rows = [
        request("r0", "a", 100, 64),
        request("r1", "b", 100, 32),
        request("r2", "a", 100, 80, planned_dp_id=1),
        request("r3", "b", 100, 48),
    ]

    shared = foreword.simulate_prefix_cache_watermarks(rows, "global")
    local = foreword.simulate_prefix_cache_watermarks(rows, "dp_local")

    assert [each.expected_hit_len for each in shared.requests] == [0, 0, 64, 32]
    assert [each.expected_hit_len for each in local.requests] == [0, 0, 0, 32]
    assert [each.cached_watermark_after for each in shared.requests] == [64, 32, 80, 48]
    assert shared.hit_ratio == 96 / 400


@pytest.mark.parametrize(("prefix_len", "status"), [(51, "PASS"), (52, "PASS_WITH_WARNING"), (53, "FAIL")])
def test_tolerances_are_exact(prefix_len: int, status: str) -> None:
    """One point passes, two warn, more fails; the boundaries belong to the better side (X21)."""
    rows = [foreword.RequestPlan("r0", "a", 100, prefix_len)]
    simulation = foreword.simulate_prefix_cache_watermarks(rows, "global", warm=True, block_size=1)

    report = foreword.validate_theoretical_hit_rate(simulation, 0.5, 0.01, 0.02)

    assert report.validation_status == status
    assert report.signed_deviation == pytest.approx((prefix_len - 50) / 100)


def test_an_unreachable_target_fails_inside_the_tolerance() -> None:
    """With the bounds at hand the verdict names the reason (X21)."""
    target = TargetConfig(hit_ratio=0.6)
    groups = groups_of(1000, 2000, 3000, 4000)
    reach = foreword.validate_target_reachability(groups, target, 16, 16)
    planned = foreword.plan_prefix_lengths(groups, target, 16, 16)
    rows = [request for plan in planned.groups.values() for request in plan.requests]
    simulation = foreword.simulate_prefix_cache_watermarks(rows, "global")

    report = foreword.validate_theoretical_hit_rate(simulation, 0.6, 0.01, 0.02, reachability=reach)

    assert simulation.hit_tokens == 5936
    assert (report.validation_status, report.reason) == ("FAIL", "TARGET_UNREACHABLE")


def test_groups_without_requests_are_refused() -> None:
    """There is nothing to plan, which is said."""
    with pytest.raises(ConfigError, match="no group has requests"):
        foreword.plan_prefix_lengths({"a": foreword.PrefixGroupPlan("a", 0)}, TargetConfig(hit_ratio=0.5), 16, 16)


def test_a_length_below_the_shortest_prompt_is_refused() -> None:
    """A template of 20 tokens leaves no room in a prompt of 10 (case 4)."""
    with pytest.raises(ConfigError, match="shortest possible prompt"):
        foreword.generate_request_lengths(FixedLength(mode="fixed", value=10), 3, 1, minimum=21)
