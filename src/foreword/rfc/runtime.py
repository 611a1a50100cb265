"""The RFC's measuring functions (P3.5.2): metrics before and after, and what a run came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from foreword.collect.counters import cache_counters
from foreword.engines.registry import detect
from foreword.errors import DataError
from foreword.report.write import write_report
from foreword.run.scrape import take_snapshot
from foreword.store.rows import MANIFEST
from foreword.store.rows import read_document as read_dataset_document
from foreword.store.runs import open_run, read_document
from foreword.terms import Engine, RuntimeVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from foreword.collect.counters import Snapshot
    from foreword.report.write import WrittenReport
    from foreword.rfc.types import ValidationReport

DEFAULT_GUIDE_POINTS = 5.0
"""Percentage points that the RFC's guide allows a single instance (F3.3.21)."""


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All metrics pages at one time."""

    snapshot: Snapshot

    @classmethod
    def take(cls, endpoints: Sequence[str]) -> MetricsSnapshot:
        """Read the pages now. Raises ``ServerError`` for one that does not answer with metrics."""
        return cls(take_snapshot(tuple(endpoints)))


@dataclass(frozen=True, slots=True)
class PrefixCacheRuntimeMetrics:
    """Growth of the cache counters, summed over all endpoints; ``None`` is not reported, never zero."""

    queries_delta: float | None
    hits_delta: float | None
    actual_hit_rate: float | None
    unit: str | None
    document: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, counters: Mapping[str, Any]) -> PrefixCacheRuntimeMetrics:
        """The counters of one pass or of one pair of snapshots."""
        names = ("queries_delta", "hits_delta", "actual_hit_rate", "unit")
        return cls(**{name: counters.get(name) for name in names}, document=counters)

    @staticmethod
    def load(run_dir: Path, pass_name: str) -> PrefixCacheRuntimeMetrics:
        """Those of one pass of a run, without what the run asked before and after it. Raises ``DataError``."""
        path = open_run(run_dir).prefix_cache
        passes = [one for one in read_document(path).get("passes", []) if one.get("pass") == pass_name]
        if not passes:
            raise DataError(f"{path} has no pass {pass_name}", field="pass", advice="cold, warmup or hot")
        return PrefixCacheRuntimeMetrics.of(passes[0])


RuntimeMetrics = PrefixCacheRuntimeMetrics


@dataclass(frozen=True, slots=True)
class PerformanceResult:
    """Latencies and throughputs of each pass, as in ``performance_metrics.json``."""

    document: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def load(run_dir: Path) -> PerformanceResult:
        """Read those of a run folder. Raises ``DataError``."""
        return PerformanceResult(read_document(open_run(run_dir).performance))


@dataclass(frozen=True, slots=True)
class DatasetManifest:
    """What a data set says of itself (RFC appendix B); ``document`` is the whole of it."""

    dataset_id: str
    generator_version: str
    seed: int
    block_size: int
    request_count: int
    execution_mode: str
    tokenizer: Mapping[str, Any]
    target: Mapping[str, Any]
    theoretical_result: Mapping[str, Any]
    document: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def load(dataset: Path) -> DatasetManifest:
        """Read a data-set folder's manifest. Raises ``DataError``."""
        raw = read_dataset_document(dataset, MANIFEST)
        names = [name for name in DatasetManifest.__slots__ if name != "document"]
        missing = [name for name in names if name not in raw]
        if missing:
            raise DataError(f"{dataset / MANIFEST} has no {missing[0]}", field=missing[0])
        return DatasetManifest(**{name: raw[name] for name in names}, document=raw)


@dataclass(frozen=True, slots=True)
class PrefixCacheReport:
    """Target, designed and actual, with the two deviations of F3.3.21 in percentage points.

    ``written`` has the files where the report was made from a run folder.
    """

    dataset_id: str
    target_hit_ratio: float
    designed_hit_ratio: float
    actual_hit_ratio: float | None
    construction_deviation_points: float
    runtime_deviation_points: float | None
    verdict: RuntimeVerdict
    performance: Mapping[str, Any] = field(repr=False)
    written: WrittenReport | None = None


def collect_prefix_cache_metrics(
    endpoints: Sequence[str],
    before_snapshot: MetricsSnapshot,
    after_snapshot: MetricsSnapshot,
    *,
    engine: str = Engine.GENERIC.value,
    block_size: int | None = None,
) -> PrefixCacheRuntimeMetrics:
    """Cache counters between two snapshots of the same endpoints; increments are summed, rates never averaged.

    ``block_size`` turns counters of blocks into tokens. Raises ``DataError`` if a snapshot is of other endpoints.
    """
    before, after = before_snapshot.snapshot, after_snapshot.snapshot
    if not len(endpoints) == len(before.pages) == len(after.pages):
        found = f"{len(endpoints)} endpoints, {len(before.pages)} pages before and {len(after.pages)} after"
        raise DataError(f"endpoints: {found}", field="endpoints", advice="take both snapshots of the same endpoints")
    pages = [page for page in after.pages if page is not None]
    profile = detect(pages, (), planned=Engine(engine)).profile
    return PrefixCacheRuntimeMetrics.of(cache_counters(before, after, profile=profile, block_size=block_size))


def build_prefix_cache_report(
    manifest: DatasetManifest,
    validation: ValidationReport,
    runtime_metrics: PrefixCacheRuntimeMetrics,
    performance_result: PerformanceResult,
    *,
    guide_points: float = DEFAULT_GUIDE_POINTS,
) -> PrefixCacheReport:
    """Put target, design and measurement side by side; a rate that nobody reported leaves the run unproven."""
    actual = runtime_metrics.actual_hit_rate
    deviation = None if actual is None else (actual - validation.designed_hit_ratio) * 100
    return PrefixCacheReport(
        dataset_id=manifest.dataset_id,
        target_hit_ratio=validation.target_hit_ratio,
        designed_hit_ratio=validation.designed_hit_ratio,
        actual_hit_ratio=actual,
        construction_deviation_points=validation.signed_deviation * 100,
        runtime_deviation_points=deviation,
        verdict=_verdict(deviation, guide_points),
        performance=performance_result.document,
    )


def report_of_run(run_dir: Path) -> PrefixCacheReport:
    """The full report of a run folder, written into it. Raises ``DataError``."""
    written = write_report(run_dir)
    head = written.document.headline
    folder = open_run(run_dir)
    manifest = DatasetManifest.load(folder.dataset)
    return PrefixCacheReport(
        dataset_id=manifest.dataset_id,
        target_hit_ratio=head.target_hit_ratio,
        designed_hit_ratio=head.designed_hit_ratio,
        actual_hit_ratio=head.measured_hit_ratio,
        construction_deviation_points=head.construction.deviation_points,
        runtime_deviation_points=head.runtime.deviation_points,
        verdict=head.runtime.verdict,
        performance=read_document(folder.performance),
        written=written,
    )


def _verdict(deviation_points: float | None, guide_points: float) -> RuntimeVerdict:
    if deviation_points is None:
        return RuntimeVerdict.UNPROVEN
    outside = abs(deviation_points) > guide_points
    return RuntimeVerdict.OUTSIDE_GUIDE if outside else RuntimeVerdict.WITHIN_GUIDE
