"""What a run folder says, as values: rows, and arrays aligned to the plan's send order.

Unknown fields are ignored, so that newer folders stay readable; absent numbers are ``ABSENT`` in arrays.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from foreword.cache.rules import HitRule
from foreword.collect.records import Integer
from foreword.errors import DataError
from foreword.terms import Pass, Reason, RequestClass, Status, TargetScope, Visibility

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from foreword.collect.records import RequestRow
    from foreword.terms import BoolArray, IntArray

ABSENT = -1
PRIVATE = re.compile(r"://|@|(?:^|\s)[/~]\w|bearer|\bsk-|secret|password|token=|api.?key", re.IGNORECASE)

Name = TypeVar("Name", str, int)


class EngineFacts(msgspec.Struct, frozen=True):
    """Engine of the plan, or of the server."""

    name: str | None = None
    hit_rule: HitRule | None = None
    visibility: Visibility | None = None
    version: str | None = None
    server: str | None = None


class FrameFacts(msgspec.Struct, frozen=True):
    """Tokens that the engine puts around the content."""

    head_len: int = 0
    tail_len: int = 0


class TokenizerFacts(msgspec.Struct, frozen=True):
    """Tokenizer identity."""

    name: str | None = None
    sha256: str | None = None


class RoutingFacts(msgspec.Struct, frozen=True):
    """Cache domains of the plan."""

    cache_scope: str | None = None
    dp_size: int = 1


class TheoryFacts(msgspec.Struct, frozen=True):
    """Designed result of the data set (RFC appendix B)."""

    target_hit_ratio: float
    designed_hit_ratio: float
    signed_deviation: float
    validation_status: Status
    reason: Reason = Reason.OK
    max_reachable_hit_ratio: float | None = None


class ReencodeFacts(msgspec.Struct, frozen=True):
    """How far prompts were encoded again and compared."""

    level: str | None = None
    checked: int | None = None
    checked_full: int | None = None
    wrong: int | None = None


class TargetFacts(msgspec.Struct, frozen=True):
    """What the target is set for: all requests together, or each group."""

    scope: TargetScope = TargetScope.GLOBAL


class GroupFacts(msgspec.Struct, frozen=True):
    """One prefix group of the plan."""

    group_id: str
    input_tokens: int = 0
    target_hit_tokens: float | None = None
    max_reachable_hit_ratio: float | None = None
    cold_start_loss: float | None = None


class TemplateFacts(msgspec.Struct, frozen=True):
    """Where head and tail of the prompts come from."""

    source: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """The part of ``manifest.json`` that a report needs."""

    dataset_id: str
    block_size: int
    theoretical_result: TheoryFacts
    seed: int | None = None
    generator_version: str | None = None
    execution_mode: str = "cold"
    semantics: str | None = None
    prompt_format: str | None = None
    engine: EngineFacts = EngineFacts()
    frame: FrameFacts = FrameFacts()
    template: TemplateFacts | None = None
    target: TargetFacts = TargetFacts()
    tokenizer: TokenizerFacts = TokenizerFacts()
    routing: RoutingFacts = RoutingFacts()
    reencode: ReencodeFacts = ReencodeFacts()
    groups: tuple[GroupFacts, ...] = ()
    state: str = "complete"


class PlanRow(msgspec.Struct, frozen=True):
    """One line of ``request_metadata.jsonl``."""

    request_id: str
    prefix_group_id: str
    input_len: Integer
    planned_prefix_len: Integer
    expected_hit_len: Integer
    planned_dp_id: Integer | None = None
    cached_watermark_after: Integer | None = None
    expected_hit_len_cold: Integer | None = None
    expected_hit_len_hot: Integer | None = None
    request_class: RequestClass | None = None


class RankCounters(msgspec.Struct, frozen=True):
    """Counter growth of one rank, in tokens."""

    queries_delta: float | None = None
    hits_delta: float | None = None


class EndpointCounters(msgspec.Struct, frozen=True):
    """Counter growth behind one metrics address."""

    url_index: int = 0
    series_by_rank: dict[str, RankCounters] = {}


class PassCounters(msgspec.Struct, frozen=True):
    """Counter growth over one pass, summed over endpoints and ranks, in tokens."""

    pass_name: Pass = msgspec.field(name="pass")
    endpoints: tuple[EndpointCounters, ...] = ()
    queries_delta: float | None = None
    hits_delta: float | None = None
    external_queries_delta: float | None = None
    external_hits_delta: float | None = None
    prompt_tokens_delta: float | None = None
    preemptions_delta: float | None = None
    evicted_tokens_delta: float | None = None
    unit: str | None = "tokens"
    derived: bool = False
    restarts: tuple[Any, ...] = ()
    missing: tuple[Any, ...] = ()

    @property
    def in_tokens(self) -> bool:
        """Whether queries and hits count tokens; blocks of unknown size cannot be compared with them."""
        return self.unit == "tokens"


class UsageSample(msgspec.Struct, frozen=True):
    """One reading of the cache's fill while the run went on."""

    t_ns: Integer
    pass_name: Pass | None = msgspec.field(name="pass", default=None)
    kv_cache_usage: float | None = None


class CacheMetrics(msgspec.Struct, frozen=True):
    """``prefix_cache_metrics.json``."""

    engine: EngineFacts | None = None
    block_size_reported: int | None = None
    cache_capacity_tokens: tuple[int, ...] = ()
    passes: tuple[PassCounters, ...] = ()
    usage_samples: tuple[UsageSample, ...] = ()
    absent: tuple[str, ...] = ()

    def of(self, pass_name: Pass) -> PassCounters:
        """Counters of a pass; all absent if there are none."""
        found = [one for one in self.passes if one.pass_name is pass_name]
        return found[-1] if found else PassCounters(pass_name=pass_name)


class IsolationFacts(msgspec.Struct, frozen=True):
    """How the run kept its passes apart from what was cached before."""

    applied: str | None = None
    salt_probe: str | None = None


class RunFacts(msgspec.Struct, frozen=True):
    """``run.json``."""

    dataset_id: str
    mode: str
    foreword_version: str | None = None
    concurrency: Any = None
    urls: tuple[Any, ...] = ()
    started_utc: str | None = None
    state: str = "complete"
    model: str | None = None
    isolation: IsolationFacts = IsolationFacts()
    max_requests: int | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, read from its folder. ``performance`` keeps the file's own shape, by pass."""

    name: str
    run: RunFacts
    manifest: Manifest
    plan: tuple[PlanRow, ...]
    results: tuple[RequestRow, ...]
    row_cut_off: bool
    metrics: CacheMetrics | None
    performance: dict[Pass, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PlanArrays:
    """The plan in send order; lanes and domains are numbered from 0, in order of appearance."""

    request_ids: tuple[str, ...]
    input_len: IntArray
    prefix_len: IntArray
    hit_designed: IntArray
    hit_cold: IntArray
    hit_hot: IntArray
    group: IntArray
    group_ids: tuple[str, ...]
    domain: IntArray
    domain_ids: tuple[int, ...]
    lane: IntArray
    lane_names: tuple[str, ...]
    classes: tuple[RequestClass, ...]

    def hits_of(self, pass_name: Pass) -> IntArray:
        """Designed hit tokens of a pass."""
        return self.hit_hot if pass_name is Pass.HOT else self.hit_cold


@dataclass(frozen=True, slots=True)
class PassArrays:
    """Results of one pass, aligned to the plan; ``ABSENT`` where nothing was reported."""

    pass_name: Pass
    recorded: BoolArray
    ok: BoolArray
    prompt_tokens: IntArray
    cached_tokens: IntArray
    due_ns: IntArray
    sent_ns: IntArray
    first_token_ns: IntArray
    done_ns: IntArray
    failures_by_kind: dict[str, int]
    first_error: str | None

    @property
    def ttft_ms(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Milliseconds from the time a request was due to its first token; NaN where there was none."""
        start = np.where(self.due_ns == ABSENT, self.sent_ns, self.due_ns)
        known = self.ok & (start != ABSENT) & (self.first_token_ns != ABSENT)
        return np.where(known, (self.first_token_ns - start) / 1e6, np.nan)


def plan_arrays(rows: Sequence[PlanRow], group_order: Sequence[str] = ()) -> PlanArrays:
    """Columns of the plan; groups in the given order and then in that of appearance, lanes by group and domain."""
    group, group_ids = _numbered((row.prefix_group_id for row in rows), group_order)
    domain, domain_ids = _numbered(
        (row.planned_dp_id or 0 for row in rows), sorted({row.planned_dp_id or 0 for row in rows})
    )
    used, lane = np.unique(group * len(domain_ids) + domain, return_inverse=True)
    names = [lane_key(group_ids[at // len(domain_ids)], domain_ids[at % len(domain_ids)]) for at in used.tolist()]
    labels = names if len(domain_ids) > 1 else [group_ids[at] for at in used.tolist()]
    cold = _column(
        row.expected_hit_len if row.expected_hit_len_cold is None else row.expected_hit_len_cold for row in rows
    )
    hot = _column(
        row.planned_prefix_len if row.expected_hit_len_hot is None else row.expected_hit_len_hot for row in rows
    )
    return PlanArrays(
        request_ids=tuple(row.request_id for row in rows),
        input_len=_column(row.input_len for row in rows),
        prefix_len=_column(row.planned_prefix_len for row in rows),
        hit_designed=_column(row.expected_hit_len for row in rows),
        hit_cold=cold,
        hit_hot=hot,
        group=group,
        group_ids=group_ids,
        domain=domain,
        domain_ids=domain_ids,
        lane=lane.astype(np.int64),
        lane_names=tuple(labels),
        classes=tuple(row.request_class or _class_of(row, int(hits)) for row, hits in zip(rows, cold, strict=True)),
    )


def pass_arrays(plan: PlanArrays, rows: Iterable[RequestRow], *, pass_name: Pass) -> PassArrays:
    """Results of a pass by the plan's order; of several rows of one request the last one counts."""
    position = {request_id: at for at, request_id in enumerate(plan.request_ids)}
    last: dict[int, RequestRow] = {}
    for row in rows:
        if row.request_id not in position:
            raise DataError(
                f"runtime/request_results.jsonl: request {row.request_id!r} is not in the data set of this run",
                request_id=row.request_id,
                advice="the run folder mixes files of different runs",
            )
        last[position[row.request_id]] = row
    n = len(plan.request_ids)
    kinds = Counter(row.error_kind or "other" for row in last.values() if not row.ok)
    return PassArrays(
        pass_name=pass_name,
        recorded=_flags(n, last),
        ok=_flags(n, (at for at, row in last.items() if row.ok)),
        prompt_tokens=_scatter(n, {at: row.prompt_tokens for at, row in last.items() if row.ok}),
        cached_tokens=_scatter(n, {at: row.cached_tokens for at, row in last.items() if row.ok}),
        due_ns=_scatter(n, {at: row.due_ns for at, row in last.items()}),
        sent_ns=_scatter(n, {at: row.sent_ns for at, row in last.items()}),
        first_token_ns=_scatter(n, {at: row.first_token_ns for at, row in last.items()}),
        done_ns=_scatter(n, {at: row.done_ns for at, row in last.items()}),
        failures_by_kind=dict(sorted(kinds.items())),
        first_error=next((_reason(row) for row in last.values() if not row.ok), None),
    )


def _reason(row: RequestRow) -> str:
    """Why a request failed; its kind alone where the server's words could hold an address, a path or a key."""
    text = row.error or ""
    return text if text and not PRIVATE.search(text) else row.error_kind or "other"


def lane_key(group_id: str | None, dp_id: int | None) -> str:
    """Name of a lane, the same for rows of the plan and of the warm-up."""
    return f"{group_id} @ dp {dp_id or 0}"


def _numbered(names: Iterable[Name], order: Sequence[Name]) -> tuple[IntArray, tuple[Name, ...]]:
    """Number of each name, and the names by number: the given ones that occur, then others as they appear."""
    listed = list(names)
    present = set(listed)
    number = {name: at for at, name in enumerate(name for name in dict.fromkeys(order) if name in present)}
    numbers = [number.setdefault(name, len(number)) for name in listed]
    return np.array(numbers, dtype=np.int64), tuple(number)


def _class_of(row: PlanRow, hit: int) -> RequestClass:
    """Class of a request whose row does not name one; the first of a lane is not told from one that extends it."""
    if row.planned_prefix_len == 0:
        return RequestClass.NONE_PLANNED
    return RequestClass.FULL_HIT if hit == row.planned_prefix_len else RequestClass.EXTENDS_LANE


def _column(values: Iterable[int]) -> IntArray:
    return np.fromiter(values, dtype=np.int64)


def _flags(n: int, positions: Iterable[int]) -> BoolArray:
    flags = np.zeros(n, dtype=np.bool_)
    flags[list(positions)] = True
    return flags


def _scatter(n: int, values: dict[int, int | None]) -> IntArray:
    column = np.full(n, ABSENT, dtype=np.int64)
    for at, value in values.items():
        if value is not None:
            column[at] = value
    return column
