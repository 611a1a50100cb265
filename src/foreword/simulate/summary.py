"""Totals of a replay: by instance, group and tier, with the traffic of each tier (spec: replay A2.11).

Bandwidths are in bytes a second; the seconds of a tier are its bytes over that, ``None`` where none is given, and its
utilisation is these seconds over those of the trace. The TTFT that a cache saves is the time that the prefill of its
hit tokens would take, without the time that reading their blocks takes from tiers of a known bandwidth.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.simulate.series import Totals, ratio, total_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foreword.cache.instance import Traffic
    from foreword.cache.tiers import Tier
    from foreword.simulate.replay import Replay, ReplayedInstance

SCHEMA_VERSION = 1
_INCOMING = ("written", "promoted", "copied_down", "demoted")
"""What fills a tier; together with reads, what its bandwidth is spent on."""

_NS_PER_S = 1e9

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Speed of the prefill, if known, and the time from the first to the last read or write."""

    prefill_tokens_per_s: float | None
    trace_s: float


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What reading a trace came to: rows that were replayed or skipped on purpose, moved rows, refused rows by kind."""

    rows: int
    moved_rows: int
    refused: Mapping[str, int]


def summarise(replay: Replay, facts: TraceFacts, *, prefill_tokens_per_s: float | None = None) -> Document:
    """The document of ``summary.json``; without the speed of the prefill no TTFT is estimated."""
    every = list(replay.instances.values())
    skipped = {**replay.skipped, **facts.refused}
    first_ns, last_ns = _ends(every)
    asked = _Asked(prefill_tokens_per_s, (last_ns - first_ns) / _NS_PER_S)
    return {
        "schema_version": SCHEMA_VERSION,
        "core": replay.core.value,
        "trace": {
            "rows": facts.rows,
            "moved_rows": facts.moved_rows,
            "skipped_rows": sum(skipped.values()),
            "skipped_by_kind": dict(sorted(skipped.items())),
            "first_ns": first_ns,
            "last_ns": last_ns,
            "seconds": asked.trace_s,
        },
        "total": _totals(every, asked),
        "groups": [
            {
                "group_name": group.name,
                **_totals(members := [at for at in every if at.group is group], asked),
                "over_quota_checks": group.over_quota_checks,
                "tiers": [_tier(members, index, tier, asked=asked) for index, tier in enumerate(group.tiers)],
            }
            for group in replay.groups
        ],
        "instances": [_instance(at, asked) for at in every],
    }


def _ends(every: list[ReplayedInstance]) -> tuple[int, int]:
    """Times of the first and the last read or write; 0 without one."""
    times = [np.asarray(column) for at in every for column in (at.series.timestamp_ns, at.series.write_ns) if column]
    return min((int(column.min()) for column in times), default=0), max(
        (int(column.max()) for column in times), default=0
    )


def _instance(at: ReplayedInstance, asked: _Asked) -> Document:
    config = at.cache.config
    return {
        "instance_id": config.instance_id,
        "group_name": at.group.name,
        "eviction_policy_type": config.eviction_policy_type,
        "block_size": config.block_size,
        "bytes_per_block": config.bytes_per_block,
        **_totals([at], asked),
        "tiers": [_tier([at], index, tier, asked=asked) for index, tier in enumerate(at.group.tiers)],
    }


def _totals(members: Iterable[ReplayedInstance], asked: _Asked) -> Document:
    """Sums over instances. Blocks may differ in size between them; tokens and bytes do not."""
    members = list(members)
    total = sum((at.series.totals(at.cache.config.block_size) for at in members), Totals())
    return {
        **asdict(total),
        "hit_blocks": total.hit_blocks,
        "hit_tokens": total.hit_tokens,
        "hit_ratio": total.hit_ratio,
        "local_hit_ratio": ratio(total.local_hit_tokens, total.input_tokens),
        "remote_hit_ratio": ratio(total.remote_hit_tokens, total.input_tokens),
        "writes": sum(len(at.series.write_ns) for at in members),
        "write_blocks": sum(total_of(at.series.write_blocks) for at in members),
        "new_blocks": sum(at.series.new_blocks for at in members),
        "cached_blocks": sum(sum(at.cached_blocks) for at in members),
        "cached_bytes": sum(sum(at.cached_blocks) * at.cache.bytes_per_block for at in members),
        "stranded_blocks": sum(at.stranded_blocks for at in members),
        "ttft_saved": _ttft_saved(members, total, asked.prefill_tokens_per_s),
    }


def _ttft_saved(members: list[ReplayedInstance], total: Totals, tokens_per_s: float | None) -> Document | None:
    """Seconds of prefill that hits save and of reading that they cost; ``None`` without the speed of the prefill."""
    if tokens_per_s is None:
        return None
    prefill_s = total.hit_tokens / tokens_per_s
    read_s = sum(
        at.cache.traffic[index].read * at.cache.bytes_per_block / tier.bytes_per_s
        for at in members
        for index, tier in enumerate(at.group.tiers)
        if tier.bytes_per_s is not None
    )
    return {
        "prefill_tokens_per_s": tokens_per_s,
        "prefill_s": prefill_s,
        "read_s": read_s,
        "saved_s": prefill_s - read_s,
        "saved_s_per_read": (prefill_s - read_s) / total.reads if total.reads else 0.0,
    }


def _tier(members: list[ReplayedInstance], index: int, tier: Tier, *, asked: _Asked) -> Document:
    hit_tokens = sum(total_of(at.series.tier_blocks[index]) * at.cache.config.block_size for at in members)
    input_tokens = sum(total_of(at.series.input_tokens) for at in members)
    traffic = [(at.cache.traffic[index], at.cache.bytes_per_block) for at in members]
    moved = _moved_bytes(traffic)
    seconds = None if tier.bytes_per_s is None else _seconds(moved, tier.bytes_per_s)
    return {
        "name": tier.name,
        "quota_bytes": tier.quota_bytes,
        "cached_blocks": sum(at.cached_blocks[index] for at in members),
        "cached_bytes": sum(at.cached_blocks[index] * at.cache.bytes_per_block for at in members),
        "hit_tokens": hit_tokens,
        "hit_ratio": ratio(hit_tokens, input_tokens),
        "blocks": {name: sum(getattr(each, name) for each, _ in traffic) for name in moved},
        "bytes": moved,
        "bytes_per_s": tier.bytes_per_s,
        "seconds": seconds,
        "utilisation": seconds["all"] / asked.trace_s if seconds and asked.trace_s else None,
    }


def _seconds(moved: dict[str, int], bytes_per_s: float) -> dict[str, float]:
    busy = {name: moved[name] / bytes_per_s for name in ("read", *_INCOMING)}
    return {**busy, "all": sum(moved[name] for name in busy) / bytes_per_s}


def _moved_bytes(traffic: list[tuple[Traffic, int]]) -> dict[str, int]:
    names = ("read", *_INCOMING, "evicted", "expired")
    return {name: sum(getattr(each, name) * size for each, size in traffic) for name in names}
