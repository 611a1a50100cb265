"""The RFC's content functions on the built-in tokenizer."""

from __future__ import annotations

from dataclasses import replace

import pytest

import foreword
from foreword.config.dataset import CollisionConfig, PrefixConfig, SuffixConfig, TargetConfig
from foreword.errors import ConfigError
from foreword.rfc.pipeline import CollisionValidator, PrefixPlanner, RequestContentGenerator, RequestPlanner
from foreword.rfc.types import DataSourceConfig

TOKENIZER = foreword.load_tokenizer("builtin")


def planned_groups() -> dict[str, foreword.PrefixGroupPlan]:
    """Two groups of five requests with their prefixes planned."""
    config = PrefixConfig.model_validate({"mode": "multi_prefix", "group_count": 2})
    groups = foreword.allocate_prefix_groups(RequestPlanner.create(range(120, 220, 10)), config)
    return dict(PrefixPlanner.plan(groups, TargetConfig(hit_ratio=0.4), 16, 16).groups)


def test_masters_are_as_long_as_their_group_needs_and_begin_differently() -> None:
    """Two groups share not even their first block."""
    groups = planned_groups()

    masters = foreword.generate_master_prefixes(groups, DataSourceConfig(), TOKENIZER)

    assert {name: len(ids) >= groups[name].master_prefix_len for name, ids in masters.items()} == dict.fromkeys(
        groups, True
    )
    first = [tuple(ids[:16]) for ids in masters.values()]
    assert len(set(first)) == 2


def test_a_suffix_fills_the_prompt_to_the_token() -> None:
    """Master to P and suffix together encode to exactly ``input_len`` tokens, from text."""
    groups = planned_groups()
    request = groups["group_1"].requests[3]
    masters = foreword.generate_master_prefixes(groups, DataSourceConfig(), TOKENIZER)

    suffix = foreword.generate_request_suffix(request, SuffixConfig(), TOKENIZER, groups=groups)

    whole = masters["group_1"][: request.planned_prefix_len] + list(suffix.token_ids)
    assert len(whole) == request.input_len
    assert suffix.text
    assert TOKENIZER.encode(suffix.text)[-8:] == list(suffix.token_ids)[-8:]


def test_prompts_encode_to_their_ids() -> None:
    """Text and ids of a generated request agree under the tokenizer itself."""
    groups = RequestContentGenerator.generate(planned_groups(), SuffixConfig())

    for plan in groups.values():
        for request in plan.requests:
            assert TOKENIZER.encode(request.prompt) == list(request.prompt_token_ids)
            assert len(request.prompt_token_ids) == request.input_len


def test_a_request_outside_the_groups_is_refused() -> None:
    """Its siblings could not be told."""
    with pytest.raises(ConfigError, match="not among"):
        foreword.generate_request_suffix(
            foreword.RequestPlan("r9999999", "group_0", 100), SuffixConfig(), TOKENIZER, groups=planned_groups()
        )


def test_collisions_are_found_against_what_came_before() -> None:
    """The same prompt twice collides the second time; with checks off it is only registered."""
    registry = foreword.BlockRegistry(4)
    config = CollisionConfig()
    ids = list(range(40))

    first = foreword.validate_block_collisions(ids, registry, config)
    second = foreword.validate_block_collisions(ids, registry, config)
    off = foreword.validate_block_collisions(ids, registry, CollisionConfig(enabled=False))

    assert (first.unique, second.unique, second.conflicts) == (True, False, (0,))
    assert (off.unique, off.checked) == (True, 0)


def test_a_set_with_a_copied_prompt_is_refused_or_marked() -> None:
    """``on_conflict`` decides between an error and a mark on the request."""
    groups = RequestContentGenerator.generate(planned_groups(), SuffixConfig())
    one, *others = groups["group_0"].requests
    copied = replace(others[0], prompt_token_ids=one.prompt_token_ids, planned_prefix_len=one.planned_prefix_len)
    groups["group_0"] = replace(groups["group_0"], requests=(one, copied, *others[1:]))

    with pytest.raises(foreword.ForewordError, match="share more than they should"):
        CollisionValidator.validate_and_repair(groups, CollisionConfig())
    marked = CollisionValidator.validate_and_repair(groups, CollisionConfig(on_conflict="warn"))

    states = [request.collision_status for request in marked["group_0"].requests]
    assert states.count("conflict") >= 1
