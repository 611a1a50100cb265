"""What a server puts around prompts and how large its blocks are, found out by asking it.

Head and tail come from ``/tokenize``, else from the ids that answers return, else the counts in ``usage`` are held
against those of a tokenizer's own template. The block size is measured: prompts that share more and more tokens with a
cached one hit whole blocks only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import yaml

from foreword.config.dataset import OWN_TEMPLATE, ROOT
from foreword.errors import ForewordError
from foreword.run.asking import Asker, measured_block_size
from foreword.run.preflight import ServerFacts, examine
from foreword.run.targets import parse_target
from foreword.run.web import Web
from foreword.store.frames import chat_frame
from foreword.store.templates import load_template
from foreword.store.tokenizers import load_tokenizer
from foreword.terms import Engine, PromptFormat
from foreword.workload.frames import PROBES, common_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.workload.tokens import Frame

Sides = tuple[tuple[int, ...], tuple[int, ...]]

_DATES = ("%d %b %Y", "%d %B %Y", "%B %d, %Y", "%b %d, %Y", "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y")
_USAGE = "usage, held against the tokenizer's template"


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """What to ask; ``tokenizer`` names the server's, where it is at hand."""

    url: str
    metrics_urls: tuple[str, ...] = ()
    model: str | None = None
    tokenizer: str | None = None
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Probed:
    """What was found; ``chat`` and ``text`` are head and tail of either kind of prompt, ``None`` where unknown."""

    facts: ServerFacts
    tokenizer: str | None
    chat: Sides | None
    text: Sides | None
    how: str
    block_size: int | None
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": self.facts.model,
            "engine": self.facts.detection.profile.engine.value,
            "version": self.facts.version,
            "max_model_len": self.facts.max_model_len,
            "block_size": {"measured": self.block_size, "told": self.facts.block_size},
            "chat": _sides(self.chat),
            "text": _sides(self.text),
            "how": self.how or None,
            "warnings": list(self.warnings),
        }

    def fragment(self) -> str:
        """The part of a config that fits the server, as YAML."""
        keys: dict[str, Any] = {
            "engine": self.facts.detection.profile.engine.value,
            "model": self.facts.model,
            "tokenizer": self.tokenizer,
            "block_size": self.block_size or self.facts.block_size,
            "max_model_len": self.facts.max_model_len,
        }
        if self.chat is not None:
            keys |= {"prompt_format": PromptFormat.CHAT.value, "frame": _sides(self.chat)}
        told = {key: value for key, value in keys.items() if value is not None}
        return str(yaml.safe_dump({ROOT: told}, sort_keys=False, default_flow_style=None, width=120))


def _sides(sides: Sides | None) -> dict[str, list[int]] | None:
    return None if sides is None else {"head_ids": list(sides[0]), "tail_ids": list(sides[1])}


def probe(spec: ProbeSpec) -> Probed:
    """Ask one server; raises ``ServerError`` where it does not answer, ``UsageError`` for a wrong address."""
    return asyncio.run(probe_server(spec))


async def probe_server(spec: ProbeSpec) -> Probed:
    """The same, in a running event loop."""
    target = parse_target(spec.url, PromptFormat.CHAT if spec.url.endswith("/chat/completions") else _TEXT)
    headers = {"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else {}
    async with Web(headers) as web:
        facts = await examine(web, [target], model=spec.model, metrics_urls=spec.metrics_urls, planned=Engine.GENERIC)
        asker = Asker(web, target.base, facts.model)
        chat, text, how = await _frames(asker)
        warnings = [] if chat is None else await _dated(asker, chat)
        if spec.tokenizer is not None:
            chat, how, told = await _held_against(asker, spec.tokenizer, chat=chat, how=how)
            warnings += told
        elif chat is None:
            warnings.append("the server shows no ids of a chat; give its tokenizer with --tokenizer to use its counts")
        size = await measured_block_size(asker, room=facts.max_model_len)
    return Probed(facts, spec.tokenizer, chat, text, how, size, (*warnings, *_size_warnings(size, facts)))


_TEXT = PromptFormat.COMPLETIONS_TEXT


async def _frames(asker: Asker) -> tuple[Sides | None, Sides | None, str]:
    """Head and tail of chats and of texts, and where they were read."""
    own = [await asker.text_ids(probe, special=False) for probe in PROBES]
    texts = [await asker.text_ids(probe, special=True) for probe in PROBES]
    chats, how = [await asker.chat_ids(probe) for probe in PROBES], "/tokenize"
    if None in chats:
        chats, how = [await asker.answered_chat_ids(probe) for probe in PROBES], "ids in answers"
    chat, text = _common(chats, own), _common(texts, own)
    return chat, text, how if chat else ""


def _common(whole: Sequence[list[int] | None], own: Sequence[list[int] | None]) -> Sides | None:
    """Head and tail that all prompts have, where the ids of every one are known."""
    known = [(ids, content) for ids, content in zip(whole, own, strict=True) if ids is not None and content is not None]
    return common_frame(known) if len(known) == len(PROBES) else None


async def _dated(asker: Asker, chat: Sides) -> list[str]:
    """A warning where the head has today's date in it (case 33)."""
    text = await asker.text_of(chat[0])
    now = datetime.now().astimezone()
    found = next((date for form in _DATES if (date := now.strftime(form)) in text), None)
    if found is None:
        return []
    before = await asker.text_ids(text.partition(found)[0], special=False)
    where = "" if before is None else f" at about its token {len(before)}"
    return [f"TEMPLATE_HAS_DATE: the head holds {found}{where}: it is another one tomorrow; fix the date, or send ids"]


async def _held_against(
    asker: Asker, tokenizer: str, *, chat: Sides | None, how: str
) -> tuple[Sides | None, str, list[str]]:
    """Compare with the template of the tokenizer at hand; its frame is the server's where all counts agree."""
    try:
        loaded = load_tokenizer(tokenizer)
        own = chat_frame(loaded, load_template(OWN_TEMPLATE, tokenizer=tokenizer), arguments={})
    except ForewordError as failure:
        return chat, how, [f"the tokenizer's own template cannot be compared: {failure.message}"]
    mine = (own.head_ids, own.tail_ids)
    if chat is not None:
        told = "the server's head or tail is another one than that of the tokenizer's template"
        return chat, how, [] if chat == mine else [told]
    counts = [await asker.chat_tokens(probe) for probe in PROBES]
    wanted = [_length(own, loaded.encode(probe)) for probe in PROBES]
    if None in counts:
        return None, "", ["the server reports no prompt_tokens for a chat"]
    if counts != wanted:
        return (
            None,
            "",
            [f"the server counts {counts} tokens for chats that have {wanted} with the tokenizer's template"],
        )
    return mine, _USAGE, []


def _length(frame: Frame, content: list[int]) -> int:
    return len(frame.ids_around(content))


def _size_warnings(measured: int | None, facts: ServerFacts) -> list[str]:
    if measured is None:
        return ["no block size was measured: answers report no cached tokens, or the cache is off"]
    if facts.block_size not in {None, measured}:
        return [f"hits come in steps of {measured} tokens, but the metrics page says blocks of {facts.block_size}"]
    return []
