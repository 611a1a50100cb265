"""Sentences of notices and causes, by code; what varies is filled in from facts that the document keeps beside them."""

from __future__ import annotations

from foreword.report.document import Cause

NOTICES = {
    "BLOCK_SIZE_MISMATCH": "The data set is planned in blocks of {planned} tokens, the server has {reported}.",
    "CLIENT_LAG": "The client itself was late by {lag_ms:.0f} ms (P99) in the {pass_name} pass; latencies hold that.",
    "CONSTRUCTION": "The construction's verdict is {status} ({reason}).",
    "COUNTERS_DERIVED": "Counters of the {pass_name} pass are derived from rates: approximate.",
    "COUNTER_RESET": "Counters were reset during the {pass_name} pass: the server restarted.",
    "CUT_OFF_ROW": "The last result row was cut off while it was written; it is left out.",
    "DATASET_MISMATCH": "The run names the data set {named}; the folder holds {held}.",
    "EVICTED": "The {pass_name} pass wrote {tokens:,} tokens into {where} of {capacity:,}: blocks were evicted.",
    "EXTERNAL_TIER": "An external cache tier served {tokens:,} tokens in the {pass_name} pass.",
    "FAILED_REQUESTS": (
        "{failed:,} of {planned:,} requests of the {pass_name} pass failed ({kinds}); "
        "predictions are replayed without them."
    ),
    "HITS_NOT_REPORTED": "Neither answers nor counters report hits of the {pass_name} pass.",
    "HIT_RULE_MISMATCH": "The data set is made for {planned} ({planned_rule}); the server is {found} ({found_rule}).",
    "INTERRUPTED": "The run did not end by itself; the report covers what was recorded before.",
    "LIMITED": "{missing:,} of {planned:,} requests of the {pass_name} pass have no result: the run was limited.",
    "METRICS_ABSENT": "No metrics of the server were collected; only answers can prove hits.",
    "METRICS_INCOMPLETE": "The server's metrics do not show {names}.",
    "METRICS_MISSING": "Metrics of an endpoint or rank were missing after the {pass_name} pass.",
    "NOT_SENT": "{missing:,} of {planned:,} requests of the {pass_name} pass have no result.",
    "NOT_WARM": (
        "The server was not warm: in {cold:,} of {lanes:,} lanes the first request of the hot pass hit nothing."
    ),
    "NOT_WARMED": "{cold:,} of {lanes:,} lanes were not warmed before the hot pass.",
    "PARTIAL_USAGE": (
        "Only {reported:,} of {answers:,} answers of the {pass_name} pass report cached tokens, {tokens:,} in all, and "
        "counters do not tell whether the others are zero."
    ),
    "PREEMPTIONS": "{count:,} requests of the {pass_name} pass were preempted.",
    "PROMPT_TOKENS_DIFFER": (
        "The server counted other prompt tokens than planned in {requests:,} requests of the {pass_name} pass."
    ),
    "REENCODE": "{wrong:,} of {checked:,} prompts did not encode to their ids.",
    "RESIDUAL_CACHE": "The cache was not empty before the cold pass: first requests of lanes found {tokens:,} tokens.",
    "ZEROS_LEFT_OUT": (
        "{left_out:,} answers of the {pass_name} pass leave cached tokens out; the counters show that they are zero."
    ),
    "SERVER_GONE": "The server refused one connection after the other, so the run ended before all was sent.",
    "RUN": "The run warned: {message}.",
}

METRICS_MISSED = {
    "queries": "prompt tokens looked up in the cache",
    "hits": "cached tokens served",
    "prompt_tokens": "prompt tokens",
    "preemptions": "preemptions",
}
"""Counters whose absence leaves something unproven, in words; others are shown where they exist."""

ADVICE = {
    "BLOCK_SIZE_MISMATCH": "generate it again with block_size {reported}, or start the server with {planned}",
    "CLIENT_LAG": "lower the load of one client, or use more of them",
    "EVICTED": "give the server more memory for its cache, or plan fewer or shorter prefixes",
    "HITS_NOT_REPORTED": (
        "let the server report cached tokens (vLLM: --enable-prompt-tokens-details), or give --metrics-url"
    ),
    "HIT_RULE_MISMATCH": "generate it again for this engine",
    "METRICS_ABSENT": "run with --metrics-url",
    "NOT_WARM": "run with --mode warmup, which warms the server first",
    "PROMPT_TOKENS_DIFFER": "check that the data set was made with the server's tokenizer and prompt format",
    "RESIDUAL_CACHE": "run with a salt, or reset the cache before the run",
}

CAUSES = {
    Cause.RESIDUAL_CACHE: "residual cache before the run",
    Cause.BLOCK_SIZE: "wrong block size",
    Cause.CONCURRENCY: "order and concurrency",
    Cause.ROUTING: "routing to another cache",
    Cause.CAPACITY: "capacity and eviction",
    Cause.COUNTER_WINDOW: "counter window, other traffic",
    Cause.RESTART: "restart of the server",
    Cause.EXTERNAL_TIER: "external tier counted twice",
    Cause.METRIC_UNIT: "unit of the counter",
    Cause.TOKEN_COUNTS: "template and special tokens",
}

EVIDENCE = {
    "only_loses": "it can only take hits away; more were measured than predicted",
    "only_gains": "it can only add hits; fewer were measured than predicted",
    "needs_cold_pass": "only a cold pass with reported hits can tell",
    "first_found": "first requests of the lanes found {tokens:,} tokens that this pass had not written",
    "uneven_hits": "measured hits are multiples of {step}, not of the block size",
    "coarse_hits": "every measured hit is a multiple of {step}, predicted ones are not",
    "size_not_reported": "planned {planned}; the server does not report one",
    "sizes": "planned {planned}, the server reports {reported}",
    "no_stamps": "the run has no time stamps",
    "serial": "one request at a time",
    "in_flight": "up to {requests:,} requests were under way at once",
    "in_flight_harmless": "up to {requests:,} requests under way cost nothing in this pass",
    "several_caches": "{domains} cache domains, {addresses} addresses",
    "one_cache": "one cache domain, one address",
    "evicted": "{tokens:,} tokens evicted",
    "preempted": "{count:,} preemptions; evictions not reported",
    "overflow": "the pass wrote {tokens:,} tokens into {where} of {capacity:,}: blocks were evicted",
    "fits": "all that the run wrote, at most {tokens:,} tokens, fits into {capacity:,}",
    "written": "the pass wrote {tokens:,} prompt tokens into the cache; evictions not reported",
    "not_comparable": "counters and answers cannot be compared",
    "counters_differ": "counters and answers differ",
    "counters_equal": "counters and answers are equal",
    "no_counters": "counters are not reported",
    "resets": "{count:,} counter resets seen",
    "no_external_tier": "the server reports no external tier",
    "external_hits": "{tokens:,} hit tokens of an external tier",
    "not_tokens": "the cache counters do not count tokens",
    "queries": "{queries:,} queries for {tokens:,} prompt tokens",
    "no_prompt_tokens": "answers carry no prompt tokens",
    "prompt_tokens": "{planned:,} planned, {counted:,} counted",
}
