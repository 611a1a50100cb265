"""Latency metrics of requests, and figures of a pass, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from foreword.collect.metrics import METRICS, PassPerformance
from foreword.collect.records import RequestRow
from foreword.collect.stats import failure_adjusted, summary
from foreword.collect.tally import PassTally
from foreword.terms import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

MS = 1_000_000


def row(tokens_ms: Sequence[float] = (100, 110, 120), **changes: Any) -> RequestRow:  # noqa: ANN401 - fields of the row
    """A request due at 0, sent at 1 ms, with tokens at the given milliseconds."""
    token_ns = [int(at_ms * MS) for at_ms in tokens_ms]
    fields: dict[str, Any] = {
        "request_id": "r",
        "pass_": Pass.COLD,
        "order_index": 0,
        "prefix_group_id": "a",
        "planned_dp_id": 0,
        "url_index": 0,
        "ok": True,
        "due_ns": 0,
        "sent_ns": MS,
        "first_token_ns": token_ns[0] if token_ns else None,
        "last_token_ns": token_ns[-1] if token_ns else None,
        "done_ns": 500 * MS,
        "token_ns": token_ns,
        "input_len": 64,
        "prompt_tokens": 64,
        "completion_tokens": len(token_ns),
        "cached_tokens": 32,
        "expected_hit_len": 48,
        "max_tokens": 3,
    }
    return RequestRow(**{**fields, **changes})


def values(name: str, of: RequestRow) -> list[float]:
    """Values of a metric."""
    return list(METRICS[name].values(of))


def test_latencies_of_three_tokens() -> None:
    """Tokens at 100, 110 and 120 ms: ITL is [10, 10] without the first token (case 25)."""
    of = row()

    assert values("TTFT", of) == [100]
    assert values("TTFT_SENT", of) == [99]
    assert values("ITL", of) == [10, 10]
    assert values("TPOT", of) == [10]
    assert values("E2EL", of) == [120]
    assert values("E2EL_SENT", of) == [119]


def test_one_token_has_no_time_per_token() -> None:
    """TPOT of one token is undefined, not 0."""
    assert values("TPOT", row([100])) == []
    assert values("ITL", row([100])) == []


def test_several_tokens_a_chunk() -> None:
    """Eight tokens in two chunks: TPOT is by tokens, the gap is a chunk's and no token's (case 26)."""
    of = row([100, 170], completion_tokens=8)

    assert values("TPOT", of) == [10]
    assert values("ITL", of) == []
    assert values("CHUNK_GAP", of) == [70]


def test_no_token_and_no_usage() -> None:
    """What did not happen has no value."""
    nothing = row([], completion_tokens=0)
    silent = row([100, 110], completion_tokens=None)

    assert all(values(name, nothing) == [] for name in METRICS)
    assert values("TPOT", silent) == []
    assert values("ITL", silent) == [10]


def test_reasoning_comes_first() -> None:
    """The first token may be reasoning; the first answer is a metric of its own."""
    assert values("TTFA", row(first_answer_ns=115 * MS)) == [115]
    assert values("TTFA", row()) == []


def test_declared_fields_exist() -> None:
    """What a metric says it needs are fields of a row; each has a formula and a direction."""
    fields = set(RequestRow.__struct_fields__)

    for metric in METRICS.values():
        assert set(metric.needs) <= fields
        assert metric.formula
        assert (metric.unit, metric.better) == ("ms", "lower")


def test_figures_of_a_pass() -> None:
    """Two successes and two failures over 2 s, from the first sending to the last end."""
    pass_ = PassPerformance()
    for of in (
        row(sent_ns=0, done_ns=1000 * MS),
        row([200, 210], done_ns=2000 * MS),
        row([], ok=False, error_kind="timeout", done_ns=1500 * MS, prompt_tokens=None, connection_retries=1),
        row([], ok=False, error_kind="http", done_ns=10 * MS),
    ):
        pass_.add(of)

    told = pass_.document(loop_lag_ms=[1.0, 3.0])

    assert told["counts"] == {
        "requests": 4,
        "ok": 2,
        "failed": 2,
        "timeouts": 1,
        "errors_by_kind": {"http": 1, "timeout": 1},
        "connection_retries": 1,
    }
    assert told["duration_s"] == 2.0
    assert (told["request_throughput_per_s"], told["qps"]) == (1.0, 2.0)
    assert (told["input_token_throughput_per_s"], told["output_token_throughput_per_s"]) == (64.0, 2.5)
    assert (told["success_rate"], told["timeout_rate"]) == (0.5, 0.25)
    ttft: Any = told["TTFT"]
    assert (ttft["count"], ttft["mean"], ttft["unit"]) == (2, 150.0, "ms")
    assert ttft["failure_adjusted"] == {"p50": None, "p90": None, "p95": None, "p99": None}
    client: Any = told["client"]
    assert client["loop_lag_ms_max"] == 3.0


def test_a_pass_without_requests() -> None:
    """Nothing sent: counts are 0, rates are unknown, nothing divides by 0."""
    told = PassPerformance().document()

    assert told["duration_s"] == 0
    assert told["success_rate"] is None
    assert told["qps"] is None


def test_quantiles_are_exact() -> None:
    """The values 1 to 100: quantiles by linear interpolation."""
    told = summary(np.arange(100, 0, -1, dtype=np.float64))

    assert told == {
        "count": 100,
        "mean": 50.5,
        "p50": 50.5,
        "p90": pytest.approx(90.1),
        "p95": pytest.approx(95.05),
        "p99": pytest.approx(99.01),
        "min": 1.0,
        "max": 100.0,
    }
    assert summary(np.array([]))["p50"] is None


def test_failures_count_as_slowest() -> None:
    """With 7 failures in 100 the median moves up and the 95th percentile is among the failures (case 30)."""
    told = failure_adjusted(np.arange(1, 94, dtype=np.float64), failures=7)

    assert told["p50"] == 50.5
    assert told["p90"] == pytest.approx(90.1)
    assert told["p95"] is None


def test_hit_ratios_of_a_pass() -> None:
    """Ratios are sums over sums; one answer that reports nothing makes the reported ratio unknown."""
    tally, partly = PassTally(), PassTally()
    for of in (row(), row(input_len=192, expected_hit_len=0, prompt_tokens=192, cached_tokens=0)):
        tally.add(of)
        partly.add(of)
    partly.add(row(cached_tokens=None))

    assert tally.designed_hit_ratio == 48 / 256
    assert tally.usage_hit_ratio == 32 / 256
    assert (partly.usage_hit_ratio, partly.unreported) == (None, 1)
    assert PassTally().designed_hit_ratio is None
