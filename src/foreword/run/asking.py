"""Small questions to a server about tokens: of texts, of chats, and of what it finds again in its cache."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.run.web import Web

_OK = 200
_LONGEST, _ROOM_LEFT = 4_097, 16
_FIRST_ID, _IDS = 300, 700
_STEPS, _MOST_STEPS = (0.97, 0.83, 0.71, 0.59), 12


@dataclass(frozen=True, slots=True)
class Asker:
    """One model of one server; answers of another shape than expected are ``None``."""

    web: Web
    base: str
    model: str

    async def text_ids(self, text: str, *, special: bool) -> list[int] | None:
        """Ids of a text, with or without what the server adds to it."""
        return _ids((await self._post("/tokenize", {"prompt": text, "add_special_tokens": special})).get("tokens"))

    async def chat_ids(self, text: str) -> list[int] | None:
        """Ids of the one message of a user."""
        asked = {"messages": _messages(text), "add_generation_prompt": True}
        return _ids((await self._post("/tokenize", asked)).get("tokens"))

    async def answered_chat_ids(self, text: str) -> list[int] | None:
        """The same, as an answer returns them."""
        return _ids((await self._chat(text, return_token_ids=True)).get("prompt_token_ids"))

    async def chat_tokens(self, text: str) -> int | None:
        """Prompt tokens of a chat by ``usage``."""
        count = _part(await self._chat(text), "usage").get("prompt_tokens")
        return count if isinstance(count, int) else None

    async def text_of(self, ids: Sequence[int]) -> str:
        """Text of ids, empty where the server does not decode."""
        text = (await self._post("/detokenize", {"tokens": list(ids)})).get("prompt")
        return text if isinstance(text, str) else ""

    async def cached_tokens(self, ids: Sequence[int]) -> int | None:
        """Tokens of a prompt of ids that the server had cached."""
        answer = await self._post("/v1/completions", {"prompt": list(ids), "max_tokens": 1, "temperature": 0})
        cached = _part(_part(answer, "usage"), "prompt_tokens_details").get("cached_tokens")
        return cached if isinstance(cached, int) else None

    async def _chat(self, text: str, **more: object) -> dict[str, Any]:
        return await self._post("/v1/chat/completions", {"messages": _messages(text), "max_tokens": 1, **more})

    async def _post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        reply = await self.web.post(f"{self.base}{path}", msgspec.json.encode({"model": self.model, **asked}))
        document = reply.json() if reply.status == _OK else None
        return document if isinstance(document, dict) else {}


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _ids(value: object) -> list[int] | None:
    return value if isinstance(value, list) and all(type(id_) is int for id_ in value) else None


def _part(document: dict[str, Any], name: str) -> dict[str, Any]:
    part = document.get(name)
    return part if isinstance(part, dict) else {}


async def measured_block_size(asker: Asker, *, room: int | None) -> int | None:
    """Tokens in whose multiples the server hits; ``None`` where it reports no hits.

    Prompts share so many tokens with a cached one. A step ``g`` that divides all hits is the block size once a prompt
    that shares ``2 g - 1`` tokens hits ``g``.
    """
    length = min(_LONGEST, (room or _LONGEST) - _ROOM_LEFT)
    base = _random_ids(length)
    await asker.cached_tokens(base)
    step = 0
    for share in _STEPS:
        step = gcd(step, await _hit(asker, base, int(share * length)))
    for _ in range(_MOST_STEPS):
        if not step:
            return None
        hit = await _hit(asker, base, min(2 * step - 1, length - 1))
        if hit == step:
            return step
        step = gcd(step, hit)
    return step or None


async def _hit(asker: Asker, base: Sequence[int], shared: int) -> int:
    """Hit tokens of a new prompt that shares so many with the cached one, and is unlike it behind them."""
    other = _FIRST_ID + (base[shared] - _FIRST_ID + 1) % _IDS
    return await asker.cached_tokens([*base[:shared], other, *_random_ids(8)]) or 0


def _random_ids(count: int) -> list[int]:
    """Ids that every vocabulary has as plain text, by chance, so that nothing like them is cached."""
    return [_FIRST_ID + secrets.randbelow(_IDS) for _ in range(count)]
