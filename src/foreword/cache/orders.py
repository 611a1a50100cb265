"""Compiled: how a block enters, is touched in and leaves the order of one tier, whatever the policy.

Helpers of ``tiered.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.further import enter_further, touch_further
from foreword.cache.jit import kernel
from foreword.cache.lists import cache_in_node, link, unlink
from foreword.cache.tables import (
    CHILDREN,
    COUNT,
    FIRST,
    FIXED,
    HEAD,
    HELD,
    HOME,
    LEAF,
    LRU,
    NEWER,
    OLDER,
    POLICY,
    RANDOM,
    RUN_END,
    RUN_START,
    SHARDS,
    SIZE,
    WHEN,
    WIDTH,
    Further,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@kernel
def head_of(w: World, member: Array, block: int) -> int:
    """The list of an instance that a block belongs to."""
    return int(member[HEAD] + (w.shard[block] if member[SHARDS] > 1 else 0))


@kernel
def touch(w: World, x: Further | None, owner: int, block: int, tier: int, now: int) -> None:
    """Make a block the most recent of a tier that holds it; it takes its place when the run that it is in is raised.

    Blocks that follow each other in a path mostly do so in the list: they are raised together.
    """
    rows, runs, at = w.rows, w.runs, FIXED + WIDTH * tier
    rows[block, at + WHEN] = now
    if x is not None:  # noqa: SIM102 - Numba leaves out what is behind a plain test for None
        if w.members[owner, POLICY] > LEAF:
            touch_further(w, x, owner, block, tier)
            return
    if w.members[owner, POLICY] == RANDOM or rows[block, at + NEWER] < 0:
        return
    newest = runs[tier, RUN_END]
    if newest < 0 or rows[newest, at + NEWER] != block:
        raise_run(w, w.members[owner], tier)
        runs[tier, RUN_START] = block
    runs[tier, RUN_END] = block


@kernel
def raise_run(w: World, member: Array, tier: int) -> None:
    """Move the run of blocks that are being touched, which stand side by side, to the recent end of their list."""
    rows, at = w.rows, FIXED + WIDTH * tier
    oldest, newest = w.runs[tier, RUN_START], w.runs[tier, RUN_END]
    if newest < 0:
        return
    newer, older = rows[newest, at + NEWER], rows[oldest, at + OLDER]
    rows[newer, at + OLDER], rows[older, at + NEWER] = older, newer
    head = head_of(w, member, newest)
    second = rows[head, at + OLDER]
    rows[newest, at + NEWER], rows[oldest, at + OLDER] = head, second
    rows[head, at + OLDER], rows[second, at + NEWER] = newest, oldest
    w.runs[tier, RUN_END] = -1


@kernel
def enter(w: World, x: Further | None, owner: int, block: int, tier: int, now: int) -> None:
    """Place a block in a tier that does not hold it, as the most recent."""
    rows, member, size = w.rows, w.members[owner], w.tallies[owner, tier, SIZE]
    at, home, policy = FIXED + WIDTH * tier, rows[block, HOME], member[POLICY]
    raise_run(w, member, tier)
    if home >= 0 and rows[block, HELD] == 0:
        cache_in_node(w.nodes, home)
    rows[block, HELD] |= 1 << tier
    rows[block, at + WHEN] = now
    rows[block, at + COUNT] = 0
    if policy == LRU:
        link(rows, head_of(w, member, block), block, at)
    elif policy == RANDOM:
        w.slots[member[FIRST] + size, tier], rows[block, at + NEWER] = block, member[FIRST] + size
    elif policy == LEAF:
        if w.nodes[home, CHILDREN]:
            rows[block, at + NEWER] = -1
        else:
            link(rows, member[HEAD], block, at)
    elif x is not None:
        enter_further(w, x, owner, block, tier)
    w.tallies[owner, tier, SIZE] += 1


@kernel
def vacate(w: World, member: Array, block: int, tier: int, size: int) -> None:
    """Take a block out of the order of a tier that holds ``size`` of its instance."""
    rows, slots, at = w.rows, w.slots, FIXED + WIDTH * tier
    if member[POLICY] != RANDOM:
        unlink(rows, block, at)
        return
    moved, place = slots[member[FIRST] + size - 1, tier], rows[block, at + NEWER]
    slots[place, tier], rows[moved, at + NEWER] = moved, place
