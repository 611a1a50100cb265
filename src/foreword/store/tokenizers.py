"""Tokenizers from files: the built-in one, a ``tokenizer.json``, or a revision on the Hugging Face hub."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from tokenizers import Tokenizer

from foreword.errors import TokenizerError
from foreword.store.vocabularies import keeps_ascii, read_vocabulary
from foreword.workload.tokens import Family, Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.workload.tokens import Vocabulary

BUILTIN = "builtin"
FILE_NAME = "tokenizer.json"
HUB = "hub:"

_PANIC = "PanicException"
"""What the library raises, outside ``Exception``, for some broken models."""


def load_tokenizer(spec: str) -> LoadedTokenizer:
    """The tokenizer that ``builtin``, a path, or ``hub:NAME@REV`` names; TokenizerError where there is none."""
    if spec == BUILTIN:
        return _from_bytes(BUILTIN, (files("foreword") / "data" / FILE_NAME).read_bytes())
    if spec.startswith(HUB):
        path = downloaded(spec, FILE_NAME)
        return _from_file(spec, path or Path())
    path = Path(spec).expanduser()
    path = path / FILE_NAME if path.is_dir() else path
    return _from_file(path.parent.name if path.name == FILE_NAME else path.stem, path)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedTokenizer:
    """A tokenizer file in memory; implements the workload layer's protocol."""

    name: str
    sha256: str
    engine: Tokenizer = field(repr=False)
    vocabulary: Vocabulary = field(repr=False)
    plain_ascii: bool

    @property
    def vocab_size(self) -> int:
        """Number of ids, added ones included."""
        return int(self.engine.get_vocab_size(with_added_tokens=True))

    @property
    def kind(self) -> str:
        """Family of the tokenizer, for manifests."""
        return str(self.vocabulary.family)

    def encode(self, text: str) -> list[int]:
        """Ids of the text, without special tokens around it."""
        return list(self.engine.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens around them."""
        return [one.ids for one in self.engine.encode_batch_fast(list(texts), add_special_tokens=False)]

    def token_ends(self, text: str) -> list[int]:
        """UTF-8 offset at which each token of the text ends."""
        widths = self.vocabulary.widths
        if widths is None:
            return _ends_by_offsets(self.engine, text)
        stops = np.cumsum(widths[self.encode(text)])
        added = int(stops[-1]) - len(text.encode()) if len(stops) else 0
        return list((stops - added).tolist())

    def normalize(self, text: str) -> str:
        """The text as the tokenizer sees it; where spaces become marks, the text itself."""
        normalizer = self.engine.normalizer
        marks = self.vocabulary.family is Family.SENTENCEPIECE_BPE
        if normalizer is None or marks or (text.isascii() and self.plain_ascii):
            return text
        return str(normalizer.normalize_str(text))

    def pieces(self) -> Vocabulary:
        """The entries of the vocabulary."""
        return self.vocabulary

    def frame(self) -> Frame:
        """Ids that the file's own post-processor puts around a text."""
        bare = self.encode("a")
        framed = list(self.engine.encode("a", add_special_tokens=True).ids)
        for start in range(len(framed) - len(bare) + 1):
            if framed[start : start + len(bare)] == bare:
                return Frame(tuple(framed[:start]), tuple(framed[start + len(bare) :]))
        raise TokenizerError(
            "the tokenizer's post-processor changes the text's own ids",
            advice="set prompt_format: completions_ids",
            field="tokenizer",
        )


def _from_file(name: str, path: Path) -> LoadedTokenizer:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TokenizerError(
            f"cannot read tokenizer file {path}: {error.strerror}",
            advice="give builtin, the path of a tokenizer.json or its folder, or hub:NAME@REV",
            field="tokenizer",
        ) from error
    return _from_bytes(name, content)


def _from_bytes(name: str, content: bytes) -> LoadedTokenizer:
    digest = hashlib.sha256(content).hexdigest()
    try:
        definition = msgspec.json.decode(content, type=dict[str, Any])
        engine = Tokenizer.from_buffer(content)
    except ValueError as error:
        raise _no_tokenizer(name, error) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise _no_tokenizer(name, error) from error
    engine.no_truncation()
    engine.no_padding()
    vocabulary = read_vocabulary(definition, int(engine.get_vocab_size(with_added_tokens=True)))
    return LoadedTokenizer(name, digest, engine, vocabulary, keeps_ascii(definition))


def _no_tokenizer(name: str, error: BaseException) -> TokenizerError:
    return TokenizerError(
        f"{name} is not a tokenizer.json: {str(error).splitlines()[0]}",
        advice="convert it with transformers (save_pretrained writes tokenizer.json)",
        field="tokenizer",
    )


def downloaded(spec: str, file_name: str, *, optional: bool = False) -> Path | None:
    """A file of a revision on the hub; ``None`` where the revision lacks an ``optional`` one."""
    name, _, revision = spec.removeprefix(HUB).partition("@")
    if not name or not revision:
        raise TokenizerError(
            f"{spec} names no revision",
            advice="write hub:NAME@REV, where REV is a commit or tag, so that the data set can be made again",
            field="tokenizer",
        )
    try:
        from huggingface_hub import hf_hub_download  # noqa: PLC0415 - the extra may be absent
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError  # noqa: PLC0415 - the same
    except ImportError as error:
        raise TokenizerError(
            f"{spec} needs the extra hub", advice="pip install 'foreword[hub]', or give a path", field="tokenizer"
        ) from error
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    try:
        return Path(hf_hub_download(name, file_name, revision=revision))
    except (OSError, ValueError, HfHubHTTPError, EntryNotFoundError) as error:
        if optional:
            return None
        raise TokenizerError(
            f"cannot fetch {spec}: {str(error).splitlines()[0]}",
            advice="give the path of a tokenizer.json instead",
            field="tokenizer",
        ) from error


def _ends_by_offsets(engine: Tokenizer, text: str) -> list[int]:
    """Ends of tokens from the tokenizer's own character offsets."""
    widths = np.cumsum([0, *(len(char.encode()) for char in text)])
    offsets = engine.encode(text, add_special_tokens=False).offsets
    return [int(widths[stop]) for _, stop in offsets]
