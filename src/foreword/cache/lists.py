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
    LEAF,
    LRU,
    NEWER,
    OLDER,
    OVER,
    POLICY,
    RANDOM,
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
def touch(w: World, member: Array, block: int, at: int, now: int) -> None:
    """Make a block the most recent of a tier that holds it."""
    rows = w.rows
    rows[block, at + WHEN] = now
    policy = member[POLICY]
    if policy == LRU or (policy == LEAF and rows[block, at + NEWER] >= 0):
        unlink(rows, block, at)
        link(rows, head_of(w, member, block), block, at)


@kernel
def enter(w: World, member: Array, block: int, tier: int, size: int, now: int) -> None:
    """Place a block in a tier that does not hold it and holds ``size`` of its instance, as the most recent."""
    rows, nodes, at = w.rows, w.nodes, FIXED + WIDTH * tier
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
