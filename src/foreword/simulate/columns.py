"""The columns of a hit-rate series in the order of the reference (spec: replay B1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from foreword.simulate.replay import ReplayedInstance
    from foreword.simulate.series import Series

    Array = NDArray[Any]

_HEAD = (
    "TimestampNs CachedBlocks CachedBlocksAllInstances ReadBlocks LocalHitBlocks RemoteHitBlocks HitBlocks InputTokens "
    "LocalHitTokens RemoteHitTokens HitTokens LocalHitRate RemoteHitRate HitRate AccReadBlocks AccHitBlocks "
    "AccInputTokens AccLocalHitTokens AccRemoteHitTokens AccHitTokens AccLocalHitRate AccRemoteHitRate AccHitRate "
    "AccWriteBlocks"
).split()
_TIERED = ("Tier{}_HitTokens", "Tier{}_HitRate", "AccTier{}_HitRate", "Tier{}_BlockNum")
_EXACT = 2**53
"""Up to here a double holds every integer, so that the quotient of two is rounded once."""


def column_names(at: ReplayedInstance) -> list[str]:
    """Names of all columns; each kind of tier column comes for all tiers before the next kind."""
    tiers = [f"{index}({tier.name})" for index, tier in enumerate(at.group.tiers)]
    return _HEAD + [form.format(tier) for form in _TIERED for tier in tiers]


def columns(at: ReplayedInstance) -> list[Array]:
    """Values of all columns, one entry an executed read.

    Integers and doubles; Python's own numbers where a sum may pass 2⁵³.
    """
    series, block_size = at.series, at.cache.config.block_size
    number = np.int64 if _is_small(series, block_size) else np.object_
    read = np.asarray(series.read_blocks).astype(number)
    local: Array = np.asarray(series.local_blocks).astype(number)
    remote = np.asarray(series.remote_blocks).astype(number)
    hits = local + remote
    every = np.asarray(series.input_tokens).astype(number)
    hit_tokens = [blocks * block_size for blocks in (local, remote, hits)]
    tier_tokens = [np.asarray(column).astype(number) * block_size for column in series.tier_blocks]
    running = np.cumsum(every)
    running_hits = [np.cumsum(tokens) for tokens in hit_tokens]
    cached = [np.asarray(column) for column in series.tier_cached_blocks]
    return [
        np.asarray(series.timestamp_ns),
        np.sum(cached, axis=0),
        np.asarray(series.all_cached_blocks),
        read,
        local,
        remote,
        hits,
        every,
        *hit_tokens,
        *(_ratios(tokens, every) for tokens in hit_tokens),
        np.cumsum(read),
        np.cumsum(hits),
        running,
        *running_hits,
        *(_ratios(tokens, running) for tokens in running_hits),
        series.written_until(),
        *tier_tokens,
        *(_ratios(tokens, every) for tokens in tier_tokens),
        *(_ratios(np.cumsum(tokens), running) for tokens in tier_tokens),
        *cached,
    ]


def _is_small(series: Series, block_size: int) -> bool:
    """Whether all sums of blocks and tokens are exact as doubles."""
    largest = max(
        max(column, default=0) * size for column, size in ((series.read_blocks, block_size), (series.input_tokens, 1))
    )
    return largest * max(len(series), 1) < _EXACT


def _ratios(parts: Array, wholes: Array) -> Array:
    """Part ÷ whole, row by row; 0 where there is no whole."""
    there = np.where(wholes == 0, 1, wholes)
    return np.where(wholes == 0, 0.0, parts / there)


def sampled(rows: int, most: int) -> Sequence[int]:
    """At most so many evenly spaced rows, and the last."""
    return sorted({*range(0, rows, -(-rows // most)), rows - 1}) if rows else []
