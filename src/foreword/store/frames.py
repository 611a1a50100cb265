"""What an engine puts around the prompts of a config: from the tokenizer, a chat template, or as it was probed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from foreword.config.dataset import FrameConfig
from foreword.errors import ConfigError, TokenizerError
from foreword.store.templates import A_DAY, ANOTHER_DAY, ChatTemplate, load_template
from foreword.terms import PromptFormat
from foreword.workload.frames import first_difference, frame_of_text, split_template
from foreword.workload.tokens import Frame

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from foreword.config.dataset import DatasetConfig
    from foreword.store.tokenizers import LoadedTokenizer

PROBED = "probed"


class Framing(NamedTuple):
    """A frame and where it comes from: name and digest of a chat template; both empty for ids and plain text."""

    frame: Frame
    source: str = ""
    sha256: str | None = None

    @property
    def document(self) -> dict[str, Any] | None:
        """The template for manifests, with what it takes to do without it; ``None`` where there is none."""
        if not self.source:
            return None
        frame = self.frame
        found: dict[str, Any] = {"head_ids": list(frame.head_ids), "tail_ids": list(frame.tail_ids)}
        if frame.in_text:
            found |= {"head_text": frame.head_text, "tail_text": frame.tail_text}
        return {"source": self.source, "sha256": self.sha256, **found}


def frame_for(tokenizer: LoadedTokenizer, config: DatasetConfig) -> Frame:
    """What a server adds to a prompt of this config."""
    return framing_for(tokenizer, config).frame


def framing_for(tokenizer: LoadedTokenizer, config: DatasetConfig) -> Framing:
    """The same, and where it comes from.

    Raises ``TokenizerError`` for a chat template that is missing, or whose tokens depend on the content, and
    ``ConfigError`` for one that writes the date.
    """
    if config.prompt_format is PromptFormat.COMPLETIONS_IDS:
        return Framing(Frame())
    if config.frame is not None:
        return Framing(stated_frame(tokenizer, config.frame), PROBED)
    if config.prompt_format is PromptFormat.COMPLETIONS_TEXT:
        return Framing(tokenizer.frame())
    template = load_template(config.chat_template, tokenizer=config.tokenizer)
    frame = chat_frame(tokenizer, template, arguments=config.chat_template_kwargs)
    return Framing(frame, template.name, template.sha256)


def chat_frame(tokenizer: LoadedTokenizer, template: ChatTemplate, *, arguments: Mapping[str, Any]) -> Frame:
    """What a template puts around the one message of a user; ConfigError where it writes the date (case 33)."""
    before, after = _sides(template, arguments, A_DAY)
    later = _sides(template, arguments, ANOTHER_DAY)
    if later != (before, after):
        raise _dated(tokenizer, before + after, "".join(later))
    return frame_of_text(tokenizer, before, after=after)


def _sides(template: ChatTemplate, arguments: Mapping[str, Any], now: datetime) -> tuple[str, str]:
    def render(content: str) -> str:
        return template.render([{"role": "user", "content": content}], now=now, arguments=arguments)

    return split_template(render)


def _dated(tokenizer: LoadedTokenizer, one: str, other: str) -> ConfigError:
    at = first_difference(tokenizer.encode(one), tokenizer.encode(other))
    return ConfigError(
        f"TEMPLATE_HAS_DATE: the chat template writes the date or time at its token {at}: no prompt hits what was "
        "cached the day before",
        advice="fix it with chat_template_kwargs (Llama 3: date_string), or use completions_text or completions_ids",
        field="chat_template",
    )


def stated_frame(tokenizer: LoadedTokenizer, stated: FrameConfig) -> Frame:
    """The frame that a config or manifest states, with its text where the ids are those of a text.

    Raises ``ConfigError`` where the tokenizer lacks its ids or encodes its text otherwise.
    """
    ids = (stated.head_ids, stated.tail_ids)
    beyond = next((token for side in ids for token in side if token >= tokenizer.vocab_size), None)
    if beyond is not None:
        raise _not_of(f"id {beyond} is none of the tokenizer's {tokenizer.vocab_size}")
    decoded = (str(tokenizer.engine.decode(list(side), skip_special_tokens=False)) for side in ids)
    known = stated.head_text is not None or stated.tail_text is not None
    before, after = (stated.head_text or "", stated.tail_text or "") if known else decoded
    try:
        frame = frame_of_text(tokenizer, before, after=after)
    except TokenizerError:
        frame = Frame()
    if (frame.head_ids, frame.tail_ids) == ids:
        return frame
    if known and (before or after):
        raise _not_of("its text has other ids with this tokenizer")
    return Frame(*ids)


def _not_of(what: str) -> ConfigError:
    return ConfigError(f"frame: {what}", field="frame", advice="probe the server again, or give its tokenizer")


def with_stated_frame(config: DatasetConfig, template: Mapping[str, Any] | None) -> DatasetConfig:
    """A config whose frame is the one that a manifest states, so that it needs no template."""
    if not template:
        return config
    return config.model_copy(update={"frame": frame_config(template)})


def frame_config(template: Mapping[str, Any]) -> FrameConfig:
    """What a manifest says of its template; ConfigError where that is damaged."""
    names = FrameConfig.model_fields
    return FrameConfig.parse({name: template[name] for name in names if name in template}, root="template")
