"""What composing and proving prompts costs in times of encoding them once, in one process with one thread.

Stretches of a data set are made with each proof and encoded plainly, in turns, so that both sides meet the same load;
CPU time, loading left out.

    python bench/proof.py [--tokens 4096] [--rounds 4] [--tokenizer builtin]
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

import msgspec

from foreword import flow
from foreword.config.dataset import DatasetConfig
from foreword.store.workshop import Order, Workshop, open_workshop

if TYPE_CHECKING:
    from foreword.store.second_engine import ProofEngine

STRETCH = 256
ENCODED_TOGETHER = 64


def order(config: DatasetConfig, proof: Literal["window", "full"], engine: ProofEngine = "tokenizers") -> Order:
    """What to make with this proof."""
    return Order(config, flow.plan(config).facts, proof, engine)


def make(workshop: Workshop, start: int) -> tuple[float, bytes]:
    """CPU seconds of one stretch, and its lines."""
    before = time.process_time()
    lines = b"".join(rows.data for rows in workshop.rows(start, start + STRETCH))
    return time.process_time() - before, lines


def encode(workshop: Workshop, lines: bytes) -> float:
    """CPU seconds of encoding the prompts of a stretch, 64 at a time."""
    prompts = [msgspec.json.decode(line)["prompt"] for line in lines.splitlines()]
    before = time.process_time()
    for start in range(0, len(prompts), ENCODED_TOGETHER):
        workshop.tokenizer.encode_batch(prompts[start : start + ENCODED_TOGETHER])
    return time.process_time() - before


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--tokenizer", default="builtin", help="builtin, or the path of a tokenizer.json")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"
    document = {"dataset_id": "bench-proof", "request_count": 100_000, "block_size": 16}
    document |= {"input_length": options.tokens, "target": {"hit_ratio": 0.5}, "tokenizer": options.tokenizer}
    config = DatasetConfig.model_validate(document)
    orders = {"window": order(config, "window"), "full": order(config, "full")}
    orders["full, tiktoken"] = order(config, "full", "tiktoken")
    workshops = {name: open_workshop(one) for name, one in orders.items()}
    taken: dict[str, float] = defaultdict(float)
    for start in range(0, options.rounds * STRETCH, STRETCH):
        lines = b""
        for name, workshop in workshops.items():
            spent, lines = make(workshop, start)
            taken[name] += spent
        taken["plain encoding"] += encode(workshops["window"], lines)
    print("| | CPU ms a prompt | in times of plain encoding |\n|---|---|---|")
    for name, spent in taken.items():
        each = 1000 * spent / options.rounds / STRETCH
        print(f"| {name} | {each:.2f} | {spent / taken['plain encoding']:.3f} |")


if __name__ == "__main__":
    main()
