"""The passes of a run: reset or salt, snapshot, send, snapshot."""

from __future__ import annotations

import asyncio
from array import array
from dataclasses import dataclass, field, replace
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

from foreword.run.isolation import ResetResult
from foreword.run.spec import Isolation
from foreword.run.targets import ONE_URL_PER_RANK
from foreword.run.transport import REFUSED
from foreword.run.watch import Watch
from foreword.run.worker import closed_loop, watch_loop
from foreword.store.requests import read_requests, read_warmup
from foreword.terms import Pass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.collect.counters import Snapshot
    from foreword.collect.records import RequestRow
    from foreword.run.setup import Setup
    from foreword.run.spec import Progress
    from foreword.run.transport import Transport
    from foreword.run.worker import Stop
    from foreword.store.requests import SendRequest
    from foreword.store.runs import RowWriter


MOST_REFUSALS = 20
_BAD_REQUEST = 400


@dataclass(slots=True)
class PassRecord:
    """What happened around the requests of one pass."""

    name: Pass
    before: Snapshot
    after: Snapshot
    loop_lag_ms: array[float]
    abandoned: int
    reset: ResetResult | None


@dataclass(slots=True)
class Passes:
    """Runs the passes one after the other; what they leave behind is in ``records`` and ``warnings``."""

    setup: Setup
    transport: Transport
    writer: RowWriter
    progress: Progress
    stop: Stop
    records: list[PassRecord] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: int = 0
    served_ranks: set[int] = field(default_factory=set)

    @property
    def server_gone(self) -> bool:
        """Whether so many connections in a row were refused that sending more is of no use."""
        return self.refusals >= MOST_REFUSALS

    def warn(self, text: str) -> None:
        """Keep a warning and show it, once."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.progress.warn(text)

    async def run(self) -> None:
        """Run all passes, fewer when stopped or when the server is gone."""
        for name in self.setup.planned.passes:
            if self.stop.requested or self.server_gone:
                return
            await self._pass(name)

    async def _pass(self, name: Pass) -> None:
        planned, isolation = self.setup.planned, self.setup.isolation
        reset = await self._reset(name)
        watch = Watch(name, planned.mode, self.setup.facts.block_size or planned.manifest.block_size)
        base = self.setup.sending
        sending = replace(base, name=name, extra={**base.extra, **isolation.fields_of(name)})
        before = await self.setup.scraper.settled()
        record = PassRecord(name, before, before, array("d"), 0, reset)
        self.records.append(record)
        self.progress.start_pass(name, self._total(name))
        monitor = asyncio.create_task(watch_loop(record.loop_lag_ms))
        try:
            record.abandoned = await closed_loop(
                sending,
                watch.sending(takewhile(lambda _: not self.server_gone, self._requests(name))),
                transport=self.transport,
                slots=planned.concurrency,
                sink=lambda row: self._take(row, watch),
                stop=self.stop,
            )
        finally:
            monitor.cancel()
            record.after = await self.setup.scraper.settled()
            for text in watch.findings():
                self.warn(text)

    def _take(self, row: RequestRow, watch: Watch) -> None:
        self.writer.write(row)
        watch.ended(row)
        if watch.not_warm:
            self.warn(watch.not_warm)
        self.progress.advance(row)
        self._look_at_rank(row)
        self._look_at_connection(row)

    def _look_at_rank(self, row: RequestRow) -> None:
        """Say when a server that serves one rank refuses another."""
        rank, served = row.planned_dp_id, self.served_ranks
        if row.ok:
            served.add(rank)
        elif self.setup.planned.router.by_header and row.http_status == _BAD_REQUEST and served and rank not in served:
            self.warn(f"the server answers HTTP 400 to requests for rank {rank}: {ONE_URL_PER_RANK}")

    def _look_at_connection(self, row: RequestRow) -> None:
        gone = self.server_gone
        self.refusals = self.refusals + 1 if row.error == REFUSED else 0
        if self.server_gone and not gone:
            self.warn(f"{MOST_REFUSALS} connections in a row were refused: the {row.pass_} pass and the run end here")

    def _requests(self, name: Pass) -> Iterator[SendRequest]:
        spec = self.setup.planned.spec
        if name is Pass.WARMUP:
            rounds = self.setup.planned.manifest.warmup_rounds
            return chain.from_iterable(read_warmup(spec.dataset) for _ in range(rounds))
        return islice(read_requests(spec.dataset), spec.max_requests)

    def _total(self, name: Pass) -> int | None:
        manifest, spec = self.setup.planned.manifest, self.setup.planned.spec
        if name is not Pass.WARMUP:
            return min(manifest.request_count, spec.max_requests or manifest.request_count)
        rows = ((manifest.raw.get("files") or {}).get("warmup.jsonl") or {}).get("rows")
        return rows * manifest.warmup_rounds if isinstance(rows, int) else None

    async def _reset(self, name: Pass) -> ResetResult | None:
        if self.setup.isolation.applied is not Isolation.RESET or name is Pass.HOT:
            return None
        outer_tiers = await self.setup.scraper.shows_outer_tiers()
        result = await replace(self.setup.resetter, outer_tiers=outer_tiers).reset()
        if result is not ResetResult.CONFIRMED:
            self.warn(f"the reset before the {name} pass is {result}: that it began with an empty cache is unproven")
        return result
