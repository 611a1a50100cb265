"""The hit ladder: from the target to what was measured, step by step (theory section 6).

A rung is a hit ratio; a step is the difference of two rungs, in exact fractions, so the steps always sum to
``measured - target``. Every rung between the designed one and the measured one is a replay of the plan under what
is known of the server and of the run: last of all the times at which requests were sent and ended, and the size of the
cache. What happens inside the server is not known, such as the order in which it took requests that came together: that
stays in the remainder, bounded where a bound is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache import watermark
from foreword.cache.rules import HitRule, usable_hit_tokens
from foreword.simulate.forecast import certain_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.terms import BoolArray, IntArray


class RungName(StrEnum):
    """What is known at a rung; each rung keeps what the rungs before it know."""

    TARGET = "target"
    DESIGNED = "designed"
    ENGINE_RULE = "engine_rule"
    BLOCK_SIZE = "block_size"
    ADDED_TOKENS = "added_tokens"
    WARM = "warm"
    SENT = "sent"
    SERVED = "served"
    CONCURRENCY = "concurrency"
    CAPACITY = "capacity"
    MEASURED = "measured"


class Remainder(StrEnum):
    """What the last step, from the last replay to the measurement, consists of."""

    NONE = "none"
    NOT_SIMULATED = "not_simulated"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Rung:
    """One hit ratio of the ladder; tokens are ``None`` where the ratio is not a quotient of two totals."""

    name: RungName
    ratio: Fraction
    hit_tokens: int | None = None
    input_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Difference between a rung and the one before it, as a ratio."""

    name: RungName
    change: Fraction


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs from the target down; the last one is the measurement if there is one."""

    rungs: tuple[Rung, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step for every rung but the first."""
        return tuple(Step(after.name, after.ratio - before.ratio) for before, after in pairwise(self.rungs))

    @property
    def evicts(self) -> bool:
        """Whether the last replay evicted, and so may have been stricter than the server."""
        return any(rung.name is RungName.CAPACITY for rung in self.rungs)

    @property
    def remainder(self) -> Fraction | None:
        """The step into the measurement, ``None`` when nothing was measured."""
        last = self.steps[-1] if self.steps else None
        return last.change if last is not None and last.name is RungName.MEASURED else None


@dataclass(frozen=True, slots=True)
class Requests:
    """Planned requests of one pass, in send order; arrays are aligned.

    Warm-up requests stand in front with ``counted`` false: they write to the cache and enter no ratio.
    ``prefix_len`` counts from the first token of the prompt as the engine sees it.
    """

    input_len: IntArray
    prefix_len: IntArray
    lane: IntArray
    domain: IntArray
    counted: BoolArray


@dataclass(frozen=True, slots=True)
class ServerModel:
    """What decides how much of a shared prefix a server serves again.

    ``added_tokens`` are tokens the server counted in front of every prompt beyond those that were planned.
    """

    rule: HitRule
    block_size: int
    head_len: int = 0
    added_tokens: int = 0


def make_rung(name: RungName, hit_tokens: int, *, input_tokens: int) -> Rung | None:
    """Token-weighted rung; ``None`` when there is no token to divide by."""
    if input_tokens <= 0:
        return None
    return Rung(name, Fraction(hit_tokens, input_tokens), hit_tokens, input_tokens)


def predicted_hits(requests: Requests, server: ServerModel, *, served: BoolArray) -> IntArray:
    """Hit tokens of each request when only the ``served`` ones reach an empty, unbounded cache, one by one.

    Requests that are not served find nothing and write nothing. Shared tokens are counted exactly, not in blocks
    of the plan, so a server with another block size is replayed as it is.
    """
    hits = np.zeros(len(requests.input_len), dtype=np.int64)
    if not served.any():
        return hits
    head = server.head_len + server.added_tokens
    shared = np.maximum(requests.prefix_len[served] + server.added_tokens, head)
    seen = watermark.cold(shared, requests.lane[served], domain=requests.domain[served], trunk_len=head)
    prompt_tokens = requests.input_len[served] + server.added_tokens
    hits[served] = usable_hit_tokens(
        server.rule,
        prompt_tokens=prompt_tokens,
        shared_tokens=np.minimum(seen.hit, prompt_tokens),
        block_size=server.block_size,
    )
    return hits


def concurrency_floor(requests: Requests, server: ServerModel, *, served: BoolArray, in_flight: int) -> IntArray:
    """Fewest hit tokens of each request when at most ``in_flight`` requests run at once (theory section 4).

    At most ``in_flight - 1`` requests are unfinished when a request is looked up, so of the prefixes sent before it
    in its lane at least the ``in_flight``-th longest is cached. Arrays must stand in the order of sending. Warm-up
    requests are over before the pass starts.
    """
    level = np.zeros(len(requests.input_len), dtype=np.int64)
    level[served] = certain_prefix(
        requests.prefix_len[served], requests.lane[served], warmed=~requests.counted[served], in_flight=in_flight
    )
    shared = np.where(level > 0, level + server.added_tokens, 0)
    prompt_tokens = requests.input_len + server.added_tokens
    return usable_hit_tokens(
        server.rule, prompt_tokens=prompt_tokens, shared_tokens=shared, block_size=server.block_size
    )


def max_in_flight(sent_ns: IntArray, done_ns: IntArray) -> int:
    """Most requests that were under way at one instant; a request that ends as another is sent is over.

    >>> max_in_flight(np.array([0, 5, 10]), np.array([10, 20, 15]))
    2
    """
    if len(sent_ns) == 0:
        return 0
    times = np.concatenate([done_ns, sent_ns])
    change = np.concatenate([np.full(len(done_ns), -1), np.full(len(sent_ns), 1)])
    order = np.argsort(times, kind="stable")
    return max(1, int(np.cumsum(change[order]).max()))


def classify_remainder(ladder: Ladder, *, concurrent: bool, floor_ratio: Fraction | None) -> Remainder:
    """Whether what is left can come from what happens inside the server, which no replay knows.

    The order in which requests are computed, routing and capacity that it does not report only take hits away from the
    replay, and only a run with requests side by side, several caches or eviction has them. Hits above a replay that
    evicts nothing are always unexplained; one that evicts may have been too strict.
    ``floor_ratio`` is the least that concurrency alone can leave.
    """
    left = ladder.remainder
    if left is None or left == 0:
        return Remainder.NONE
    if (left > 0 and not ladder.evicts) or not (concurrent or ladder.evicts):
        return Remainder.UNEXPLAINED
    if floor_ratio is not None and ladder.rungs[-1].ratio < floor_ratio:
        return Remainder.UNEXPLAINED
    return Remainder.NOT_SIMULATED


def climb(rungs: Sequence[Rung | None]) -> Ladder:
    """Ladder of the rungs that exist."""
    return Ladder(tuple(rung for rung in rungs if rung is not None))
