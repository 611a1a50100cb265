"""Metrics pages of a run: snapshots around passes, samples during them, and what both say afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import msgspec

from foreword.collect.counters import Snapshot, cache_counters, gauge
from foreword.engines.model import Logical
from foreword.engines.page import NotMetricsError, Page, parse_only, parse_page
from foreword.errors import ServerError
from foreword.run.web import Web

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from foreword.engines.model import EngineProfile
    from foreword.terms import Pass

SAMPLE_INTERVAL_S = 1.0
SETTLE_STEP_S = 0.1
SETTLE_STEPS = 30
_STOP_S = 8.0
_WATCHED = (Logical.QUERIES, Logical.HITS, Logical.PROMPT_TOKENS, Logical.EXTERNAL_HITS)
_SAMPLED = (Logical.KV_USAGE, Logical.RUNNING, Logical.WAITING)


@dataclass(frozen=True, slots=True)
class Scraper:
    """Takes snapshots of all metrics URLs; times are ns since ``origin_ns``."""

    web: Web
    urls: tuple[str, ...]
    profile: EngineProfile
    origin_ns: int

    async def snapshot(self) -> Snapshot:
        """One reading of every page; a page that does not answer now is ``None``."""
        at_ns = time.monotonic_ns() - self.origin_ns
        pages = await asyncio.gather(*(self._page(url) for url in self.urls))
        return Snapshot(at_ns, tuple(pages))

    async def settled(self) -> Snapshot:
        """Reading whose cache counters have stopped moving: engines count a moment after they answer."""
        if not self.urls:
            return await self.snapshot()
        await asyncio.sleep(self.profile.settle_s)
        last = await self.snapshot()
        for _ in range(SETTLE_STEPS):
            await asyncio.sleep(SETTLE_STEP_S)
            now = await self.snapshot()
            if self.hits_between(last, now, metrics=_WATCHED) in {None, 0.0}:
                return now
            last = now
        return last

    def hits_between(
        self, before: Snapshot, after: Snapshot, *, metrics: Sequence[Logical] = (Logical.HITS,)
    ) -> float | None:
        """Growth of counters between two readings, summed, or ``None`` where none of them is shown."""
        counters = cache_counters(before, after, profile=self.profile, block_size=None)
        grown = [counters[f"{metric.value}_delta"] for metric in metrics]
        known = [value for value in grown if isinstance(value, float)]
        return sum(known) if known else None

    async def shows_outer_tiers(self) -> bool:
        """Whether any page counts look-ups or hits in tiers outside the device."""
        now = await self.snapshot()
        names = [
            name
            for metric in (Logical.EXTERNAL_QUERIES, Logical.EXTERNAL_HITS)
            for source in self.profile.sources.get(metric, ())
            for name in source.names
        ]
        return any(sample.value > 0 for page in now.pages if page for name in names for sample in page.of(name))

    async def _page(self, url: str) -> Page | None:
        try:
            return await read_page(self.web, url)
        except ServerError:
            return None


async def read_page(web: Web, url: str) -> Page:
    """One metrics page; raises ``ServerError`` that says what came back instead."""
    reply = await web.get(url, what="metrics URL", plain=True)
    if reply.status != 200:  # noqa: PLR2004 - HTTP OK
        raise ServerError(f"metrics URL {reply.url} answers HTTP {reply.status}", advice=_ADVICE)
    try:
        return parse_page(reply.text)
    except NotMetricsError as error:
        raise ServerError(f"metrics URL {reply.url} answers with {error}", advice=_ADVICE) from error


def take_snapshot(urls: Sequence[str]) -> Snapshot:
    """Read metrics pages now, with times since an origin of the machine's own; raises ``ServerError``."""
    return asyncio.run(_all_pages(tuple(urls)))


async def _all_pages(urls: tuple[str, ...]) -> Snapshot:
    async with Web({}) as web:
        pages = await asyncio.gather(*(read_page(web, url) for url in urls))
    return Snapshot(time.monotonic_ns(), tuple(pages))


_ADVICE = "give the address of the engine's Prometheus page, for most engines http://host:port/metrics"


class Sampler:
    """The sampling process; without addresses there is none. What it wrote is read by ``usage_samples``."""

    def __init__(self, urls: Sequence[str], path: Path, origin_ns: int) -> None:
        self._order = {
            "urls": list(urls),
            "path": str(path),
            "origin_ns": origin_ns,
            "interval_s": SAMPLE_INTERVAL_S,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        if self._order["urls"]:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "foreword.run.sampler"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the run's to handle
            )
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(self._order).encode() + b"\n")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(ConnectionError):
                await process.stdin.wait_closed()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


class _Sampled(msgspec.Struct):
    t_ns: int
    url_index: int
    body: str


def read_samples(path: Path) -> Iterator[_Sampled]:
    """Pages that a sampler kept; a last one that was cut off is left out."""
    if not path.is_file():
        return
    decode = msgspec.json.Decoder(_Sampled).decode
    with gzip.open(path, "rb") as file, contextlib.suppress(EOFError, gzip.BadGzipFile):
        for line in file:
            yield decode(line)


def usage_samples(
    path: Path, profile: EngineProfile, *, spans: Mapping[Pass, tuple[int, int]]
) -> list[dict[str, object]]:
    """Cache usage and queue over time, one entry a page, marked with the pass it fell into."""
    names = [name for metric in _SAMPLED for source in profile.sources.get(metric, ()) for name in source.names]
    told: list[dict[str, object]] = []
    for kept in read_samples(path):
        try:
            page = parse_only(kept.body, names)
        except NotMetricsError:
            continue
        inside = (name for name, (start, end) in spans.items() if start <= kept.t_ns <= end)
        told.append(
            {
                "t_ns": kept.t_ns,
                "pass": next(inside, None),
                "url_index": kept.url_index,
                **{metric.value: gauge(page, metric, profile=profile) for metric in _SAMPLED},
            }
        )
    return told
