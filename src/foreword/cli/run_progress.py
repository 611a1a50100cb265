"""Progress of a run on stderr: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from foreword.collect.records import RequestRow
    from foreword.terms import Pass

LINE_EVERY_S = 5.0
_BAR_HZ = 2.0  # drawing shares the process with the streams' clocks


@dataclass(slots=True)
class Counted:
    """Running figures of one pass."""

    name: str = ""
    total: int | None = None
    done: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    reported: bool = False
    begun_s: float = 0.0
    said: int = 0

    def add(self, row: RequestRow) -> None:
        """Count one request."""
        self.done += 1
        self.failed += not row.ok
        if row.ok and row.prompt_tokens is not None:
            self.prompt_tokens += row.prompt_tokens
            self.cached_tokens += row.cached_tokens or 0
            self.reported = self.reported or row.cached_tokens is not None

    def text(self, now_s: float) -> str:
        """Figures in words."""
        rate = self.done / max(now_s - self.begun_s, 1e-9)
        hits = (
            f"hit ratio {self.cached_tokens / self.prompt_tokens * 100:.2f} %" if self.reported else "hits not reported"
        )
        return f"{rate:.1f} req/s, {hits}, {self.failed} failed"


class RunProgress:
    """Progress of a run; ``bar`` draws one, otherwise lines are written."""

    def __init__(self, file: IO[str] | None = None, *, bar: bool | None = None) -> None:
        self._file = file or sys.stderr
        self._bar = _make_bar() if (self._file.isatty() if bar is None else bar) else None
        self._task: TaskID | None = None
        self._counted = Counted()
        self._said_s = 0.0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_pass()
        if self._bar is not None:
            self._bar.stop()

    def start_pass(self, name: Pass, total: int | None) -> None:
        """Begin to count a pass; the one before is over."""
        self._end_pass()
        now_s = time.monotonic()
        self._counted, self._said_s = Counted(name.value, total, begun_s=now_s), now_s
        if self._bar is not None:
            self._task = self._bar.add_task(name.value, total=total, figures="")

    def advance(self, row: RequestRow) -> None:
        """Count a request and show it, in good time."""
        counted, now_s = self._counted, time.monotonic()
        counted.add(row)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=counted.done, figures=counted.text(now_s))
        elif now_s - self._said_s >= LINE_EVERY_S:
            self._said_s = now_s
            self._say_figures(now_s)

    def _end_pass(self) -> None:
        """Say how a pass ended whose lines stopped before its end."""
        if self._bar is None and 0 < self._counted.said < self._counted.done:
            self._say_figures(time.monotonic())

    def _say_figures(self, now_s: float) -> None:
        counted = self._counted
        counted.said = counted.done
        of = f"/{counted.total}" if counted.total is not None else ""
        self._say(f"{counted.name}: {counted.done}{of} requests, {counted.text(now_s)}")

    def warn(self, text: str) -> None:
        """Write a warning."""
        self._say(f"warning: {text}")

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._file, flush=True)


def _make_bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:7}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
        console=Console(stderr=True),
        refresh_per_second=_BAR_HZ,
    )
