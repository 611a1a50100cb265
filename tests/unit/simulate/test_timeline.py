"""A replay over time against sums that are made read by read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

from foreword.simulate.timeline import MOST_BINS, MOST_MOMENTS, timeline
from tests.support.replaying import BLOCK_SIZE, BYTES_PER_BLOCK, configs, document, group, mixed_rows, replayed, row

if TYPE_CHECKING:
    from typing import Any

    from foreword.trace.schema import TraceRow

SECOND = 10**9


@settings(max_examples=60)
@given(configs(), mixed_rows(names="ab"))
def test_every_moment_is_what_the_reads_up_to_it_say(config: dict[str, Any], rows: list[TraceRow]) -> None:
    """With few reads each of their times is a moment: ratios of reads so far, blocks of each instance's last read."""
    replay = replayed(config, rows)
    found = timeline(replay)
    every = [at.series for at in replay.instances.values()]
    times = sorted({now for series in every for now in series.timestamp_ns})
    if found is None:
        assert not times
        return

    assert found.seconds.tolist() == [(now - times[0]) / SECOND for now in times]
    for place, now in enumerate(times):
        until = [[index for index, time in enumerate(series.timestamp_ns) if time <= now] for series in every]
        pairs = [(series, index) for series, indices in zip(every, until, strict=True) for index in indices]
        tokens = sum(series.input_tokens[index] for series, index in pairs)
        hits = sum(series.local_blocks[index] + series.remote_blocks[index] for series, index in pairs) * BLOCK_SIZE
        assert found.total.hit[place] == pytest.approx(hits / tokens if tokens else 0)
        for tier, drawn in enumerate(found.groups[0].tiers):
            last = [(series, indices[-1]) for series, indices in zip(every, until, strict=True) if indices]
            held = sum(series.tier_cached_blocks[tier][index] for series, index in last)
            assert drawn.cached_bytes[place] == held * BYTES_PER_BLOCK
    for tier, drawn in enumerate(found.groups[0].tiers):
        read = sum(sum(series.tier_blocks[tier]) for series in every) * BYTES_PER_BLOCK
        bins = len(drawn.read_bytes_per_s)
        assert drawn.read_bytes_per_s.sum() * (found.span_s or 1) == pytest.approx(read, rel=1e-6, abs=1e-6) or bins > 1


def test_the_window_forgets_what_is_ten_seconds_old() -> None:
    """A hit counts for ten seconds; after a gap only the reads behind it count."""
    rows = [
        row("write", "a", at=1),
        row("get", "a", at=SECOND),
        row("get", "b", at=10 * SECOND),
        row("get", "b", at=11 * SECOND),
        row("get", "a", at=60 * SECOND),
    ]

    found = timeline(replayed(document(group()), rows))

    assert found is not None
    assert found.total.windowed.tolist() == [4 / 5, 4 / 10, 0, 4 / 5]
    assert found.total.hit.tolist() == [4 / 5, 4 / 10, 4 / 15, 8 / 20]


def test_a_long_replay_has_a_bounded_number_of_moments() -> None:
    """Thousands of reads are thinned; the last one stays, and bytes read are all there."""
    rows = [row("request", "a", at=1 + 10 * at) for at in range(5_000)]

    found = timeline(replayed(document(group()), rows))

    assert found is not None
    assert (len(found.seconds), found.reads) == (MOST_MOMENTS, 5_000)
    assert found.seconds[-1] == pytest.approx(10 * 4_999 / SECOND)
    (tier,) = found.groups[0].tiers
    assert len(tier.read_bytes_per_s) == MOST_BINS
    assert np.sum(tier.read_bytes_per_s) * found.span_s == pytest.approx(4_999 * BYTES_PER_BLOCK)


def test_without_a_read_there_is_nothing_to_draw() -> None:
    """Writes alone have no hit ratio."""
    assert timeline(replayed(document(group()), [row("write", "a", at=1)])) is None
