"""Charts of a replay, from its timeline alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreword.report.charts import LANE_COLOURS, Chart, Option, axes, legend, line, percent
from foreword.report.text import number
from foreword.simulate.timeline import WINDOW_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from foreword.simulate.timeline import GroupTimeline, Ratios, Timeline

    Array = NDArray[Any]

MOST_GROUPS = 6
_SECONDS = "seconds since the first read"
_RATIO = "hit ratio, %"
_GB = 2**30
_NO_TIME = "all reads have the same time"


def replay_charts(found: Timeline) -> tuple[Chart, ...]:
    """The whole replay; each instance where there are several; tiers of the groups with the most input."""
    least = sorted((group.input_tokens for group in found.groups), reverse=True)[:MOST_GROUPS][-1]
    largest = [group for group in found.groups if group.input_tokens >= least][:MOST_GROUPS]
    instances = (instances_chart(found),) if len(found.instances) > 1 else ()
    per_group = [chart for group in largest for chart in (cached_chart(found, group), reads_chart(found, group))]
    return (ratio_chart(found), *instances, *per_group)


def ratio_chart(found: Timeline) -> Chart:
    """Hit ratios over time: accumulated, remote, windowed."""
    total = found.total
    option = _over_time(_RATIO)
    option["series"] = [
        {**line(f"last {WINDOW_S:g} s", "$soft", points=_points(found, total.windowed, percent)), "z": 1},
        line("since the start", "$designed", points=_points(found, total.hit, percent)),
        _dashed(line("remote, since the start", "$measured", points=_points(found, total.remote, percent))),
    ]
    caption = f"Hit tokens by input tokens, all instances. {_thinned(found)}"
    return Chart("replay-ratio", "Hit ratio", caption, option)


def instances_chart(found: Timeline) -> Chart:
    """Accumulated hit ratio of each instance, or of those that end best and worst."""
    shown, note = _extremes(found.instances)
    option = _over_time(_RATIO)
    option["series"] = [
        line(each.name, colour, points=_points(found, each.hit, percent))
        for each, colour in zip(shown, LANE_COLOURS, strict=False)
    ]
    return Chart("replay-instances", "Hit ratio of each instance", f"Since the start.{note}", option)


def cached_chart(found: Timeline, group: GroupTimeline) -> Chart:
    """What the tiers of a group hold, stacked."""
    option = _over_time("cached, GB")
    option["series"] = [
        {
            **line(tier.name, colour, points=_points(found, tier.cached_bytes / _GB, _rounded)),
            "stack": "cached",
            "areaStyle": {"color": colour, "opacity": 0.3},
        }
        for tier, colour in zip(group.tiers, LANE_COLOURS, strict=False)
    ]
    caption = "GB of 2³⁰ bytes, tiers on top of each other; a block counts in every tier that holds it."
    return Chart(f"replay-cached-{group.name}", f"Cached in {group.name}", caption, option)


def reads_chart(found: Timeline, group: GroupTimeline) -> Chart:
    """What hits read from the tiers of a group: share of the bandwidth, or bytes where none is known."""
    key, title = f"replay-reads-{group.name}", f"Reads from {group.name}"
    share = all(tier.bytes_per_s for tier in group.tiers)
    caption = f"Bytes that hits read, in spans of {number(found.span_s)} s"
    if not found.span_s:
        return Chart(key, title, caption + ".", None, _NO_TIME)
    option = _over_time("of the bandwidth, %" if share else "GB a second")
    middles = found.span_middles_s.tolist()
    series = []
    for tier, colour in zip(group.tiers, LANE_COLOURS, strict=False):
        values = tier.read_bytes_per_s / (tier.bytes_per_s / 100 if share and tier.bytes_per_s else _GB)
        points = [[round(at, 6), _rounded(value)] for at, value in zip(middles, values.tolist(), strict=True)]
        series.append({**line(tier.name, colour, points=points), "step": "middle"})
    option["series"] = series
    ending = ", by the bandwidth of the tier." if share else "; no bandwidth is given."
    return Chart(key, title, caption + ending, option)


def shown_groups(found: Timeline) -> str:
    """Remark where groups were left out of the charts."""
    left_out = len(found.groups) - MOST_GROUPS
    return f"Groups with the most input; {left_out:,} more stand in the tables." if left_out > 0 else ""


def _extremes(instances: tuple[Ratios, ...]) -> tuple[list[Ratios], str]:
    """As many as there are colours: the best half and the worst half."""
    most = len(LANE_COLOURS)
    if len(instances) <= most:
        return list(instances), ""
    ranked = sorted(instances, key=lambda each: -float(each.hit[-1]))
    note = f" The {most // 2} best and the {most // 2} worst of {len(instances):,} at the end."
    return ranked[: most // 2] + ranked[-(most // 2) :], note


def _over_time(y: str) -> Option:
    option = axes(x=_SECONDS, y=y) | {"legend": legend(), "tooltip": {"trigger": "axis"}}
    option["xAxis"]["axisLabel"]["showMaxLabel"] = False  # the last moment is no round number
    return option


def _points(found: Timeline, values: Array, shown: Callable[[float], float]) -> list[list[float]]:
    pairs = zip(found.seconds.tolist(), values.tolist(), strict=True)
    return [[round(second, 6), shown(value)] for second, value in pairs]


def _dashed(series: Option) -> Option:
    return {**series, "lineStyle": {**series["lineStyle"], "type": "dashed"}}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _thinned(found: Timeline) -> str:
    """Remark on how many of the reads are drawn."""
    drawn = len(found.seconds)
    return f"{drawn:,} moments of {found.reads:,} reads are drawn." if drawn < found.reads else ""
