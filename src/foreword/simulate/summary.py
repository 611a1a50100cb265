"""Totals of a replay: by instance, group and tier, with the traffic of each tier (spec: replay A2.11).

Bandwidths are in bytes a second; the seconds of a tier are its bytes over that, ``None`` where none is given.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from foreword.simulate.series import Totals, ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foreword.cache.instance import Traffic
    from foreword.cache.tiers import Tier
    from foreword.simulate.replay import Replay, ReplayedInstance

SCHEMA_VERSION = 1
_INCOMING = ("written", "promoted", "copied_down", "demoted")
"""What fills a tier; together with reads, what its bandwidth is spent on."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What reading a trace came to: rows that were replayed or skipped on purpose, moved rows, refused rows by kind."""

    rows: int
    moved_rows: int
    refused: Mapping[str, int]


def summarise(replay: Replay, facts: TraceFacts) -> Document:
    """The document of ``summary.json``."""
    every = list(replay.instances.values())
    skipped = {**replay.skipped, **facts.refused}
    return {
        "schema_version": SCHEMA_VERSION,
        "core": replay.core.value,
        "trace": {
            "rows": facts.rows,
            "moved_rows": facts.moved_rows,
            "skipped_rows": sum(skipped.values()),
            "skipped_by_kind": dict(sorted(skipped.items())),
        },
        "total": _totals(every),
        "groups": [
            {
                "group_name": group.name,
                **_totals(members := [at for at in every if at.group is group]),
                "over_quota_checks": group.over_quota_checks,
                "tiers": [_tier(members, index, tier) for index, tier in enumerate(group.tiers)],
            }
            for group in replay.groups
        ],
        "instances": [_instance(at) for at in every],
    }


def _instance(at: ReplayedInstance) -> Document:
    config = at.cache.config
    return {
        "instance_id": config.instance_id,
        "group_name": at.group.name,
        "eviction_policy_type": config.eviction_policy_type,
        "block_size": config.block_size,
        "bytes_per_block": config.bytes_per_block,
        **_totals([at]),
        "tiers": [_tier([at], index, tier) for index, tier in enumerate(at.group.tiers)],
    }


def _totals(members: Iterable[ReplayedInstance]) -> Document:
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
        "write_blocks": sum(sum(at.series.write_blocks) for at in members),
        "new_blocks": sum(at.series.new_blocks for at in members),
        "cached_blocks": sum(sum(at.cached_blocks) for at in members),
        "stranded_blocks": sum(at.stranded_blocks for at in members),
    }


def _tier(members: list[ReplayedInstance], index: int, tier: Tier) -> Document:
    hit_tokens = sum(sum(at.series.tier_blocks[index]) * at.cache.config.block_size for at in members)
    input_tokens = sum(sum(at.series.input_tokens) for at in members)
    traffic = [(at.cache.traffic[index], at.cache.bytes_per_block) for at in members]
    moved = _moved_bytes(traffic)
    busy = moved["read"] + sum(moved[name] for name in _INCOMING)
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
        "seconds": None
        if tier.bytes_per_s is None
        else {
            "read": moved["read"] / tier.bytes_per_s,
            **{name: moved[name] / tier.bytes_per_s for name in _INCOMING},
            "all": busy / tier.bytes_per_s,
        },
    }


def _moved_bytes(traffic: list[tuple[Traffic, int]]) -> dict[str, int]:
    names = ("read", *_INCOMING, "evicted", "expired")
    return {name: sum(getattr(each, name) * size for each, size in traffic) for name in names}
