"""Everything that a run needs, made before its first request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from foreword.errors import DataError, UsageError
from foreword.run.isolation import IsolationPlan, Prober, Resetter, plan_isolation, probe_prompt
from foreword.run.preflight import ServerFacts, examine
from foreword.run.scrape import Scraper
from foreword.run.spec import PASSES, Isolation, RunSpec
from foreword.run.targets import ONE_URL_PER_RANK, Router, parse_metrics_url, parse_target, route
from foreword.run.worker import Sending
from foreword.store.requests import RunManifest, SendRequest, missed_target, read_manifest, read_requests
from foreword.store.runs import check_output
from foreword.terms import ExecutionMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.run.transport import Transport
    from foreword.run.web import Web
    from foreword.terms import Pass

_DEFAULT_CONTEXT = 4096


@dataclass(frozen=True, slots=True)
class Planned:
    """What the command line and the data set say together; no server was asked yet."""

    spec: RunSpec
    manifest: RunManifest
    mode: ExecutionMode
    concurrency: int
    router: Router
    first: SendRequest

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Passes in order."""
        return PASSES[self.mode]


@dataclass(frozen=True, slots=True)
class Setup:
    """A run that is ready to start."""

    planned: Planned
    facts: ServerFacts
    sending: Sending
    scraper: Scraper
    resetter: Resetter
    isolation: IsolationPlan
    started_utc: datetime


def plan_run(spec: RunSpec) -> Planned:
    """Check what can be checked without a server; raises ``UsageError`` or ``DataError``."""
    if _none_or(spec.concurrency) < 1 or spec.timeout_s <= 0 or _none_or(spec.max_requests) < 1:
        raise UsageError("--concurrency, --timeout and --max-requests take numbers above 0")
    if not spec.urls:
        raise UsageError("--url is missing", advice="give the address of the server")
    for url in spec.metrics_urls:
        parse_metrics_url(url)
    if spec.api_key and any("@" in urlsplit(url).netloc for url in spec.urls):
        raise UsageError("--url holds a user and there is an API key as well", advice="a request can carry one of them")
    manifest = read_manifest(spec.dataset)
    mode = spec.mode or manifest.mode
    targets = [parse_target(url, manifest.prompt_format) for url in spec.urls]
    routing = manifest.raw.get("routing") or {}
    by_send_order = routing.get("assignment") == "by_send_order"
    router = route(targets, dp_size=manifest.dp_size, by_send_order=by_send_order)
    if spec.output:
        check_output(spec.output)
    first = _first(read_requests(spec.dataset), spec)
    return Planned(spec, manifest, mode, spec.concurrency or manifest.concurrency, router, first)


def _none_or(number: int | None) -> int:
    return 1 if number is None else number


def _first(requests: Iterator[SendRequest], spec: RunSpec) -> SendRequest:
    request = next(requests, None)
    if request is None:
        raise DataError(f"{spec.dataset / 'data.jsonl'} holds no request")
    return request


async def prepare(planned: Planned, web: Web, *, transport: Transport) -> Setup:
    """Look at the server and decide how passes are kept apart; raises ``ServerError`` or ``UsageError``."""
    started_utc, origin_ns = datetime.now(UTC), time.monotonic_ns()
    spec, manifest, router = planned.spec, planned.manifest, planned.router
    facts = await examine(
        web,
        router.targets,
        model=spec.model or manifest.model,
        metrics_urls=spec.metrics_urls,
        planned=manifest.engine,
    )
    profile = facts.detection.profile
    sending = _sending(planned, facts, origin_ns=origin_ns)
    scraper = Scraper(web, facts.metrics_urls, profile, origin_ns)
    resetter = Resetter(web, tuple(target.base for target in router.targets), profile.reset_paths)
    prompt = probe_prompt(
        manifest.prompt_format,
        planned.first.prompt,
        block_size=facts.block_size or manifest.block_size,
        room=facts.max_model_len or _DEFAULT_CONTEXT,
    )
    prober = Prober(sending, transport, scraper, prompt)
    isolation = await plan_isolation(
        _wanted_isolation(planned),
        planned.mode,
        salt=spec.salt,
        own_content=manifest.has_nonce,
        prober=prober,
        resetter=resetter,
    )
    return Setup(planned, facts, sending, scraper, resetter, isolation, started_utc)


def _sending(planned: Planned, facts: ServerFacts, *, origin_ns: int) -> Sending:
    """How requests of the first pass are written."""
    spec, manifest = planned.spec, planned.manifest
    return Sending(
        name=planned.passes[0],
        router=planned.router,
        prompt_format=manifest.prompt_format,
        model=facts.model,
        headers=authorization(spec),
        extra=_extra(manifest, ignores_eos=facts.detection.profile.ignore_eos),
        secrets=tuple(secret for secret in (spec.api_key, spec.salt) if secret),
        origin_ns=origin_ns,
        save_prompts=manifest.save_prompts,
    )


def _wanted_isolation(planned: Planned) -> Isolation | None:
    """The command line's way, else the data set's; a hot run leaves the cache as it is."""
    spec, manifest = planned.spec, planned.manifest
    if spec.isolation is None and manifest.isolation and planned.mode is not ExecutionMode.HOT:
        return Isolation(manifest.isolation)
    return spec.isolation


def _extra(manifest: RunManifest, *, ignores_eos: bool) -> dict[str, object]:
    """Fields of every request beside the prompt and the length of its answer."""
    arguments = (manifest.raw.get("config") or {}).get("chat_template_kwargs")
    chat = {"chat_template_kwargs": arguments} if arguments else {}
    return {"ignore_eos": True, **chat} if ignores_eos else chat


def authorization(spec: RunSpec) -> dict[str, str]:
    """Header with the key, if there is one."""
    return {"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else {}


def first_warnings(setup: Setup) -> list[str]:
    """What is already worth saying before the first request."""
    facts, manifest, told = setup.facts, setup.planned.manifest, []
    dp_size, ranked = manifest.dp_size, facts.detection.profile.rank_label is not None
    if setup.planned.router.by_header and ranked and 0 < facts.ranks < dp_size:
        told.append(
            f"the data set is planned for {dp_size} data-parallel ranks, but the server's metrics show {facts.ranks}: "
            f"{ONE_URL_PER_RANK}"
        )
    if setup.isolation.warning:
        told.append(setup.isolation.warning)
    if facts.block_size and facts.block_size != manifest.block_size:
        told.append(
            f"the server matches blocks of {facts.block_size} tokens, "
            f"but the data set is planned for blocks of {manifest.block_size}"
        )
    missed = missed_target(manifest.raw)
    if missed:
        told.append(missed)
    longest, room = manifest.longest_prompt, facts.max_model_len
    if longest is not None and room is not None and longest >= room:
        told.append(f"the longest prompt has {longest} tokens, but the model's context ends at {room}")
    return told
