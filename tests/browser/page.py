"""A page in headless Chromium over the DevTools protocol: what it asks for, what it complains about, what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from typing import TYPE_CHECKING, Any, Self

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--mute-audio",
    "--remote-debugging-port=0", "--proxy-server=127.0.0.1:9", "about:blank",
)  # fmt: skip
START_S = 30.0

DRAWN = "[...document.querySelectorAll('[data-chart] svg')].filter(e => e.clientHeight).map(e => e.innerHTML.length)"
"""Sizes of the drawings of all charts that are seen."""


class Page:
    """One tab; ``requests`` and ``complaints`` grow while it is open."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._socket = socket
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def command(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result."""
        number = len(self._answers) + 1
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(self._answers[number], START_S)

    async def open(self, url: str) -> Self:
        """Load a URL with every listener on, and wait for its load event."""
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.command(f"{domain}.enable")
        self._loaded.clear()
        await self.command("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), START_S)
        return self

    async def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page says
        """Value of a JavaScript expression."""
        answer = await self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def next_frame(self) -> None:
        """Wait until what changed has been drawn."""
        await self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    async def close(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        async for message in self._socket:
            event = message.json()
            if "id" in event:
                self._answers[event["id"]].set_result(event.get("result", event))
            else:
                self._note(event["method"], event["params"])

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        match method:
            case "Page.loadEventFired":
                self._loaded.set()
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(parameters["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints += [str(argument.get("value")) for argument in parameters["args"]]
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])
            case _:
                pass


@contextlib.contextmanager
def browser(chromium: str, profile: Path) -> Iterator[str]:
    """Chromium with a profile of its own, behind a proxy that does not exist; yields the address that drives it."""
    with subprocess.Popen(
        [chromium, f"--user-data-dir={profile}", *FLAGS], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stderr is not None
            yield next(
                f"http://{found[1].decode()}"
                for line in process.stderr
                if (found := re.search(rb"DevTools listening on ws://([\d.]+:\d+)/", line))
            )
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def open_page(address: str, url: str) -> AsyncIterator[Page]:
    """Open a URL in a tab of its own."""
    async with aiohttp.ClientSession() as session:
        async with session.put(f"{address}/json/new?about:blank") as answer:
            tab = await answer.json()
        async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            page = Page(socket)
            yield await page.open(url)
            await page.close()


async def overhang(page: Page, width: int) -> int:
    """Pixels by which the page is wider than a window of this width."""
    await page.command("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    await page.next_frame()
    wide, seen = await page.value("['scrollWidth', 'clientWidth'].map(name => document.documentElement[name])")
    return int(wide - seen)
