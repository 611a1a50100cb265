"""Configs, rows and a naive cache for tests of the replay."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from foreword.config.replay import ReplayConfig
from foreword.simulate.replay import Replay
from foreword.trace.schema import RowKind, TraceRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLOCK_SIZE = 4
BYTES_PER_BLOCK = 1 << 20
"""Of every instance here unless it says otherwise, so that a GB is 1,024 blocks."""

LETTERS = "ab"
PATHS = st.text(LETTERS, max_size=5)
SIZES = st.integers(0, 7)


POLICIES: list[dict[str, Any]] = [
    {"policy": "lru"},
    {"policy": "lru", "shard_count": 3, "sample_times": 2, "eviction_amplification_factor": 1.7},
    {"policy": "random_lru", "sample_rate": 0.5},
    {"policy": "leaf_aware_lru"},
    {"policy": "fifo"},
    {"policy": "lfu"},
    {"policy": "s3fifo", "small_ratio": 0.4, "move_threshold": 1},
    {"policy": "ttl"},
    {"policy": "ttl", "fallback_on_pressure": False},
]
"""Each policy, with parameters that make a difference."""


def gigabytes(blocks: int | None) -> float:
    """A capacity of so many blocks; ``None`` is unlimited."""
    return -1 if blocks is None else blocks * BYTES_PER_BLOCK / 2**30


def instance(name: str = "a", *, policy: str = "lru", block_size: int = BLOCK_SIZE, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """An instance of a config document."""
    return {
        "instance_id": name,
        "block_size": block_size,
        "bytes_per_token": BYTES_PER_BLOCK // BLOCK_SIZE,
        "eviction_policy_type": policy,
        "eviction_policy_params": params,
    }


def group(
    quota: int | None = None,
    *,
    tiers: Sequence[int | None] = (),
    instances: Sequence[dict[str, Any]] = (),
    name: str = "g",
    strategy: dict[str, Any] | None = None,
    **fields: Any,  # noqa: ANN401 - JSON
) -> dict[str, Any]:
    """A group of a config document: one pool of ``quota`` blocks, or ``tiers`` of so many blocks each."""
    storages = [
        {
            "unique_name": f"t{i}",
            "storage_type": "",
            "band_width_mbps": 1000,
            "priority": i,
            "capacity": gigabytes(size),
        }
        for i, size in enumerate(tiers)
    ]
    return {
        "group_name": name,
        "quota_capacity": gigabytes(quota),
        "used_percentage": 1.0,
        "tier_strategy": {"hierarchical_eviction_enabled": bool(tiers), **(strategy or {})},
        "storages": storages,
        "instances": list(instances or [instance()]),
        **fields,
    }


def document(*groups: dict[str, Any], mode: int = 3, batch: int = 100, **trace_replay: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A whole config document."""
    return {
        "trace_file_path": "trace.jsonl",
        "output_result_path": "results",
        "eviction_params": {"eviction_mode": mode, "eviction_batch_size_per_instance": batch},
        "trace_replay": trace_replay,
        "instance_groups": list(groups or [group()]),
    }


def by_time(rows: list[TraceRow]) -> None:
    """Sort rows by time in place, equal times as they stand."""
    rows.sort(key=lambda row: row.timestamp_ns)


def replayed(config: dict[str, Any], rows: Iterable[TraceRow], *, lifecycle: bool = False) -> Replay:
    """A replay after all rows."""
    replay = Replay(ReplayConfig.from_document(config), lifecycle=lifecycle)
    ordered = list(rows)
    by_time(ordered)
    for row in ordered:
        replay.feed(row)
    replay.finish()
    return replay


def row(kind: str, path: str, *, at: int, name: str = "a", mask: int | bytes = 0, ttl_us: int = 0) -> TraceRow:
    """A row whose keys are the letters of a path; its input has a partial block more."""
    keys = array("q", map(ord, path))
    tokens = len(path) * BLOCK_SIZE + 1
    return TraceRow(RowKind(kind), name, at, keys, tokens, mask, ttl_us, line=at)


def requests(*paths: str, name: str = "a") -> list[TraceRow]:
    """Request rows far enough apart that each has written before the next reads."""
    return [row("request", path, at=10 * (index + 1), name=name) for index, path in enumerate(paths)]


def row_hits(replay: Replay, name: str = "a") -> list[int]:
    """Hit blocks of each read of an instance."""
    series = replay.instances[name].series
    return [local + remote for local, remote in zip(series.local_blocks, series.remote_blocks, strict=True)]


def contents(replay: Replay, name: str = "a", *, tier: int | None = None) -> set[str]:
    """Paths of the blocks that an instance has cached, in any tier or in one."""
    table = replay.instances[name].cache.table
    paths: list[str] = []
    for parent, key in zip(table.index.parents, table.index.keys, strict=True):
        paths.append((paths[parent] if parent >= 0 else "") + chr(key))
    return {
        path for block, path in enumerate(paths) if (table.held[block] if tier is None else table.holds(block, tier))
    }


@st.composite
def mixed_rows(draw: st.DrawFn, *, names: str = "a", largest: int = 40) -> list[TraceRow]:
    """Rows of all kinds with ties, masks, repeated keys, equal keys on different paths and per-write TTLs."""
    now, rows = 1, []
    for _ in range(draw(st.integers(0, largest))):
        now += draw(st.sampled_from([0, 0, 1, 1, 2, 3, 600]))
        mask = draw(st.one_of(st.just(0), st.integers(0, 3), st.lists(st.booleans(), max_size=4).map(bytes)))
        kind = draw(st.sampled_from(["get", "write", "request"]))
        ttl_us = draw(st.sampled_from([0, 0, 0, 1, -1]))
        rows.append(row(kind, draw(PATHS), at=now, name=draw(st.sampled_from(names)), mask=mask, ttl_us=ttl_us))
    return rows


@st.composite
def configs(draw: st.DrawFn, *, names: str = "ab") -> dict[str, Any]:
    """Any policy mix, mode, batch, tier set, edge and switch; all instances in one group."""
    policies = st.sampled_from(POLICIES)
    sizes = st.one_of(st.integers(0, 8), st.none())
    modes = st.sampled_from(["write_through", "cascading", "write_through_selective"])
    edge = st.fixed_dictionaries(
        {"write_mode": modes, "access_propagation_enabled": st.booleans(), "promote_enabled": st.booleans()}
    )
    tiers = draw(st.lists(sizes, max_size=3))
    flows = [{"from_tier": f"t{i}", "to_tier": f"t{i + 1}", **draw(edge)} for i in range(len(tiers) - 1)]
    pool = group(
        draw(sizes),
        tiers=tiers,
        instances=[instance(name, **draw(policies)) for name in names],
        strategy={"selective_write_threshold": draw(st.integers(1, 2)), "tier_flows": flows},
        default_block_ttl_seconds=draw(st.sampled_from([0, -1, 1])),
        ttl_refresh_on_read=draw(st.booleans()),
    )
    return document(
        pool,
        mode=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 4)),
        write_delay_ns=draw(st.integers(1, 900)),
        touch_order=draw(st.sampled_from(["head_first", "tail_first"])),
        write_refresh=draw(st.booleans()),
        block_mask_semantics=draw(st.sampled_from(["simulated", "trusted"])),
    )
