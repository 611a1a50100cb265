from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from foreword.report.write import write_report
from tests.browser.page import DRAWN, open_page, overhang
from tests.support.run_folder import RunShape, write_run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.page import Page

pytestmark = pytest.mark.browser

SHAPES = {
    "serial": (RunShape(), 7),
    "compare": (RunShape(mode="compare", in_flight=4, lost_visibility=True, fails=lambda at: at == 7), 12),
    "nothing reported": (RunShape(usage=False, counters=False), 5),
    "all failed": (RunShape(fails=lambda _at: True), 4),
}


async def test_a_page_that_loads_or_complains_is_noticed(tmp_path: Path, address: str) -> None:
    """The eyes of these tests are open: a request and an error are both seen."""
    html = tmp_path / "page.html"
    html.write_text("<img src='http://example.invalid/a.png'><script>console.error('oh'); missing()</script>")

    async with open_page(address, html.as_uri()) as page:
        assert "http://example.invalid/a.png" in page.requests
        assert {"oh", "Uncaught"} <= set(page.complaints)


@pytest.mark.parametrize("name", SHAPES)
async def test_a_report_draws_its_charts_and_asks_for_nothing(tmp_path: Path, address: str, name: str) -> None:
    """From a file, without a network: every chart is drawn, nothing is loaded, nothing is complained about."""
    shape, charts = SHAPES[name]
    html = write_report(write_run(tmp_path / "run_001", shape)).html

    async with open_page(address, html.as_uri()) as page:
        drawn = await page.value(DRAWN)
        holes = await page.value("document.querySelectorAll('[data-chart]').length")

        assert holes == len(drawn) == charts
        assert min(drawn) > 1000
        assert {url for url in page.requests if not url.startswith("data:")} == {html.as_uri()}
        assert page.complaints == []


async def test_a_report_follows_its_reader(tmp_path: Path, address: str) -> None:
    """Nothing sticks out sideways from desktop to phone; colours follow the system's preference; it prints."""
    html = write_report(write_run(tmp_path / "run_001", RunShape(mode="compare", dp_size=2))).html

    async with open_page(address, html.as_uri()) as page:
        widths = [await overhang(page, width) for width in (1280, 760, 390)]
        light, dark = await _colours(page, "light"), await _colours(page, "dark")
        printed = await page.command("Page.printToPDF", printBackground=True)
        await page.command("Emulation.setEmulatedMedia", media="print")
        await page.next_frame()
        on_paper = await page.value(DRAWN)

    assert widths == [0, 0, 0]
    assert light["paper"] != dark["paper"]
    assert light["strokes"] != dark["strokes"]
    assert len(printed["data"]) > 20_000
    assert len(on_paper) == 12
    assert min(on_paper) > 1000


async def _colours(page: Page, scheme: str) -> dict[str, Any]:
    """Colour of the paper and of the lines of a chart under a preference."""
    await page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await page.next_frame()
    lines = "document.querySelectorAll('[data-chart^=cumulative] path')"
    return {
        "paper": await page.value("getComputedStyle(document.documentElement).backgroundColor"),
        "strokes": await page.value(f"[...{lines}].map(one => one.getAttribute('stroke'))"),
    }
