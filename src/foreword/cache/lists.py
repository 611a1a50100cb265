"""Compiled: how a block enters, is touched in and leaves the order of one tier, whatever the policy.

``at`` is the first column of a tier in a block's row. Helpers of ``tiered.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel
from foreword.cache.tables import (
    CACHED_BLOCKS,
    CACHED_CHILDREN,
    CHILDREN,
    COUNT,
    FIRST,
    FIXED,
    HEAD,
    HELD,
    HOME,
    LRU,
    NEWER,
    OLDER,
    OVER,
    POLICY,
    RANDOM,
    RUN_END,
    RUN_START,
    SHARDS,
    WHEN,
    WIDTH,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@kernel
def unlink(rows: Array, block: int, at: int) -> None:
    """Take a block out of its list."""
    newer, older = rows[block, at + NEWER], rows[block, at + OLDER]
    rows[newer, at + OLDER], rows[older, at + NEWER] = older, newer


@kernel
def link(rows: Array, newer: int, block: int, at: int) -> None:
    """Put a block on the older side of another, or of a list's head."""
    older = rows[newer, at + OLDER]
    rows[block, at + NEWER], rows[block, at + OLDER] = newer, older
    rows[newer, at + OLDER], rows[older, at + NEWER] = block, block


@kernel
def head_of(w: World, member: Array, block: int) -> int:
    """The list of an instance that a block belongs to."""
    return int(member[HEAD] + (w.shard[block] if member[SHARDS] > 1 else 0))


@kernel
def touch(w: World, member: Array, block: int, tier: int, now: int) -> None:
    """Make a block the most recent of a tier that holds it; it takes its place when the run that it is in is raised.

    Blocks that follow each other in a path mostly do so in the list: they are raised together.
    """
    rows, runs, at = w.rows, w.runs, FIXED + WIDTH * tier
    rows[block, at + WHEN] = now
    if member[POLICY] == RANDOM or rows[block, at + NEWER] < 0:
        return
    newest = runs[tier, RUN_END]
    if newest < 0 or rows[newest, at + NEWER] != block:
        raise_run(w, member, tier)
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
def enter(w: World, member: Array, block: int, tier: int, size: int, now: int) -> None:
    """Place a block in a tier that does not hold it and holds ``size`` of its instance, as the most recent."""
    rows, nodes, at = w.rows, w.nodes, FIXED + WIDTH * tier
    raise_run(w, member, tier)
    home = rows[block, HOME]
    if home >= 0 and rows[block, HELD] == 0:
        cache_in_node(nodes, home)
    rows[block, HELD] |= 1 << tier
    rows[block, at + WHEN] = now
    rows[block, at + COUNT] = 0
    if member[POLICY] == LRU:
        link(rows, head_of(w, member, block), block, at)
    elif member[POLICY] == RANDOM:
        place = member[FIRST] + size
        w.slots[place, tier], rows[block, at + NEWER] = block, place
    elif nodes[home, CHILDREN]:
        rows[block, at + NEWER] = -1
    else:
        link(rows, member[HEAD], block, at)


@kernel
def drop(rows: Array, nodes: Array, block: int, tier: int) -> None:
    """Take a block out of a tier whose order it has left."""
    rows[block, HELD] &= ~(1 << tier)
    if rows[block, HOME] >= 0 and rows[block, HELD] == 0:
        uncache_in_node(nodes, rows[block, HOME])


@kernel
def vacate(w: World, member: Array, block: int, tier: int, size: int) -> None:
    """Take a block out of the order of a tier that holds ``size`` of its instance."""
    rows, slots, at = w.rows, w.slots, FIXED + WIDTH * tier
    if member[POLICY] != RANDOM:
        unlink(rows, block, at)
        return
    moved, place = slots[member[FIRST] + size - 1, tier], rows[block, at + NEWER]
    slots[place, tier], rows[moved, at + NEWER] = moved, place


@kernel
def cache_in_node(nodes: Array, node: int) -> None:
    """Count a block of a node that comes into the cache."""
    nodes[node, CACHED_BLOCKS] += 1
    if nodes[node, CACHED_BLOCKS] == 1 and nodes[node, OVER] >= 0:
        nodes[nodes[node, OVER], CACHED_CHILDREN] += 1


@kernel
def uncache_in_node(nodes: Array, node: int) -> None:
    """Count a block of a node that is in no tier any more."""
    nodes[node, CACHED_BLOCKS] -= 1
    if nodes[node, CACHED_BLOCKS] == 0 and nodes[node, OVER] >= 0:
        nodes[nodes[node, OVER], CACHED_CHILDREN] -= 1
