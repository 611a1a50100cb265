"""The columns of a hit-rate series in the order of the reference (spec: replay B1.6)."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from foreword.simulate.series import ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from foreword.simulate.replay import ReplayedInstance

Number = int | float

_HEAD = (
    "TimestampNs CachedBlocks CachedBlocksAllInstances ReadBlocks LocalHitBlocks RemoteHitBlocks HitBlocks InputTokens "
    "LocalHitTokens RemoteHitTokens HitTokens LocalHitRate RemoteHitRate HitRate AccReadBlocks AccHitBlocks "
    "AccInputTokens AccLocalHitTokens AccRemoteHitTokens AccHitTokens AccLocalHitRate AccRemoteHitRate AccHitRate "
    "AccWriteBlocks"
).split()
_TIERED = ("Tier{}_HitTokens", "Tier{}_HitRate", "AccTier{}_HitRate", "Tier{}_BlockNum")


def column_names(at: ReplayedInstance) -> list[str]:
    """Names of all columns; each kind of tier column comes for all tiers before the next kind."""
    tiers = [f"{index}({tier.name})" for index, tier in enumerate(at.group.tiers)]
    return _HEAD + [form.format(tier) for form in _TIERED for tier in tiers]


def columns(at: ReplayedInstance) -> list[list[Number]]:
    """Values of all columns, one list a column, one entry an executed read."""
    series, block_size = at.series, at.cache.config.block_size
    local = [blocks * block_size for blocks in series.local_blocks]
    remote = [blocks * block_size for blocks in series.remote_blocks]
    both = _sums(local, remote)
    hit_blocks = _sums(series.local_blocks, series.remote_blocks)
    own = [series.input_tokens, local, remote, both]
    running = [list(accumulate(column)) for column in own]
    tiers = [[blocks * block_size for blocks in column] for column in series.tier_blocks]
    table: list[Iterable[Number]] = [
        series.timestamp_ns,
        _sums(*series.tier_cached_blocks),
        series.all_cached_blocks,
        series.read_blocks,
        series.local_blocks,
        series.remote_blocks,
        hit_blocks,
        *own,
        *_ratios(own[1:], own[0]),
        accumulate(series.read_blocks),
        accumulate(hit_blocks),
        *running,
        *_ratios(running[1:], running[0]),
        series.written_until(),
        *tiers,
        *_ratios(tiers, own[0]),
        *_ratios((accumulate(tier) for tier in tiers), running[0]),
        *series.tier_cached_blocks,
    ]
    return [list(column) for column in table]


def _sums(*columns: Iterable[int]) -> list[int]:
    return [sum(values) for values in zip(*columns, strict=True)]


def _ratios(parts: Iterable[Iterable[int]], wholes: Iterable[int]) -> Iterator[list[Number]]:
    for part in parts:
        yield [ratio(one, whole) for one, whole in zip(part, wholes, strict=True)]
