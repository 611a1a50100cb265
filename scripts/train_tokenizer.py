"""Train the built-in tokenizer.

    python scripts/train_tokenizer.py GSM8K_TRAIN_JSONL OUTPUT_JSON

Byte-level BPE of 8,192 entries on the GSM8K training questions (MIT), built-in stories in two languages, and lines of
capitalised words, so that more than a thousand words can start a prompt as one token. Bytes are the same on every run
with the pinned version of ``tokenizers`` (a test retrains and compares).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from foreword.workload.stories import story

if TYPE_CHECKING:
    from collections.abc import Iterator

TRAINED_WITH = "0.23.3"
VOCABULARY = 8_192
SPECIAL = ("<|endoftext|>", "<|start|>", "<|end|>", "<|pad|>")
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
STORIES = 4_000
START_WORDS = 850
START_WORD_WEIGHT = 20


def read_questions(path: Path) -> list[str]:
    """Question and answer of each row."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [f"{row['question']}\n{row['answer']}" for row in rows]


def capitalised(texts: list[str]) -> Iterator[str]:
    """Lines of the most common words, capitalised, each line often enough to become one token."""
    counts = Counter(word for text in texts for word in re.findall(r"(?<= )[a-z]{3,12}\b", text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    for word in ranked[:START_WORDS]:
        yield "\n".join([word.capitalize()] * START_WORD_WEIGHT)


def train(questions: list[str]) -> str:
    """The trained tokenizer as the text of ``tokenizer.json``."""
    english = [story(index, 0, language="en") for index in range(STORIES)]
    chinese = [story(index, 0, language="zh") for index in range(STORIES)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*questions, *english, *chinese, *capitalised(questions)], trainer)
    return tokenizer.to_str()


def main() -> None:
    """Train, write, and print the digest to record."""
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    text = train(read_questions(source))
    output.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{hashlib.sha256(text.encode()).hexdigest()}\n")


if __name__ == "__main__":
    main()
