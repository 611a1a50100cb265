"""The page of a replay in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foreword.report.replay_page import render_replay
from foreword.simulate.summary import TraceFacts, summarise
from foreword.simulate.timeline import timeline
from tests.browser.page import DRAWN, open_page, overhang
from tests.support.replaying import document, group, instance, replayed, row

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.browser

NAMES = [f"an-instance-with-a-long-name-{at}" for at in range(8)]
INSTANCES = [instance(name) for name in NAMES]
TIERS = [8, 16, 32]
SHAPES: dict[str, tuple[list[dict[str, Any]], int]] = {
    "one instance, no tiers": ([group(20, instances=INSTANCES[:1])], 3),
    "three tiers": ([group(tiers=TIERS, instances=INSTANCES[:1])], 3),
    "eight instances in two groups": (
        [group(tiers=TIERS, name="x", instances=INSTANCES[:4]), group(tiers=TIERS, name="y", instances=INSTANCES[4:])],
        6,
    ),
}


def write_page(path: Path, groups: list[dict[str, Any]]) -> Path:
    """The page of a replay in which every instance of the groups reads and writes for a minute."""
    names = [each["instance_id"] for pool in groups for each in pool["instances"]]
    paths = ["abcdefgh", "abcdxyz", "qrstuvw", "abcdefghij"]
    rows = [row("request", paths[at % 4], at=1 + at * 10**8, name=names[at % len(names)]) for at in range(600)]
    replay = replayed(document(*groups), rows)
    summary = summarise(replay, TraceFacts(len(rows), 0, {"keys: must be an array": 2}), prefill_tokens_per_s=8000)
    path.write_text(render_replay(summary, timeline(replay), name="a replay"), "utf-8")
    return path


@pytest.mark.parametrize("name", SHAPES)
async def test_a_replay_draws_its_charts_and_asks_for_nothing(tmp_path: Path, address: str, name: str) -> None:
    """Every chart is drawn, nothing is loaded or complained about, nothing sticks out from desktop to phone."""
    groups, charts = SHAPES[name]
    html = write_page(tmp_path / "report.html", groups)

    async with open_page(address, html.as_uri()) as page:
        drawn = await page.value(DRAWN)
        widths = [await overhang(page, width) for width in (1280, 760, 390)]

        assert len(drawn) == charts
        assert min(drawn) > 1000
        assert {url for url in page.requests if not url.startswith("data:")} == {html.as_uri()}
        assert page.complaints == []
    assert widths == [0, 0, 0]
