"""Time to plan 1,000,000 requests on one core: 1, 3 and 1,000 lanes, fixed and spread lengths.

python bench/planning.py [--requests 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from foreword.cache.rules import HitRule
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.simulate.design import Facts, design

BLOCK_SIZE = 16
TARGET = 0.6
LENGTHS: dict[str, dict[str, Any]] = {
    "fixed": {"mode": "fixed", "value": 1024},
    "spread": {"mode": "truncated_normal", "min": 128, "max": 4096, "mean": 1024, "std": 512},
}


def config_of(requests: int, lanes: int, lengths: str) -> DatasetConfig:
    """A progressive data set with equal groups, one a lane."""
    document = {
        "dataset_id": f"bench-{lanes}-{lengths}",
        "request_count": requests,
        "block_size": BLOCK_SIZE,
        "input_length": LENGTHS[lengths],
        "target": {"hit_ratio": TARGET},
        "prefix": {"mode": "multi_prefix", "group_count": lanes} if lanes > 1 else {"mode": "single_prefix"},
        "request_order": {"across_group": "interleave"},
    }
    return DatasetConfig.parse(document, root=ROOT)


def best_time(config: DatasetConfig, rounds: int) -> float:
    """Shortest wall time of a whole plan, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        design(config, Facts(BLOCK_SIZE, HitRule.CAP_THEN_FLOOR))
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the times as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"| lanes | lengths | planning {options.requests:,} requests, s (best of {options.rounds}) |\n|---|---|---|")
    for lanes in (1, 3, 1000):
        for lengths in LENGTHS:
            taken = best_time(config_of(options.requests, lanes, lengths), options.rounds)
            print(f"| {lanes:,} | {lengths} | {taken:.2f} |", flush=True)


if __name__ == "__main__":
    main()
