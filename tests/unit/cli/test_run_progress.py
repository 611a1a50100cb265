"""What a run says on standard error while it goes."""

from __future__ import annotations

import io
import os
import pty
import time
from typing import TYPE_CHECKING

from foreword.cli.run_progress import RunProgress
from foreword.collect.records import RequestRow
from foreword.terms import Pass

if TYPE_CHECKING:
    import pytest


def row(*, ok: bool = True, prompt: int | None = 100, cached: int | None = 25) -> RequestRow:
    """A row of a cold pass."""
    return RequestRow(
        request_id="r",
        pass_=Pass.COLD,
        order_index=0,
        prefix_group_id="a",
        planned_dp_id=0,
        url_index=0,
        ok=ok,
        input_len=100,
        prompt_tokens=prompt,
        cached_tokens=cached,
        max_tokens=1,
    )


def test_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal a line comes every five seconds: done, rate, hit ratio so far, failures."""
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    file = io.StringIO()
    with RunProgress(file) as progress:
        progress.start_pass(Pass.COLD, 40)
        for ok in (True, True, False):
            now_s += 2.0
            progress.advance(row(ok=ok))

    assert file.getvalue() == "cold: 3/40 requests, 0.5 req/s, hit ratio 25.00 %, 1 failed\n"


def test_a_pass_that_had_lines_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of a pass counts all of its requests; a pass without lines stays silent."""
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    file = io.StringIO()
    with RunProgress(file) as progress:
        for name, step_s in ((Pass.COLD, 4.0), (Pass.HOT, 1.0)):
            progress.start_pass(name, 3)
            for _ in range(3):
                now_s += step_s
                progress.advance(row())

    assert [line.split(",")[0] for line in file.getvalue().splitlines()] == ["cold: 2/3 requests", "cold: 3/3 requests"]


def test_hits_that_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ratio is not shown as 0 where the server reports nothing; an unknown total is left out."""
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    file = io.StringIO()
    with RunProgress(file) as progress:
        progress.start_pass(Pass.WARMUP, None)
        now_s += 10.0
        progress.advance(row(cached=None))

    assert file.getvalue() == "warmup: 1 requests, 0.1 req/s, hits not reported, 0 failed\n"


def test_warnings_are_lines() -> None:
    """A warning is shown at once."""
    file = io.StringIO()
    with RunProgress(file) as progress:
        progress.warn("residual cache")

    assert file.getvalue() == "warning: residual cache\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """On a terminal a bar shows the pass, how far it is and the figures; warnings stand above it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, RunProgress(terminal) as progress:
        progress.start_pass(Pass.COLD, 2)
        progress.warn("[residual] cache")
        progress.advance(row())
        progress.advance(row())
    os.close(ours)

    shown = capfd.readouterr().err
    assert "warning: [residual] cache" in shown
    assert "2/2" in shown
    assert "hit ratio 25.00 %, 0 failed" in shown
