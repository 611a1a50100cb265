"""Latency and throughput of a run: read from its own figures, compared between passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreword.report.document import Comparison, PerformanceSection, Quantiles, Saving
from foreword.terms import Pass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from foreword.report.document import PassSection

LATENCIES = ("TTFT", "TPOT", "ITL", "E2EL")
CHUNK_GAP = "CHUNK_GAP"
BETWEEN_TOKENS = frozenset({"TPOT", "ITL", CHUNK_GAP})
SHORTEST_GAP_MS = 0.05
STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def has_shape(figures: Mapping[str, Any]) -> bool:
    """Whether the parts of a pass's figures are objects, as far as they are there."""
    metrics = [figures.get(name) or {} for name in (*LATENCIES, CHUNK_GAP)]
    adjusted = [metric.get("failure_adjusted", {}) for metric in metrics if isinstance(metric, dict)]
    parts = (figures.get("counts") or {}, figures.get("client") or {}, *metrics, *adjusted)
    return all(isinstance(part, dict) for part in parts)


def performance(figures: Mapping[str, Any] | None) -> PerformanceSection | None:
    """Figures of a pass; whatever the run did not write is absent."""
    if figures is None:
        return None
    client = figures.get("client") or {}
    return PerformanceSection(
        latencies=tuple(_latencies(figures)),
        duration_s=_number(figures, "duration_s"),
        request_throughput_per_s=_number(figures, "request_throughput_per_s"),
        input_token_throughput_per_s=_number(figures, "input_token_throughput_per_s"),
        output_token_throughput_per_s=_number(figures, "output_token_throughput_per_s"),
        qps=_number(figures, "qps"),
        success_rate=_number(figures, "success_rate"),
        timeout_rate=_number(figures, "timeout_rate"),
        loop_lag_p99_ms=_number(client, "loop_lag_ms_p99"),
        send_lag_p99_ms=_number(client, "send_lag_ms_p99"),
    )


def comparison(sections: Sequence[PassSection]) -> Comparison | None:
    """Cold against hot, when the run made both passes."""
    by_pass = {section.pass_name: section for section in sections}
    cold, hot = by_pass.get(Pass.COLD), by_pass.get(Pass.HOT)
    if cold is None or hot is None:
        return None
    return Comparison(
        cold_hit_ratio=_measured(cold),
        hot_hit_ratio=_measured(hot),
        ttft=_savings(cold.performance, hot.performance),
        cold_input_throughput_per_s=cold.performance.input_token_throughput_per_s if cold.performance else None,
        hot_input_throughput_per_s=hot.performance.input_token_throughput_per_s if hot.performance else None,
    )


def _latencies(figures: Mapping[str, Any]) -> Iterator[Quantiles]:
    """Rows of the latency table: gaps between chunks only where tokens cannot be told apart."""
    failed = bool((figures.get("counts") or {}).get("failed"))
    for name in LATENCIES:
        raw = figures.get(name) or {}
        yield _quantiles(name, raw)
        if failed and "failure_adjusted" in raw:
            adjusted = {"unit": raw.get("unit", "ms"), "count": figures["counts"].get("requests")}
            yield _quantiles(name, {**raw["failure_adjusted"], **adjusted}, failures_as_slowest=True)
        gaps = figures.get(CHUNK_GAP) or {}
        if name == "ITL" and not raw.get("count") and gaps.get("count"):
            yield _quantiles(CHUNK_GAP, gaps)


def _savings(cold: PerformanceSection | None, hot: PerformanceSection | None) -> tuple[Saving, ...]:
    if cold is None or hot is None:
        return ()
    before, after = cold.latencies[0], hot.latencies[0]  # TTFT stands first
    return tuple(
        Saving(statistic=name, cold_ms=a, hot_ms=b)
        for name in STATISTICS
        if (a := getattr(before, name)) is not None and (b := getattr(after, name)) is not None
    )


def _measured(section: PassSection) -> float | None:
    last = section.ladder.rungs[-1]
    return last.ratio if last.name == "measured" else None


def _quantiles(metric: str, raw: Mapping[str, Any], *, failures_as_slowest: bool = False) -> Quantiles:
    median = _number(raw, "p50")
    return Quantiles(
        metric=metric,
        unit=str(raw.get("unit", "ms")),
        failures_as_slowest=failures_as_slowest,
        in_bursts=median is not None and metric in BETWEEN_TOKENS and median < SHORTEST_GAP_MS,
        count=int(_number(raw, "count") or 0),
        **{name: _number(raw, name) for name in STATISTICS},
    )


def _number(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name)
    return float(value) if isinstance(value, (int, float)) else None
