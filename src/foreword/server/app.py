"""The routes of the built-in server: OpenAI's endpoints, vLLM's extras, and streams."""

from __future__ import annotations

import asyncio
import json
import os
import time
from array import array
from datetime import datetime
from typing import TYPE_CHECKING

from aiohttp import web

from foreword._version import __version__
from foreword.errors import TokenizerError
from foreword.server import openai
from foreword.server.answers import Answer, Served
from foreword.server.engine import Engine, Service, job_of
from foreword.server.metrics import Page
from foreword.server.openai import ChatBody, CompletionBody, RefusedRequest, TokenizeBody
from foreword.server.text import TextEncoder
from foreword.server.ticker import Ticker
from foreword.server.words import choose_words
from foreword.store.templates import served_template

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tokenizers import Tokenizer

    from foreword.config.server import ServerConfig

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MIRRORED_VLLM = "0.32.0"
MOST_MODEL_TOKENS = 131_072
_MOST_BODY_BYTES = 1 << 28
_EVENT_END = b"\n\n"
_EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
_JSON = "application/json"
_RANK_HEADER = "X-data-parallel-rank"


def service_of(config: ServerConfig) -> Service:
    """The engine's settings; the longest request is what the cache holds, at most 131,072 tokens."""
    held = MOST_MODEL_TOKENS if config.capacity_blocks is None else config.capacity_blocks * config.block_size
    return Service(
        block_size=config.block_size,
        capacity_blocks=config.capacity_blocks,
        prefill_tokens_per_s=config.prefill_tokens_per_s,
        decode_tokens_per_s=config.decode_tokens_per_s,
        slots=config.slots,
        jitter=config.jitter,
        seed=config.seed,
        max_model_len=min(MOST_MODEL_TOKENS, held),
    )


class Api:
    """The endpoints of one served model."""

    def __init__(self, config: ServerConfig, tokenizer: Tokenizer) -> None:
        self._config = config
        self._template = served_template(config.chat_template, tokenizer=config.tokenizer)
        self._engine = Engine(service_of(config))
        self._ticker = Ticker(self._engine)
        self._encoder = TextEncoder(tokenizer)
        self._words = choose_words(tokenizer)
        self._max_model_len = self._engine.service.max_model_len
        self._created_s = int(time.time())
        self._id_prefix = os.urandom(6).hex()
        self._answers = 0
        self._page = Page(
            self._engine.counters,
            model=config.model,
            created_s=time.time(),
            config_labels=_config_labels(config),
        )

    def application(self) -> web.Application:
        """The web application; everything it does not know gets an OpenAI error."""
        app = web.Application(client_max_size=_MOST_BODY_BYTES)
        post: dict[str, Handler] = {
            "/v1/completions": self.completions,
            "/v1/chat/completions": self.chat,
            "/tokenize": self.tokenize,
            "/reset_prefix_cache": self.reset_prefix_cache,
        }
        get: dict[str, Handler] = {
            "/v1/models": self.models,
            "/health": self.health,
            "/version": self.version,
            "/metrics": self.metrics,
        }
        app.add_routes([web.post(path, _answering(handler)) for path, handler in post.items()])
        app.add_routes([web.get(path, _answering(handler)) for path, handler in get.items()])
        known = frozenset(post) | frozenset(get)

        async def unknown(request: web.Request) -> web.Response:
            status, message = (405, "Method Not Allowed") if request.path in known else (404, "Not Found")
            return _error(RefusedRequest(message, status=status))

        app.router.add_route("*", "/{path:.*}", unknown)
        app.on_cleanup.append(self._close)
        return app

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """``POST /v1/completions``: a text, ids, or a list of either."""
        arrival_ns = self._ticker.clock()
        body = openai.parse(await request.read(), CompletionBody)
        openai.check_common(body, served_model=self._config.model)
        _check_rank(request)
        texts, ids = openai.prompts_of(body)
        if texts:
            ids = await self._encoder.encode(texts, add_special_tokens=body.add_special_tokens)
        return await self._answer(request, body, [self._serve(one, body, arrival_ns) for one in ids])

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """``POST /v1/chat/completions``, through the chat template."""
        arrival_ns = self._ticker.clock()
        body = openai.parse(await request.read(), ChatBody)
        openai.check_common(body, served_model=self._config.model)
        _check_rank(request)
        text = self._rendered(body.messages, body)
        (ids,) = await self._encoder.encode([text], add_special_tokens=body.add_special_tokens)
        return await self._answer(request, body, [self._serve(ids, body, arrival_ns)])

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        """``POST /tokenize``: the ids that a completion or a chat of the same input would have."""
        body = openai.parse(await request.read(), TokenizeBody)
        openai.check_model(body.model, served_model=self._config.model)
        match body.prompt, body.messages:
            case str(text), None:
                add_special_tokens = body.add_special_tokens is not False
            case None, list(messages):
                text = self._rendered(messages, body)
                add_special_tokens = body.add_special_tokens is True
            case _:
                raise RefusedRequest("give either prompt or messages", field="prompt")
        (ids,) = await self._encoder.encode([text], add_special_tokens=add_special_tokens)
        return _json({"count": len(ids), "max_model_len": self._max_model_len, "tokens": ids, "token_strs": None})

    def _rendered(self, messages: list[openai.Message], body: ChatBody | TokenizeBody) -> str:
        """The text of a chat; what the template refuses is a bad request."""
        try:
            return self._template.render(
                openai.plain_messages(messages),
                now=datetime.now().astimezone(),
                add_generation_prompt=body.add_generation_prompt,
                arguments=body.chat_template_kwargs,
            )
        except TokenizerError as failure:
            raise RefusedRequest(failure.message, field="messages") from None

    async def models(self, _request: web.Request) -> web.StreamResponse:
        """``GET /v1/models``: the one model."""
        card = {
            "id": self._config.model,
            "object": "model",
            "created": self._created_s,
            "owned_by": "foreword",
            "root": self._config.model,
            "parent": None,
            "max_model_len": self._max_model_len,
        }
        return _json({"object": "list", "data": [card]})

    async def health(self, _request: web.Request) -> web.StreamResponse:
        """``GET /health``: 200, empty."""
        return web.Response()

    async def version(self, _request: web.Request) -> web.StreamResponse:
        """``GET /version``: the vLLM release whose API and metrics this is, and our own."""
        return _json({"version": MIRRORED_VLLM, "server": f"foreword {__version__}"})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """``GET /metrics``, in the text format or OpenMetrics."""
        page, content_type = self._page.render(self._engine.gauges(), accept=request.headers.get("Accept", ""))
        return web.Response(body=page, headers={"Content-Type": content_type})

    async def reset_prefix_cache(self, _request: web.Request) -> web.StreamResponse:
        """``POST /reset_prefix_cache``: always 200; ``success`` is false while requests run."""
        return _json({"success": self._engine.reset_prefix_cache()})

    async def _close(self, _app: web.Application) -> None:
        self._ticker.close()
        self._encoder.close()

    def _serve(self, ids: list[int], body: CompletionBody | ChatBody, arrival_ns: int) -> Served:
        """A checked prompt as a job; raises ``RefusedRequest`` when it is too long or has unknown ids."""
        openai.check_ids(ids, vocabulary_size=self._encoder.vocabulary_size)
        limit = openai.max_tokens_of(body)
        if len(ids) + limit > self._max_model_len:
            raise RefusedRequest(
                f"This model's maximum context length is {self._max_model_len} tokens, but {len(ids)} prompt tokens "
                f"and {limit} tokens of output were asked for",
                field="prompt",
            )
        start = self._words.start(array("i", ids).tobytes())
        job = job_of(
            ids,
            self._words.answer_ids(start, limit),
            block_size=self._config.block_size,
            salt=body.cache_salt or "",
            arrival_ns=arrival_ns,
        )
        return Served(job=job, start=start, prompt_ids=ids)

    async def _answer(
        self, request: web.Request, body: CompletionBody | ChatBody, served: list[Served]
    ) -> web.StreamResponse:
        self._answers += 1
        answer = Answer(
            "chat" if isinstance(body, ChatBody) else "completion",
            answer_id=f"{self._id_prefix}{self._answers:010x}",
            created_s=int(time.time()),
            model=self._config.model,
            words=self._words,
            with_ids=bool(body.return_token_ids),
        )
        jobs = [one.job for one in served]
        waiter = asyncio.Event()
        self._ticker.submit(jobs, waiter)
        try:
            if body.stream:
                include_usage = body.stream_options is not None and body.stream_options.include_usage
                return await _stream(request, answer, served, waiter=waiter, include_usage=include_usage)
            while any(job.finish_reason is None for job in jobs):
                await waiter.wait()
                waiter.clear()
            return web.Response(body=answer.body(served), content_type=_JSON)
        finally:
            self._ticker.abort(jobs)


async def _stream(
    request: web.Request, answer: Answer, served: Sequence[Served], *, waiter: asyncio.Event, include_usage: bool
) -> web.StreamResponse:
    """Send events as the ticker wakes us; a client that leaves ends the stream quietly."""
    response = web.StreamResponse(headers=_EVENT_STREAM)
    sent = [0] * len(served)
    try:
        await response.prepare(request)
        if opening := answer.opening(served):
            await response.write(opening)
        while True:
            await waiter.wait()
            waiter.clear()
            done = all(one.job.finish_reason is not None for one in served)
            events = _new_events(answer, served, sent)
            if done:
                events += _apart(answer.closing(served, include_usage=include_usage))
            for event in events:
                await response.write(event)
            if done:
                await response.write_eof()
                return response
    except ConnectionResetError:
        return response


def _new_events(answer: Answer, served: Sequence[Served], sent: list[int]) -> list[bytes]:
    """Events of all tokens since the last call, each to be a chunk of its own; ``sent`` is moved on."""
    events = []
    for index, one in enumerate(served):
        if one.job.produced > sent[index]:
            events += _apart(answer.events(index, one, sent=sent[index]))
            sent[index] = one.job.produced
    return events


def _apart(events: bytes) -> list[bytes]:
    """Events one by one."""
    return [event + _EVENT_END for event in events.split(_EVENT_END) if event]


def _answering(handler: Handler) -> Handler:
    """Turn a refusal into its OpenAI error answer."""

    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except RefusedRequest as refusal:
            return _error(refusal)

    return answered


def _error(refusal: RefusedRequest) -> web.Response:
    body = openai.error_body(refusal.message, status=refusal.status, field=refusal.field)
    return web.Response(body=body, status=refusal.status, content_type=_JSON)


def _json(value: object) -> web.Response:
    return web.Response(body=json.dumps(value).encode(), content_type=_JSON)


def _check_rank(request: web.Request) -> None:
    """The one data-parallel rank is 0."""
    rank = request.headers.get(_RANK_HEADER)
    if rank is None:
        return
    if not rank.isascii() or not rank.isdigit():
        raise RefusedRequest(f"{_RANK_HEADER} must be an integer, got {rank!r}", field=_RANK_HEADER)
    if int(rank) != 0:
        raise RefusedRequest(f"{_RANK_HEADER} {rank} is out of range: there is one rank, 0", field=_RANK_HEADER)


def _config_labels(config: ServerConfig) -> dict[str, str]:
    """Labels of ``vllm:cache_config_info``; one block is vLLM's null block, so usable = num_gpu_blocks - 1."""
    size = str(config.block_size)
    blocks = None if config.capacity_blocks is None else config.capacity_blocks + 1
    return {
        "_block_size_resolved": "True",
        "block_size": size,
        "cache_dtype": "auto",
        "cache_hit_alignment_tokens": size,
        "effective_attention_block_size": size,
        "enable_prefix_caching": "True",
        "hash_block_size": size,
        "kv_cache_size_tokens": str(None if blocks is None else blocks * config.block_size),
        "num_gpu_blocks": str(blocks),
        "num_gpu_blocks_override": "None",
        "prefix_caching_hash_algo": "xxhash",
        "sliding_window": "None",
    }
