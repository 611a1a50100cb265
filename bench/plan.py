"""Planner alone, on one core: 1,000,000 requests in 1, 3 and 1,000 lanes, fixed and spread lengths.

The design is all that comes before content: lengths, groups, order, prefixes, prediction and verdict; the planner is
its ``plan_prefixes``. Beside them stands a plain baseline from the same run: a bisection of one ratio in pure Python
that walks every request at every step, without the exact closing step, on 1/100 of the requests, its time scaled.

    python bench/plan.py [--requests 1000000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from foreword.cache.rules import HitRule
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.simulate.design import Facts, design
from foreword.workload.plan import Aim, plan_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable

    from foreword.workload.plan import Prompts

BLOCK_SIZE = 16
TARGET = Fraction(6, 10)
SHARE = 100
STEPS = 40
FACTS = Facts(BLOCK_SIZE, HitRule.CAP_THEN_FLOOR)
LENGTHS: dict[str, dict[str, Any]] = {
    "fixed": {"mode": "fixed", "value": 1024},
    "spread": {"mode": "truncated_normal", "min": 128, "max": 4096, "mean": 1024, "std": 512},
}


def config_of(requests: int, lanes: int, lengths: str) -> DatasetConfig:
    """A progressive data set whose equal groups take turns; a lane is a group of one shared cache."""
    document = {
        "dataset_id": f"bench-{lanes}-{lengths}",
        "request_count": requests,
        "block_size": BLOCK_SIZE,
        "input_length": LENGTHS[lengths],
        "target": {"hit_ratio": float(TARGET)},
        "prefix": {"mode": "multi_prefix", "group_count": lanes} if lanes > 1 else {"mode": "single_prefix"},
        "request_order": {"across_group": "interleave"},
    }
    return DatasetConfig.parse(document, root=ROOT)


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
    config = config_of(requests, lanes, lengths)
    planned = design(config, FACTS)
    small = design(config_of(max(requests // SHARE, lanes), lanes, lengths), FACTS).prompts
    aim = Aim((TARGET,), per_group=False, warm=False)
    whole = best_time(lambda: design(config, FACTS), rounds)
    taken = best_time(lambda: plan_prefixes(planned.prompts, aim, order=planned.order), rounds)
    plain = best_time(lambda: plain_plan(small), 1) * requests / len(small.input_len)
    plan = plan_prefixes(planned.prompts, aim, order=planned.order)
    missed = miss_tokens(planned.prompts, plan.prefix_len.tolist())
    if missed > BLOCK_SIZE / 2:
        raise SystemExit(f"{lanes} lanes, {lengths}: the plan is {missed} tokens off")
    return f"| {lanes:,} | {lengths} | {whole:.2f} | {taken:.2f} | {plain:.1f} | {plain / taken:.0f} | {missed:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.requests:,} requests, best of {options.rounds}; baseline on 1/{SHARE} of them, scaled")
    print("| lanes | lengths | design, s | planner, s | plain Python bisection, s (scaled) | ratio | miss, tokens |")
    print("|---|---|---|---|---|---|---|")
    for lanes in (1, 3, 1000):
        for lengths in LENGTHS:
            print(row(options.requests, lanes, lengths, options.rounds), flush=True)


if __name__ == "__main__":
    main()
