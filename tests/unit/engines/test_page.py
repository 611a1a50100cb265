"""Metrics pages in the forms that servers send, and what is no page."""

from __future__ import annotations

import math

import pytest

from foreword.engines.page import NotMetricsError, parse_only, parse_page

CLASSIC = (
    "# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.\n"
    "# TYPE vllm:prefix_cache_hits_total counter\n"
    'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1.143646e+06\n'
    "# TYPE vllm:prefix_cache_hits_created gauge\n"
    'vllm:prefix_cache_hits_created{engine="0",model_name="tiny"} 1.79e+09\n'
    "# TYPE vllm:iteration_tokens_total histogram\n"
    'vllm:iteration_tokens_total_bucket{le="8.0"} 3\n'
    'vllm:iteration_tokens_total_bucket{le="+Inf"} 4\n'
    "vllm:iteration_tokens_total_sum 40\n"
    "vllm:iteration_tokens_total_count 4\n"
)


def value(text: str, name: str) -> float:
    """Value of the only series of a name."""
    (sample,) = parse_page(text).of(name)
    return sample.value


def test_the_classic_format() -> None:
    """Counters keep their exposed names, exponents are numbers, labels and HELP texts are there."""
    page = parse_page(CLASSIC)

    (sample,) = page.of("vllm:prefix_cache_hits_total")
    assert sample.value == 1_143_646
    assert sample.labels == (("engine", "0"), ("model_name", "tiny"))
    assert "tokens" in page.help_of("vllm:prefix_cache_hits_total")
    assert value(CLASSIC, "vllm:prefix_cache_hits_created") == 1.79e9


def test_a_histogram_whose_name_ends_like_a_counter() -> None:
    """``iteration_tokens_total`` is a histogram: its parts are found by their own names only."""
    page = parse_page(CLASSIC)

    assert page.of("vllm:iteration_tokens_total") == ()
    assert value(CLASSIC, "vllm:iteration_tokens_total_sum") == 40


def test_the_openmetrics_format() -> None:
    """TYPE without ``_total``, exemplars and ``# EOF`` read as the same samples."""
    text = (
        "# HELP vllm:prefix_cache_hits Prefix cache hits, in terms of number of cached tokens.\n"
        "# TYPE vllm:prefix_cache_hits counter\n"
        'vllm:prefix_cache_hits_total{engine="0"} 7.0 # {trace_id="ab"} 1.0\n'
        'vllm:prefix_cache_hits_created{engine="0"} 1.79e+09\n'
        "# EOF\n"
    )

    page = parse_page(text)

    assert value(text, "vllm:prefix_cache_hits_total") == 7
    assert "tokens" in page.help_of("vllm:prefix_cache_hits_total")


def test_odd_but_legal_lines() -> None:
    """Escapes in labels, infinities, timestamps, CRLF and comments are part of the format."""
    text = '# a comment\r\na{path="C:\\\\x\\n\\"y\\""} 1 1790000000000\r\nb +Inf\r\nc NaN\r\n\r\nd 1e+06\r\n'

    page = parse_page(text)

    assert page.of("a")[0].labels == (("path", 'C:\\x\n"y"'),)
    assert page.of("a")[0].value == 1
    assert math.isinf(page.of("b")[0].value)
    assert math.isnan(page.of("c")[0].value)
    assert page.of("d")[0].value == 1_000_000


@pytest.mark.parametrize(
    ("text", "looks_like"),
    [
        ("", "an empty page"),
        ("  \r\n", "an empty page"),
        ("<!doctype html><html></html>", "an HTML page"),
        ('{"detail": "monitoring is off"}', "JSON"),
        ('[{"kvCacheStats": {"cacheHitRate": 0.5}}]', "JSON"),
        ("Not Found", "no metrics page"),
        ("ok", "no metrics page"),
        ("# TYPE a counter\n", "without a single metric"),
    ],
)
def test_what_is_no_page(text: str, looks_like: str) -> None:
    """HTML, JSON, prose and nothing are refused, and named."""
    with pytest.raises(NotMetricsError, match=looks_like):
        parse_page(text)


def test_reading_a_few_names_only() -> None:
    """A filtered page holds the names asked for, and none is no error."""
    page = parse_only(CLASSIC, ["vllm:prefix_cache_hits_total"])

    assert set(page.samples) == {"vllm:prefix_cache_hits_total"}
    assert parse_only(CLASSIC, ["sglang:token_usage"]).samples == {}
