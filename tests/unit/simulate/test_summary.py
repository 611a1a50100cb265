"""Totals, traffic and templates of a replay."""

from __future__ import annotations

import pytest

from foreword.config.replay import ReplayConfig
from foreword.simulate.columns import column_names, columns
from foreword.simulate.replay import Replay
from foreword.simulate.summary import TraceFacts, summarise
from foreword.simulate.templates import find_templates
from tests.support.replaying import BYTES_PER_BLOCK, document, group, instance, replayed, requests, row


def test_traffic_of_a_tier_is_bytes_and_seconds() -> None:
    """Two blocks written and cascaded once, one read below and promoted: bytes over a thousand million a second."""
    pool = group(tiers=[1, 4], strategy={"write_mode": "cascading"})
    rows = [row("write", "a", at=1), row("write", "b", at=2), row("get", "a", at=3)]

    summary = summarise(replayed(document(pool), rows), TraceFacts(3, 0, {}))

    top, bottom = summary["groups"][0]["tiers"]
    size = BYTES_PER_BLOCK
    assert top["bytes"] == {
        "read": 0,
        "written": 2 * size,
        "promoted": size,
        "copied_down": 0,
        "demoted": 0,
        "evicted": 2 * size,
        "expired": 0,
    }
    assert bottom["bytes"] == {
        "read": size,
        "written": 0,
        "promoted": 0,
        "copied_down": 0,
        "demoted": 2 * size,
        "evicted": 0,
        "expired": 0,
    }
    assert bottom["seconds"]["all"] == pytest.approx(3 * size / 1e9)
    assert (bottom["quota_bytes"], bottom["cached_blocks"], bottom["cached_bytes"]) == (4 * size, 2, 2 * size)
    assert bottom["hit_ratio"] == summary["total"]["hit_ratio"] == 4 / 5


def test_a_pool_has_no_bandwidth() -> None:
    """Without tiers nobody says where bytes go."""
    summary = summarise(replayed(document(group(2)), requests("ab")), TraceFacts(1, 0, {}))

    assert summary["instances"][0]["tiers"][0]["seconds"] is None


def test_skipped_rows_are_counted_by_kind() -> None:
    """What was refused in reading and what was skipped in replaying stand together."""
    rows = [row("get", "a", at=1, name="nobody"), row("get", "a", at=2)]

    summary = summarise(replayed(document(), rows), TraceFacts(5, 1, {"keys: must be an array": 3}))

    assert summary["trace"] == {
        "rows": 5,
        "moved_rows": 1,
        "skipped_rows": 4,
        "skipped_by_kind": {"instance_id: not in the config": 1, "keys: must be an array": 3},
        "first_ns": 2,
        "last_ns": 2,
        "seconds": 0,
    }


def test_columns_of_tiers_come_kind_by_kind() -> None:
    """All tiers' tokens, then all tiers' ratios, then the running ones, then the blocks."""
    at = replayed(document(group(tiers=[1, 2])), requests("a", "a")).instances["a"]

    names = column_names(at)
    assert names[24:] == [
        "Tier0(t0)_HitTokens", "Tier1(t1)_HitTokens", "Tier0(t0)_HitRate", "Tier1(t1)_HitRate",
        "AccTier0(t0)_HitRate", "AccTier1(t1)_HitRate", "Tier0(t0)_BlockNum", "Tier1(t1)_BlockNum",
    ]  # fmt: skip
    last = {name: column[-1] for name, column in zip(names, columns(at), strict=True)}
    assert (last["HitTokens"], last["InputTokens"], last["HitRate"], last["AccHitRate"]) == (4, 5, 0.8, 0.4)
    assert (last["CachedBlocks"], last["AccWriteBlocks"], last["Tier0(t0)_HitTokens"]) == (2, 1, 4)


def test_a_prefix_that_many_branch_from_is_a_template() -> None:
    """Ten shared blocks with four continuations and ten reads; each read belongs to the deepest that it enters."""
    shared = "abcdefghij"
    paths = [shared + letter for letter in "wxyz"] * 3 + ["q"]
    replay = Replay(ReplayConfig.from_document(document(group(instances=[instance()]))), templates=True)
    for each in requests(*paths):
        replay.feed(each)
    replay.finish()

    (template,), matches = find_templates(replay.instances["a"])

    assert (template.template_id, "".join(map(chr, template.keys)), template.fan_out) == ("T0", shared, 4)
    assert template.reads == 11
    assert template.path_hits == 11 * 10
    assert (template.matched_reads, template.matched_blocks) == (12, 12 * 11)
    assert template.matched_hit_blocks == 3 * 10 + 8 * 11
    assert [match.template for match in matches] == [template] * 12 + [None]
    assert matches[0].covered == pytest.approx(10 / 11)


def test_a_thin_branching_below_a_template_is_none() -> None:
    """A node with less than half the children of a template above it is no template."""
    shared = "abcdefghij"
    wide = [shared + chr(200 + n) for n in range(10)] * 2
    thin = [shared + "k" + letter for letter in "wxyz"] * 4
    replay = Replay(ReplayConfig.from_document(document()), templates=True)
    for each in requests(*wide, *thin):
        replay.feed(each)
    replay.finish()

    found, _ = find_templates(replay.instances["a"])

    assert [(each.depth, each.fan_out) for each in found] == [(10, 11)]
