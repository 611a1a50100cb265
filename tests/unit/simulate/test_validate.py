"""The proof of a data set of another version: watermarks from lengths and lanes, hits from replay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword.cache.rules import HitRule
from foreword.simulate.validate import (
    Layout,
    Metadata,
    Replay,
    check_groups,
    check_metadata,
    check_totals,
    expected_columns,
    fingerprint,
)

if TYPE_CHECKING:
    from foreword.terms import IntArray

LAYOUT = Layout(
    block_size=4,
    rule=HitRule.CAP_THEN_FLOOR,
    head_len=0,
    tail_len=0,
    minimum_non_shared=4,
    local=False,
    designed_cold=True,
)


def ints(*values: int) -> IntArray:
    """An array."""
    return np.asarray(values, dtype=np.int64)


# Two groups, three requests of one and two of the other: hits by hand 0, 0, 4, 8 and 4 cold.
METADATA = Metadata(
    request_ids=["r0", "r1", "r2", "r3", "r4"],
    group_ids=("A", "B"),
    group=ints(0, 1, 0, 0, 1),
    dp=ints(0, 0, 1, 0, 1),
    input_len=ints(10, 12, 20, 16, 9),
    prefix_len=ints(4, 4, 12, 8, 4),
)
COLD, HOT = [0, 0, 4, 8, 4], [4, 4, 12, 8, 4]
CLASSES = ["first of lane", "first of lane", "extends the lane", "full hit", "full hit"]


def test_every_column_follows_from_lengths_and_lanes() -> None:
    """Watermarks and hits of five requests, computed by hand."""
    columns, _ = expected_columns(METADATA, LAYOUT)

    assert columns["cached_watermark_before"].tolist() == [0, 0, 4, 12, 4]
    assert columns["cached_watermark_after"].tolist() == [4, 4, 12, 12, 4]
    assert columns["expected_hit_len_cold"].tolist() == columns["expected_hit_len"].tolist() == COLD
    assert columns["expected_hit_len_hot"].tolist() == HOT
    assert columns["new_cached_len"].tolist() == [4, 4, 8, 0, 0]
    assert (columns["divergence_len"] + columns["suffix_len"] + METADATA.prefix_len).tolist() == [10, 12, 20, 16, 9]


def test_ranks_that_share_no_cache_are_lanes_of_their_own() -> None:
    """With dp_local the third and the last request are first in their lanes."""
    columns, _ = expected_columns(METADATA, replace(LAYOUT, local=True))

    assert columns["expected_hit_len_cold"].tolist() == [0, 0, 0, 4, 0]


def test_each_wrong_number_is_named_alone() -> None:
    """One number of one request that is wrong gives one problem with its name."""
    columns, _ = expected_columns(METADATA, LAYOUT)
    for name in columns:
        written = {key: values.copy() for key, values in columns.items()}
        written[name][2] += 4

        found = list(check_metadata(METADATA, LAYOUT, written=written, classes=CLASSES))

        assert [(problem.request_id, problem.field) for problem in found] == [("r2", name)]


def test_a_wrong_class_is_named() -> None:
    """A request class is checked like a number."""
    columns, _ = expected_columns(METADATA, LAYOUT)

    found = list(check_metadata(METADATA, LAYOUT, written=columns, classes=[*CLASSES[:4], "none planned"]))

    assert [(problem.request_id, problem.field) for problem in found] == [("r4", "request_class")]


@pytest.mark.parametrize("shared", [2, 20, 16])
def test_a_prefix_that_cannot_be_is_named(shared: int) -> None:
    """A shared prefix is whole blocks, and leaves the private part that the manifest states."""
    metadata = replace(METADATA, prefix_len=ints(4, 4, 12, shared, 4))
    columns, _ = expected_columns(metadata, LAYOUT)

    found = list(check_metadata(metadata, LAYOUT, written=columns, classes=CLASSES))

    assert ("r3", "planned_prefix_len") in {(problem.request_id, problem.field) for problem in found}


def test_totals_and_groups_are_sums_of_the_requests() -> None:
    """Totals that a document states are compared with sums by hand; each wrong one is named."""
    right = {
        "input_tokens": 67, "designed_hit_tokens": 16, "designed_hit_ratio": 16 / 67,
        "cold": {"hit_tokens": 16}, "hot": {"hit_tokens": 32},
    }  # fmt: skip
    groups = [
        {"group_id": "A", "request_count": 3, "input_tokens": 46, "master_prefix_len": 12},
        {"group_id": "B", "request_count": 2, "input_tokens": 21, "master_prefix_len": 4},
    ]

    assert list(check_totals(METADATA, LAYOUT, result=right, file="f")) == []
    assert list(check_groups(METADATA, groups, file="f")) == []
    wrong = list(check_totals(METADATA, LAYOUT, result={**right, "hot": {"hit_tokens": 33}}, file="f"))
    assert [problem.field for problem in wrong] == ["hot.hit_tokens"]
    missing = list(check_groups(METADATA, groups[:1], file="f"))
    assert [problem.field for problem in missing] == [
        "groups[B].request_count", "groups[B].input_tokens", "groups[B].master_prefix_len",
    ]  # fmt: skip


def test_replay_finds_what_prompts_share() -> None:
    """Prompts hit what earlier ones cached, whole blocks only and never the last token; the warm-up counts apart."""
    replay = Replay(LAYOUT)
    replay.warm_up(ints(*range(8), 99), dp=0)

    first = replay.check(ints(*range(12)), input_len=12, dp=0, expected=(0, 8))
    again = replay.check(ints(*range(12)), input_len=12, dp=0, expected=(8, 8))

    assert (first, again) == ([], [])
    assert (replay.checked, replay.wrong, replay.cold_hit_tokens, replay.hot_hit_tokens) == (2, 0, 8, 16)


def test_replay_names_length_and_hits() -> None:
    """A prompt of another length, with other hits, gives a problem for each."""
    found = Replay(LAYOUT).check(ints(*range(9)), input_len=10, dp=0, expected=(4, 8))

    assert [name for name, _ in found] == ["input_len", "expected_hit_len_cold", "expected_hit_len_hot"]


def test_ranks_have_caches_of_their_own() -> None:
    """With dp_local a prompt on another rank hits nothing."""
    replay = Replay(replace(LAYOUT, local=True))
    replay.check(ints(*range(9)), input_len=9, dp=0, expected=(0, 0))

    assert replay.check(ints(*range(9)), input_len=9, dp=1, expected=(0, 0)) == []
    assert replay.check(ints(*range(9)), input_len=9, dp=0, expected=(8, 8)) == []


def test_a_fingerprint_depends_on_every_token_and_on_no_type() -> None:
    """Equal ids give equal fingerprints whatever their width; one other id, or one more, does not."""
    ids = ints(1, 2, 70_000)

    assert fingerprint(ids) == fingerprint(ids.astype(np.int32).astype(np.int64))
    assert len({fingerprint(ids), fingerprint(ints(1, 2, 70_001)), fingerprint(ints(1, 2)), fingerprint(ints())}) == 4
