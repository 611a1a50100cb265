"""A run from end to end: look at the server, keep passes apart, send them, write everything down."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, TypeVar

from foreword.errors import DataError, Interrupted
from foreword.run.passes import Passes
from foreword.run.scrape import Sampler
from foreword.run.setup import Setup, authorization, first_warnings, plan_run, prepare
from foreword.run.spec import SERVER_GONE, Progress, RunOutcome, RunSpec, Silent
from foreword.run.transport import HttpTransport
from foreword.run.web import Web
from foreword.run.worker import Stop
from foreword.run.writeup import write_begin, write_up
from foreword.store.runs import RowWriter, create_run

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from foreword.run.transport import Transport

Result = TypeVar("Result")


def run(spec: RunSpec, progress: Progress | None = None) -> RunOutcome:
    """Make a run and return what it measured; the entry for code that is not async.

    Ctrl-C or SIGTERM stops sending, lets requests in flight end for a moment and writes the summaries; twice hurries.
    Raises ``ServerError``, ``UsageError``, ``DataError`` or ``Interrupted`` before the first request, afterwards only
    ``DataError`` (a damaged row; what was measured is written first).
    """
    return asyncio.run(_run_until_signal(spec, progress or Silent()))


async def _run_until_signal(spec: RunSpec, progress: Progress) -> RunOutcome:
    stop, loop = Stop(), asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # only the main thread has signals
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.request)
    return await run_dataset(spec, progress, stop=stop)


async def run_dataset(spec: RunSpec, progress: Progress, *, stop: Stop | None = None) -> RunOutcome:
    """Make a run; see ``run``. ``stop`` lets a caller end it early and keep what was measured."""
    stop, planned = stop or Stop(), plan_run(spec)
    async with Web(authorization(spec), spec.timeout_s) as web, HttpTransport(spec.timeout_s) as transport:
        setup = await _unless_stopped(prepare(planned, web, transport=transport), stop)
        return await _measure(setup, transport, progress, stop=stop)


async def _measure(setup: Setup, transport: Transport, progress: Progress, *, stop: Stop) -> RunOutcome:
    spec, scraper = setup.planned.spec, setup.scraper
    folder = create_run(spec.dataset, spec.output, parent=spec.outputs)
    write_begin(setup, folder)
    damaged: DataError | None = None
    with RowWriter(folder.requests) as writer:
        passes = Passes(setup, transport, writer, progress, stop)
        for text in first_warnings(setup):
            passes.warn(text)
        async with Sampler(scraper.urls, folder.pages, scraper.origin_ns):
            try:
                await passes.run()
            except DataError as error:
                damaged = error
    state = "interrupted" if stop.requested or damaged else SERVER_GONE if passes.server_gone else "complete"
    told = len(passes.warnings)
    outcome = write_up(setup, folder, records=passes.records, warnings=passes.warnings, state=state)
    for text in passes.warnings[told:]:
        progress.warn(text)
    if damaged:
        raise damaged
    return outcome


async def _unless_stopped(work: Coroutine[None, None, Result], stop: Stop) -> Result:
    """Do work that is not worth keeping when the user stops it."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Interrupted("stopped before the first request")
        return task.result()
    finally:
        for one in (task, stopped):
            one.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)
