"""Designs from random configs: Law 3, the prediction and the order, whatever the config asks for."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.cache.rules import HitRule
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError
from foreword.simulate.design import Design, Facts, design
from foreword.terms import Reason, RequestClass, Semantics
from foreword.workload.lengths import bin_counts
from tests.support.designs import configs
from tests.support.planning import at_least, bounds_of, group_bounds, hits_of, miss, served

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foreword.terms import IntArray

ENDLESS_TURNS: dict[str, Any] = {
    "dataset_id": "x",
    "seed": 49,
    "request_count": 12,
    "input_length": 128,
    "target": {"hit_ratio": 0.377, "scope": "per_group", "groups": []},
    "prefix": {
        "mode": "multi_prefix",
        "groups": [{"id": "g0"}, {"id": "g1"}, {"id": "g2"}, {"id": "g3"}],
        "minimum_non_shared_length": 17,
        "shape": "uniform_cap",
    },
    "request_order": {"mode": "prefix_len_asc"},
}


facts = st.builds(
    Facts,
    block_size=st.sampled_from([1, 4, 7, 16]),
    rule=st.sampled_from(list(HitRule)),
    head_len=st.sampled_from([0, 0, 1, 4, 9, 17]),
    tail_len=st.sampled_from([0, 2, 5]),
)


def _designed(config: Mapping[str, Any], given_facts: Facts) -> Design | None:
    """The design, or nothing for the one combination that is refused (prefix order with routing by send order)."""
    try:
        return design(DatasetConfig.parse(config, root=ROOT), given_facts)
    except ConfigError as refused:
        assert refused.field == "routing.assignment"  # noqa: PT017 - one class of refusal is part of the behaviour
        return None


def _targets(config: Mapping[str, Any], made: Design) -> list[tuple[int | None, Fraction]]:
    """Exact targets: of the whole set (``None``), or of each group that has requests."""
    target = config["target"]
    if target.get("scope") != "per_group":
        return [(None, Fraction(str(target["hit_ratio"])))]
    own = {entry["id"]: entry["hit_ratio"] for entry in target["groups"]}
    present = sorted(set(made.prompts.group.tolist()))
    return [(g, Fraction(str(own.get(made.groups.ids[g], target["hit_ratio"])))) for g in present]


def _generation_hits(made: Design) -> tuple[IntArray, bool]:
    warm = made.config.target.semantics is Semantics.STATIC_PREFIX_RATIO
    return hits_of(made.prompts, made.plan.prefix_len, made.order, warm=warm), warm


@at_least(300)
@given(configs(), facts)
def test_a_design_meets_its_target_to_half_a_block(config: dict[str, Any], given_facts: Facts) -> None:
    """For every law, group form, order and routing, replayed blocks hit the target within half a block."""
    _check_bound(config, given_facts)


def test_a_group_keeps_its_bound_where_plan_and_order_follow_each_other() -> None:
    """Sent by prefix length, each plan lets another group pay for the head; the bound by group holds all the same."""
    _check_bound(ENDLESS_TURNS, Facts(4, HitRule.CAP_THEN_FLOOR, head_len=4, tail_len=2))


def _check_bound(config: Mapping[str, Any], given_facts: Facts) -> None:
    made = _designed(config, given_facts)
    if made is None:
        return

    hits, warm = _generation_hits(made)
    lowest, floor, ceiling = bounds_of(made.prompts, made.order, warm=warm)
    for group, ratio in _targets(config, made):
        mine = slice(None) if group is None else made.prompts.group == group
        bounds = (floor, ceiling) if group is None else group_bounds(made.prompts, lowest, group, warm=warm)
        goal = ratio * int(made.prompts.input_len[mine].sum())
        assert miss(int(hits[mine].sum()), goal, bounds) <= Fraction(given_facts.block_size, 2)


@settings(max_examples=150)
@given(configs(), facts)
def test_the_prediction_is_what_real_blocks_hit(config: dict[str, Any], given_facts: Facts) -> None:
    """Every request's cold hit, watermark and class agree with a replay of its tokens in send order."""
    made = _designed(config, given_facts)
    if made is None:
        return

    found, planned = made.prediction, made.plan.prefix_len[made.order]
    assert found.cold_hit.tolist() == served(made.prompts, made.plan.prefix_len, made.order)[made.order].tolist()
    assert found.hot_hit.tolist() == planned.tolist()
    seen: set[int] = set()
    for place, lane in enumerate(made.prompts.lane[made.order].tolist()):
        kind = list(RequestClass)[int(found.request_class[place])]
        expected = (
            RequestClass.FIRST_OF_LANE
            if lane not in seen
            else RequestClass.NONE_PLANNED
            if planned[place] == 0
            else RequestClass.FULL_HIT
            if planned[place] <= found.cold.before[place]
            else RequestClass.EXTENDS_LANE
        )
        seen.add(lane)
        assert kind is expected


@settings(max_examples=150)
@given(configs(), facts)
def test_reasons_follow_what_is_reachable(config: dict[str, Any], given_facts: Facts) -> None:
    """A verdict says unreachable, below the floor, or neither, exactly as the replayed bounds do."""
    made = _designed(config, given_facts)
    if made is None:
        return

    warm = made.config.target.semantics is Semantics.STATIC_PREFIX_RATIO
    lowest, floor, ceiling = bounds_of(made.prompts, made.order, warm=warm)
    assert (made.reach.floor_tokens, made.reach.ceiling_tokens) == (floor, ceiling)
    for group, ratio in _targets(config, made):
        mine = slice(None) if group is None else made.prompts.group == group
        verdict = made.verdict if group is None else made.by_group[group].verdict
        low, high = (floor, ceiling) if group is None else group_bounds(made.prompts, lowest, group, warm=warm)
        tokens = int(made.prompts.input_len[mine].sum())
        assert verdict is not None
        assert (verdict.reason is Reason.TARGET_UNREACHABLE) == (ratio * tokens > high)
        assert (verdict.reason is Reason.BELOW_FLOOR) == (ratio * tokens < low)
        if group is not None:
            assert made.by_group[group].max_reachable_hit_ratio == high / tokens


@settings(max_examples=150)
@given(configs(), facts)
def test_counts_and_sums_of_a_design_agree(config: dict[str, Any], given_facts: Facts) -> None:
    """Orders are permutations, groups hold every request once, and group figures add up to the whole."""
    made = _designed(config, given_facts)
    if made is None:
        return

    n = config["request_count"]
    assert sorted(made.order.tolist()) == list(range(n))
    assert sum(group.request_count for group in made.by_group) == n == int(made.groups.sizes.sum())
    assert sum(group.input_tokens for group in made.by_group) == made.input_tokens == int(made.lengths.tokens.sum())
    assert sum(group.designed_hit_tokens for group in made.by_group) == int(made.designed_hit.sum())
    assert sum(entry["requests"] for entry in bin_counts(made.lengths.tokens, made.lengths.edges)) == n
    lost = int(made.plan.prefix_len.sum()) - int(made.prediction.cold_hit.sum())
    assert sum(group.cold_start_loss_tokens for group in made.by_group) == lost


@settings(max_examples=100)
@given(configs(), facts)
def test_a_design_is_a_function_of_its_config(config: dict[str, Any], given_facts: Facts) -> None:
    """Designing twice gives the same lengths, groups, plan and order."""
    first, second = _designed(config, given_facts), _designed(config, given_facts)
    if first is None or second is None:
        assert first is second
        return

    assert first.lengths.tokens.tolist() == second.lengths.tokens.tolist()
    assert first.groups.of_request.tolist() == second.groups.of_request.tolist()
    assert first.plan.prefix_len.tolist() == second.plan.prefix_len.tolist()
    assert first.order.tolist() == second.order.tolist()
    assert first.lanes.dp.tolist() == second.lanes.dp.tolist()
