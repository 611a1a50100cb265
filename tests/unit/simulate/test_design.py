"""Designs of the RFC's examples and of the cases in which tools go wrong."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import yaml

from foreword.cache.rules import HitRule
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError
from foreword.simulate.design import Design, Facts, content_key, design
from foreword.terms import Reason, Status
from tests.support.groups import ROOT as REPOSITORY

FACTS = Facts(block_size=16, rule=HitRule.CAP_THEN_FLOOR)


def _config(**changes: Any) -> DatasetConfig:  # noqa: ANN401 - config values
    smallest = {"dataset_id": "d", "request_count": 100, "input_length": 1000, "target": {"hit_ratio": 0.5}}
    return DatasetConfig.parse({**smallest, **changes}, root=ROOT)


def _designed(facts: Facts = FACTS, **changes: Any) -> Design:  # noqa: ANN401 - config values
    return design(_config(**changes), facts)


def _example(name: str, seed: int = 42) -> Design:
    text = (REPOSITORY / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
    data = yaml.safe_load(text)[ROOT]
    return design(DatasetConfig.parse({**data, "seed": seed}, root=ROOT), FACTS)


def _nearest_multiple(tokens: Fraction) -> int:
    """The multiple of 16 nearest to a number of tokens, ties to the smaller."""
    below = tokens // 16 * 16
    return int(below if tokens - below <= 8 else below + 16)


def test_the_first_example_is_exactly_half() -> None:
    """4,096,000 tokens: 2,048,000 hits hot, 2,045,952 cold; ceiling 0.99609375; compare states both."""
    made = _example("fixed_single_prefix_50")

    assert made.input_tokens == 4_096_000
    assert int(made.prediction.hot_hit.sum()) == 2_048_000
    assert int(made.prediction.cold_hit.sum()) == 2_045_952
    assert set(made.plan.prefix_len.tolist()) == {2048}
    assert made.reach.ceiling == Fraction("0.99609375")
    assert (made.designed, made.designed_cold) == (Fraction(1, 2), False)
    assert (made.verdict.status, made.verdict.reason) == (Status.PASS, Reason.OK)


@pytest.mark.parametrize("seed", [42, 1, 7])
def test_the_second_example_hits_the_nearest_block_of_half(seed: int) -> None:
    """About 4.10 M tokens; the cold total is the multiple of 16 nearest to half; the ceiling is where it must be."""
    made = _example("progressive_single_prefix_50", seed)

    assert made.input_tokens == pytest.approx(4_100_000, rel=0.03)
    assert int(made.prediction.cold_hit.sum()) == _nearest_multiple(Fraction(made.input_tokens, 2))
    assert 0.9626 < made.reach.ceiling < 0.9971
    assert made.designed_cold
    lengths = made.lengths.tokens[made.order].tolist()
    assert lengths == sorted(lengths)
    assert int(made.prediction.cold_hit[0]) == 0


@pytest.mark.parametrize("seed", [42, 1, 7])
def test_the_third_example_has_500_300_200_requests_taking_weighted_turns(seed: int) -> None:
    """Order abcaabacba repeating, each customer from short to long and with a cold start of its own."""
    made = _example("progressive_multi_prefix_50", seed)

    assert made.groups.sizes.tolist() == [500, 300, 200]
    assert "".join("abc"[group] for group in made.groups.of_request[made.order]) == "abcaabacba" * 100
    assert made.input_tokens == pytest.approx(3_230_000, rel=0.03)
    assert int(made.prediction.cold_hit.sum()) == _nearest_multiple(Fraction(made.input_tokens, 2))
    assert 0.9476 < made.reach.ceiling < 0.9951
    for group in range(3):
        mine = made.groups.of_request[made.order] == group
        lengths = made.lengths.tokens[made.order][mine].tolist()
        assert lengths == sorted(lengths)
        assert int(made.prediction.cold_hit[mine][0]) == 0


def test_the_histogram_of_the_third_example_is_a_quota() -> None:
    """Weights 3:5:2 of 1,000 requests are 300, 500 and 200, in every seed."""
    tokens = _example("progressive_multi_prefix_50").lengths.tokens

    counts = Counter("low" if size < 2048 else "middle" if size < 4096 else "high" for size in tokens.tolist())
    assert counts == {"low": 300, "middle": 500, "high": 200}


def test_four_requests_cannot_reach_sixty_percent() -> None:
    """RFC 2.4: 5,936 of 10,000 is the ceiling; 0.6 fails with its reason and true suggestions."""
    explicit = {"mode": "explicit", "values": [1000, 2000, 3000, 4000]}
    made = _designed(request_count=4, input_length=explicit, target={"hit_ratio": 0.6})

    assert (made.verdict.status, made.verdict.reason) == (Status.FAIL, Reason.TARGET_UNREACHABLE)
    assert made.designed == made.reach.ceiling == Fraction(5936, 10_000)
    assert "59.36 %" in made.verdict.message
    assert {"request_count", "target.semantics"} <= {offer.field for offer in made.suggestions}
    reachable = _designed(request_count=4, input_length=explicit, target={"hit_ratio": 0.5936})
    assert (reachable.designed, reachable.verdict.status) == (Fraction(5936, 10_000), Status.PASS)


def test_ten_prompts_over_three_prefixes_are_ten() -> None:
    """Case 7: the remainder is spread; every request is in the set."""
    made = _designed(request_count=10, prefix={"mode": "multi_prefix", "group_count": 3})

    assert [group.request_count for group in made.by_group] == [4, 3, 3]
    assert len(made.order) == 10


def test_a_prefix_never_is_the_whole_prompt() -> None:
    """Case 8: lengths are totals; a prompt of 32,768 tokens keeps its private end even where all could be shared."""
    made = _designed(request_count=10, input_length=32_768, target={"hit_ratio": 1.0})

    assert made.lengths.tokens.tolist() == [32_768] * 10
    assert int(made.plan.prefix_len.max()) == 32_752
    assert made.verdict.reason is Reason.TARGET_UNREACHABLE


def test_prompts_shorter_than_a_block_are_warned_about() -> None:
    """Case 13: blocks of 784 tokens and prompts of 700 share nothing, and the design says why."""
    made = _designed(Facts(784, HitRule.CAP_THEN_FLOOR), input_length=700)

    assert int(made.designed_hit.sum()) == 0
    assert any("784" in warning for warning in made.warnings)


@pytest.mark.parametrize(("size", "shared"), [(2048, 1024), (2049, 2048)])
def test_a_prompt_of_whole_blocks_never_shares_its_last(size: int, shared: int) -> None:
    """Case 14: with one private token, a prompt of exactly two blocks shares one, one token more shares both."""
    prefix = {"minimum_non_shared_length": 0}
    made = _designed(Facts(1024, HitRule.CAP_THEN_FLOOR), input_length=size, prefix=prefix, target={"hit_ratio": 1.0})

    assert int(made.plan.prefix_len.max()) == shared


def test_input_and_output_must_fit_the_model() -> None:
    """RFC 3.3.1: input + output <= max_model_len; the first request beyond it is named, and how many there are."""
    with pytest.raises(ConfigError, match="r0000000 has 1000 input and 16 output tokens") as caught:
        _designed(max_model_len=1015)

    assert (caught.value.field, caught.value.request_id) == ("max_model_len", "r0000000")
    assert "100 of 100" in caught.value.advice
    assert _designed(max_model_len=1016).output_len.tolist() == [16] * 100


def test_output_lengths_have_the_same_laws() -> None:
    """An output law is drawn with a key of its own."""
    law = {"mode": "histogram", "bins": [{"range": [100, 200], "weight": 1}]}
    made = _designed(input_length=law, output_length=law)

    assert made.output_len.min() >= 100
    assert made.output_len.tolist() != made.lengths.tokens.tolist()


@pytest.mark.parametrize(
    ("semantics", "mode", "cold", "note"),
    [
        ("order_aware_global", "cold", True, False),
        ("order_aware_global", "progressive_prefix_fill", True, False),
        ("order_aware_global", "warmup", False, True),
        ("order_aware_global", "hot", False, True),
        ("order_aware_global", "compare", True, False),
        ("static_prefix_ratio", "cold", True, True),
        ("static_prefix_ratio", "progressive_prefix_fill", True, True),
        ("static_prefix_ratio", "warmup", False, False),
        ("static_prefix_ratio", "hot", False, False),
        ("static_prefix_ratio", "compare", False, False),
    ],
)
def test_the_designed_pass_follows_semantics_and_execution(
    semantics: str, mode: str, *, cold: bool, note: bool
) -> None:
    """Decision 1: which pass is designed, which one the target speaks of, and a note where they differ."""
    made = _designed(target={"hit_ratio": 0.5, "semantics": semantics}, execution={"mode": mode})

    hits = made.prediction.cold_hit if cold else made.prediction.hot_hit
    assert made.designed_cold is cold
    assert made.designed == Fraction(int(hits.sum()), 100_000)
    aimed = made.prediction.hot_hit if semantics == "static_prefix_ratio" else made.prediction.cold_hit
    assert abs(int(aimed.sum()) - 50_000) <= 8
    assert ("the target speaks of" in made.verdict.message) is note


def test_targets_by_group_have_a_status_each() -> None:
    """A group that cannot reach its target fails alone, and the whole with it."""
    groups = [{"id": "big", "request_count": 99}, {"id": "lone", "request_count": 1}]
    target = {"scope": "per_group", "hit_ratio": 0.5, "groups": [{"id": "lone", "hit_ratio": 0.9}]}

    made = _designed(prefix={"mode": "multi_prefix", "groups": groups}, target=target)

    big, lone = made.by_group
    assert big.verdict is not None
    assert lone.verdict is not None
    assert (big.verdict.status, lone.verdict.status) == (Status.PASS, Status.FAIL)
    assert (lone.verdict.reason, lone.max_reachable_hit_ratio) == (Reason.TARGET_UNREACHABLE, 0.0)
    assert made.verdict.status is Status.FAIL
    assert made.verdict.message.startswith("group lone: 90.00 % cannot be planned")
    assert made.target == Fraction(99 * 5 + 9, 1000)


def test_targets_by_group_that_are_met_are_told_as_a_whole() -> None:
    """The sentence of a set whose groups all reach their own target speaks of all of them."""
    target = {"scope": "per_group", "groups": [{"id": "a", "hit_ratio": 0.2}, {"id": "b", "hit_ratio": 0.4}]}
    groups = [{"id": "a"}, {"id": "b"}]

    made = _designed(prefix={"mode": "multi_prefix", "groups": groups}, target=target)

    assert made.verdict.status is Status.PASS
    assert made.verdict.message.startswith("designed 30.00 % for a target of 30.00 %")


def test_a_group_without_requests_is_named_and_judged_by_nobody() -> None:
    """A weight of 0 leaves a group empty: a warning, no status, no ceiling."""
    groups = [{"id": "a", "request_weight": 1}, {"id": "b", "request_weight": 0}]
    target = {"scope": "per_group", "hit_ratio": 0.5}

    made = _designed(prefix={"mode": "multi_prefix", "groups": groups}, target=target)

    assert any("b has no requests" in warning for warning in made.warnings)
    assert (made.by_group[1].verdict, made.by_group[1].max_reachable_hit_ratio) == (None, None)


def test_cold_starts_are_what_each_lane_pays() -> None:
    """A group's loss is its longest prefix, once for each cache that it meets."""
    one = _designed()
    spread = _designed(routing={"cache_scope": "dp_local", "dp_size": 4, "sticky_routing": False})

    assert one.by_group[0].cold_start_loss_tokens == int(one.plan.prefix_len.max())
    tops = [int(spread.plan.prefix_len[spread.lanes.lane == lane].max()) for lane in range(4)]
    assert spread.by_group[0].cold_start_loss_tokens == sum(tops)
    assert any("spread over ranks" in warning for warning in spread.warnings)


def test_a_template_alone_may_exceed_the_target() -> None:
    """A head of 160 tokens in prompts of 1,000 gives 16 % of all but the first: 10 % lies below the floor."""
    made = _designed(Facts(16, HitRule.CAP_THEN_FLOOR, head_len=160), target={"hit_ratio": 0.1})

    assert made.verdict.reason is Reason.BELOW_FLOOR
    assert made.designed == Fraction(99 * 160, 100_000)


def test_a_prompt_must_hold_the_template_and_a_token() -> None:
    """A length that a template fills is a config error that names the request."""
    with pytest.raises(ConfigError, match="r0000000") as caught:
        _designed(Facts(16, HitRule.CAP_THEN_FLOOR, head_len=800, tail_len=200))

    assert caught.value.field == "input_length"


def test_an_order_that_needs_the_plan_keeps_every_promise() -> None:
    """Sending short prefixes first is planned first and ordered then; the total is the same."""
    spread = {"mode": "histogram", "bins": [{"range": [500, 2000], "weight": 1}]}
    first, last = (
        _designed(Facts(16, HitRule.CAP_THEN_FLOOR, head_len=40), input_length=spread, request_order={"mode": mode})
        for mode in ("prefix_len_asc", "prefix_len_desc")
    )

    assert first.designed == last.designed
    shared = first.plan.prefix_len[first.order].tolist()
    assert shared == sorted(shared)


def test_the_seed_of_content_follows_its_scope() -> None:
    """Sets with other targets share no content, unless seed_scope is ``content``."""
    half, most = {"hit_ratio": 0.5}, {"hit_ratio": 0.9}

    assert content_key(_config(target=half)) != content_key(_config(target=most))
    assert content_key(_config(target=half, seed_scope="content")) == content_key(
        _config(target=most, seed_scope="content")
    )
    assert content_key(_config(seed=1)) != content_key(_config(seed=2))
    assert content_key(_config(dataset_id="x")) != content_key(_config(dataset_id="y"))
