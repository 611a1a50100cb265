"""Time of vLLM's own sampling of prompts that share a prefix; run by vLLM's Python, called by ``bench/generation.py``.

    VENV/bin/python bench/vllm_sampling.py FOLDER_OF_TOKENIZER REQUESTS TOKENS

One group, half of the tokens shared. Prints seconds of wall and user time of the sampling alone, loading left out, and
how many of the prompts have the tokens that were asked for when they are encoded again.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from transformers import AutoTokenizer
from vllm.benchmarks.datasets import PrefixRepetitionRandomDataset


def main() -> None:
    """Sample, then count exact prompts."""
    folder, requests, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    dataset = PrefixRepetitionRandomDataset(random_seed=42)
    shared = tokens // 2
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    sampled = dataset.sample(
        tokenizer, requests, prefix_len=shared, suffix_len=tokens - shared, num_prefixes=1, output_len=16
    )
    wall = time.perf_counter() - start
    user = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    exact = sum(len(tokenizer.encode(one.prompt, add_special_tokens=False)) == tokens for one in sampled)
    print(json.dumps({"wall_s": wall, "user_s": user, "exact": exact}))


if __name__ == "__main__":
    main()
