"""Reads, writes and who makes room, in groups of instances and tiers."""

from __future__ import annotations

from typing import Any

from foreword.cache.tiers import Edge, edges_of, tiers_of, written_tiers
from foreword.config.replay import InstanceGroup, WriteMode
from tests.support.replaying import contents, document, group, instance, replayed, requests, row, row_hits


def strategy(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A strategy of cascading tiers with some fields changed."""
    return {"write_mode": "cascading", **fields}


def test_a_quota_is_truncated_twice() -> None:
    """GB become whole bytes, then the used share of them whole bytes again; negative is unlimited."""
    flat = InstanceGroup.model_validate(group() | {"quota_capacity": 2.5 / 2**30, "used_percentage": 0.6})
    tiered = InstanceGroup.model_validate(group(tiers=[1, None]))

    assert [(tier.name, tier.quota_bytes) for tier in tiers_of(flat)] == [("shared", 1)]
    assert [(tier.quota_bytes, tier.bytes_per_s) for tier in tiers_of(tiered)] == [(1 << 20, 1e9), (None, 1e9)]


def test_a_flow_overrides_what_it_names() -> None:
    """The other fields of an edge are the strategy's."""
    flows = [{"from_tier": "t1", "to_tier": "t2", "promote_enabled": False}]
    pool = InstanceGroup.model_validate(group(tiers=[1, 1, 1], strategy=strategy(tier_flows=flows)))

    cascading = WriteMode.CASCADING
    assert edges_of(pool) == (
        Edge(cascading, propagates_access=True, promotes=True, threshold=2),
        Edge(cascading, propagates_access=True, promotes=False, threshold=2),
    )


def test_a_write_reaches_as_far_as_edges_write_through() -> None:
    """The first tier always, then on across leading write-through edges."""
    through, down = (Edge(mode, True, True, 2) for mode in (WriteMode.WRITE_THROUGH, WriteMode.CASCADING))  # noqa: FBT003 - an edge has switches

    assert [written_tiers(edges) for edges in ([], [down, through], [through, down], [through, through])] == [
        1,
        1,
        2,
        3,
    ]


def test_a_write_reaches_a_block_of_a_lower_tier_no_more() -> None:
    """A block that is only in a lower tier is present: a rewrite adds no copy above."""
    pool = group(tiers=[1, 4], strategy={"promote_enabled": False})
    replay = replayed(document(pool), [row("write", "a", at=1), row("write", "b", at=2), row("write", "a", at=3)])

    assert contents(replay, tier=0) == {"b"}
    assert contents(replay, tier=1) == {"a", "b"}


def test_what_cascades_counts_in_the_next_tier() -> None:
    """Victims go down in eviction order; the last tier drops them."""
    replay = replayed(document(group(tiers=[1, 1], strategy=strategy())), [row("write", "abc", at=1)])

    assert contents(replay, tier=0) == {"abc"}
    assert contents(replay, tier=1) == {"ab"}
    top, bottom = replay.instances["a"].cache.traffic
    assert (top.written, top.evicted, bottom.demoted, bottom.evicted) == (3, 2, 2, 1)


def test_a_selective_edge_copies_what_is_read_often() -> None:
    """Reads in the upper tier count from its entry; at the threshold the block is copied down."""
    pool = group(tiers=[2, 2], strategy={"write_mode": "write_through_selective"})
    rows = [row("write", "a", at=1), row("get", "a", at=2)]

    assert contents(replayed(document(pool), rows), tier=1) == set()
    assert contents(replayed(document(pool), [*rows, row("get", "a", at=3)]), tier=1) == {"a"}


def test_promotion_stops_at_the_first_edge_that_does_not_promote() -> None:
    """A hit in the third tier comes up to the second only."""
    flows = [{"from_tier": "t0", "to_tier": "t1", "promote_enabled": False}]
    pool = group(tiers=[1, 1, 4], strategy={"tier_flows": flows})
    rows = [row("write", "a", at=1), row("write", "b", at=2), row("get", "a", at=3)]

    replay = replayed(document(pool), rows)

    assert [contents(replay, tier=tier) for tier in range(3)] == [{"b"}, {"a"}, {"a", "b"}]
    assert [column.tolist() for column in replay.instances["a"].series.tier_blocks] == [[0], [0], [1]]


def test_the_precise_mode_takes_no_more_than_is_missing() -> None:
    """Mode 3 cuts the last batch; mode 2 does not; mode 1 takes a batch from every instance."""
    two = [instance("a"), instance("b")]
    rows = [row("write", "xyz", at=1), row("write", "pqr", at=2, name="b")]

    left = {
        mode: [
            len(contents(replayed(document(group(5, instances=two), mode=mode, batch=2), rows), name)) for name in "ab"
        ]
        for mode in (1, 2, 3)
    }

    assert left == {1: [1, 1], 2: [3, 1], 3: [3, 2]}


def test_an_actor_with_nothing_left_leaves_the_group_above_its_quota() -> None:
    """Modes 2 and 3 never take from others; such checks are counted."""
    two = [instance("a"), instance("b")]
    pool = group(1, instances=two)
    rows = [row("write", "x", at=1), row("write", "p", at=2, name="b")]
    replay = replayed(document(pool), [*rows, row("get", "x", at=3)])

    assert (contents(replay, "a"), contents(replay, "b")) == ({"x"}, set())
    assert replay.groups[0].over_quota_checks == 0

    smaller = replayed(
        document(group(0, instances=[instance("a", policy="ttl", fallback_on_pressure=False)])), rows[:1]
    )
    assert contents(smaller) == {"x"}
    assert smaller.groups[0].over_quota_checks == 0


def test_blocks_of_different_sizes_share_bytes() -> None:
    """A quota is in bytes: blocks of twice the size count twice, and fewer of them need to go."""
    large = instance("b", block_size=8)
    rows = [row("write", "wxyz", at=1), row("write", "pq", at=2, name="b")]

    replay = replayed(document(group(5, instances=[instance("a"), large])), rows)

    assert len(contents(replay, "a")) == 4
    assert len(contents(replay, "b")) == 0


def test_trusted_masks_count_what_is_not_there() -> None:
    """A trusted local block hits without being held, and the match goes on behind it; no tier is credited for it."""
    rows = [row("write", "abc", at=1), row("get", "abc", at=2, mask=2)]
    small = group(1)

    simulated = replayed(document(small), rows).instances["a"].series
    trusted = replayed(document(small, block_mask_semantics="trusted"), rows).instances["a"].series

    assert (simulated.local_blocks[0], simulated.remote_blocks[0]) == (0, 0)
    assert (trusted.local_blocks[0], trusted.remote_blocks[0]) == (2, 1)
    assert trusted.tier_blocks[0].tolist() == [1]


def test_a_group_without_ttl_ignores_that_of_a_write() -> None:
    """Whatever ``ttl_us`` says, a default of 0 is no expiry."""
    ttl = instance(policy="ttl")
    rows = [row("write", "a", at=1, ttl_us=1), row("get", "a", at=5_000)]

    assert row_hits(replayed(document(group(instances=[ttl])), rows)) == [1]
    assert row_hits(replayed(document(group(instances=[ttl], default_block_ttl_seconds=-1)), rows)) == [0]


def test_the_head_of_a_chain_goes_first_and_strands_the_rest() -> None:
    """Head-first LRU keeps what cannot be hit; tail-first with refresh does not."""
    long = requests("abcd", "abcd")

    head = replayed(document(group(3)), long)
    tail = replayed(document(group(3), touch_order="tail_first", write_refresh=True), long)

    assert (row_hits(head), row_hits(tail)) == ([0, 0], [0, 3])
    first = replayed(document(group(3)), long[:1])
    assert (contents(first), first.instances["a"].cache.stranded_blocks()) == ({"ab", "abc", "abcd"}, 3)
    assert tail.instances["a"].cache.stranded_blocks() == 0
