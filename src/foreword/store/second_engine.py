"""A second engine for the full proof: ``tiktoken``, an extra, where it provably gives a tokenizer's own ids.

tiktoken merges whichever neighbours form the token of the lowest rank, ``tokenizers`` the pair that comes first in a
list. Both are the same if the list makes its tokens in the order of their ids, each once, and each token's own text
encodes to that token alone (design: content, 5). Whatever else a text may meet (another normal form, added tokens with
rules of their own) is left to the first engine, text by text.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from foreword.errors import TokenizerError, UsageError
from foreword.store.vocabularies import KNOWN_PATTERNS, byte_entries
from foreword.workload.tokens import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from foreword.store.tokenizers import LoadedTokenizer

ProofEngine = Literal["tokenizers", "tiktoken"]

_ODD_MODEL = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges", "byte_fallback")
_ODD_ADDED = ("lstrip", "rstrip", "single_word", "normalized")
_CATCH_ALL = r"|\s+"
"""How a pattern ends that leaves no text between its matches, which tiktoken would drop."""
_CHECKED_TOGETHER = 256


@dataclass(frozen=True, slots=True, eq=False)
class SecondEngine:
    """tiktoken for texts that it encodes as the first engine does, the first engine for others.

    ``reserved`` are added tokens that only the first engine finds by its own rules.
    """

    first: LoadedTokenizer
    reserved: tuple[str, ...]
    encoding: Any = field(repr=False)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens around them."""
        return [self._encode(text) for text in texts]

    def check(self, texts: Iterable[str]) -> None:
        """Raise ``TokenizerError`` unless both engines encode these texts alike."""
        for chunk in _chunks(texts):
            if self.encode_batch(chunk) != self.first.encode_batch(chunk):
                raise _refused(self.first.name, "it encodes a sample of the corpus otherwise")

    def _encode(self, text: str) -> list[int]:
        shy = not unicodedata.is_normalized("NFC", text) or any(token in text for token in self.reserved)
        return self.first.encode(text) if shy else list(self.encoding.encode(text, allowed_special="all"))


def second_engine(tokenizer: LoadedTokenizer) -> SecondEngine:
    """Tiktoken with a tokenizer's ranks and pattern.

    Raises ``UsageError`` where the extra is not installed, ``TokenizerError`` where equal ids are not certain.
    """
    tiktoken = _tiktoken()
    definition = msgspec.json.decode(tokenizer.engine.to_str(), type=dict[str, Any])
    reason = _kind_problem(tokenizer, definition) or _merge_problem(tokenizer, definition["model"])
    if reason:
        raise _refused(tokenizer.name, reason)
    added = definition.get("added_tokens") or []
    odd = _odd(added)
    encoding = tiktoken.Encoding(
        tokenizer.name,
        pat_str=_pattern(definition),
        mergeable_ranks=_ranks(tokenizer, definition["model"]),
        special_tokens={} if odd else {token["content"]: token["id"] for token in added},
    )
    return SecondEngine(tokenizer, tuple(token["content"] for token in added) if odd else (), encoding)


def _kind_problem(tokenizer: LoadedTokenizer, definition: dict[str, Any]) -> str:
    """Why a tokenizer is no byte-level BPE with one pattern, or nothing."""
    model, normalizer = definition["model"], definition.get("normalizer")
    if tokenizer.vocabulary.family is not Family.BYTE_BPE:
        return f"it is {tokenizer.kind}, not byte_bpe"
    odd = next((name for name in _ODD_MODEL if model.get(name)), None)
    if odd:
        return f"its model sets {odd}"
    if normalizer is not None and normalizer["type"] != "NFC":
        return f"its normalizer is {normalizer['type']}, not NFC"
    return "" if _pattern(definition) else "its pre-tokenizer is not one known pattern followed by ByteLevel"


def _pattern(definition: dict[str, Any]) -> str:
    """The only pattern of a pre-tokenizer that is one known Split and ByteLevel; empty for any other."""
    match definition.get("pre_tokenizer"):
        case {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            ],
        } if pattern in KNOWN_PATTERNS and pattern.endswith(_CATCH_ALL):
            return pattern
        case _:
            return ""


def _merge_problem(tokenizer: LoadedTokenizer, model: dict[str, Any]) -> str:
    """Why ranks do not stand for the list of merges, or nothing."""
    vocab, merged = model["vocab"], _merged(model)
    ids = [vocab[text] for text in merged]
    if any(later <= earlier for earlier, later in pairwise(ids)):
        return "its merges do not make tokens in the order of their ids"
    if any(text not in vocab for text in byte_entries()):
        return "its vocabulary lacks some bytes"
    tokenize = tokenizer.engine.model.tokenize
    for text, token in zip(merged, ids, strict=True):
        if [piece.id for piece in tokenize(text)] != [token]:
            return f"the text of its token {token} encodes to others"
    return ""


def _merged(model: dict[str, Any]) -> list[str]:
    """Entries that merges make, in order; a merge is a pair, or two entries with a space between them."""
    return ["".join(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]


def _ranks(tokenizer: LoadedTokenizer, model: dict[str, Any]) -> dict[bytes, int]:
    pieces = tokenizer.vocabulary.pieces
    return {pieces[token]: token for token in (model["vocab"][text] for text in [*byte_entries(), *_merged(model)])}


def _odd(added: Sequence[dict[str, Any]]) -> bool:
    """Whether added tokens have rules of their own, or one begins another, so that only the first engine finds them."""
    contents = sorted(token["content"] for token in added)
    begins = any(later.startswith(earlier) for earlier, later in pairwise(contents))
    return begins or any(token.get(rule) for token in added for rule in _ODD_ADDED)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == _CHECKED_TOGETHER:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _refused(name: str, reason: str) -> TokenizerError:
    return TokenizerError(
        f"tiktoken cannot stand in for {name}: {reason}",
        advice="use --proof-engine tokenizers, which encodes with the tokenizer itself",
        field="tokenizer",
    )


def _tiktoken() -> Any:  # noqa: ANN401 - a module
    try:
        import tiktoken  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError("--proof-engine tiktoken needs tiktoken", advice="pip install 'foreword[tiktoken]'") from None
    return tiktoken
