"""What composing costs: prompts per second at each proof level, as shares of one plain encode of the same texts.

Levels are timed in turn in one process, so that ratios hold on a busy machine where rates do not.

    python bench/content.py [--tokenizer builtin] [--corpus builtin|FOLDER_OF_GSM8K] [--requests 512] [--tokens 4096]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import TYPE_CHECKING

import numpy as np

from foreword.store.corpora import load_corpus, stories_for
from foreword.store.tokenizers import frame_for, load_tokenizer
from foreword.terms import PromptFormat
from foreword.workload.content import CHUNK, ContentOptions, ContentPlan, ProofLevel, prepare

if TYPE_CHECKING:
    from foreword.store.tokenizers import LoadedTokenizer
    from foreword.workload.content import Composer
    from foreword.workload.units import Corpus

LEVELS: tuple[ProofLevel, ...] = ("none", "window", "full")
ENCODE_CHUNK = 64


def make_plan(tokenizer: LoadedTokenizer, requests: int, tokens: int, block_size: int) -> ContentPlan:
    """Half of each prompt shared, eight groups."""
    frame = frame_for(tokenizer, PromptFormat.COMPLETIONS_TEXT)
    shared = tokens // 2 // block_size * block_size
    return ContentPlan(
        np.arange(requests) % 8,
        np.full(requests, tokens),
        np.full(requests, shared),
        tuple(f"g{group}" for group in range(8)),
        block_size,
        block_size,
        frame,
        1,
    )


def read_corpus(name: str, tokens: int, requests: int) -> Corpus:
    """The built-in stories, or GSM8K from its folder."""
    if name == "builtin":
        return load_corpus("builtin", stories=stories_for(longest=tokens, shared=8 * tokens, total=tokens * requests))
    return load_corpus("gsm8k", path=name)


def open_composer(tokenizer: LoadedTokenizer, corpus: Corpus, plan: ContentPlan, level: ProofLevel) -> Composer:
    """A composer with this proof and no prompts proved beyond it."""
    return prepare(tokenizer, corpus, plan=plan, options=ContentOptions(proof=level, full_least=0, full_share=0))


def compose_seconds(composer: Composer, requests: int) -> float:
    """Time to compose all requests a chunk at a time."""
    begin = time.perf_counter()
    for start in range(0, requests, CHUNK):
        composer.compose(range(start, min(start + CHUNK, requests)))
    return time.perf_counter() - begin


def encode_seconds(tokenizer: LoadedTokenizer, texts: list[str]) -> float:
    """Time of a plain encode of the finished texts."""
    begin = time.perf_counter()
    for start in range(0, len(texts), ENCODE_CHUNK):
        tokenizer.engine.encode_batch_fast(texts[start : start + ENCODE_CHUNK], add_special_tokens=False)
    return time.perf_counter() - begin


def main() -> None:
    """Print one JSON line a level, and one for the encode that they are compared with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", default="builtin")
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--block-size", type=int, default=16)
    given = parser.parse_args()

    begin = time.perf_counter()
    tokenizer = load_tokenizer(given.tokenizer)
    corpus = read_corpus(given.corpus, given.tokens, given.requests)
    plan = make_plan(tokenizer, given.requests, given.tokens, given.block_size)
    composers: dict[str, Composer] = {"none": open_composer(tokenizer, corpus, plan, "none")}
    load_s = time.perf_counter() - begin
    composers |= {level: open_composer(tokenizer, corpus, plan, level) for level in LEVELS[1:]}

    prompts = composers["none"].compose(range(given.requests))
    texts = [json.loads(b'"' + prompt.escaped + b'"') for prompt in prompts]
    encode_s = encode_seconds(tokenizer, texts)
    for level, composer in composers.items():
        seconds = compose_seconds(composer, given.requests)
        row = {"level": level, "prompts_per_s": round(given.requests / seconds), "share_of_encode": seconds / encode_s}
        print(json.dumps(row))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        json.dumps({"encode_prompts_per_s": round(given.requests / encode_s), "load_s": load_s, "peak_mib": peak_mib})
    )


if __name__ == "__main__":
    main()
