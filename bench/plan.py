"""Planner alone, on one core: 1,000,000 requests in 1, 3 and 1,000 lanes, fixed and spread lengths.

Beside each time stands a plain baseline from the same run: a bisection of one ratio in pure Python that walks every
request at every step, without the exact closing step. It is run on 1/100 of the requests and its time is scaled by 100.
The times are of ``plan_prefixes``; ``planning.py`` times a whole design.

    python bench/plan.py [--requests 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.config.lengths import FixedLength, TruncatedNormalLength
from foreword.workload.lengths import sample_lengths
from foreword.workload.plan import Aim, Prompts, plan_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK_SIZE = 16
TARGET = Fraction(6, 10)
SHARE = 100
STEPS = 40
LAWS: dict[str, FixedLength | TruncatedNormalLength] = {
    "fixed": FixedLength(mode="fixed", value=1024),
    "spread": TruncatedNormalLength(mode="truncated_normal", min=128, max=4096, mean=1024, std=512),
}


def prompts_of(requests: int, lanes: int, lengths: str) -> Prompts:
    """Prompts that take turns between lanes; a lane is a group of one shared cache."""
    lane = np.arange(requests, dtype=np.int64) % lanes
    size = sample_lengths(LAWS[lengths], requests, key=1).tokens
    return Prompts(size, lane, lane, np.zeros_like(lane), BLOCK_SIZE, BLOCK_SIZE)


def miss_tokens(prompts: Prompts, prefix_len: list[int]) -> float:
    """How far the cold total is from the target, in tokens."""
    best: dict[int, int] = {}
    for lane, planned in zip(prompts.lane.tolist(), prefix_len, strict=True):
        best[lane] = max(best.get(lane, 0), planned)
    return float(abs(sum(prefix_len) - sum(best.values()) - TARGET * int(prompts.input_len.sum())))


def plain_plan(prompts: Prompts) -> list[int]:
    """The baseline: bisect one ratio for all requests, in pure Python."""
    sizes, lanes, caps = prompts.input_len.tolist(), prompts.lane.tolist(), prompts.max_prefix_len.tolist()
    wanted, low, high = float(TARGET) * sum(sizes), 0.0, 1.0
    plan: list[int] = []
    for _ in range(STEPS):
        ratio = (low + high) / 2
        best: dict[int, int] = {}
        plan = []
        for size, lane, cap in zip(sizes, lanes, caps, strict=True):
            planned = min(cap, int(ratio * size) // BLOCK_SIZE * BLOCK_SIZE)
            best[lane] = max(best.get(lane, 0), planned)
            plan.append(planned)
        low, high = (ratio, high) if sum(plan) - sum(best.values()) <= wanted else (low, ratio)
    return plan


def best_time(work: Callable[[], object], rounds: int) -> float:
    """Shortest wall time, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def row(requests: int, lanes: int, lengths: str, rounds: int) -> str:
    """One line of the table; the plan is checked to be within half a block."""
    prompts, order = prompts_of(requests, lanes, lengths), np.arange(requests)
    aim = Aim((TARGET,), per_group=False, warm=False)
    small = prompts_of(max(requests // SHARE, lanes), lanes, lengths)
    taken = best_time(lambda: plan_prefixes(prompts, aim, order=order), rounds)
    plain = best_time(lambda: plain_plan(small), 1) * requests / len(small.input_len)
    missed = miss_tokens(prompts, plan_prefixes(prompts, aim, order=order).prefix_len.tolist())
    if missed > BLOCK_SIZE / 2:
        raise SystemExit(f"{lanes} lanes, {lengths}: the plan is {missed} tokens off")
    return f"| {lanes:,} | {lengths} | {taken:.2f} | {plain:.1f} | {plain / taken:.0f} | {missed:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.requests:,} requests, best of {options.rounds}; baseline on 1/{SHARE} of them, scaled")
    print("| lanes | lengths | planner, s | plain Python bisection, s (scaled) | ratio | miss, tokens |")
    print("|---|---|---|---|---|---|")
    for lanes in (1, 3, 1000):
        for lengths in LAWS:
            print(row(options.requests, lanes, lengths, options.rounds), flush=True)


if __name__ == "__main__":
    main()
