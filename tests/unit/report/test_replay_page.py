"""The page of a replay: what it says, what it leaves out, how large it may become."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from foreword.report.replay_charts import MOST_GROUPS
from foreword.report.replay_page import render_replay
from foreword.simulate.summary import TraceFacts, summarise
from foreword.simulate.timeline import timeline
from tests.support.replaying import document, group, instance, replayed, requests, row
from tests.unit.report.test_html import visible

if TYPE_CHECKING:
    from foreword.trace.schema import TraceRow


def page_of(
    config: dict[str, Any], rows: list[TraceRow], *, speed: float | None = None, refused: dict[str, int] | None = None
) -> str:
    """The page of a replay of these rows."""
    replay = replayed(config, rows)
    summary = summarise(replay, TraceFacts(len(rows), 2, refused or {}), prefill_tokens_per_s=speed)
    return render_replay(summary, timeline(replay), name="a name")


def options_of(page: str) -> dict[str, Any]:
    """Chart options that stand in a page."""
    found = re.search(r'<script type="application/json" id="options">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    options: dict[str, Any] = json.loads(found[1])
    return options


def test_the_page_says_what_was_hit_and_what_was_skipped() -> None:
    """Ratio, tiers, notices and the core that ran; the TTFT needs a speed and says so."""
    shown = visible(page_of(document(group(tiers=[1, 2])), requests("ab", "ab"), refused={"keys: <missing>": 3}))

    assert "44.44 % of 18 prompt tokens were in the cache." in shown
    assert "t0 g" in shown
    assert "3 (keys: &lt;missing&gt;)" in shown
    assert "moved rows" in shown
    assert "needs the speed of the prefill: --prefill-tokens-per-s" in shown
    assert "core reference" in shown


def test_the_ttft_saved_is_prefill_less_reading() -> None:
    """Eight hit tokens at two tokens a second save four seconds, less what reading two blocks takes."""
    replay = replayed(document(group(tiers=[8])), requests("ab", "ab"))

    saved = summarise(replay, TraceFacts(2, 0, {}), prefill_tokens_per_s=2)["total"]["ttft_saved"]

    read_s = 2 * replay.instances["a"].cache.bytes_per_block / 1e9
    assert saved == {
        "prefill_tokens_per_s": 2,
        "prefill_s": 4.0,
        "read_s": pytest.approx(read_s),
        "saved_s": pytest.approx(4 - read_s),
        "saved_s_per_read": pytest.approx((4 - read_s) / 2),
    }
    assert "TTFT saved, estimated" in visible(page_of(document(group(tiers=[8])), requests("ab", "ab"), speed=2))


def test_sums_of_instances_are_those_of_groups_and_of_all() -> None:
    """Every count, byte and second of the summary adds up from instances to groups to the whole."""
    pools = [
        group(tiers=[2, 3], instances=[instance("a"), instance("b", policy="ttl")], name="g"),
        group(4, instances=[instance("c", block_size=2)], name="h"),
    ]
    cycle = zip("ababcd" * 9, "abcbca" * 9, strict=True)
    rows = [row("request", path, at=at, name=name) for at, (path, name) in enumerate(cycle, start=1)]

    summary = summarise(replayed(document(*pools), rows), TraceFacts(1, 0, {}), prefill_tokens_per_s=3)

    def adds_up(whole: dict[str, Any], parts: list[dict[str, Any]]) -> None:
        for name, value in whole.items():
            if name.endswith(("_ratio", "_per_read", "_per_s", "quota_bytes", "utilisation")):
                continue
            if isinstance(value, dict):
                adds_up(value, [part[name] for part in parts])
            elif isinstance(value, int | float):
                assert sum(part[name] for part in parts) == pytest.approx(value), name

    by_group = [[one for one in summary["instances"] if one["group_name"] == name] for name in "gh"]
    adds_up(summary["total"], summary["instances"])
    for found, members in zip(summary["groups"], by_group, strict=True):
        adds_up({name: value for name, value in found.items() if name != "over_quota_checks"}, members)
        for index, tier in enumerate(found["tiers"]):
            adds_up(tier, [one["tiers"][index] for one in members])


def test_many_reads_groups_and_instances_stay_a_page() -> None:
    """Curves are thinned, groups beyond the largest have no chart, instances beyond the colours no curve."""
    pools = [group(instances=[instance(f"i{at}")], name=f"g{at}") for at in range(60)]
    rows = [row("request", "abc", at=at, name=f"i{at % 60}") for at in range(1, 6_000)]

    page = page_of(document(*pools), rows)

    options = options_of(page)
    assert len(options) == 2 + 2 * MOST_GROUPS
    curves = [series for option in options.values() for series in option["series"]]
    assert max(len(series["data"]) for series in curves) <= 1_000
    assert len(options["replay-instances"]["series"]) == 8
    assert f"{60 - MOST_GROUPS} more stand in the tables" in visible(page)
    assert len(page) < 1_700_000


def test_reads_at_one_time_have_no_rate() -> None:
    """A trace without a span of time says so in place of the chart."""
    shown = visible(page_of(document(group(2)), [row("request", "a", at=5), row("request", "a", at=5)]))

    assert "all reads have the same time" in shown


def test_a_replay_without_reads_has_a_page() -> None:
    """Nothing to draw is said."""
    assert "Nothing was read." in visible(page_of(document(group(2)), [row("write", "a", at=5)]))
