"""Chat templates: the tokenizer's own, or one of a file, rendered as Hugging Face's libraries do it, offline.

Templates are code of strangers: they run in Jinja's sandbox, see no files and change nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from foreword.config.dataset import OWN_TEMPLATE
from foreword.errors import TokenizerError
from foreword.store.tokenizers import BUILTIN, HUB, downloaded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Template
    from jinja2.parser import Parser

BUILTIN_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
"""Template of the built-in tokenizer: for each message ``<|role|>``, its content and the end of a line."""

A_DAY, ANOTHER_DAY = datetime(2024, 7, 26, 9, 30, tzinfo=UTC), datetime(2025, 11, 8, 21, 45, tzinfo=UTC)
"""Two times that differ in every part; a template that reads the clock writes them differently."""

_CONFIG, _JINJA, _JSON = "tokenizer_config.json", "chat_template.jinja", "chat_template.json"
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


class _Generation(Extension):
    """Reads ``{% generation %}`` blocks, which mark what an assistant said, as what is in them."""

    tags = {"generation"}  # noqa: RUF012 - the name that Jinja reads

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands in the block."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@dataclass(frozen=True, slots=True, eq=False)
class ChatTemplate:
    """A template and the special tokens that it may name; ``name`` is for manifests, never a path."""

    name: str
    sha256: str
    _template: Template = field(repr=False)
    _tokens: Mapping[str, str] = field(repr=False)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        now: datetime,
        add_generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The text of a chat; TokenizerError where the template refuses it. ``now`` is what its clock shows."""
        values: dict[str, Any] = {"messages": messages, "tools": None, "documents": None, "strftime_now": now.strftime}
        values |= {"add_generation_prompt": add_generation_prompt, **self._tokens, **(arguments or {})}
        try:
            return self._template.render(values)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as failure:
            raise _bad(self.name, f"cannot be rendered: {_line(failure)}") from None


def load_template(chosen: str, *, tokenizer: str) -> ChatTemplate:
    """The template that ``chat_template`` names; its special tokens are those of the tokenizer.

    Raises ``TokenizerError`` where there is none or it is no Jinja template.
    """
    if chosen != OWN_TEMPLATE:
        path = Path(chosen).expanduser()
        return _compiled(path.name, _template_in(path.name, _text(path)), _special_tokens(tokenizer))
    if tokenizer == BUILTIN:
        return builtin_template()
    found = own_template(tokenizer)
    if found is None:
        raise TokenizerError(
            "the tokenizer comes with no chat template",
            advice=f"put its {_CONFIG} or {_JINJA} beside it, or name a file with chat_template",
            field="chat_template",
        )
    return found


def served_template(chosen: str, *, tokenizer: str) -> ChatTemplate:
    """The same, with the built-in template for tokenizers that come with none."""
    return (
        (own_template(tokenizer) or builtin_template())
        if chosen == OWN_TEMPLATE
        else load_template(chosen, tokenizer=tokenizer)
    )


def builtin_template() -> ChatTemplate:
    """The template of the built-in tokenizer."""
    return _compiled(BUILTIN, BUILTIN_TEMPLATE, {})


def own_template(tokenizer: str) -> ChatTemplate | None:
    """The template that comes with a tokenizer, if one does; a file of its own goes before the tokenizer's config."""
    for name in (_JINJA, _JSON, _CONFIG):
        path = _beside(tokenizer, name)
        text = None if path is None else _template_in(name, _text(path), optional=True)
        if text is not None:
            return _compiled(name, text, _special_tokens(tokenizer))
    return None


def _beside(tokenizer: str, name: str) -> Path | None:
    """A file that comes with a tokenizer."""
    if tokenizer == BUILTIN:
        return None
    if tokenizer.startswith(HUB):
        return downloaded(tokenizer, name, optional=True)
    path = Path(tokenizer).expanduser()
    folders = [path] if path.is_dir() else [path.parent, path.resolve().parent]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "it is not UTF-8 text"
        raise TokenizerError(
            f"cannot read chat template {path}: {reason}",
            advice=f"give {OWN_TEMPLATE}, a .jinja file, or a JSON file with the key chat_template",
            field="chat_template",
        ) from None


def _template_in(name: str, text: str, *, optional: bool = False) -> str | None:
    """The template in a file: the file itself, or an entry of a JSON file (the one named ``default`` of several)."""
    if not name.endswith(".json"):
        return text
    held = _json(name, text).get("chat_template")
    if isinstance(held, list):
        named = {entry.get("name"): entry.get("template") for entry in held if isinstance(entry, dict)}
        held = named.get("default")
    if isinstance(held, str):
        return held
    if optional:
        return None
    raise _bad(name, "holds no chat_template")


def _json(name: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as failure:
        raise _bad(name, f"is not a JSON object: {_line(failure)}") from None


def _special_tokens(tokenizer: str) -> dict[str, str]:
    """Texts of the special tokens that a tokenizer's config names."""
    path = _beside(tokenizer, _CONFIG)
    config = {} if path is None else _json(_CONFIG, _text(path))
    entries = {name: config.get(name) for name in _TOKEN_NAMES}
    texts = {name: entry.get("content") if isinstance(entry, dict) else entry for name, entry in entries.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _compiled(name: str, source: str | None, tokens: Mapping[str, str]) -> ChatTemplate:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    text = source or ""
    try:
        template = environment.from_string(text)
    except TemplateError as failure:
        raise _bad(name, f"is not a Jinja template: {_line(failure)}") from None
    return ChatTemplate(name, hashlib.sha256(text.encode()).hexdigest(), template, tokens)


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _line(failure: Exception) -> str:
    return (str(failure) or type(failure).__name__).splitlines()[0]


def _bad(name: str, what: str) -> TokenizerError:
    return TokenizerError(f"chat template {name} {what}", advice="check chat_template", field="chat_template")
