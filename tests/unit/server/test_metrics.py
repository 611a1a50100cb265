"""The metrics page: names, types and units of vLLM 0.32."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from foreword.server.metrics import EngineCounters, Gauges, Histogram, Page

COUNTERS = {
    "vllm:external_prefix_cache_hits",
    "vllm:external_prefix_cache_queries",
    "vllm:generation_tokens",
    "vllm:num_preemptions",
    "vllm:prefix_cache_hits",
    "vllm:prefix_cache_queries",
    "vllm:prompt_tokens",
    "vllm:prompt_tokens_by_source",
    "vllm:prompt_tokens_cached",
    "vllm:prompt_tokens_cached_by_source",
    "vllm:request_success",
}
GAUGES = {
    "vllm:cache_config_info",
    "vllm:kv_cache_usage_perc",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason",
}
HISTOGRAMS = {
    "vllm:e2e_request_latency_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:iteration_tokens_total",
    "vllm:request_decode_time_seconds",
    "vllm:request_generation_tokens",
    "vllm:request_inference_time_seconds",
    "vllm:request_max_num_generation_tokens",
    "vllm:request_num_preemptions",
    "vllm:request_params_max_tokens",
    "vllm:request_params_n",
    "vllm:request_prefill_kv_computed_tokens",
    "vllm:request_prefill_time_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_queue_time_seconds",
    "vllm:request_time_per_output_token_seconds",
    "vllm:time_to_first_token_seconds",
}


def page_of(counters: EngineCounters, *, running: int = 0, waiting: int = 0, usage: float = 0.0) -> str:
    """The text page of a model called tiny."""
    page = Page(counters, model="tiny", created_s=1.75e9, config_labels={"a_label": "x", "block_size": "16"})
    text, content_type = page.render(Gauges(running=running, waiting=waiting, kv_cache_usage=usage), accept="*/*")
    assert content_type.startswith("text/plain")
    return text.decode()


def test_names_and_types_are_vllms() -> None:
    """Every family that vLLM 0.32 has for caches, tokens, requests and latencies, with its type."""
    families = list(text_string_to_metric_families(page_of(EngineCounters(131_072))))

    def named(kind: str) -> set[str]:
        return {family.name for family in families if family.type == kind and family.name.startswith("vllm:")}

    assert named("counter") == COUNTERS
    assert {name for name in named("gauge") if not name.endswith("_created")} == GAUGES
    assert named("histogram") == HISTOGRAMS
    assert {name.removesuffix("_created") for name in named("gauge") if name.endswith("_created")} == (
        COUNTERS | HISTOGRAMS
    )


def test_samples_look_like_vllms() -> None:
    """Labels engine and model_name, floats, the exponent form above a million, help that tells the unit."""
    counters = EngineCounters(131_072)
    counters.prefix_queries, counters.prefix_hits = 1_143_646, 680_128
    lines = page_of(counters, running=3, waiting=2, usage=0.125).splitlines()

    labels = '{engine="0",model_name="tiny"}'
    assert f"vllm:prefix_cache_queries_total{labels} 1.143646e+06" in lines
    assert f"vllm:prefix_cache_hits_total{labels} 680128.0" in lines
    assert f"vllm:prefix_cache_hits_created{labels} 1.75e+09" in lines
    assert f"vllm:num_requests_running{labels} 3.0" in lines
    assert f"vllm:num_requests_waiting{labels} 2.0" in lines
    assert f"vllm:kv_cache_usage_perc{labels} 0.125" in lines
    assert 'vllm:cache_config_info{a_label="x",block_size="16",engine="0"} 1.0' in lines
    assert any(
        line.startswith("# HELP vllm:prefix_cache_queries_total ") and "queried tokens" in line for line in lines
    )
    assert "# TYPE vllm:prefix_cache_queries_total counter" in lines


def test_histogram_buckets_are_cumulative_and_closed_above() -> None:
    """A value on a bound belongs to that bound's bucket (le); repeated values count as often as they occurred."""
    histogram = Histogram((1.0, 5.0))
    for value, times in ((1.0, 1), (1.5, 3), (9.0, 2)):
        histogram.observe(value, times)

    assert histogram.buckets() == [("1.0", 1.0), ("5.0", 4.0), ("+Inf", 6.0)]
    assert histogram.sum == 1.0 + 4.5 + 18.0


def test_token_buckets_end_at_the_longest_request() -> None:
    """1, 2, 5, 10 and so on up to the model's length."""
    assert EngineCounters(120).request_prompt.bounds == (1, 2, 5, 10, 20, 50, 100)
