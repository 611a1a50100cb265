"""What the workload layer sees of a tokenizer, and what an engine puts around a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from foreword.terms import BoolArray, IntArray

    EncodeBatch = Callable[[Sequence[str]], list[list[int]]]

SPACE_MARK = "▁"
"""Character that stands for a space in SentencePiece-type vocabularies."""


class Family(StrEnum):
    """How a tokenizer makes tokens, as far as composing text depends on it (design: content, 6)."""

    BYTE_BPE = "byte_bpe"
    SENTENCEPIECE_BPE = "sentencepiece_bpe"
    WORDPIECE = "wordpiece"
    UNIGRAM = "unigram"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The entries of a tokenizer.

    ``pieces[i]`` is the text of id ``i`` as UTF-8 bytes, a leading space included; empty for ids that are no text.
    ``plain[i]`` tells ids that may stand in a prompt: not special, added, control or byte-fallback ids.
    ``widths`` is the number of text bytes of each id, or None where ids do not know it (WordPiece, Unigram).
    ``reserved`` holds the texts that encode to added ids wherever they occur.
    ``recognised`` says that normaliser and pre-tokenizer are known, so that joints are proved by rule.
    """

    pieces: tuple[bytes, ...]
    plain: BoolArray
    widths: IntArray | None
    reserved: tuple[str, ...]
    family: Family
    recognised: bool


class TokenizerProtocol(Protocol):
    """A tokenizer that encodes content, without the special tokens around it."""

    @property
    def name(self) -> str:
        """Name for manifests; never a path."""
        ...

    @property
    def sha256(self) -> str:
        """Digest of the tokenizer file."""
        ...

    @property
    def vocab_size(self) -> int:
        """Number of ids, added ones included."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of the text."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text."""
        ...

    def token_ends(self, text: str) -> list[int]:
        """UTF-8 offset at which each token of the text ends."""
        ...

    def normalize(self, text: str) -> str:
        """The text as the tokenizer sees it, spaces kept as spaces."""
        ...

    def pieces(self) -> Vocabulary:
        """The entries of the vocabulary."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """What the engine puts before and after the content (BOS, a chat template).

    ``head_text`` and ``tail_text`` stand beside the content in one text that is encoded as a whole; they are empty
    where the engine adds ids to those of the content.
    """

    head_ids: tuple[int, ...] = ()
    tail_ids: tuple[int, ...] = ()
    head_text: str = ""
    tail_text: str = ""

    @property
    def head_len(self) -> int:
        """Tokens before the content."""
        return len(self.head_ids)

    @property
    def tail_len(self) -> int:
        """Tokens after the content."""
        return len(self.tail_ids)

    @property
    def in_text(self) -> bool:
        """Whether content and frame are one text."""
        return bool(self.head_text or self.tail_text)

    def ids_around(self, ids: Sequence[int]) -> list[int]:
        """Ids of a prompt as the engine sees it."""
        return [*self.head_ids, *ids, *self.tail_ids]

    def around(self, text: str) -> str:
        """The content as the engine encodes it."""
        return f"{self.head_text}{text}{self.tail_text}"

    def open_tail(self, reserved: Sequence[str]) -> bool:
        """Whether text follows the content directly: no added token, of which ``reserved`` are the texts."""
        return bool(self.tail_text) and not self.tail_text.startswith(tuple(reserved))


NO_FRAME = Frame()
"""What stands around prompts that are ids."""
