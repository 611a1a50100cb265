"""The arrays of the compiled cache, and what their columns mean; ``tiered.py`` and its helpers work on them.

Blocks are dense ids over all instances. ``rows`` has one row a block and, behind these, one a recency list. All that is
known of a block stands in its row, since a row is what a read costs in memory; times are moments: the rank of a time
among all times of the events, from 1, so that 0 is before all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Array = NDArray[Any]

MOMENT, START, STOP, INSTANCE, WRITES, ROW, MASK, TOKENS = range(8)
"""Columns of an event: its moment, its slice of the ids, whose it is, whether it writes, its row, its mask, and the
tokens of its prompt, 0 for a write without a request."""

MODE, BATCH, TAIL_FIRST, WRITE_REFRESH, LIVES, TRUSTED, BORN, CACHED, NODES, FREE, PRUNED, TURNS = range(12)
"""Rules of a replay, ``LIVES`` being whether lives are recorded; then lives so far, and blocks in all tiers. Of the
prefix trees: nodes that were ever used, the free one to use first, how often they were pruned, and turns given out."""

GROUP, BYTES, POLICY, HEAD, SHARDS, SAMPLE_TIMES, SAMPLE_SIZE, YIELDS, FIRST, EXPIRES, BLOCK_SIZE, CAPACITY = range(12)
"""Columns of an instance; the capacity is that of a pool in blocks, -1 for none."""

LRU, RANDOM, LEAF, FIFO, LFU, S3FIFO, BOUND, POOL = range(8)
"""Policies: recency in shards (``ttl`` too), random samples, leaves of the prefix tree first; then those whose arrays
are in ``Further``, ``BOUND`` being ``optimal`` and ``POOL`` ``vllm``."""

ABOVE, CLOCK, WRITTEN, REFRESH, FROM, TO, TIERS, HEAP, HEAP_SIZE = range(9)
"""Columns of a group: counts, switches, its instances and tiers, and where its queue of expiries stands."""

QUOTA, EDGE_MODE, PROPAGATES, PROMOTES, THRESHOLD = range(5)
"""Columns of a tier of a group: its quota in bytes, -1 for none, and the edge below it."""

THROUGH, CASCADING, SELECTIVE = range(3)

HELD, LAST, READS, ANCHOR, BIRTH, LIFE, OWNER, HOME, FIXED = range(9)
"""Columns of a block: the tiers that hold it as bits, moments, its birth's event, its life, instance and tree node."""

NEWER, OLDER, WHEN, COUNT, WIDTH = range(5)
"""Columns of a block in a tier, behind the fixed ones: neighbours towards the recent and the old end of its list (or
its place among the slots; or -1 for a block that is not listed), the moment, and reads since it came."""

OVER, TOP, BOTTOM, CHILDREN, CACHED_BLOCKS, CACHED_CHILDREN, TURN, MARK, NODE_WIDTH = range(9)
"""Columns of a tree node: its parent, first and last block, and counts; its turn among siblings; when last pruned."""

RUN_START, RUN_END = range(2)
"""Columns of the run of each tier that is being touched: its oldest block, and its newest or -1 for none."""

READ_FROM, WRITTEN_TO, PROMOTED, COPIED_DOWN, DEMOTED, EVICTED, EXPIRED, SIZE = range(8)
"""Tallies of an instance in a tier: its traffic, and the blocks that it has there."""

LIFE_BLOCK, LIFE_BIRTH, LIFE_LAST, LIFE_READS, LIFE_DEATH = range(5)

DUE, WHOM = range(2)
"""Columns of a queue of expiries."""

LOCAL, REMOTE, ALL_CACHED, BY_TIER = range(4)
"""Columns of an outcome before hits and cached blocks by tier; a write's new blocks stand in the first."""

GROUP_ROUGH, INSTANCE_PRECISE = 1, 3
"""Eviction modes that kernels tell from the other one."""

END_OF_TIME = 2**63 - 1


class World(NamedTuple):
    """All state of a replay. ``ttl_ns`` is by event, ``times`` by moment; scratch arrays have an entry a block."""

    whole: Array
    members: Array
    groups: Array
    tiers: Array
    rows: Array
    tallies: Array
    runs: Array
    shard: Array
    slots: Array
    random: Array
    amplification: Array
    lives: Array
    heap: Array
    ttl_ns: Array
    times: Array
    nodes: Array
    parents: Array
    victims: Array
    scratch: Array


LEVELS, LEVEL_FREE, COPIES, FREE_COPY = range(4)
"""Levels and copies that were ever used, and the free ones to use first."""

TOUCHES, GHOST, LEVEL = range(3)
"""Columns of a block in a tier: touches since it came, its number among the ghosts, 0 for none, and its level."""

LOWER, HIGHER, NEWEST = range(1, 4)
"""Columns of a level of ``lfu``, the blocks that were touched equally often, behind ``TOUCHES``."""

SMALL, GHOSTS = range(2)
SMALL_RATIO, GHOST_RATIO = range(2)
"""Of ``s3fifo``: blocks in the small queue and ghosts so far; its parameters."""

QUEUE, QUEUED = range(2)
"""Where the queue of next reads of ``optimal`` stands, and how long it is."""

BLOCK_BITS = 31
NEVER_READ = 2**31 - 1

HEAD_COPY, NUMBERED = range(2)
"""Of a pool: the head of its free queue, and copies that it ever had."""

OF_PATH, TO_NEWER, TO_OLDER, TO_NEXT, SERIAL = range(5)
"""Columns of a copy: its path, its neighbours in the free queue, the next copy of its path, and its number."""


class Further(NamedTuple):
    """What policies need of which most replays have none; kernels get ``None`` then, and are compiled without them."""

    further: Array
    marks: Array
    levels: Array
    lowest: Array
    queues: Array
    ratios: Array
    moves_at: Array
    upcoming: Array
    next_read: Array
    heaps: Array
    latest: Array
    pools: Array
    copies: Array


def filled(shape: tuple[int, int], row: Array | np.integer[Any]) -> Array:
    """A table all of whose rows are ``row``.

    Memory that is written at once comes in large pages where the system has them; that of ``np.zeros`` comes page by
    page at the first touch, in the middle of a kernel.
    """
    table = np.empty(shape, row.dtype)
    table[:] = row
    return table
