"""OpenAI's request and answer bodies, as vLLM writes them; pure: bytes in, values out, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from foreword.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_MAX_TOKENS = 16
_SALT_CHARACTERS = 1024
_ERROR_KINDS = {400: "BadRequestError", 404: "NotFoundError", 405: "MethodNotAllowedError"}


class RefusedRequest(ServerError):
    """A request that gets an error answer; ``status`` is its HTTP status."""

    def __init__(self, message: str, *, status: int = 400, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.status = status


class StreamOptions(msgspec.Struct, frozen=True):
    """``stream_options`` of a streamed request."""

    include_usage: bool = False


class _Common(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of both endpoints; fields that change nothing here (temperature and the like) are not read."""

    model: str | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    cache_salt: str | None = None
    return_token_ids: bool | None = None


class CompletionBody(_Common, frozen=True, kw_only=True):
    """Body of ``/v1/completions``."""

    prompt: str | list[int | str | list[int]]
    add_special_tokens: bool = True
    echo: bool | None = None


class TextPart(msgspec.Struct, frozen=True):
    """A part of a chat message; only text is served."""

    type: str
    text: str | None = None


class Message(msgspec.Struct, frozen=True):
    """One chat message."""

    role: str
    content: str | list[TextPart] | None = None


class ChatBody(_Common, frozen=True, kw_only=True):
    """Body of ``/v1/chat/completions``."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    add_special_tokens: bool = False
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizeBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``/tokenize``: a prompt, or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, Any] | None = None


Body = TypeVar("Body", CompletionBody, ChatBody, TokenizeBody)


def parse(body: bytes, kind: type[Body]) -> Body:
    """Read a body; raises ``RefusedRequest`` for bad JSON and wrong types."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        raise RefusedRequest(f"invalid request: {problem}") from None
    except msgspec.DecodeError as problem:
        raise RefusedRequest(f"the body is not JSON: {problem}") from None


def check_common(body: CompletionBody | ChatBody, *, served_model: str) -> None:
    """Refuse what the server cannot do or does not know."""
    check_model(body.model, served_model=served_model)
    if body.n not in {None, 1}:
        raise RefusedRequest("only n = 1 is served", field="n")
    if isinstance(body, CompletionBody) and body.echo:
        raise RefusedRequest("echo is not served", field="echo")
    if body.cache_salt is not None and not 1 <= len(body.cache_salt) <= _SALT_CHARACTERS:
        raise RefusedRequest(f"cache_salt must have 1 to {_SALT_CHARACTERS} characters", field="cache_salt")
    if body.stream_options is not None and not body.stream:
        raise RefusedRequest("stream_options needs stream: true", field="stream_options")
    limit = max_tokens_of(body)
    if limit < 1:
        raise RefusedRequest(f"max_tokens must be at least 1, got {limit}", field="max_tokens")
    if not 0 <= (body.min_tokens or 0) <= limit:
        raise RefusedRequest(f"min_tokens must be 0 to max_tokens = {limit}", field="min_tokens")


def check_model(model: str | None, *, served_model: str) -> None:
    """Refuse a model that is not served; a body without one is fine, as with vLLM."""
    if model is not None and model != served_model:
        raise RefusedRequest(f"The model `{model}` does not exist.", status=404, field="model")


def max_tokens_of(body: CompletionBody | ChatBody) -> int:
    """Tokens to generate: what was asked, or 16."""
    asked = body.max_tokens
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        asked = body.max_completion_tokens
    return DEFAULT_MAX_TOKENS if asked is None else asked


class Prompts(NamedTuple):
    """The prompts of a completion request; one of the two lists is empty."""

    texts: list[str]
    ids: list[list[int]]


def prompts_of(body: CompletionBody) -> Prompts:
    """Sort out the four forms of ``prompt``: a text, texts, ids, lists of ids."""
    prompt = body.prompt
    if isinstance(prompt, str):
        return Prompts([prompt], [])
    kinds = set(map(type, prompt))
    if kinds == {int}:
        return Prompts([], [cast("list[int]", prompt)])
    if kinds == {str}:
        return Prompts(cast("list[str]", prompt), [])
    if kinds == {list}:
        return Prompts([], cast("list[list[int]]", prompt))
    raise RefusedRequest("prompt mixes text and token ids" if kinds else "prompt is empty", field="prompt")


def check_ids(ids: Sequence[int], *, vocabulary_size: int) -> None:
    """Refuse an empty prompt and ids that no token has."""
    if not ids:
        raise RefusedRequest("the prompt has no tokens", field="prompt")
    for token_id in (min(ids), max(ids)):
        if not 0 <= token_id < vocabulary_size:
            raise RefusedRequest(
                f"Token id {token_id} is out of vocabulary (0 to {vocabulary_size - 1})", field="prompt"
            )


def plain_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages as a chat template takes them: role and text."""
    if not messages:
        raise RefusedRequest("messages is empty", field="messages")
    return [{"role": message.role, "content": _content_text(message)} for message in messages]


def _content_text(message: Message) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    if any(part.type != "text" or part.text is None for part in content):
        raise RefusedRequest("only text parts are served", field="messages")
    return "".join(part.text or "" for part in content)


def usage_of(prompt_tokens: int, completion_tokens: int, *, cached_tokens: int) -> dict[str, Any]:
    """The ``usage`` object; cached tokens are always there, 0 too."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens},
    }


def error_body(message: str, *, status: int, field: str | None = None) -> bytes:
    """OpenAI's error object."""
    kind = _ERROR_KINDS[status]
    return _dumps({"error": {"message": message, "type": kind, "param": field, "code": status}})


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
