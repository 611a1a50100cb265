"""Prompts of a data set as the engine sees them: token ids with what the template and BOS add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword.errors import TokenizerError
from foreword.simulate.validate import Problem
from foreword.store.rows import MANIFEST
from foreword.store.tokenizers import LoadedTokenizer, frame_for, load_tokenizer
from foreword.terms import IntArray, PromptFormat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.store.rows import DataRow

_ANY_ID = 2**31


@dataclass(frozen=True, slots=True)
class Encoder:
    """Turns rows into token ids; without a tokenizer for prompts that are ids."""

    tokenizer: LoadedTokenizer | None
    head: IntArray
    tail: IntArray
    vocab_size: int

    @classmethod
    def of(cls, manifest: dict[str, Any], given: str | None) -> Encoder:
        """The encoder that a manifest asks for; ``given`` names the tokenizer where the manifest cannot."""
        kind = PromptFormat(manifest.get("prompt_format", PromptFormat.COMPLETIONS_TEXT))
        if kind is PromptFormat.COMPLETIONS_IDS:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(None, nothing, nothing, int(_stated(manifest).get("vocab_size") or 0))
        try:
            tokenizer = load_tokenizer(given or str(manifest.get("config", {}).get("tokenizer", "builtin")))
        except TokenizerError as failure:
            raise TokenizerError(failure.message, advice="name the tokenizer's file with --tokenizer") from None
        frame = frame_for(tokenizer, kind)
        head, tail = (np.asarray(ids, dtype=np.int64) for ids in (frame.head_ids, frame.tail_ids))
        return cls(tokenizer, head, tail, tokenizer.vocab_size)

    def problems(self, manifest: dict[str, Any]) -> Iterator[Problem]:
        """What the manifest says of the tokenizer and its frame, where that is not so."""
        if self.tokenizer is None:
            return
        if self.tokenizer.sha256 != _stated(manifest).get("sha256"):
            yield Problem(MANIFEST, "tokenizer.sha256", f"is not that of {self.tokenizer.name}")
        lengths = {"head_len": len(self.head), "tail_len": len(self.tail)}
        if manifest.get("frame") != lengths:
            yield Problem(MANIFEST, "frame", f"says {manifest.get('frame')}, {self.tokenizer.name} has {lengths}")

    def encode(self, rows: Sequence[DataRow]) -> list[IntArray | None]:
        """Ids of each row, or ``None`` where it holds no prompt of the data set's kind."""
        if self.tokenizer is None:
            return [None if row.prompt_token_ids is None else self._own(row.prompt_token_ids) for row in rows]
        encoded = self.tokenizer.encode_batch([row.prompt or "" for row in rows])
        return [
            None if row.prompt is None else np.concatenate((self.head, np.asarray(ids, dtype=np.int64), self.tail))
            for row, ids in zip(rows, encoded, strict=True)
        ]

    def _own(self, ids: list[int]) -> IntArray | None:
        if not ids or min(ids) < 0 or max(ids) >= (self.vocab_size or _ANY_ID):
            return None
        return np.asarray(ids, dtype=np.int64)


def _stated(manifest: dict[str, Any]) -> dict[str, Any]:
    stated = manifest.get("tokenizer")
    return stated if isinstance(stated, dict) else {}
