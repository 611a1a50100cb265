"""Counter differences between two snapshots of a metrics page, series by series.

Every label is kept until after differencing, then ranks and totals are summed; rates are ratios of sums, never
averages of rates. A series that shrank, or was created anew, belongs to a process that restarted: what it holds since
then is a lower bound, said so. An absent metric is ``None``, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foreword.engines.model import LOGICAL, Combine, EngineProfile, Kind, Logical, Source, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foreword.engines.page import Labels, Page

WHOLE = "all"
_Key = tuple[str, "Labels"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Pages of all metrics URLs at one time, ns since the run's start; ``None`` for one that did not answer."""

    at_ns: int
    pages: tuple[Page | None, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Growth of one logical metric on one endpoint, by rank; ``unit`` is tokens or blocks."""

    by_rank: Mapping[str, float]
    unit: Unit
    derived: bool
    restarted: tuple[str, ...]
    vanished: tuple[str, ...]

    @property
    def total(self) -> float:
        """Sum over the ranks."""
        return math.fsum(self.by_rank.values())


def difference(before: Page, after: Page, *, metric: Logical, profile: EngineProfile) -> Difference | None:
    """Growth of a metric between two pages, or ``None`` when neither page shows it in full.

    A series that is new on the second page grew from 0 (labelled counters appear with their first use).
    """
    source = _source(before, after, profile.sources.get(metric, ()))
    if source is None:
        return None
    old, new = _series(before, source), _series(after, source)
    if not old and not new:
        return None
    by_rank: dict[str, float] = {}
    restarted: list[str] = []
    for key, value in new.items():
        rank = _rank(key[1], profile)
        grown = value - old.get(key, 0.0)
        if grown < 0 or _created_anew(before, after, key):
            restarted.append(rank)
            grown = value
        by_rank[rank] = by_rank.get(rank, 0.0) + grown
    gone = [_rank(key[1], profile) for key in old if key not in new]
    return Difference(
        by_rank=by_rank,
        unit=source.unit_on(after),
        derived=source.combine is Combine.PRODUCT,
        restarted=tuple(dict.fromkeys(restarted)),
        vanished=tuple(dict.fromkeys(gone)),
    )


def _source(before: Page, after: Page, sources: Sequence[Source]) -> Source | None:
    for source in sources:
        if all(after.of(name) for name in source.names) or all(before.of(name) for name in source.names):
            return source
    return None


def _series(page: Page, source: Source) -> dict[_Key, float]:
    if source.combine is Combine.PRODUCT:
        rate, tokens = source.names
        factors = {sample.labels: sample.value for sample in page.of(rate)}
        return {
            (tokens, sample.labels): sample.value * factors[sample.labels]
            for sample in page.of(tokens)
            if math.isfinite(factors.get(sample.labels, math.nan))
        }
    return {
        (name, sample.labels): sample.value
        for name in source.names
        for sample in page.of(name)
        if source.only_if(sample) and math.isfinite(sample.value)
    }


def _created_anew(before: Page, after: Page, key: _Key) -> bool:
    """Whether both pages tell when the series was created, and it is not the same time."""
    name = key[0].removesuffix("_total").removesuffix("_sum") + "_created"
    times = [sample.value for page in (before, after) for sample in page.of(name) if sample.labels == key[1]]
    return len(times) == 2 and times[0] != times[1]  # noqa: PLR2004 - before and after


def _rank(labels: Labels, profile: EngineProfile) -> str:
    return dict(labels).get(profile.rank_label or "", WHOLE)


def gauge(page: Page, metric: Logical, *, profile: EngineProfile) -> float | None:
    """A gauge over all ranks: mean or sum as the metric says. Copies of one rank count once, at their largest."""
    for source in profile.sources.get(metric, ()):
        by_rank: dict[str, float] = {}
        for key, value in _series(page, source).items():
            rank = _rank(key[1], profile)
            by_rank[rank] = max(value, by_rank.get(rank, value))
        if by_rank:
            total = math.fsum(by_rank.values())
            return total / len(by_rank) if LOGICAL[metric].mean else total
    return None


def absent_metrics(pages: Sequence[Page], profile: EngineProfile) -> list[str]:
    """Logical metrics that no page shows, by name."""
    shown = {
        metric
        for metric, sources in profile.sources.items()
        if any(
            _series(page, source) and all(page.of(name) for name in source.names)
            for page in pages
            for source in sources
        )
    }
    return [metric.value for metric in Logical if metric not in shown]


def cache_counters(
    before: Snapshot, after: Snapshot, *, profile: EngineProfile, block_size: int | None
) -> dict[str, object]:
    """Counters of one pass, as written to ``prefix_cache_metrics.json``.

    ``block_size`` turns block counters into tokens; without it they stay blocks and ``unit`` says so.
    """
    endpoints: list[_Endpoint] = []
    unread: list[dict[str, object]] = []
    for index, (old, new) in enumerate(zip(before.pages, after.pages, strict=True)):
        if old is None or new is None:
            unread.append({"url_index": index})
        else:
            endpoints.append(_endpoint(index, old, new, profile=profile, block_size=block_size))
    totals = {name: _sum([endpoint.totals[name] for endpoint in endpoints]) for name in _COUNTERS}
    queries, hits, outer = (totals[name] for name in (Logical.QUERIES, Logical.HITS, Logical.EXTERNAL_HITS))
    units = sorted({endpoint.unit.value for endpoint in endpoints})
    return {
        "before_ns": before.at_ns,
        "after_ns": after.at_ns,
        **{f"{name.value}_delta": value for name, value in totals.items()},
        "actual_hit_rate": _ratio(hits, queries),
        "total_hit_rate": _ratio(None if hits is None else hits + (outer or 0), queries),
        "unit": units[0] if len(units) == 1 else None,
        "derived": any(endpoint.derived for endpoint in endpoints),
        "restarts": [entry for endpoint in endpoints for entry in endpoint.restarts],
        "missing": [entry for endpoint in endpoints for entry in endpoint.missing] + unread,
        "ranks": sum(endpoint.ranks for endpoint in endpoints),
        "endpoints": [endpoint.document for endpoint in endpoints],
    }


_COUNTERS = tuple(metric for metric, told in LOGICAL.items() if told.kind is Kind.COUNTER)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    totals: Mapping[Logical, float | None]
    unit: Unit
    derived: bool
    restarts: list[dict[str, object]]
    missing: list[dict[str, object]]
    ranks: int
    document: dict[str, object]


def _endpoint(index: int, before: Page, after: Page, *, profile: EngineProfile, block_size: int | None) -> _Endpoint:
    found = {
        metric: _in_tokens(grown, block_size)
        for metric in _COUNTERS
        if (grown := difference(before, after, metric=metric, profile=profile)) is not None
    }
    queries, hits = found.get(Logical.QUERIES), found.get(Logical.HITS)
    if queries and hits and queries.unit is not hits.unit:
        del found[Logical.HITS]
        hits = None
    totals = {metric: found[metric].total if metric in found else None for metric in _COUNTERS}
    return _Endpoint(
        totals=totals,
        unit=(queries or hits).unit if queries or hits else Unit.TOKENS,  # type: ignore[union-attr] # one is there
        derived=any(grown.derived for grown in found.values()),
        restarts=[_told(index, metric, rank) for metric, grown in found.items() for rank in grown.restarted],
        missing=[_told(index, metric, rank) for metric, grown in found.items() for rank in grown.vanished],
        ranks=len({*_by_rank(queries, hits)} - {WHOLE}),
        document={
            "url_index": index,
            **{f"{name.value}_delta": value for name, value in totals.items()},
            "actual_hit_rate": _ratio(totals[Logical.HITS], totals[Logical.QUERIES]),
            "series_by_rank": _by_rank(queries, hits),
        },
    )


def _in_tokens(grown: Difference, block_size: int | None) -> Difference:
    if grown.unit is not Unit.BLOCKS or block_size is None:
        return grown
    by_rank = {rank: value * block_size for rank, value in grown.by_rank.items()}
    return replace(grown, by_rank=by_rank, unit=Unit.TOKENS)


def _told(index: int, metric: Logical, rank: str) -> dict[str, object]:
    return {"url_index": index, "rank": rank, "metric": metric.value}


def _by_rank(queries: Difference | None, hits: Difference | None) -> dict[str, dict[str, float | None]]:
    asked: Mapping[str, float] = queries.by_rank if queries else {}
    served: Mapping[str, float] = hits.by_rank if hits else {}
    return {
        rank: {
            "queries_delta": asked.get(rank),
            "hits_delta": served.get(rank),
            "hit_rate": _ratio(served.get(rank), asked.get(rank)),
        }
        for rank in sorted({*asked, *served})
    }


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
