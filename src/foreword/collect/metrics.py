"""Latency metrics, each declared once: name, unit, formula, direction, the fields it needs.

Tables, comparisons and documentation read ``METRICS``. A value exists only for a request that succeeded and has the
fields; it is never 0 for want of one. Latency counts from the time a request was due; ``*_SENT`` counts from the time
it was written to the connection.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from foreword.collect.stats import failure_adjusted, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from foreword.collect.records import RequestRow

_NS_PER_MS = 1e6
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Metric:
    """Declaration of a metric; ``values`` gives zero, one or many values of a row, in ``unit``."""

    name: str
    unit: Literal["ms"]
    formula: str
    better: Literal["lower"]
    needs: tuple[str, ...]
    values: Callable[[RequestRow], Iterable[float]]
    failures_count: bool = False


def _span(row: RequestRow, start: str, end: str) -> Iterable[float]:
    first, last = getattr(row, start), getattr(row, end)
    return () if first is None or last is None else ((last - first) / _NS_PER_MS,)


def _between(start: str, end: str) -> Callable[[RequestRow], Iterable[float]]:
    return lambda row: _span(row, start, end)


def _tpot(row: RequestRow) -> Iterable[float]:
    tokens = row.completion_tokens
    if tokens is None or tokens < 2 or len(row.token_ns) < 2:  # noqa: PLR2004 - a gap needs two ends
        return ()
    return ((row.token_ns[-1] - row.token_ns[0]) / _NS_PER_MS / (tokens - 1),)


def _chunk_gaps(row: RequestRow) -> Iterable[float]:
    return [(after - before) / _NS_PER_MS for before, after in pairwise(row.token_ns)]


def _itl(row: RequestRow) -> Iterable[float]:
    several = row.completion_tokens is not None and row.completion_tokens != len(row.token_ns)
    return () if several else _chunk_gaps(row)


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "TTFT",
            "ms",
            "first token of any kind - due",
            "lower",
            ("due_ns", "first_token_ns"),
            _between("due_ns", "first_token_ns"),
            failures_count=True,
        ),
        Metric(
            "TTFT_SENT",
            "ms",
            "first token of any kind - sent",
            "lower",
            ("sent_ns", "first_token_ns"),
            _between("sent_ns", "first_token_ns"),
        ),
        Metric(
            "TTFA",
            "ms",
            "first token that is not reasoning - due",
            "lower",
            ("due_ns", "first_answer_ns"),
            _between("due_ns", "first_answer_ns"),
        ),
        Metric(
            "TPOT",
            "ms",
            "(last token - first token) / (completion_tokens - 1); undefined for one token",
            "lower",
            ("token_ns", "completion_tokens"),
            _tpot,
        ),
        Metric(
            "ITL",
            "ms",
            "gaps between tokens after the first, where each chunk carried one token",
            "lower",
            ("token_ns",),
            _itl,
        ),
        Metric(
            "CHUNK_GAP",
            "ms",
            "gaps between chunks that carried tokens, however many",
            "lower",
            ("token_ns",),
            _chunk_gaps,
        ),
        Metric(
            "E2EL",
            "ms",
            "last token - due; a usage chunk does not count",
            "lower",
            ("due_ns", "last_token_ns"),
            _between("due_ns", "last_token_ns"),
            failures_count=True,
        ),
        Metric(
            "E2EL_SENT",
            "ms",
            "last token - sent",
            "lower",
            ("sent_ns", "last_token_ns"),
            _between("sent_ns", "last_token_ns"),
        ),
    )
}


class PassPerformance:
    """Performance of one pass, from its rows in any order; rows are not kept."""

    def __init__(self) -> None:
        self._values = {name: array("d") for name in METRICS}
        self._send_lag_ms = array("d")
        self._kinds: dict[str, int] = {}
        self._requests = self._ok = self._retries = 0
        self._tokens = {"prompt": 0, "completion": 0}
        self._start_ns: int | None = None
        self._end_ns: int | None = None

    def add(self, row: RequestRow) -> None:
        """Count one request."""
        self._requests += 1
        self._retries += row.connection_retries
        self._send_lag_ms.extend(_span(row, "due_ns", "sent_ns"))
        if row.sent_ns is not None:
            self._start_ns = row.sent_ns if self._start_ns is None else min(self._start_ns, row.sent_ns)
        if row.done_ns is not None:
            self._end_ns = row.done_ns if self._end_ns is None else max(self._end_ns, row.done_ns)
        if not row.ok:
            kind = row.error_kind or "protocol"
            self._kinds[kind] = self._kinds.get(kind, 0) + 1
            return
        self._ok += 1
        self._tokens["prompt"] += row.prompt_tokens if row.prompt_tokens is not None else row.input_len
        self._tokens["completion"] += row.completion_tokens or 0
        for name, metric in METRICS.items():
            self._values[name].extend(metric.values(row))

    def document(self, loop_lag_ms: Iterable[float] = ()) -> dict[str, object]:
        """The pass as written to ``performance_metrics.json``."""
        failed = self._requests - self._ok
        return {
            "counts": {
                "requests": self._requests,
                "ok": self._ok,
                "failed": failed,
                "timeouts": self._kinds.get("timeout", 0),
                "errors_by_kind": dict(sorted(self._kinds.items())),
                "connection_retries": self._retries,
            },
            **{name: self._metric(metric, failed) for name, metric in METRICS.items()},
            **self._rates(),
            "client": _lags("loop_lag", np.fromiter(loop_lag_ms, np.float64))
            | _lags("send_lag", np.asarray(self._send_lag_ms, np.float64)),
        }

    def _metric(self, metric: Metric, failed: int) -> dict[str, object]:
        values = np.asarray(self._values[metric.name], np.float64)
        adjusted = {"failure_adjusted": failure_adjusted(values, failed)} if metric.failures_count else {}
        return {"unit": metric.unit, **summary(values), **adjusted}

    def _rates(self) -> dict[str, float | None]:
        known = self._start_ns is not None and self._end_ns is not None
        duration_s = ((self._end_ns or 0) - (self._start_ns or 0)) / _NS_PER_S if known else 0.0
        per_second = 1 / duration_s if duration_s > 0 else None
        share = 1 / self._requests if self._requests else None
        return {
            "duration_s": duration_s,
            "request_throughput_per_s": _times(self._ok, per_second),
            "qps": _times(self._requests, per_second),
            "input_token_throughput_per_s": _times(self._tokens["prompt"], per_second),
            "output_token_throughput_per_s": _times(self._tokens["completion"], per_second),
            "success_rate": _times(self._ok, share),
            "timeout_rate": _times(self._kinds.get("timeout", 0), share),
        }


def _times(count: int, factor: float | None) -> float | None:
    return None if factor is None else count * factor


def _lags(name: str, values_ms: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> dict[str, float | int | None]:
    told = summary(values_ms)
    return {f"{name}_ms_{key}": told[key] for key in ("p50", "p99", "max")}
