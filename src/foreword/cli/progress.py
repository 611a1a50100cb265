"""Progress of long work on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINE_EVERY_S = 5.0


@contextmanager
def counted(what: str, unit: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Hear how many of how many are done; show it unless ``quiet``."""
    if quiet:
        yield lambda _done, _total: None
    elif sys.stderr.isatty():
        with _bar(what, unit) as update:
            yield update
    else:
        yield _lines(what, unit)


@contextmanager
def _bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]}")
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), rate, TimeRemainingColumn())
    begin = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None, rate="")
        yield lambda done, total: progress.update(task, completed=done, total=total, rate=_rate(done, begin))


def _rate(done: int, begin: float) -> str:
    return f"{done / max(time.monotonic() - begin, 1e-9):,.0f} a second"


def _lines(what: str, unit: str) -> Callable[[int, int], None]:
    """A line every few seconds; work that had one also has one for its end."""
    begin = last = time.monotonic()
    said = False

    def update(done: int, total: int) -> None:
        nonlocal last, said
        now = time.monotonic()
        ended = 0 < total <= done
        if now - last >= _LINE_EVERY_S or (ended and said):
            last, said = now, not ended
            left = "" if ended or not done or not total else f", {(total - done) * (now - begin) / done:,.0f} s left"
            whole, share = (f" of {total:,}", f" ({done / total:.0%})") if total else ("", "")
            print(f"{what}: {done:,}{whole} {unit}{share}, {_rate(done, begin)}{left}", file=sys.stderr)

    return update
