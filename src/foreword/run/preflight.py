"""What must be known, and must work, before the first request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from foreword.engines.registry import Detection, detect
from foreword.errors import ServerError, UsageError
from foreword.run.scrape import read_page
from foreword.run.targets import parse_metrics_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.engines.page import Page
    from foreword.run.targets import Target
    from foreword.run.web import Reply, Web
    from foreword.terms import Engine

_OK = 200
_UNAUTHORISED = {401, 403}
_NO_SUCH_PATH = {404, 405, 501}
_QUIET_PATHS = ("/metrics", "/prometheus/metrics")
_LISTED = 5


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server as it presents itself."""

    model: str
    detection: Detection
    version: str | None
    server: str | None
    max_model_len: int | None
    block_size: int | None
    capacities: tuple[int, ...]
    ranks: int
    metrics_urls: tuple[str, ...] = field(repr=False)


async def examine(
    web: Web, targets: Sequence[Target], *, model: str | None, metrics_urls: Sequence[str], planned: Engine
) -> ServerFacts:
    """Ask every server for its models and every metrics URL for a page; raises ``ServerError`` or ``UsageError``."""
    cards = [card for target in targets for card in await _model_cards(web, target, needed=model is None)]
    chosen = _choose(cards, model)
    urls, pages = await _metrics(web, targets, metrics_urls)
    owners = [str(card.get("owned_by")) for card in cards]
    detection = detect(pages, owners, planned=planned)
    version, server = await _version(web, targets[0])
    lengths = (card.get("max_model_len") for card in cards if card.get("id") == chosen)
    return ServerFacts(
        model=chosen,
        detection=detection,
        version=version,
        server=server,
        max_model_len=next((length for length in lengths if isinstance(length, int)), None),
        block_size=next((size for page in pages if (size := detection.profile.block_size(page))), None),
        capacities=tuple(tokens for page in pages for tokens in detection.profile.capacities(page)),
        ranks=_ranks(pages, detection),
        metrics_urls=urls,
    )


async def _model_cards(web: Web, target: Target, *, needed: bool) -> list[dict[str, Any]]:
    reply = await web.get(f"{target.base}/v1/models")
    if reply.status == _OK:
        document = reply.json()
        cards = document.get("data") if isinstance(document, dict) else None
        if isinstance(cards, list):
            return [card for card in cards if isinstance(card, dict) and "id" in card]
        if needed:
            raise ServerError(f"{reply.url} does not list models", advice=_ADVICE)
    if reply.status in _UNAUTHORISED:
        raise ServerError(f"{reply.url} answers HTTP {reply.status}", advice="give the key with --api-key-env VAR")
    if needed:
        raise ServerError(f"{reply.url} answers HTTP {reply.status}", advice=_ADVICE)
    await _check_endpoint(web, target)
    return []


_ADVICE = "--url takes the base URL of an OpenAI-compatible server or its endpoint; without /v1/models give --model"


async def _check_endpoint(web: Web, target: Target) -> None:
    """A server without model cards must at least know the endpoint: an empty body may not be answered with 404."""
    reply = await web.post(target.endpoint, b"{}")
    if reply.status in _NO_SUCH_PATH:
        raise ServerError(f"{reply.url} answers HTTP {reply.status}", advice="check the path of --url")
    if reply.status in _UNAUTHORISED:
        raise ServerError(f"{reply.url} answers HTTP {reply.status}", advice="give the key with --api-key-env VAR")


def _choose(cards: Sequence[dict[str, Any]], model: str | None) -> str:
    names = list(dict.fromkeys(str(card["id"]) for card in cards))
    shown = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    if model is not None:
        if names and model not in names:
            raise ServerError(f"the server has no model {model}", advice=f"it has: {shown}")
        return model
    if not names:
        raise ServerError("the server lists no model", advice="give --model")
    if len(names) > 1:
        raise UsageError(f"the server has several models: {shown}", advice="choose one with --model")
    return names[0]


async def _metrics(web: Web, targets: Sequence[Target], given: Sequence[str]) -> tuple[tuple[str, ...], list[Page]]:
    """Metrics URLs that work: those given must, those guessed from the servers' hosts may."""
    if given:
        urls = tuple(parse_metrics_url(url) for url in given)
        return urls, [await read_page(web, url) for url in urls]
    found: list[str] = []
    pages: list[Page] = []
    for target in targets:
        for path in _QUIET_PATHS:
            parts = urlsplit(target.base)
            url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
            try:
                page = await read_page(web, url)
            except ServerError:
                continue
            found.append(url)
            pages.append(page)
            break
    return tuple(found), pages


async def _version(web: Web, target: Target) -> tuple[str | None, str | None]:
    """Version of the engine, and the program that answers like it where it says that it is another one."""
    try:
        reply: Reply = await web.get(f"{target.base}/version")
    except ServerError:
        return None, None
    document = reply.json() if reply.status == _OK else None
    told = [document.get(name) if isinstance(document, dict) else None for name in ("version", "server")]
    version, server = (text if isinstance(text, str) else None for text in told)
    return version, server


def _ranks(pages: Sequence[Page], detection: Detection) -> int:
    """Data-parallel ranks that the pages show, each page's counted apart."""
    label = detection.profile.rank_label
    sources = [source for found in detection.profile.sources.values() for source in found]
    return sum(
        len(
            {sample.label(label or "") for source in sources for name in source.names for sample in page.of(name)}
            - {None}
        )
        or 1
        for page in pages
    )
