from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from foreword.report.build import build_document, examine
from foreword.report.html import render_html
from foreword.report.load import load_record
from tests.support.run_folder import RunShape

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.report.document import ReportDocument
    from tests.unit.report.conftest import MakeRun

    ReportOf = Callable[[RunShape], ReportDocument]

SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)


class Resources(HTMLParser):
    """Collects whatever a page could load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in {"src", "href", "action", "data"}]


def visible(page: str) -> str:
    """Text of a page without scripts, styles and tags, in single spaces."""
    without = re.sub(r"<style>.*?</style>", " ", SCRIPT.sub(" ", page), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", without).replace("\u00a0", " ").split())


def test_a_page_refers_to_nothing_outside(report_of: ReportOf) -> None:
    """No resource, no style and no policy lets the page load anything."""
    page = render_html(report_of(RunShape(mode="compare")))

    resources = Resources()
    resources.feed(page)
    assert resources.found == ["link href=data:,"]
    assert "default-src 'none'" in page
    assert "url(" not in page.split("</style>")[0]
    assert "@import" not in page.split("</style>")[0]


def test_a_page_says_not_reported_where_nothing_was(report_of: ReportOf) -> None:
    """Absent figures are words; no measured figure of such a run is a zero."""
    said = visible(render_html(report_of(RunShape(usage=False, counters=False))))

    assert "Measured not reported" in said
    assert "run UNPROVEN" in said
    assert "Measured 0.00 %" not in said


def test_printed_steps_add_up_to_the_printed_total(report_of: ReportOf) -> None:
    """A reader who adds the column gets the last line."""
    page = render_html(report_of(RunShape(server_block_size=64, fails=lambda at: at % 7 == 0, in_flight=3)))

    ladder = page.split('<table class="ladder">')[1].split("</table>")[0].replace("−", "-").replace("±", "")
    steps = [float(step) for step in re.findall(r"([-+]?\d+\.\d\d)\u00a0pp", ladder)]
    assert round(sum(steps[:-1]), 2) == steps[-1]


def test_passes_are_compared_without_claiming_a_cause(report_of: ReportOf) -> None:
    """The column says hot against cold: a faster hot pass has a true minus, whatever made it faster."""
    document = report_of(RunShape(mode="compare"))
    said = visible(render_html(document))

    assert document.comparison is not None
    mean = document.comparison.ttft[0]
    share = (mean.hot_ms - mean.cold_ms) / mean.cold_ms * 100
    assert "hot against cold" in said
    assert "gained by hits" not in said
    assert share < 0
    assert f"ms, −{-share:.1f} %" in said


def test_hits_that_only_moved_are_told(make_run: MakeRun) -> None:
    """Two requests in flight that changed places in the cache: the total is as predicted, and the page says why."""
    run = make_run(RunShape(in_flight=2))
    path = run / "runtime/request_results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[-1]["cached_tokens"] -= 16
    rows[-2]["cached_tokens"] += 16
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = load_record(run)

    said = visible(render_html(build_document(record, examine(record))))

    assert "58 of 60" in said
    assert "Hits moved between requests in flight; their total is as predicted." in said


def test_tokens_that_come_together_have_no_time_between_them(make_run: MakeRun) -> None:
    """A server that sends all tokens at once shows no time per token, and the page does not call it zero."""
    run = make_run()
    path = run / "runtime/performance_metrics.json"
    figures = json.loads(path.read_text())
    for name in ("TPOT", "ITL"):
        figures["passes"][0][name] |= {"mean": 0.013, "p50": 0.0, "p90": 0.1}
    path.write_text(json.dumps(figures))
    record = load_record(run)

    said = visible(render_html(build_document(record, examine(record))))

    assert said.count("not measurable") == 10
    assert "0.013" not in said


def test_rates_that_are_the_same_are_shown_once(report_of: ReportOf) -> None:
    """Without failures requests per second are one figure."""
    assert "QPS" not in visible(render_html(report_of(RunShape())))


def test_long_tables_are_cut_and_say_so(report_of: ReportOf) -> None:
    """A page of a hundred groups shows the first ones and where the others are."""
    said = visible(render_html(report_of(RunShape(requests=100, groups=tuple(f"g{at:02d}" for at in range(50))))))

    assert "The first 40 of 50 rows; all of them are in prefix_cache_report.json." in said


def test_names_of_a_data_set_are_text_not_markup(report_of: ReportOf) -> None:
    """A group or data set named like a tag stays a name, in the page and in the chart data."""
    name = "</script><img src=x>"
    document = report_of(RunShape(groups=(name, "b")))

    page = render_html(document)

    assert name not in page
    options = json.loads(re.findall(r'id="options">(.*?)</script>', page, re.DOTALL)[0])
    assert [one["name"] for one in options["watermarks"]["series"]] == [name, "b"]


def test_a_block_size_mismatch_is_the_first_thing_after_the_numbers(report_of: ReportOf) -> None:
    """The loudest notice stands before the ladder."""
    said = visible(render_html(report_of(RunShape(server_block_size=64))))

    assert said.index("planned in blocks of 16 tokens, the server has 64") < said.index("The hit ladder")


@pytest.mark.parametrize("secret", ["sk-secret", "Bearer", "/home/", "9f0c", "http://***"])
def test_nothing_private_is_on_the_page(report_of: ReportOf, secret: str) -> None:
    """Keys, headers, folders, salts and addresses stay in the run folder."""
    document = report_of(RunShape(fails=lambda at: at == 3, extra={"warnings": ["http://***:8000 was slow"]}))

    assert secret not in SCRIPT.sub("", render_html(document))


def test_the_same_run_gives_the_same_bytes(report_of: ReportOf) -> None:
    """A page holds no clock of its own."""
    document = report_of(RunShape())

    assert render_html(document) == render_html(document)


def test_a_chart_library_comes_with_its_licence() -> None:
    """The vendored file keeps its notice, and the licence and NOTICE stand beside it."""
    from importlib.resources import files  # noqa: PLC0415 - only this test looks at the package's files

    static = files("foreword.report") / "static"
    assert "Apache Software Foundation" in (static / "echarts.common.min.js").read_text()[:200]
    assert "Apache License" in (static / "echarts.LICENSE").read_text()
    assert "Apache ECharts" in (static / "echarts.NOTICE").read_text()
