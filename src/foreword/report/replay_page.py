"""The report of a replay as one HTML file that loads nothing, from its summary and its timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreword.report.page import embedded, environment, static
from foreword.report.replay_charts import replay_charts, shown_groups

if TYPE_CHECKING:
    from foreword.simulate.timeline import Timeline

HTML_NAME = "report.html"
Document = dict[str, Any]


def render_replay(summary: Document, found: Timeline | None, *, name: str) -> str:
    """The page of a replay of this name; the same replay gives the same bytes."""
    drawn = () if found is None else replay_charts(found)
    return (
        environment()
        .get_template("replay.html.j2")
        .render(
            name=name,
            doc=summary,
            notices=notices(summary),
            charts=drawn,
            charts_note="" if found is None else shown_groups(found),
            options=embedded({chart.key: chart.option for chart in drawn if chart.option is not None}),
            style=static("report.css"),
            script=static("report.js"),
            echarts=static("echarts.common.min.js"),
        )
    )


def notices(summary: Document) -> list[tuple[str, str]]:
    """What a reader has to know before the figures: rows that were skipped or moved, quotas that did not hold."""
    trace = summary["trace"]
    found = [("skipped rows", f"{count:,} ({kind})") for kind, count in trace["skipped_by_kind"].items()]
    if trace["moved_rows"]:
        found.append(("moved rows", f"{trace['moved_rows']:,} (they stood after later ones)"))
    return found + [
        (f"group {group['group_name']} above a quota after checks", f"{group['over_quota_checks']:,}")
        for group in summary["groups"]
        if group["over_quota_checks"]
    ]
