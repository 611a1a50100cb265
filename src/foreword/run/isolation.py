"""Keeping a pass apart from what was cached before: salts, resets, and a probe that finds out whether a salt works.

The probe sends one small prompt of its own three times: twice under one fresh salt, once under another. A server that
honours salts hits on the second only. A prompt of the data set is never used, so nothing it caches can be hit later.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from foreword.errors import ServerError, UsageError
from foreword.run.openai import read_answer, request_body
from foreword.run.spec import Isolation
from foreword.run.transport import ErrorKind, Exchange, Failure, Post
from foreword.terms import ExecutionMode, Pass, PromptFormat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foreword.run.scrape import Scraper
    from foreword.run.transport import Transport
    from foreword.run.web import Web
    from foreword.run.worker import Sending

SALT_FIELD = "cache_salt"
RESET_TRIES = 20
RESET_WAIT_S = 0.5
PROBE_BLOCKS = 3
_LARGEST_PROBE = 1024
_GONE = {404, 405, 501}
_OK = 200
_RESETS = ("/reset_prefix_cache", "/flush_cache")


class SaltFinding(StrEnum):
    """What the probe found out about ``cache_salt``."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"
    UNPROVEN = "unproven"
    NOT_PROBED = "not probed"


@dataclass(frozen=True, slots=True)
class IsolationPlan:
    """What is applied, and why; salts are written nowhere but into requests."""

    applied: Isolation
    finding: SaltFinding = SaltFinding.NOT_PROBED
    salts: Mapping[Pass, str] = field(default_factory=dict, repr=False)
    warning: str | None = None

    def fields_of(self, name: Pass) -> dict[str, object]:
        """Fields that a pass adds to every request."""
        return {SALT_FIELD: self.salts[name]} if name in self.salts else {}


def salts_of(mode: ExecutionMode, salt: str | None) -> dict[Pass, str]:
    """Salt of each pass: one for all requests of a pass; ``compare`` needs another one for its cold pass.

    Warm-up and hot pass share theirs. ``salt`` is the user's, else a fresh one: runs never meet by chance.
    """
    base = salt or secrets.token_hex(8)
    cold = f"{base}-cold" if mode is ExecutionMode.COMPARE else base
    return {Pass.COLD: cold, Pass.WARMUP: base, Pass.HOT: base}


@dataclass(frozen=True, slots=True)
class Prober:
    """Sends the probe's requests to the first server and reads their hits from usage, else from counters."""

    sending: Sending
    transport: Transport
    scraper: Scraper
    prompt: msgspec.Raw

    async def find(self) -> SaltFinding:
        """Find out what the server does with a salt; raises ``ServerError`` when it refuses plain requests too."""
        one, other = secrets.token_hex(8), secrets.token_hex(8)
        hits: list[int | float | None] = []
        for salt in (one, one, other):
            hit, failure = await self._hit({SALT_FIELD: salt})
            if failure is not None:
                return await self._refusal(failure)
            hits.append(hit)
        fresh, again, foreign = hits
        if fresh or foreign:
            return SaltFinding.IGNORED
        return SaltFinding.HONOURED if again else SaltFinding.UNPROVEN

    async def _refusal(self, failure: Failure) -> SaltFinding:
        _, plain = await self._hit({})
        if plain is None and failure.kind is ErrorKind.HTTP:
            return SaltFinding.REFUSED
        problem = plain or failure
        raise ServerError(f"the server fails a small request: {problem.message}", advice="no request was sent yet")

    async def _hit(self, extra: dict[str, object]) -> tuple[int | float | None, Failure | None]:
        sending = self.sending
        body = request_body(
            sending.prompt_format, self.prompt, model=sending.model, max_tokens=1, extra={**sending.extra, **extra}
        )
        post = Post(sending.router.targets[0].endpoint, body, {**sending.headers, **sending.router.headers(0)})
        before = await self.scraper.snapshot()
        exchange = Exchange()
        await self.transport.send(post, exchange)
        answer = read_answer(exchange, body=body, secrets=sending.secrets)
        if answer.failure is not None or answer.usage.cached_tokens is not None:
            return answer.usage.cached_tokens, answer.failure
        return self.scraper.hits_between(before, await self.scraper.settled()), None


def probe_prompt(prompt_format: PromptFormat, first_prompt: msgspec.Raw, *, block_size: int, room: int) -> msgspec.Raw:
    """JSON of a prompt of a few blocks that no data set begins with.

    Ids are those of a planned prompt in reverse (so all are legal), rotated by chance; text starts with chance.
    ``room`` is the model's context; text takes up to four tokens a word.
    """
    length = min(PROBE_BLOCKS * block_size + 1, _LARGEST_PROBE, room // 4)
    match prompt_format:
        case PromptFormat.COMPLETIONS_IDS:
            ids = msgspec.json.decode(first_prompt, type=list[int])[::-1]
            start = secrets.randbelow(len(ids)) if ids else 0
            turned = ids[start:] + ids[:start]
            return msgspec.Raw(msgspec.json.encode((turned * (length // max(1, len(turned)) + 1))[:length]))
        case PromptFormat.COMPLETIONS_TEXT | PromptFormat.CHAT:
            words = " ".join(secrets.token_hex(2) for _ in range(length // 2 + 1))
            return msgspec.Raw(msgspec.json.encode(f"{secrets.token_hex(8)} {words}"))


async def plan_isolation(
    wanted: Isolation | None,
    mode: ExecutionMode,
    *,
    salt: str | None,
    own_content: bool,
    prober: Prober,
    resetter: Resetter,
) -> IsolationPlan:
    """Decide what keeps passes apart; raises ``ServerError`` or ``UsageError`` where the wish cannot be met.

    ``own_content`` says that the data set was generated with a nonce.
    """
    if wanted is None and salt is not None:
        wanted = Isolation.SALT
    match wanted:
        case Isolation.NONCE if not own_content:
            raise UsageError(
                "a nonce changes every prompt, so it belongs to the data set",
                advice="generate it with nonce: and a new word, or use --isolation salt or reset",
            )
        case Isolation.NONCE if mode is ExecutionMode.COMPARE:
            raise UsageError(
                "a nonce keeps one pass apart, but compare makes two", advice="use --isolation salt or reset"
            )
        case Isolation.NONCE:
            return IsolationPlan(Isolation.NONCE)
        case Isolation.NONE:
            return IsolationPlan(Isolation.NONE)
        case Isolation.RESET if mode is ExecutionMode.HOT:
            raise UsageError("a reset makes a warm server cold", advice="use --mode warmup, which warms it again")
        case Isolation.RESET:
            await resetter.require()
            return IsolationPlan(Isolation.RESET)
        case Isolation.SALT | None:
            if mode is ExecutionMode.HOT:
                return _hot_salt(wanted, salt)
            return _salted(wanted, salts_of(mode, salt), finding=await prober.find())


def _hot_salt(wanted: Isolation | None, salt: str | None) -> IsolationPlan:
    """A hot run finds the server as someone else warmed it: with their salt, or none."""
    if salt is not None:
        return IsolationPlan(Isolation.SALT, salts={Pass.HOT: salt})
    if wanted is Isolation.SALT:
        raise UsageError("a fresh salt makes a warm server cold", advice="give the salt of the warm-up with --salt")
    return IsolationPlan(Isolation.NONE)


def _salted(wanted: Isolation | None, salts: Mapping[Pass, str], *, finding: SaltFinding) -> IsolationPlan:
    match finding:
        case SaltFinding.HONOURED:
            return IsolationPlan(Isolation.SALT, finding, salts)
        case SaltFinding.UNPROVEN | SaltFinding.NOT_PROBED:
            text = "it is unproven that the server honours cache_salt: no hit of the probe was reported"
            return IsolationPlan(Isolation.SALT, finding, salts, text)
        case SaltFinding.REFUSED if wanted is Isolation.SALT:
            raise ServerError("the server refuses cache_salt", advice="use --isolation reset or none")
        case SaltFinding.REFUSED | SaltFinding.IGNORED:
            verb = "refuses" if finding is SaltFinding.REFUSED else "ignores"
            text = f"the server {verb} cache_salt: what it has cached before is not kept apart"
            return IsolationPlan(Isolation.NONE, finding, warning=text)


class ResetResult(StrEnum):
    """What a reset is known to have done. An empty or odd answer proves nothing."""

    CONFIRMED = "confirmed"
    UNKNOWN = "unknown"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Resetter:
    """Empties the prefix cache of every server."""

    web: Web
    bases: tuple[str, ...]
    paths: Sequence[str] = _RESETS
    outer_tiers: bool = False
    wait_s: float = RESET_WAIT_S

    async def reset(self) -> ResetResult:
        """Reset all servers, retrying while requests drain; the worst of their answers."""
        results = [await self._reset_one(base) for base in self.bases]
        order = list(ResetResult)
        return max(results, key=order.index)

    async def require(self) -> None:
        """Reset now, or raise ``ServerError`` that says what is missing."""
        if await self.reset() is ResetResult.UNSUPPORTED:
            raise ServerError(
                "the server has no way to reset its prefix cache",
                advice="vLLM has one with VLLM_SERVER_DEV_MODE=1; or use --isolation salt",
            )

    async def _reset_one(self, base: str) -> ResetResult:
        result = ResetResult.UNSUPPORTED
        for path in self.paths or _RESETS:
            query = "?reset_external=true" if self.outer_tiers and path == _RESETS[0] else ""
            result = await self._try(f"{base}{path}{query}")
            if result is not ResetResult.UNSUPPORTED:
                break
        return result

    async def _try(self, url: str) -> ResetResult:
        result = ResetResult.FAILED
        for attempt in range(RESET_TRIES):
            if attempt:
                await asyncio.sleep(self.wait_s)
            reply = await self.web.post(url)
            if reply.status in _GONE:
                return ResetResult.UNSUPPORTED
            result = _reset_result(reply.status, reply.text)
            if result is not ResetResult.FAILED:
                break
        return result


class _ResetAnswer(msgspec.Struct):
    success: bool | None = None


def _reset_result(status: int, text: str) -> ResetResult:
    """Meaning of one answer: HTTP 200 alone proves nothing, ``{"success": false}`` is a failure."""
    if status != _OK:
        return ResetResult.FAILED
    if "cache flushed" in text.lower():
        return ResetResult.CONFIRMED
    try:
        success = msgspec.json.decode(text, type=_ResetAnswer).success
    except msgspec.MsgspecError:
        success = None
    return {True: ResetResult.CONFIRMED, False: ResetResult.FAILED, None: ResetResult.UNKNOWN}[success]
