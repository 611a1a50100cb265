"""The arrays of the compiled cache, and what their columns mean; ``tiered.py`` works on them.

Blocks are dense ids over all instances. ``links`` has one row a block and, behind these, one a recency list: two
columns a tier (towards the recent and the old end) and, last, the tiers that hold the block as bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    Array = NDArray[Any]

TIME, START, STOP, INSTANCE, WRITES, ROW, MASK = range(7)
"""Columns of an event: its time, its slice of the ids, whose it is, whether it writes, its row, and its mask."""

MODE, BATCH, TAIL_FIRST, WRITE_REFRESH, LIVES, TRUSTED, BORN, CACHED = range(8)
"""Rules of a replay, ``LIVES`` being whether lives are recorded; then lives so far, and blocks in all tiers."""

GROUP, BYTES, POLICY, HEAD, SHARDS, SAMPLE_TIMES, SAMPLE_SIZE, YIELDS, FIRST, EXPIRES = range(10)
"""Columns of an instance."""

LRU, RANDOM = range(2)
"""Policies: recency in shards (``ttl`` too), and random samples."""

ABOVE, CLOCK, WRITTEN, REFRESH, FROM, TO, TIERS, HEAP, HEAP_SIZE = range(9)
"""Columns of a group: counts, switches, its instances and tiers, and where its queue of expiries stands."""

EDGE_MODE, PROPAGATES, PROMOTES, THRESHOLD = range(4)
THROUGH, CASCADING, SELECTIVE = range(3)

LAST, READS, ANCHOR, BIRTH, LIFE, OWNER, FIXED = range(7)
"""Columns of a block before its times and its reads in each tier."""

READ_FROM, WRITTEN_TO, PROMOTED, COPIED_DOWN, DEMOTED, EVICTED, EXPIRED, SIZE = range(8)
"""Tallies of an instance in a tier: its traffic, and the blocks that it has there."""

LIFE_BLOCK, LIFE_BIRTH, LIFE_LAST, LIFE_READS, LIFE_DEATH = range(5)

LOCAL, REMOTE, ALL_CACHED, BY_TIER = range(4)
"""Columns of an outcome before hits and cached blocks by tier; a write's new blocks stand in the first."""

GROUP_ROUGH, INSTANCE_PRECISE = 1, 3
"""Eviction modes that kernels tell from the other one."""

END_OF_TIME = 2**63 - 1


class World(NamedTuple):
    """All state of a replay. ``ttl_ns`` is by event; scratch arrays hold as many entries as there are blocks.

    Loops take the arrays that they need out of it once: an array that is taken out is counted as a reference.
    """

    whole: Array
    members: Array
    groups: Array
    quotas: Array
    edges: Array
    links: Array
    info: Array
    tallies: Array
    shard: Array
    slots: Array
    places: Array
    random: Array
    amplification: Array
    lives: Array
    heap_time: Array
    heap_block: Array
    ttl_ns: Array
    victims: Array
    scratch: Array
