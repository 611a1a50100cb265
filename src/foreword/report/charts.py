"""Chart options as plain dicts (Apache ECharts), from the document alone.

Colours are names of the style sheet's variables (``$designed``), which the page puts in place, so that one option
serves light, dark and print.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foreword.report import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.report.document import LengthSection, PassSection, ReportDocument, WatermarkSection

Option = dict[str, Any]

LANE_COLOURS = ("$lane1", "$lane2", "$lane3", "$lane4", "$lane5", "$lane6", "$lane7", "$lane8")


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart; without an option the page shows ``missing`` in its place."""

    key: str
    title: str
    caption: str
    option: Option | None
    missing: str = text.NOT_REPORTED


def pass_charts(section: PassSection) -> tuple[Chart, ...]:
    """Charts of one pass."""
    return tuple(chart(section) for chart in (cumulative_chart, pair_chart, ttft_chart, share_chart, usage_chart))


def plan_charts(document: ReportDocument) -> tuple[Chart, ...]:
    """Charts of the data set."""
    return (length_chart(document.lengths), watermark_chart(document.watermarks))


def cumulative_chart(section: PassSection) -> Chart:
    """Hit ratio of the first requests, designed and measured."""
    series, curve = [], section.cumulative
    for name, colour, values in (
        (text.DESIGNED, "$designed", curve.designed),
        (text.MEASURED, "$measured", curve.measured),
    ):
        if values is not None:
            points = [[at, percent(value)] for at, value in zip(curve.requests, values, strict=True)]
            series.append(line(name, colour, points=points))
    if curve.measured is not None:
        series[0]["lineStyle"] |= {"width": 6, "opacity": 0.35}  # a broad band, so that an equal curve on it is seen
    option = axes(x=text.AXIS_REQUESTS_SENT, y=text.AXIS_HIT_RATIO) | {"series": series, "legend": legend()}
    option["tooltip"] = {"trigger": "axis"}
    return Chart(f"cumulative-{section.pass_name}", text.CHART_CUMULATIVE, text.CAPTION_CUMULATIVE, option)


def pair_chart(section: PassSection) -> Chart:
    """Predicted against measured hits, request by request."""
    key = f"pairs-{section.pass_name}"
    pairs = section.pairs
    if pairs is None:
        return Chart(key, text.CHART_PAIRS, text.CAPTION_PAIRS, None)
    rows = list(zip(pairs.predicted, pairs.measured, pairs.requests, strict=True))
    top = max(*pairs.predicted, *pairs.measured, 1)
    option = axes(x=text.AXIS_PREDICTED, y=text.AXIS_MEASURED) | {
        "legend": legend(),
        "tooltip": {"trigger": "item"},
        "series": [
            {**line(text.EQUAL, "$muted", points=[[0, 0], [top, top]]), "silent": True, "tooltip": {"show": False}},
            _dots(text.PAIRS_EQUAL, "$good", [row for row in rows if row[0] == row[1]]),
            _dots(text.PAIRS_DIFFER, "$bad", [row for row in rows if row[0] != row[1]]),
        ],
    }
    return Chart(key, text.CHART_PAIRS, text.pairs_caption(len(rows), pairs.pairs_total), option)


def ttft_chart(section: PassSection) -> Chart:
    """TTFT by the prompt tokens that were left to compute."""
    key, bins = f"ttft-{section.pass_name}", section.ttft_by_computed
    caption = text.CAPTION_TTFT_PREDICTED if section.computed_is_predicted else text.CAPTION_TTFT
    rows = [(_range(one.low, one.high), one.requests, one.p50_ms, one.p90_ms) for one in bins]
    return Chart(key, text.CHART_TTFT, caption, _quantile_bars(rows, x=text.AXIS_COMPUTED, y=text.AXIS_TTFT))


def share_chart(section: PassSection) -> Chart:
    """TTFT by the share of the prompt that came from the cache."""
    key, bins = f"share-{section.pass_name}", section.ttft_by_share
    caption = text.CAPTION_SHARE_PREDICTED if section.computed_is_predicted else text.CAPTION_SHARE
    rows = [
        (
            f"{one.low * 100:.0f}-{one.high * 100:.0f} %",
            one.requests,
            one.p50_ms_per_1000_tokens,
            one.p90_ms_per_1000_tokens,
        )
        for one in bins
    ]
    return Chart(key, text.CHART_SHARE, caption, _quantile_bars(rows, x=text.AXIS_HIT_SHARE, y=text.AXIS_TTFT_SCALED))


def usage_chart(section: PassSection) -> Chart:
    """KV-cache usage while the pass went on."""
    key, usage = f"usage-{section.pass_name}", section.kv_usage
    if usage is None:
        return Chart(key, text.CHART_USAGE, text.CAPTION_USAGE, None)
    points = [[second, percent(value)] for second, value in zip(usage.seconds, usage.usage, strict=True)]
    option = axes(x=text.AXIS_SECONDS, y=text.AXIS_USAGE) | {
        "tooltip": {"trigger": "axis"},
        "series": [{**line(text.AXIS_USAGE, "$designed", points=points), "areaStyle": {"opacity": 0.12}}],
    }
    option["xAxis"] |= {"scale": True, "max": None}
    return Chart(key, text.CHART_USAGE, text.CAPTION_USAGE, option)


def length_chart(lengths: LengthSection) -> Chart:
    """Prompt lengths of the plan."""
    labels = [_range(low, high) for low, high in zip(lengths.edges[:-1], lengths.edges[1:], strict=True)]
    option = axes(x=text.AXIS_PROMPT_TOKENS, y=text.AXIS_REQUESTS, categories=labels) | {
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "series": [{**_bars(text.AXIS_REQUESTS, "$designed", lengths.requests), "barCategoryGap": "12%"}],
    }
    return Chart("lengths", text.CHART_LENGTHS, text.lengths_caption(lengths), option)


def watermark_chart(watermarks: WatermarkSection) -> Chart:
    """Planned watermark of each lane, in send order."""
    series = []
    for lane, colour in zip(watermarks.lanes, LANE_COLOURS, strict=False):
        points: list[list[float]] = [list(pair) for pair in zip(lane.order_index, lane.tokens, strict=True)]
        points.append([watermarks.requests, lane.tokens[-1] if lane.tokens else 0])
        series.append({**line(lane.lane, colour, points=points), "step": "end"})
    option = axes(x=text.AXIS_REQUESTS_SENT, y=text.AXIS_WATERMARK) | {
        "legend": legend(),
        "tooltip": {"trigger": "axis"},
        "series": series,
    }
    caption = text.watermark_caption(len(watermarks.lanes), watermarks.lanes_total)
    return Chart("watermarks", text.CHART_WATERMARKS, caption, option)


def axes(*, x: str, y: str, categories: Sequence[str] | None = None) -> Option:
    """Frame that all charts share."""
    label = {"color": "$muted", "fontSize": 11}
    line = {"axisLine": {"lineStyle": {"color": "$line"}}, "axisTick": {"show": False}}
    across: Option = {"type": "value", "max": "dataMax", "splitLine": {"show": False}}
    if categories is not None:
        across = {"type": "category", "data": list(categories)}
    two_lines = any("\n" in name for name in categories or ())
    return {
        "animation": False,
        "aria": {"enabled": True},
        "grid": {"left": 10, "right": 24, "top": 46, "bottom": 42, "containLabel": True},
        "xAxis": {
            **across,
            **line,
            "name": x,
            "nameLocation": "middle",
            "nameGap": 42 if two_lines else 28,
            "nameTextStyle": label,
            "axisLabel": {**label, "hideOverlap": True, "lineHeight": 14},
        },
        "yAxis": {
            "type": "value",
            **line,
            "splitLine": {"lineStyle": {"color": "$line"}},
            "name": y,
            "nameGap": 14,
            "nameTextStyle": {**label, "align": "left", "padding": [0, 0, 0, -28]},
            "axisLabel": {**label, "hideOverlap": True},
        },
    }


def legend() -> Option:
    """Legend above a chart, at its right."""
    style = {"color": "$muted", "fontSize": 11}
    return {
        "top": 0,
        "right": 0,
        "icon": "roundRect",
        "itemWidth": 12,
        "itemHeight": 4,
        "type": "scroll",
        "textStyle": style,
    }


def line(name: str, colour: str, *, points: Sequence[Sequence[float]]) -> Option:
    """One curve."""
    return {
        "type": "line",
        "name": name,
        "data": [list(point) for point in points],
        "showSymbol": False,
        "lineStyle": {"color": colour, "width": 1.8},
        "itemStyle": {"color": colour},
    }


def _bars(name: str, colour: str, values: Sequence[float]) -> Option:
    return {"type": "bar", "name": name, "data": list(values), "itemStyle": {"color": colour}, "barMaxWidth": 36}


def _dots(name: str, colour: str, rows: Sequence[Sequence[int]]) -> Option:
    style = {"color": colour, "opacity": 0.65}
    return {"type": "scatter", "name": name, "data": [list(row) for row in rows], "symbolSize": 6, "itemStyle": style}


def _quantile_bars(bins: Sequence[tuple[str, int, float, float]], *, x: str, y: str) -> Option | None:
    """Bars of P50 and P90 for each bin, which has a name and a number of requests; ``None`` without bins."""
    if not bins:
        return None
    names, requests, p50, p90 = zip(*bins, strict=True)
    labels = [f"{name}\n({count:,})" for name, count in zip(names, requests, strict=True)]
    return axes(x=x, y=y, categories=labels) | {
        "legend": legend(),
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
        "series": [_bars("P50", "$designed", p50), _bars("P90", "$soft", p90)],
    }


def _range(low: int, high: int) -> str:
    """Whole numbers from ``low`` up to, not including, ``high``."""
    return f"{low:,}" if high - low == 1 else f"{low:,}-{high - 1:,}"


def percent(ratio: float) -> float:
    """Ratio as percent, for the axis of a chart."""
    return round(ratio * 100, 3)
