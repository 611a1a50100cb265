"""The report document: schema of ``prefix_cache_report.json`` and the one input of every renderer.

Ratios are 0 to 1 and token-weighted; ``*_points`` are percentage points; ``None`` means *not reported*, never zero.
No prompt, key, header or address is part of it. ``ReportDocument.model_json_schema()`` is the JSON schema.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from foreword.collect.ladder import Remainder, RungName
from foreword.terms import Pass, Reason, RequestClass, RuntimeVerdict, Status


class Model(BaseModel):
    """A part of the document: read-only, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Severity(StrEnum):
    """How much a notice matters; ``--strict`` turns warnings into exit code 1."""

    ALARM = "alarm"
    WARNING = "warning"
    NOTE = "note"


class Proof(StrEnum):
    """Outcome of comparing two counts of the same tokens."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REPORTED = "not_reported"


class Finding(StrEnum):
    """What a check says about a step that no replay explains."""

    FOUND = "found"
    RULED_OUT = "ruled_out"
    OPEN = "open"


class Cause(StrEnum):
    """Why a measured hit ratio may differ from the replayed one (RFC 3.3.22)."""

    RESIDUAL_CACHE = "residual_cache"
    BLOCK_SIZE = "block_size"
    CONCURRENCY = "concurrency"
    ROUTING = "routing"
    CAPACITY = "capacity"
    COUNTER_WINDOW = "counter_window"
    RESTART = "restart"
    EXTERNAL_TIER = "external_tier"
    METRIC_UNIT = "metric_unit"
    TOKEN_COUNTS = "token_counts"


class MeasuredBy(StrEnum):
    """Where measured hits come from: every answer's usage, or the server's counters."""

    USAGE = "usage"
    COUNTERS = "counters"


Facts = dict[str, str | int | float]


class Notice(Model):
    """One thing a reader must know before trusting the numbers; ``facts`` is what its sentence is filled with."""

    code: str
    severity: Severity
    message: str
    advice: str
    facts: Facts


class ConstructionVerdict(Model):
    """How well the data set meets its target, as its manifest says, whatever pass was run (RFC 3.3.17)."""

    status: Status
    reason: Reason
    deviation_points: float
    max_reachable_hit_ratio: float | None


class Doubt(StrEnum):
    """Why a run proves nothing about its design."""

    NOT_SENT = "not_sent"
    NO_SUCCESS = "no_success"
    FEW_SUCCEEDED = "few_succeeded"
    BLOCK_SIZE = "block_size"
    NOT_REPORTED = "not_reported"


class RunVerdict(Model):
    """How well the run meets its design (RFC 3.3.21); ``doubt`` says why it is unproven.

    Measured is compared with ``design_hit_ratio``: the designed ratio, or, when requests failed or were not sent, the
    design replayed for those that succeeded (``design_replayed``), so that a failure does not look like a miss.
    """

    verdict: RuntimeVerdict
    doubt: Doubt | None
    deviation_points: float | None
    design_hit_ratio: float | None
    design_replayed: bool
    guide_points: float
    guide_case: str
    block_size_planned: int
    block_size_reported: int | None


class Headline(Model):
    """The four numbers of ``pass_name``, and the sentences that sum them up.

    That is the designed pass, unless no request of it was sent and another pass ran.
    """

    pass_name: Pass
    designed_pass: Pass
    sentence: str
    target_hit_ratio: float
    target_is_informational: bool
    designed_hit_ratio: float
    engine_rule_hit_ratio: float | None
    measured_hit_ratio: float | None
    measured_by: MeasuredBy | None
    construction: ConstructionVerdict
    runtime: RunVerdict


class RungSection(Model):
    """A rung of the hit ladder; ``step_points`` leads to it from the rung before."""

    name: RungName
    ratio: float
    hit_tokens: int | None
    input_tokens: int | None
    step_points: float | None
    note: str


class CauseCheck(Model):
    """One cause that could explain the remainder, and what this run says about it."""

    cause: Cause
    finding: Finding
    evidence: str
    facts: Facts


class LadderSection(Model):
    """The hit ladder of a pass; steps sum to measured minus target.

    That total is informational where requests were ``not_sent``.
    """

    rungs: tuple[RungSection, ...]
    not_sent: int
    remainder: Remainder
    max_in_flight: int | None
    concurrency_floor_ratio: float | None
    checks: tuple[CauseCheck, ...]


class TokenProof(Model):
    """Two counts of the same tokens, side by side."""

    left: str
    right: str
    left_tokens: int | None
    right_tokens: int | None
    outcome: Proof
    note: str


class RequestDifference(Model):
    """A request whose two counts differ."""

    request_id: str
    request_class: RequestClass
    expected_tokens: int
    measured_tokens: int


class RequestProof(Model):
    """Equality request by request: ``equal`` of ``compared``, the first differing ones listed."""

    compared: int
    equal: int
    different: tuple[RequestDifference, ...]


class Breakdown(Model):
    """One row of a table by group, request class, lane or cache domain.

    A group has a target of its own, or under one target for all a share that the planner gave it.
    """

    name: str
    requests: int
    succeeded: int
    input_tokens: int
    designed_hit_ratio: float | None
    predicted_hit_ratio: float | None
    measured_hit_ratio: float | None
    target_hit_ratio: float | None = None
    planned_share: float | None = None
    max_reachable_hit_ratio: float | None = None
    cold_start_loss_tokens: int | None = None
    ttft_mean_ms: float | None = None
    ttft_p50_ms: float | None = None


class EndpointSection(Model):
    """Cache counters of one rank behind one metrics address (addresses are numbered, not named)."""

    endpoint: int
    rank: str
    query_tokens: int | None
    hit_tokens: int | None
    hit_ratio: float | None


class Quantiles(Model):
    """Distribution of one latency.

    ``failures_as_slowest`` quantiles are over all requests, each failure counting as slower than every success;
    ``None`` then also says that the quantile falls among the failures. ``in_bursts`` says that most tokens came
    together, so that the time between them is not the server's.
    """

    metric: str
    unit: str
    failures_as_slowest: bool
    in_bursts: bool
    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


class PerformanceSection(Model):
    """Latency, throughput and outcome rates of a pass."""

    latencies: tuple[Quantiles, ...]
    duration_s: float | None
    request_throughput_per_s: float | None
    input_token_throughput_per_s: float | None
    output_token_throughput_per_s: float | None
    qps: float | None
    success_rate: float | None
    timeout_rate: float | None
    loop_lag_p99_ms: float | None
    send_lag_p99_ms: float | None


class RequestCounts(Model):
    """What became of the planned requests; ``asked`` are those that a limited run was to send."""

    planned: int
    asked: int
    succeeded: int
    failed: int
    not_sent: int
    failures_by_kind: dict[str, int]
    first_error: str | None


class CumulativeSeries(Model):
    """Hit ratio of the first ``requests`` requests in send order."""

    requests: tuple[int, ...]
    designed: tuple[float, ...]
    measured: tuple[float, ...] | None


class PairSeries(Model):
    """Predicted and measured hit tokens, one entry for each distinct pair, and how many requests have it."""

    predicted: tuple[int, ...]
    measured: tuple[int, ...]
    requests: tuple[int, ...]
    pairs_total: int


class ComputedBin(Model):
    """TTFT of requests of which ``[low, high)`` prompt tokens were left to compute."""

    low: int
    high: int
    requests: int
    p50_ms: float
    p90_ms: float


class UsageSeries(Model):
    """Share of KV-cache blocks in use, over seconds since the start of the run."""

    seconds: tuple[float, ...]
    usage: tuple[float, ...]


class ShareBin(Model):
    """TTFT over 1,000 prompt tokens of requests whose hit share lies in ``[low, high)``, the last bin closed."""

    low: float
    high: float
    requests: int
    p50_ms_per_1000_tokens: float
    p90_ms_per_1000_tokens: float


class PassSection(Model):
    """Everything about one pass over the data set."""

    pass_name: Pass
    designed: bool
    requests: RequestCounts
    ladder: LadderSection
    token_proofs: tuple[TokenProof, ...]
    length_proof: RequestProof | None
    hit_proof: RequestProof | None
    groups: tuple[Breakdown, ...]
    classes: tuple[Breakdown, ...]
    lanes: tuple[Breakdown, ...]
    domains: tuple[Breakdown, ...]
    endpoints: tuple[EndpointSection, ...]
    performance: PerformanceSection | None
    kv_usage: UsageSeries | None
    cumulative: CumulativeSeries
    pairs: PairSeries | None
    ttft_by_computed: tuple[ComputedBin, ...]
    ttft_by_share: tuple[ShareBin, ...]
    computed_is_predicted: bool


class Saving(Model):
    """One TTFT figure, cold and hot."""

    statistic: str
    cold_ms: float
    hot_ms: float


class Comparison(Model):
    """Cold pass against hot pass (compare mode)."""

    cold_hit_ratio: float | None
    hot_hit_ratio: float | None
    ttft: tuple[Saving, ...]
    cold_input_throughput_per_s: float | None
    hot_input_throughput_per_s: float | None


class LengthSection(Model):
    """Prompt lengths in tokens, as planned; bins are ``[edge, next edge)``, the last closed."""

    count: int
    minimum: int
    maximum: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    edges: tuple[int, ...]
    requests: tuple[int, ...]


class LaneWatermark(Model):
    """Planned watermark of a lane: tokens cached after the requests at which it rises, in send order."""

    lane: str
    order_index: tuple[int, ...]
    tokens: tuple[int, ...]


class WatermarkSection(Model):
    """Watermarks of the lanes with most requests, in the cold plan."""

    lanes: tuple[LaneWatermark, ...]
    lanes_total: int
    requests: int


class FactsSection(Model):
    """What ran, where the data came from, and how far it is proven."""

    run: str
    state: str
    started_utc: str | None
    foreword_version: str | None
    generator_version: str | None
    dataset_id: str
    seed: int | None
    mode: str
    semantics: str | None
    isolation: str | None
    salt_probe: str | None
    concurrency: str | None
    model: str | None
    prompt_format: str | None
    head_tokens: int
    tail_tokens: int
    template: str | None
    engine_planned: str | None
    engine_detected: str | None
    engine_version: str | None
    server: str | None
    hit_rule: str
    block_size_planned: int
    block_size_reported: int | None
    cache_capacity_tokens: int | None
    caches: int
    cache_scope: str | None
    dp_size: int
    endpoints: int
    tokenizer: str | None
    tokenizer_sha256: str | None
    reencode_level: str | None
    reencode_checked: int | None
    reencode_checked_full: int | None
    reencode_wrong: int | None
    group_count: int
    request_count: int


class ReportDocument(Model):
    """The whole report."""

    schema_version: Literal[1] = 1
    headline: Headline
    facts: FactsSection
    notices: tuple[Notice, ...]
    passes: tuple[PassSection, ...]
    comparison: Comparison | None
    lengths: LengthSection
    watermarks: WatermarkSection
