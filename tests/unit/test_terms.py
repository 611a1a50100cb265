"""Words of the field, and draws that depend on their key alone."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword import terms
from foreword.terms import ExecutionMode, below, draw_key, permutation, raw_bits

if TYPE_CHECKING:
    from enum import StrEnum


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (terms.Semantics, {"static_prefix_ratio", "order_aware_global"}),
        (terms.TargetScope, {"global", "per_group"}),
        (terms.CacheScope, {"global", "dp_local"}),
        (terms.ExecutionMode, {"cold", "warmup", "hot", "compare", "progressive_prefix_fill"}),
        (terms.Status, {"PASS", "PASS_WITH_WARNING", "FAIL"}),
        (terms.Reason, {"OK", "TARGET_UNREACHABLE", "BELOW_FLOOR", "GRANULARITY"}),
        (terms.RequestClass, {"first of lane", "extends the lane", "full hit", "none planned"}),
        (terms.PromptFormat, {"completions_text", "completions_ids", "chat"}),
        (terms.Pass, {"cold", "warmup", "hot"}),
        (terms.Shape, {"proportional", "uniform_cap"}),
    ],
)
def test_words_are_written_as_the_formats_have_them(words: type[StrEnum], written: set[str]) -> None:
    """The values of an enumeration are what files and the RFC say."""
    assert {str(word) for word in words} == written


def test_only_cold_and_progressive_runs_have_no_hot_pass() -> None:
    """A mode designs for the cold pass alone exactly if it makes no other."""
    assert {mode for mode in ExecutionMode if mode.designed_cold} == {
        ExecutionMode.COLD,
        ExecutionMode.PROGRESSIVE_PREFIX_FILL,
    }


def test_a_draw_depends_on_every_part_of_its_key() -> None:
    """Purpose, values and where one value ends and the next begins all change the key."""
    keys = {
        draw_key("length", 42, "set"),
        draw_key("order", 42, "set"),
        draw_key("length", 43, "set"),
        draw_key("length", 4, "2set"),
        draw_key("length", "42set"),
        draw_key("length", 42, "set", ""),
        draw_key("length", 42),
    }

    assert len(keys) == 7
    assert all(0 <= key < 2**64 for key in keys)


def test_a_draw_is_the_same_in_another_process_with_another_hash_seed() -> None:
    """Neither the process nor Python's string hashing changes a key or a permutation."""
    program = (
        "from foreword.terms import draw_key, permutation;"
        "print(draw_key('order', 42, 'set'), permutation(draw_key('order', 42, 'set'), 8).tolist())"
    )

    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("0", "1")
    }

    key = draw_key("order", 42, "set")
    assert outputs == {f"{key} {permutation(key, 8).tolist()}\n"}


def test_raw_bits_are_pinned() -> None:
    """The bit stream of a key never changes: a data set of an older version can be made again."""
    assert draw_key("length", 42, "set") == 14448364104491614525
    assert raw_bits(7, 2).tolist() == np.random.PCG64(7).random_raw(2).tolist()
    assert hashlib.sha256(raw_bits(7, 1000).astype("<u8").tobytes()).hexdigest()[:16] == "b0b3c2b5faff4f88"


def test_numbers_below_a_limit_are_even() -> None:
    """Multiply and shift keeps within the limit and hits every number about as often."""
    drawn = below(raw_bits(1, 70_000), 7)

    counts = np.bincount(drawn, minlength=7)
    assert drawn.min() == 0
    assert drawn.max() == 6
    assert len(counts) == 7
    assert sum((int(count) - 10_000) ** 2 / 10_000 for count in counts) < 22.5  # chi square, 6 degrees, p = 0.001


def test_each_number_may_have_its_own_limit() -> None:
    """An array of limits is honoured place by place; a limit of 1 gives 0."""
    limits = np.asarray([1, 2, 1000, 2**32 - 1], dtype=np.int64)

    drawn = below(np.full(4, 2**64 - 1, dtype=np.uint64), limits)

    assert drawn.tolist() == [0, 1, 999, 2**32 - 2]


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_holds_everything_once(n: int) -> None:
    """A keyed order is a permutation, and another key gives another one."""
    assert sorted(permutation(5, n).tolist()) == list(range(n))
    assert n < 3 or permutation(5, n).tolist() != permutation(6, n).tolist()
