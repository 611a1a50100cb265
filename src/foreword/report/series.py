"""Series for charts, thinned so that a report of a million requests stays small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.report.document import (
    ComputedBin,
    CumulativeSeries,
    LaneWatermark,
    LengthSection,
    PairSeries,
    ShareBin,
    UsageSeries,
    WatermarkSection,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from foreword.report.evidence import Evidence
    from foreword.report.records import PlanArrays
    from foreword.terms import BoolArray, IntArray

CURVE_POINTS = 400
PAIRS_SHOWN = 5_000
LANES_SHOWN = 8
LENGTH_BINS = 24
COMPUTED_BINS = 10
SHARE_BINS = 10
SCALE_TOKENS = 1_000


def cumulative(evidence: Evidence) -> CumulativeSeries:
    """Hit ratio of the first requests: all planned ones as designed, and the successful ones as measured."""
    plan, results = evidence.plan, evidence.results
    at = _thinned(len(plan.input_len))
    designed = np.cumsum(plan.hits_of(evidence.pass_name)) / np.cumsum(plan.input_len)
    measured = None
    if results.ok.any() and evidence.hits_reported[results.ok].all():
        tokens = np.cumsum(np.where(results.ok, evidence.input_tokens, 0))
        hits = np.cumsum(np.where(results.ok, results.cached_tokens, 0))
        measured = tuple(_rounded(hits[at] / np.maximum(tokens[at], 1)))
    return CumulativeSeries(
        requests=tuple((at + 1).tolist()), designed=tuple(_rounded(designed[at])), measured=measured
    )


def pairs(evidence: Evidence) -> PairSeries | None:
    """Distinct pairs of predicted and measured hits; when there are too many, the differing ones come first."""
    shown = evidence.results.ok & evidence.hits_reported
    if not shown.any():
        return None
    both = np.stack([evidence.predicted[shown], evidence.results.cached_tokens[shown]], axis=1)
    distinct, count = np.unique(both, axis=0, return_counts=True)
    keep = np.arange(len(distinct))
    if len(distinct) > PAIRS_SHOWN:
        differing = np.flatnonzero(distinct[:, 0] != distinct[:, 1])
        equal = np.flatnonzero(distinct[:, 0] == distinct[:, 1])
        first = differing[_thinned(len(differing), PAIRS_SHOWN)]
        rest = equal[_thinned(len(equal), PAIRS_SHOWN - len(first))]
        keep = np.sort(np.concatenate([first, rest]))
    return PairSeries(
        predicted=tuple(distinct[keep, 0].tolist()),
        measured=tuple(distinct[keep, 1].tolist()),
        requests=tuple(count[keep].tolist()),
        pairs_total=len(distinct),
    )


def ttft_by_computed(evidence: Evidence) -> tuple[tuple[ComputedBin, ...], bool]:
    """TTFT by the prompt tokens that were left to compute, in equal bins, and whether these are only predicted.

    Prompts of every length stand side by side: what takes time is the rest of a prompt, whatever share of it was hit.
    """
    known, hits, predicted = _hits_for_ttft(evidence)
    if not known.any():
        return (), predicted
    left = np.maximum(evidence.input_tokens[known] - hits[known], 0)
    low, width = int(left.min()), max(1, -(-(int(left.max()) - int(left.min()) + 1) // COMPUTED_BINS))
    bins = [
        ComputedBin(low=low + at * width, high=low + (at + 1) * width, requests=count, p50_ms=p50, p90_ms=p90)
        for at, count, p50, p90 in _spread(evidence.results.ttft_ms[known], (left - low) // width)
    ]
    return tuple(bins), predicted


def ttft_by_share(evidence: Evidence) -> tuple[ShareBin, ...]:
    """TTFT over 1,000 prompt tokens by the share of the prompt that was hit, in ten bins.

    Over tokens, since prompts with a large share are often the long ones, and those take longer whatever is hit.
    """
    known, hits, _ = _hits_for_ttft(evidence)
    tokens = np.maximum(evidence.input_tokens[known], 1)
    bin_of = np.minimum(hits[known] * SHARE_BINS // tokens, SHARE_BINS - 1)
    scaled = evidence.results.ttft_ms[known] * (SCALE_TOKENS / tokens)
    return tuple(
        ShareBin(
            low=at / SHARE_BINS,
            high=(at + 1) / SHARE_BINS,
            requests=count,
            p50_ms_per_1000_tokens=p50,
            p90_ms_per_1000_tokens=p90,
        )
        for at, count, p50, p90 in _spread(scaled, bin_of)
    )


def _hits_for_ttft(evidence: Evidence) -> tuple[BoolArray, IntArray, bool]:
    """Requests with a TTFT, the hits to set it against, and whether these are only predicted."""
    predicted = not bool((evidence.results.ok & evidence.hits_reported).any())
    hits = evidence.predicted if predicted else evidence.results.cached_tokens
    return ~np.isnan(evidence.results.ttft_ms) & (predicted | evidence.hits_reported), hits, predicted


def _spread(values: npt.NDArray[np.float64], bin_of: IntArray) -> Iterator[tuple[int, int, float, float]]:
    """Number, count, P50 and P90 of each bin that holds something."""
    for at in np.unique(bin_of).tolist():
        mine = values[bin_of == at]
        p50, p90 = np.quantile(mine, [0.5, 0.9])
        yield at, len(mine), round(float(p50), 3), round(float(p90), 3)


def kv_usage(evidence: Evidence) -> UsageSeries | None:
    """KV-cache usage sampled while the pass went on."""
    metrics = evidence.record.metrics
    samples = [
        (sample.t_ns, sample.kv_cache_usage)
        for sample in (metrics.usage_samples if metrics else ())
        if sample.kv_cache_usage is not None and sample.pass_name in {None, evidence.pass_name}
    ]
    if not samples:
        return None
    at = _thinned(len(samples))
    return UsageSeries(
        seconds=tuple(round(samples[i][0] / 1e9, 3) for i in at),
        usage=tuple(round(samples[i][1], 5) for i in at),
    )


def lengths(plan: PlanArrays) -> LengthSection:
    """Prompt lengths of the plan, with equal bins of whole tokens."""
    values = plan.input_len
    low, high = int(values.min()), int(values.max())
    width = max(1, -(-(high - low + 1) // LENGTH_BINS))
    edges = np.arange(low, high + width + 1, width)
    counts, _ = np.histogram(values, bins=edges)
    p50, p90, p95, p99 = np.quantile(values, [0.5, 0.9, 0.95, 0.99]).tolist()
    return LengthSection(
        count=len(values),
        minimum=low,
        maximum=high,
        mean=float(values.mean()),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        edges=tuple(edges.tolist()),
        requests=tuple(counts.tolist()),
    )


def watermarks(plan: PlanArrays) -> WatermarkSection:
    """Where the watermark of each lane rises in a cold, serial pass; the lanes with most requests."""
    size = np.bincount(plan.lane)
    lanes = np.sort(np.argsort(-size, kind="stable")[:LANES_SHOWN])
    return WatermarkSection(
        lanes=tuple(_lane_watermark(plan, int(lane)) for lane in lanes),
        lanes_total=len(plan.lane_names),
        requests=len(plan.lane),
    )


def _lane_watermark(plan: PlanArrays, lane: int) -> LaneWatermark:
    members = np.flatnonzero(plan.lane == lane)
    level = np.maximum.accumulate(plan.prefix_len[members])
    rises = np.flatnonzero(np.diff(level, prepend=-1) > 0)
    at = rises[_thinned(len(rises))]
    return LaneWatermark(
        lane=plan.lane_names[lane],
        order_index=tuple(members[at].tolist()),
        tokens=tuple(level[at].tolist()),
    )


def _thinned(n: int, limit: int = CURVE_POINTS) -> IntArray:
    """At most ``limit`` positions of ``n``, evenly spread, the first and the last among them."""
    if n <= limit:
        return np.arange(n, dtype=np.int64)
    return np.unique(np.linspace(0, n - 1, max(limit, 0)).round().astype(np.int64))


def _rounded(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[float]:
    return [round(float(value), 6) for value in values]
