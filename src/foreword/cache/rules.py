"""Engine hit rules: how many of the shared, cached tokens an engine serves again (theory section 3)."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never, overload

import numpy as np

from foreword.terms import IntArray  # noqa: TC001 - named in overloads that documentation tools evaluate


class HitRule(StrEnum):
    """The three rules that engines follow; evidence in the engine table."""

    CAP_THEN_FLOOR = "cap_then_floor"
    CAP_ONLY = "cap_only"
    FLOOR_THEN_GIVE_BACK_ONE = "floor_then_give_back_one"


@overload
def usable_hit_tokens(rule: HitRule, *, prompt_tokens: int, shared_tokens: int, block_size: int) -> int: ...
@overload
def usable_hit_tokens(
    rule: HitRule, *, prompt_tokens: IntArray, shared_tokens: IntArray, block_size: int
) -> IntArray: ...
def usable_hit_tokens(
    rule: HitRule, *, prompt_tokens: int | IntArray, shared_tokens: int | IntArray, block_size: int
) -> int | IntArray:
    """Tokens served from the cache, given how many leading tokens are shared and cached.

    At least one prompt token is always computed. Scalars give an ``int``, arrays an array.

    >>> usable_hit_tokens(HitRule.CAP_THEN_FLOOR, prompt_tokens=1024, shared_tokens=1024, block_size=1024)
    0
    >>> usable_hit_tokens(HitRule.FLOOR_THEN_GIVE_BACK_ONE, prompt_tokens=64, shared_tokens=64, block_size=16)
    63
    """
    total, shared = np.asarray(prompt_tokens), np.asarray(shared_tokens)
    match rule:
        case HitRule.CAP_THEN_FLOOR:
            hit = np.minimum(shared, total - 1) // block_size * block_size
        case HitRule.CAP_ONLY:
            hit = np.minimum(shared, total - 1)
        case HitRule.FLOOR_THEN_GIVE_BACK_ONE:
            floored = shared // block_size * block_size
            hit = np.where(floored == total, floored - 1, floored)
        case _:
            assert_never(rule)
    return int(hit) if hit.ndim == 0 else hit.astype(np.int64)


def hit_limit_blocks(prompt_tokens: int, block_size: int) -> int:
    """Most blocks that ``cap_then_floor`` lets a prompt hit: the last token is always computed."""
    return max(0, prompt_tokens - 1) // block_size
