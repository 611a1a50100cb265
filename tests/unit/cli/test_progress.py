"""Progress without a terminal: a line now and then, by a clock that the test holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cli import progress

if TYPE_CHECKING:
    import pytest


class Clock:
    """A clock that stands still until it is set."""

    now = 100.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now


def test_a_line_every_five_seconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Short work is silent; long work says how far it is, how fast, how long it will take, and when it is done."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)

    with progress.counted("generating", "requests") as update:
        for now, done in ((101.0, 10), (105.0, 1_000), (106.0, 1_200), (110.0, 3_000), (111.0, 5_000), (111.0, 5_000)):
            clock.now = now
            update(done, 5_000)

    assert capsys.readouterr().err.splitlines() == [
        "generating: 1,000 of 5,000 requests (20%), 200 a second, 20 s left",
        "generating: 3,000 of 5,000 requests (60%), 300 a second, 7 s left",
        "generating: 5,000 of 5,000 requests (100%), 455 a second",
    ]


def test_short_work_is_silent_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    """What took no time needs no line, not even for its end."""
    with progress.counted("generating", "requests") as update:
        update(5_000, 5_000)

    assert capsys.readouterr().err == ""


def test_work_of_unknown_size_has_no_share(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard input has no end that could be foreseen."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)

    with progress.counted("reading", "bytes") as update:
        clock.now += 10
        update(50, 0)

    assert capsys.readouterr().err == "reading: 50 bytes, 5 a second\n"


def test_quiet_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json there is no progress."""
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)

    with progress.counted("generating", "requests", quiet=True) as update:
        clock.now += 60.0
        update(1, 2)

    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_a_bar_that_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bar is on stderr, so that stdout can be piped."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    with progress.counted("generating", "requests") as update:
        update(1, 2)

    assert capsys.readouterr().out == ""
