"""Small requests around a run: model cards, versions, metrics pages, resets. Never on the hot path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import msgspec

from foreword.errors import ServerError
from foreword.run.privacy import public_url
from foreword.run.transport import connect_problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in full; ``url`` is fit to be shown."""

    url: str
    status: int
    text: str

    def json(self) -> Any:  # noqa: ANN401 - whatever a server sends
        """Decoded body, or ``None`` when it is no JSON."""
        try:
            return msgspec.json.decode(self.text)
        except msgspec.DecodeError:
            return None


class Web:
    """GET and POST with short timeouts; a server that cannot be reached is a one-line ``ServerError``."""

    def __init__(self, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = min(timeout_s, TIMEOUT_S)
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        self._headers = dict(headers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, url: str, *, what: str = "server", plain: bool = False) -> Reply:
        """Fetch a page; ``plain`` asks for Prometheus text and sends no key."""
        headers = {"Accept": "text/plain; version=0.0.4"} if plain else self._headers
        return await self._ask("GET", url, headers=headers, what=what)

    async def post(self, url: str, body: bytes = b"") -> Reply:
        """Send a small body."""
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        return await self._ask("POST", url, headers=headers, body=body)

    async def _ask(
        self, method: str, url: str, *, headers: Mapping[str, str], what: str = "server", body: bytes | None = None
    ) -> Reply:
        shown = public_url(url)
        try:
            async with self._session.request(method, url, headers=headers, data=body) as response:
                return Reply(shown, response.status, (await response.read()).decode("utf-8", "replace"))
        except aiohttp.ClientConnectorError as error:
            raise ServerError(f"{what} {shown} cannot be reached: {connect_problem(error)}") from error
        except TimeoutError as error:
            raise ServerError(f"{what} {shown} does not answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, ValueError, OSError) as error:
            text = f"{what} {shown} does not speak HTTP as it should ({type(error).__name__})"
            raise ServerError(text) from error
