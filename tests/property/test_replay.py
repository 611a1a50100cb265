"""The replay against a cache that is too simple to be wrong, and what must hold in every configuration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.cache.masks import masked
from foreword.config.replay import ReplayConfig
from foreword.simulate.columns import columns
from foreword.simulate.replay import Replay
from foreword.simulate.summary import TraceFacts, summarise
from tests.support.replaying import (
    BYTES_PER_BLOCK,
    by_time,
    configs,
    document,
    group,
    instance,
    mixed_rows,
    replayed,
    row_hits,
)

if TYPE_CHECKING:
    from foreword.trace.schema import TraceRow

FACTS = TraceFacts(0, 0, {})


class NaiveLru:
    """One pool of whole paths in a list, the least recent first; every step of the document taken by its words."""

    def __init__(self, capacity: int, *, tail_first: bool, refresh: bool, trusted: bool) -> None:
        self.recency: list[tuple[int, ...]] = []
        self.capacity = capacity
        self.tail_first, self.refresh, self.trusted = tail_first, refresh, trusted

    def _touch(self, paths: list[tuple[int, ...]]) -> None:
        for path in reversed(paths) if self.tail_first else paths:
            if path in self.recency:
                self.recency.remove(path)
            self.recency.append(path)

    def read(self, row: TraceRow) -> tuple[int, int]:
        """Local and remote hits."""
        hits, counts = [], [0, 0]
        for index in range(len(row.keys)):
            path, local = tuple(row.keys[: index + 1]), masked(row.block_mask, index)
            if path in self.recency:
                hits.append(path)
            elif not (local and self.trusted):
                break
            counts[not local] += 1
        self._touch(hits)
        return counts[0], counts[1]

    def write(self, keys: list[int]) -> None:
        """Bring in what is not there, then evict."""
        paths = [tuple(keys[: n + 1]) for n in range(len(keys))]
        self._touch([path for path in paths if self.refresh or path not in self.recency])
        del self.recency[: max(0, len(self.recency) - self.capacity)]


def events(rows: list[TraceRow], *, delay_ns: int) -> list[tuple[int, TraceRow, bool]]:
    """Time, row and whether it writes then: delayed writes before rows of their time, equal ones in the order asked."""
    found = []
    for number, row in enumerate(sorted(rows, key=lambda row: row.timestamp_ns)):
        if row.kind != "write":
            found.append((row.timestamp_ns, 1, number, row, False))
        if row.kind != "get":
            delayed = row.kind == "request"
            found.append((row.timestamp_ns + delayed * delay_ns, 1 - delayed, number, row, True))
    return [(now, row, writes) for now, _, _, row, writes in sorted(found, key=lambda event: event[:3])]


def naive_hits(cache: NaiveLru, rows: list[TraceRow], *, delay_ns: int) -> list[tuple[int, int]]:
    """Local and remote hits of all reads."""
    hits = []
    for _, row, writes in events(rows, delay_ns=delay_ns):
        if writes:
            cache.write(list(row.keys))
        else:
            hits.append(cache.read(row))
    return hits


@settings(max_examples=150)
@given(mixed_rows(), st.integers(0, 6), st.integers(1, 4), st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_one_exact_lru_is_a_list(
    rows: list[TraceRow], capacity: int, delay_ns: int, switches: tuple[bool, bool, bool]
) -> None:
    """With masks, delays, ties, every switch and repeated keys, local and remote hits equal those of a plain list."""
    tail_first, refresh, trusted = switches
    config = document(
        group(capacity),
        write_delay_ns=delay_ns,
        touch_order="tail_first" if tail_first else "head_first",
        write_refresh=refresh,
        block_mask_semantics="trusted" if trusted else "simulated",
    )

    series = replayed(config, rows).instances["a"].series

    naive = NaiveLru(capacity, tail_first=tail_first, refresh=refresh, trusted=trusted)
    assert list(zip(series.local_blocks, series.remote_blocks, strict=True)) == naive_hits(
        naive, rows, delay_ns=delay_ns
    )


@settings(max_examples=150)
@given(mixed_rows(), st.sampled_from([-1, 0, 1]), st.booleans())
def test_blocks_live_as_long_as_their_ttl_says(rows: list[TraceRow], default_s: int, refresh: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    """Without a limit, a block is there from its write until later than anchor + TTL; only then can it be reborn."""
    ttl = instance(policy="ttl")
    config = document(group(instances=[ttl], default_block_ttl_seconds=default_s, ttl_refresh_on_read=refresh))
    dies: dict[tuple[int, ...], tuple[float, float]] = {}
    expected = []
    for now, row, writes in events(rows, delay_ns=1):
        paths = [tuple(row.keys[: n + 1]) for n in range(len(row.keys))]
        living = [path in dies and now <= dies[path][0] for path in paths]
        if writes:
            own = row.ttl_us * 1_000 if row.ttl_us > 0 else float("inf")
            life = float("inf") if default_s == 0 or row.ttl_us < 0 else own
            if row.ttl_us == 0 and default_s > 0:
                life = default_s * 1_000_000_000
            dies |= {path: (now + life, life) for path, lives in zip(paths, living, strict=True) if not lives}
        else:
            hits = paths[: living.index(False)] if False in living else paths
            expected.append(len(hits))
            dies |= {path: (now + dies[path][1], dies[path][1]) for path in hits if refresh}

    assert row_hits(replayed(config, rows)) == expected


def state_of(replay: Replay) -> dict[str, Any]:
    """Everything that a replay says at its end."""
    series = {name: [column.tolist() for column in columns(at)] for name, at in replay.instances.items()}
    return {"series": series, "summary": summarise(replay, FACTS), "state": replay.save()}


@settings(max_examples=100)
@given(configs(), mixed_rows(names="ab"))
def test_what_is_cached_is_what_the_policies_and_the_lives_say(config: dict[str, Any], rows: list[TraceRow]) -> None:
    """In every configuration, repeated keys included, blocks, policies, lives and flows agree after every row."""
    replay = Replay(ReplayConfig.from_document(config), lifecycle=True)
    by_time(rows)

    for row in rows:
        replay.feed(row)
        for at in replay.instances.values():
            cache = at.cache
            for tier, policy in enumerate(cache.policies):
                traffic = cache.traffic[tier]
                came = traffic.written + traffic.promoted + traffic.copied_down + traffic.demoted
                resident = sum(cache.table.holds(block, tier) for block in range(len(cache.table.held)))
                assert len(policy) == resident == came - traffic.evicted - traffic.expired
            assert cache.lifecycle is not None
            living = [life.block for life in cache.lifecycle if life.death_ns is None]
            assert sorted(living) == [block for block, held in enumerate(cache.table.held) if held]


@settings(max_examples=100)
@given(configs(), mixed_rows(names="ab"))
def test_a_quota_holds_unless_a_check_ended_above_it(config: dict[str, Any], rows: list[TraceRow]) -> None:
    """After the last row every tier is within its quota, but for counted checks and TTL without fallback."""
    replay = replayed(config, rows)

    (pool,) = replay.groups
    forced = all(policy.yields_to_pressure for cache in pool.instances for policy in cache.policies)
    for index, tier in enumerate(pool.tiers):
        used = sum(len(cache.policies[index]) for cache in pool.instances) * BYTES_PER_BLOCK
        assert tier.quota_bytes is None or used <= tier.quota_bytes or pool.over_quota_checks or not forced


@settings(max_examples=100)
@given(configs(), mixed_rows(names="ab"), st.data())
def test_a_saved_state_goes_on_as_if_nothing_had_happened(
    config: dict[str, Any], rows: list[TraceRow], data: st.DataObject
) -> None:
    """Saving to JSON at any row and going on in a new replay gives what one run gives."""
    by_time(rows)
    cut = data.draw(st.integers(0, len(rows)))
    read = ReplayConfig.from_document(config)
    first = Replay(read, lifecycle=True)
    for row in rows[:cut]:
        first.feed(row)

    second = Replay(read, lifecycle=True)
    second.load(json.loads(json.dumps(first.save())))
    for row in rows[cut:]:
        second.feed(row)
    second.finish()

    assert state_of(second) == state_of(replayed(config, rows, lifecycle=True))


@settings(max_examples=100)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=3), mixed_rows(names="abc"))
def test_instances_in_groups_of_their_own_add_up_to_the_fleet(sizes: list[int], rows: list[TraceRow]) -> None:
    """Groups do not see each other: each instance replays as if alone, and the totals are the sums."""
    names = "abc"[: len(sizes)]
    groups = [group(size, instances=[instance(name)], name=name) for name, size in zip(names, sizes, strict=True)]

    fleet = replayed(document(*groups), rows)
    alone = [replayed(document(one), rows) for one in groups]

    total = summarise(fleet, FACTS)["total"]
    for name, one in zip(names, alone, strict=True):
        assert row_hits(fleet, name) == row_hits(one, name)
    for field in ("reads", "read_blocks", "hit_tokens", "input_tokens", "write_blocks", "new_blocks", "cached_blocks"):
        assert total[field] == sum(summarise(one, FACTS)["total"][field] for one in alone)
