"""Length laws: from a config to one integer for each request (RFC 3.3.1; decision 5).

Laws are tables of integer weights drawn by inversion, so that lengths are equal on every machine (Law 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from foreword.config.lengths import (
    EmpiricalLength,
    ExplicitLength,
    FixedLength,
    HistogramLength,
    LengthLaw,
    TruncatedNormalLength,
)
from foreword.errors import ConfigError
from foreword.terms import IntArray, below, draw_key, permutation, raw_bits, request_id

if TYPE_CHECKING:
    from collections.abc import Sequence

REPORT_BINS = 10
FloatArray = npt.NDArray[np.float64]
_TABLE_TOTAL = 2**32 - 1
_TAIL_SIGMAS = 40
_POINT_LAW_STD = 1 / 64


@dataclass(frozen=True, slots=True)
class LengthSample:
    """Lengths in generation order, the edges of the report's bins, and what had to be adjusted."""

    tokens: IntArray
    edges: tuple[int, ...]
    notes: tuple[str, ...] = ()


def sample_lengths(law: LengthLaw, n: int, *, key: int, minimum: int = 1) -> LengthSample:
    """Draw ``n`` lengths of at least ``minimum`` tokens.

    Laws that name a file must have been given its ``values`` before.

    Raises ``ConfigError`` where the law cannot give such lengths.
    """
    match law:
        case FixedLength(value=value):
            sample = LengthSample(np.full(n, value, dtype=np.int64), ())
        case ExplicitLength():
            sample = LengthSample(_explicit(_values(law), n), ())
        case EmpiricalLength():
            values = np.asarray(_values(law), dtype=np.int64)
            sample = LengthSample(values[below(raw_bits(key, n), len(values))], ())
        case TruncatedNormalLength():
            sample = LengthSample(_truncated_normal(law, n, key=key), ())
        case HistogramLength():
            sample = _histogram(law, n, key=key, minimum=minimum)
    _check_minimum(sample.tokens, minimum)
    return sample if sample.edges else LengthSample(sample.tokens, equal_edges(sample.tokens), sample.notes)


def equal_edges(tokens: IntArray) -> tuple[int, ...]:
    """Edges of ten bins of equal width over the lengths that occur; one bin where all are equal."""
    low, high = int(tokens.min()), int(tokens.max())
    width = max(1, math.ceil((high - low + 1) / REPORT_BINS))
    return (*range(low, high + 1, width), high) if high > low else (low, low + 1)


def bin_counts(tokens: IntArray, edges: Sequence[int]) -> list[dict[str, int]]:
    """Requests in each ``[lo, hi)``; the last bin also holds its ``hi``."""
    counts = np.histogram(tokens, bins=np.asarray(edges))[0]
    return [
        {"low_tokens": int(low), "high_tokens": int(high), "requests": int(count)}
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]


def quotas(weights: Sequence[float | int], n: int) -> IntArray:
    """Share ``n`` by weights, largest remainders first, ties to the earlier (decision 5).

    >>> quotas([1, 1, 1], 10).tolist()
    [4, 3, 3]
    """
    exact = [Fraction(str(weight)) for weight in weights]
    total = sum(exact)
    shares = [n * weight / total for weight in exact]
    counts = [math.floor(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda i: (counts[i] - shares[i], i))
    for i in by_remainder[: n - sum(counts)]:
        counts[i] += 1
    return np.asarray(counts, dtype=np.int64)


def draw_from_table(weights: IntArray, n: int, *, key: int) -> IntArray:
    """Draw ``n`` indices of a table of integer weights, sum below 2**32, by inversion."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative, below(raw_bits(key, n), int(cumulative[-1])), side="right").astype(np.int64)


def _values(law: ExplicitLength | EmpiricalLength) -> tuple[int, ...]:
    if law.values is None:
        raise ConfigError("input_length.path: the file was not read", field="input_length.path")
    return law.values


def _explicit(values: Sequence[int], n: int) -> IntArray:
    if len(values) != n:
        message = f"input_length: {len(values)} lengths are given for {n} requests"
        raise ConfigError(message, field="input_length", advice="one length for each request, or mode: empirical")
    return np.asarray(values, dtype=np.int64)


def _check_minimum(tokens: IntArray, minimum: int) -> None:
    short = np.flatnonzero(tokens < minimum)
    if len(short):
        first = int(short[0])
        found = f"request {request_id(first)} has {int(tokens[first])} tokens"
        message = f"{found}, but the shortest possible prompt has {minimum}"
        advice = "template and BOS count, and one token must be its own"
        raise ConfigError(message, field="input_length", request_id=request_id(first), advice=advice)


def _truncated_normal(law: TruncatedNormalLength, n: int, *, key: int) -> IntArray:
    """Round, then bounds: ``resample`` renormalises the law, ``clip`` moves what lies outside to the bounds."""
    if law.std < _POINT_LAW_STD:
        return np.full(n, round(law.mean), dtype=np.int64)
    reach = math.ceil(law.std * _TAIL_SIGMAS)
    wide_low, wide_high = round(law.mean) - reach, round(law.mean) + reach
    low, high = max(law.min, wide_low), min(law.max, wide_high)
    if law.out_of_range == "resample":
        return low + draw_from_table(_normal_weights(law, low, high), n, key=key)
    drawn = wide_low + draw_from_table(_normal_weights(law, wide_low, wide_high), n, key=key)
    outside = (drawn < law.min) | (drawn > law.max)
    if law.out_of_range == "error" and outside.any():
        message = f"input_length: {int(outside.sum())} of {n} lengths fall outside [{law.min}, {law.max}]"
        raise ConfigError(message, field="input_length.out_of_range", advice="use resample or clip, or widen the range")
    return np.clip(drawn, law.min, law.max)


def _normal_weights(law: TruncatedNormalLength, low: int, high: int) -> IntArray:
    """Integer weights of the rounded normal on ``[low, high]``, summing to less than 2**32.

    The density follows from one exactly rounded exponential and multiplications, which are equal on every machine;
    each integer's mass is Simpson's rule over the half units around it, on a grid finer than the deviation.
    """
    parts = 2 * max(1, math.ceil(4 / law.std))
    density = _density(law, low, high, parts)
    simpson = np.where(np.arange(parts + 1) % 2 == 1, 4.0, 2.0)
    simpson[[0, -1]] = 1.0
    mass = np.zeros(high - low + 1)
    for offset in range(parts + 1):
        mass = mass + simpson[offset] * density[offset : offset + (high - low) * parts + 1 : parts]
    weights = np.floor(mass * ((_TABLE_TOTAL - len(mass)) / math.fsum(mass))).astype(np.int64)
    weights[int(np.argmax(weights))] += int(weights.sum() == 0)
    return weights


def _density(law: TruncatedNormalLength, low: int, high: int, parts: int) -> FloatArray:
    """Relative density on the grid ``low - 1/2 .. high + 1/2`` in steps of ``1/parts``.

    Neighbours have the ratio ``q``, and neighbouring ratios the constant ratio ``c``, so two running products do.
    """
    points = (high - low + 1) * parts + 1
    step, mean, std = Fraction(1, parts), Fraction(str(law.mean)), Fraction(str(law.std))
    start = Fraction(2 * low - 1, 2)
    peak = min(max(round((mean - start) / step), 0), points - 1)
    curvature = _exp(-((step / std) ** 2))
    right = _ratios(peak_x=start + peak * step, mean=mean, std=std, step=step)
    left = _ratios(peak_x=start + peak * step, mean=mean, std=std, step=-step)
    density = np.ones(points)
    density[peak + 1 :] = _falling(right, curvature, points - 1 - peak)
    density[:peak] = _falling(left, curvature, peak)[::-1]
    return density


def _ratios(*, peak_x: Fraction, mean: Fraction, std: Fraction, step: Fraction) -> float:
    """Density one step from the peak, over the density at the peak."""
    return _exp(-(2 * (peak_x - mean) * step + step * step) / (2 * std * std))


def _falling(first_ratio: float, curvature: float, n: int) -> FloatArray:
    ratios = np.full(n, curvature)
    if n:
        ratios[0] = first_ratio
    falling: FloatArray = np.cumprod(np.cumprod(ratios, dtype=np.float64), dtype=np.float64)
    return falling


def _exp(exponent: Fraction) -> float:
    """Exponential in decimal arithmetic, which rounds correctly everywhere."""
    context = Context(prec=40)
    return float(context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))))


def _histogram(law: HistogramLength, n: int, *, key: int, minimum: int) -> LengthSample:
    """Bins by quota, lengths uniform within a bin; which request gets which length is a keyed shuffle."""
    notes, spans = [], []
    end = max(bin_.range[1] for bin_ in law.bins)
    for bin_ in law.bins:
        low, high = bin_.range
        top = high + 1 if high == end else high
        if low < minimum < top and law.out_of_range == "error":
            message = f"input_length.bins: [{low}, {high}) starts below {minimum}, the shortest possible prompt"
            raise ConfigError(message, field="input_length.bins", advice="raise the edge, or out_of_range: resample")
        if low < minimum < top and law.out_of_range == "resample":
            notes.append(f"bin [{low}, {high}) starts at {minimum}, the shortest possible prompt")
            low = minimum
        spans.append((low, top))
    counts = quotas([bin_.weight for bin_ in law.bins], n)
    lows = np.repeat([low for low, _ in spans], counts)
    widths = np.repeat([top - low for low, top in spans], counts)
    lengths = lows + below(raw_bits(key, n), widths.astype(np.int64))
    if law.out_of_range == "clip":
        lengths = np.maximum(lengths, minimum)
    edges = tuple(sorted({edge for bin_ in law.bins for edge in bin_.range}))
    return LengthSample(lengths[permutation(draw_key("bins", key), n)], edges, tuple(notes))
