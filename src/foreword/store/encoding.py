"""Prompts of a data set as the engine sees them: token ids with what the template and BOS add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.config.dataset import OWN_TEMPLATE
from foreword.errors import DataError, TokenizerError
from foreword.simulate.validate import Problem
from foreword.store.frames import chat_frame, frame_config, stated_frame
from foreword.store.rows import MANIFEST
from foreword.store.templates import own_template
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer
from foreword.terms import IntArray, PromptFormat
from foreword.workload.tokens import Frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.store.rows import DataRow

_ANY_ID = 2**31


@dataclass(frozen=True, slots=True)
class Encoder:
    """Turns rows into token ids; without a tokenizer for prompts that are ids."""

    tokenizer: LoadedTokenizer | None
    frame: Frame
    vocab_size: int

    @classmethod
    def of(cls, manifest: dict[str, Any], given: str | None) -> Encoder:
        """The encoder that a manifest asks for; ``given`` names the tokenizer where the manifest cannot."""
        kind = PromptFormat(manifest.get("prompt_format", PromptFormat.COMPLETIONS_TEXT))
        if kind is PromptFormat.COMPLETIONS_IDS:
            return cls(None, Frame(), int(_part(manifest, "tokenizer").get("vocab_size") or 0))
        try:
            tokenizer = load_tokenizer(given or str(_part(manifest, "config").get("tokenizer", "builtin")))
        except TokenizerError as failure:
            raise TokenizerError(failure.message, advice="name the tokenizer's file with --tokenizer") from None
        template = _part(manifest, "template")
        if not template and kind is PromptFormat.CHAT:
            raise DataError(f"{MANIFEST}: template is missing", field="template", advice="generate the data set again")
        frame = stated_frame(tokenizer, frame_config(template)) if template else tokenizer.frame()
        return cls(tokenizer, frame, tokenizer.vocab_size)

    def problems(self, manifest: dict[str, Any], given: str | None) -> Iterator[Problem]:
        """What the manifest says of the tokenizer, its template and their frame, where that is not so."""
        if self.tokenizer is None:
            return
        if self.tokenizer.sha256 != _part(manifest, "tokenizer").get("sha256"):
            yield Problem(MANIFEST, "tokenizer.sha256", f"is not that of {self.tokenizer.name}")
        lengths = {"head_len": self.frame.head_len, "tail_len": self.frame.tail_len}
        if manifest.get("frame") != lengths:
            yield Problem(MANIFEST, "frame", f"says {manifest.get('frame')}, {self.tokenizer.name} has {lengths}")
        yield from self._template_problems(self.tokenizer, manifest, given)

    def _template_problems(
        self, tokenizer: LoadedTokenizer, manifest: dict[str, Any], given: str | None
    ) -> Iterator[Problem]:
        """The tokenizer's own template, where that is the one that prompts are sent through, gives the same frame."""
        config, stated = _part(manifest, "config"), _part(manifest, "template")
        if manifest.get("prompt_format") != PromptFormat.CHAT or config.get("chat_template") != OWN_TEMPLATE:
            return
        own = None if config.get("frame") else own_template(given or str(config.get("tokenizer", "builtin")))
        if own is None:
            return
        if own.sha256 != stated.get("sha256"):
            yield Problem(MANIFEST, "template.sha256", f"is not that of {own.name}")
        found = chat_frame(tokenizer, own, arguments=config.get("chat_template_kwargs") or {})
        if (found.head_ids, found.tail_ids) != (self.frame.head_ids, self.frame.tail_ids):
            yield Problem(MANIFEST, "template", f"is not what {own.name} puts around a message")

    def encode(self, rows: Sequence[DataRow]) -> list[IntArray | None]:
        """Ids of each row, or ``None`` where it holds no prompt of the data set's kind."""
        if self.tokenizer is None:
            return [None if row.prompt_token_ids is None else self._own(row.prompt_token_ids) for row in rows]
        encoded = self.tokenizer.encode_batch([self.frame.around(row.prompt or "") for row in rows])
        return [None if row.prompt is None else self._whole(ids) for row, ids in zip(rows, encoded, strict=True)]

    def _whole(self, ids: list[int]) -> IntArray:
        """Ids with those around them, where encoding the text did not give them already."""
        whole = ids if self.frame.in_text else [*self.frame.head_ids, *ids, *self.frame.tail_ids]
        return np.asarray(whole, dtype=np.int64)

    def _own(self, ids: list[int]) -> IntArray | None:
        if not ids or min(ids) < 0 or max(ids) >= (self.vocab_size or _ANY_ID):
            return None
        return np.asarray(ids, dtype=np.int64)


def _part(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    stated = manifest.get(name)
    return stated if isinstance(stated, dict) else {}
