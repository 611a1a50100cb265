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

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _lines(what: str, unit: str) -> Callable[[int, int], None]:
    begin = last = time.monotonic()

    def update(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _LINE_EVERY_S:
            last = now
            rate = done / (now - begin)
            print(f"{what}: {done:,} of {total:,} {unit}, {rate:,.0f} a second", file=sys.stderr)

    return update
