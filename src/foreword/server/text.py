"""Tokenising for requests: off the event loop, so that a long prompt does not stall running streams."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

_THREADS = 2
_DIRECT_CHARACTERS = 400  # 0.2 ms of encoding; the way to a thread and back costs 0.1 ms


class ServedTokenizer(Protocol):
    """What the server needs of a loaded tokenizer: the ``tokenizers`` object behind it."""

    @property
    def engine(self) -> Tokenizer:
        """The tokenizer with its post-processor, which adds special tokens."""


class TextEncoder:
    """Turns prompts into ids, with or without the tokenizer's special tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tokenise")
        self.vocabulary_size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    async def encode(self, texts: Sequence[str], *, add_special_tokens: bool) -> list[list[int]]:
        """Ids of each text."""
        if sum(map(len, texts)) <= _DIRECT_CHARACTERS:
            return self._encode(texts, add_special_tokens)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._encode, texts, add_special_tokens)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _encode(self, texts: Sequence[str], add_special_tokens: bool) -> list[list[int]]:  # noqa: FBT001 - run_in_executor passes positions
        # encode_batch_fast releases the interpreter's lock; encode does not.
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=add_special_tokens)
        return [encoding.ids for encoding in encodings]
