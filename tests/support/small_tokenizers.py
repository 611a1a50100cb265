"""Small tokenizers of every family, trained on stories where they are needed."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from foreword.store.tokenizers import LoadedTokenizer
from foreword.store.vocabularies import keeps_ascii, read_vocabulary
from foreword.workload.stories import story

if TYPE_CHECKING:
    from collections.abc import Callable

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
UNKNOWN = r" ?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
APART = r"\p{L}+|\p{N}+|[^\s\p{L}\p{N}]+|\s+"
SPECIAL = ["<unk>", "<s>", "</s>"]
_SLASHES = ["see.\n\n/tmp and.\n\n/home and?\n\n/usr"] * 400


def _texts() -> list[str]:
    english = [story(index, 3, language="en") for index in range(700)]
    words = "\n".join({word.capitalize() for text in english for word in text.split() if word.isalpha()})
    return [*english, *(story(index, 3, language="zh") for index in range(300)), *([words] * 30), *_SLASHES]


def _bytes() -> pre_tokenizers.ByteLevel:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)


def _byte_level(pattern: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, _bytes()])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        _texts(),
        trainers.BpeTrainer(
            vocab_size=2_500, show_progress=False, initial_alphabet=alphabet, special_tokens=["<|im_end|>"]
        ),
    )
    return tokenizer


def _sentencepiece() -> Tokenizer:
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=4_000, show_progress=False, special_tokens=[*SPECIAL, *fallback])
    words = [word for text in _texts() for word in text.split()]
    tokenizer.train_from_iterator([*words, *(["and", "q"] * 99)], trainer)
    definition = json.loads(tokenizer.to_str())
    definition["added_tokens"] = [token for token in definition["added_tokens"] if token["content"] in SPECIAL]
    plain = Tokenizer.from_str(json.dumps(definition))
    plain.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return plain


def _wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(
        _texts(), trainers.WordPieceTrainer(vocab_size=3_000, show_progress=False, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


def _unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        _texts(),
        trainers.UnigramTrainer(vocab_size=2_000, show_progress=False, special_tokens=SPECIAL, unk_token="<unk>"),
    )
    return tokenizer


_MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "qwen-like": lambda: _byte_level(QWEN),
    "gpt2-like": lambda: _byte_level(GPT2),
    "tekken-like": lambda: _byte_level(TEKKEN),
    "unknown": lambda: _byte_level(UNKNOWN),
    "apart": lambda: _byte_level(APART),
    "sentencepiece": _sentencepiece,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
}
NAMES = tuple(_MAKERS)


def loaded(tokenizer: Tokenizer, name: str = "small") -> LoadedTokenizer:
    """A trained tokenizer as if it had been read from its file."""
    text = tokenizer.to_str()
    definition: dict[str, Any] = json.loads(text)
    size = int(tokenizer.get_vocab_size(with_added_tokens=True))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return LoadedTokenizer(name, digest, tokenizer, read_vocabulary(definition, size), keeps_ascii(definition))


@cache
def small_tokenizer(name: str) -> LoadedTokenizer:
    """A tokenizer of the family, trained once."""
    return loaded(_MAKERS[name](), name)
