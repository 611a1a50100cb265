"""The server's counters, and their page in vLLM's names and units (0.32; spec: engines 1.2).

Counting is plain arithmetic; ``prometheus_client`` renders the page on a scrape, as vLLM does, so that headers,
``_created`` lines and number formats are the real thing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

# Names keep their colon; without this newer libraries write underscores into samples, but not into their headers.
_OPENMETRICS = "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8"

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_CACHE_SOURCES = ("device", "host", "p2p", "disk", "external_unspecified")

_LATENCY = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_GAP = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_STEP_TOKENS = (1, *(2**power for power in range(3, 15)))
_ONE_TWO_FIVE = tuple(float(digit * 10**power) for power in range(7) for digit in (1, 2, 5))
_SMALL_COUNTS = (1, 2, 5, 10, 20)
_PREEMPTION_COUNTS = (1, 2, 3, 4, 5, 10, 20)


class Histogram:
    """Counts of observations by upper bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count ``value``, as often as it occurred."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts with their bounds as Prometheus writes them."""
        total = 0
        rows = []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            spelt = floatToGoString(bound)  # type: ignore[no-untyped-call]  # not annotated by the library
            rows.append((spelt, float(total)))
        return rows


def _token_bounds(max_model_len: int) -> tuple[float, ...]:
    return tuple(bound for bound in _ONE_TWO_FIVE if bound <= max_model_len)


@dataclass(slots=True)
class EngineCounters:
    """Everything the engine counts; tokens unless the name says otherwise."""

    max_model_len: int
    prefix_queries: int = 0
    prefix_hits: int = 0
    prompt: int = 0
    prompt_cached: int = 0
    generation: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS, 0))
    first_token_s: Histogram = field(default_factory=lambda: Histogram(_FIRST_TOKEN))
    gap_s: Histogram = field(default_factory=lambda: Histogram(_TOKEN_GAP))
    per_token_s: Histogram = field(default_factory=lambda: Histogram(_TOKEN_GAP))
    e2e_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    queue_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    inference_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    prefill_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    decode_s: Histogram = field(default_factory=lambda: Histogram(_LATENCY))
    step: Histogram = field(default_factory=lambda: Histogram(_STEP_TOKENS))
    samples_per_request: Histogram = field(default_factory=lambda: Histogram(_SMALL_COUNTS))
    preemptions_per_request: Histogram = field(default_factory=lambda: Histogram(_PREEMPTION_COUNTS))
    request_prompt: Histogram = field(init=False)
    request_generation: Histogram = field(init=False)
    request_limit: Histogram = field(init=False)
    request_computed: Histogram = field(init=False)

    def __post_init__(self) -> None:
        bounds = _token_bounds(self.max_model_len)
        self.request_prompt = Histogram(bounds)
        self.request_generation = Histogram(bounds)
        self.request_limit = Histogram(bounds)
        self.request_computed = Histogram(bounds)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the engine looks like at a scrape."""

    running: int
    waiting: int
    kv_cache_usage: float


class Page(Collector):
    """The ``/metrics`` page of one engine."""

    def __init__(
        self, counters: EngineCounters, *, model: str, created_s: float, config_labels: Mapping[str, str]
    ) -> None:
        self._counters = counters
        self._gauges = Gauges(running=0, waiting=0, kv_cache_usage=0.0)
        self._labels = {"engine": "0", "model_name": model}
        self._created_s = created_s
        self._config_labels = {"engine": "0", **config_labels}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def render(self, gauges: Gauges, *, accept: str) -> tuple[bytes, str]:
        """Page and content type; OpenMetrics when ``accept`` asks for it."""
        self._gauges = gauges
        encoder, content_type = choose_encoder(_OPENMETRICS if "application/openmetrics-text" in accept else "")
        return encoder(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Every family, in vLLM's order."""
        yield from self._gauge_families()
        yield from self._counter_families()
        yield from self._histogram_families()

    def _gauge_families(self) -> Iterator[Metric]:
        now = self._gauges
        yield self._gauge("num_requests_running", "Requests that are being executed.", now.running)
        yield self._gauge("num_requests_waiting", "Requests that wait to be scheduled.", now.waiting)
        reasons = GaugeMetricFamily(
            "vllm:num_requests_waiting_by_reason", "Waiting requests by reason.", labels=[*self._labels, "reason"]
        )
        reasons.add_metric([*self._labels.values(), "capacity"], now.waiting)
        reasons.add_metric([*self._labels.values(), "deferred"], 0)
        yield reasons
        yield self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", now.kv_cache_usage)
        config = GaugeMetricFamily(
            "vllm:cache_config_info", "Cache settings, as labels.", labels=list(self._config_labels)
        )
        config.add_metric(list(self._config_labels.values()), 1)
        yield config

    def _counter_families(self) -> Iterator[Metric]:
        now = self._counters
        computed = now.prompt - now.prompt_cached
        yield self._counter("prefix_cache_queries", "Prefix cache queries, in queried tokens.", now.prefix_queries)
        yield self._counter("prefix_cache_hits", "Prefix cache hits, in cached tokens.", now.prefix_hits)
        yield self._counter("external_prefix_cache_queries", "Queries to other caches, in queried tokens.", 0)
        yield self._counter("external_prefix_cache_hits", "Hits in other caches, in cached tokens.", 0)
        yield self._counter("num_preemptions", "Requests that lost their blocks while running.", 0)
        yield self._counter("prompt_tokens", "Prompt tokens, cached ones included.", now.prompt)
        sources = {
            "local_compute": computed,
            "local_cache_hit": now.prompt_cached,
            "external_kv_transfer": 0,
        }
        yield self._split("prompt_tokens_by_source", "Prompt tokens by source.", "source", sources)
        yield self._counter("prompt_tokens_cached", "Prompt tokens that were cached.", now.prompt_cached)
        tiers = dict.fromkeys(_CACHE_SOURCES, 0) | {"device": now.prefix_hits}
        yield self._split("prompt_tokens_cached_by_source", "Hit tokens by cache tier.", "source", tiers)
        yield self._counter("generation_tokens", "Generated tokens.", now.generation)
        yield self._split("request_success", "Finished requests by reason.", "finished_reason", now.finished)

    def _histogram_families(self) -> Iterator[Metric]:
        now = self._counters
        rows = (
            ("request_prompt_tokens", "Prompt tokens of a request.", now.request_prompt),
            ("request_generation_tokens", "Generated tokens of a request.", now.request_generation),
            ("iteration_tokens_total", "Tokens of a service step.", now.step),
            ("request_max_num_generation_tokens", "Longest sample of a request, in tokens.", now.request_generation),
            ("request_params_n", "Samples asked of a request.", now.samples_per_request),
            ("request_params_max_tokens", "The max_tokens of a request.", now.request_limit),
            ("time_to_first_token_seconds", "Arrival to first token, in seconds.", now.first_token_s),
            ("inter_token_latency_seconds", "Gap between tokens, in seconds.", now.gap_s),
            ("request_time_per_output_token_seconds", "Mean gap of a request, in seconds.", now.per_token_s),
            ("e2e_request_latency_seconds", "Arrival to last token, in seconds.", now.e2e_s),
            ("request_queue_time_seconds", "Arrival to scheduling, in seconds.", now.queue_s),
            ("request_inference_time_seconds", "Scheduling to last token, in seconds.", now.inference_s),
            ("request_prefill_time_seconds", "Scheduling to first token, in seconds.", now.prefill_s),
            ("request_decode_time_seconds", "First to last token, in seconds.", now.decode_s),
            ("request_num_preemptions", "Preemptions of a request.", now.preemptions_per_request),
            ("request_prefill_kv_computed_tokens", "Prompt tokens computed, without cached.", now.request_computed),
        )
        for name, text, histogram in rows:
            yield self._histogram(name, text, histogram)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _counter(self, name: str, text: str, value: int) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value, created=self._created_s)
        return family

    def _split(self, name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=[*self._labels, label])
        for key, value in values.items():
            family.add_metric([*self._labels.values(), key], value, created=self._created_s)
        return family

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(f"vllm:{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), histogram.buckets(), histogram.sum)
        family.add_sample(f"vllm:{name}_created", dict(self._labels), self._created_s)
        return family
