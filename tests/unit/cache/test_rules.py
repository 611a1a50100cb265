"""Engine hit rules on the prompts where they differ."""

from __future__ import annotations

import numpy as np
import pytest

from foreword.cache.blocks import block_keys, root_key
from foreword.cache.pool import replay_hits
from foreword.cache.rules import HitRule, hit_limit_blocks, usable_hit_tokens

CAP_THEN_FLOOR, CAP_ONLY, GIVE_BACK = (
    HitRule.CAP_THEN_FLOOR,
    HitRule.CAP_ONLY,
    HitRule.FLOOR_THEN_GIVE_BACK_ONE,
)


@pytest.mark.parametrize(
    ("rule", "prompt", "shared", "block", "hit"),
    [
        (CAP_THEN_FLOOR, 1024, 1024, 1024, 0),  # a prompt of exactly one block, repeated, loses it
        (CAP_THEN_FLOOR, 1025, 1024, 1024, 1024),
        (CAP_THEN_FLOOR, 1025, 1025, 1024, 1024),
        (CAP_THEN_FLOOR, 64, 64, 16, 48),
        (CAP_THEN_FLOOR, 65, 65, 16, 64),
        (CAP_THEN_FLOOR, 64, 47, 16, 32),
        (CAP_THEN_FLOOR, 1, 1, 1, 0),
        (CAP_THEN_FLOOR, 10, 10, 1, 9),
        (CAP_ONLY, 64, 64, 16, 63),
        (CAP_ONLY, 64, 47, 16, 47),
        (CAP_ONLY, 1, 1, 16, 0),
        (GIVE_BACK, 64, 64, 16, 63),
        (GIVE_BACK, 64, 47, 16, 32),
        (GIVE_BACK, 65, 65, 16, 64),
        (GIVE_BACK, 1024, 1024, 1024, 1023),
    ],
)
def test_a_hit_rule_on_its_edges(rule: HitRule, prompt: int, shared: int, block: int, hit: int) -> None:
    """At most n - 1 tokens of a prompt hit; whole blocks, any token, or whole blocks less one."""
    assert usable_hit_tokens(rule, prompt_tokens=prompt, shared_tokens=shared, block_size=block) == hit


@pytest.mark.parametrize("rule", list(HitRule))
def test_a_rule_takes_scalars_and_arrays(rule: HitRule) -> None:
    """A scalar gives an int; an array gives integers place by place."""
    one = usable_hit_tokens(rule, prompt_tokens=100, shared_tokens=50, block_size=16)
    many = usable_hit_tokens(
        rule, prompt_tokens=np.asarray([100, 100]), shared_tokens=np.asarray([50, 0]), block_size=16
    )

    assert type(one) is int
    assert many.dtype == np.int64
    assert many.tolist() == [one, 0]


@pytest.mark.parametrize(("prompt", "block", "limit"), [(0, 16, 0), (1, 16, 0), (16, 16, 0), (17, 16, 1), (33, 16, 2)])
def test_the_last_token_is_never_in_a_hit_block(prompt: int, block: int, limit: int) -> None:
    """A prompt can hit the whole blocks before its last token."""
    assert hit_limit_blocks(prompt, block) == limit


@pytest.mark.parametrize(("tokens", "hit"), [(1024, 0), (1025, 1024), (2048, 1024), (2049, 2048)])
def test_a_repeated_prompt_of_whole_blocks_loses_the_last(tokens: int, hit: int) -> None:
    """The replayed cache and the rule agree on a prompt sent twice."""
    request = (tokens, block_keys(range(tokens), 1024, parent=root_key()))

    assert list(replay_hits([request, request], block_size=1024)) == [0, hit]
