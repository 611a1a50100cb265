"""Compiled: the prefix tree of ``radix.py``, and the order of ``leaf_aware_lru`` in a tier.

A node is a run of blocks, known by its first and its last; what lies between them are parents of the last. Helpers of
``tiered.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel
from foreword.cache.lists import drop, link, unlink
from foreword.cache.tables import (
    BOTTOM,
    CACHED_BLOCKS,
    CACHED_CHILDREN,
    CHILDREN,
    FIXED,
    FREE,
    HEAD,
    HELD,
    HOME,
    MARK,
    NEWER,
    NODES,
    OLDER,
    OVER,
    PRUNED,
    TOP,
    TURN,
    TURNS,
    WHEN,
    WIDTH,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@kernel
def insert(w: World, path: Array) -> None:
    """Make every block of a path part of the tree."""
    rows, nodes = w.rows, w.nodes
    known = path.size
    while known and rows[path[known - 1], HOME] < 0:
        known -= 1
    if known == path.size:
        return
    node = _node_ending_with(w, path[known - 1]) if known else -1
    if node < 0 or nodes[node, CHILDREN]:
        if node >= 0:
            nodes[node, CHILDREN] += 1
        node = _new_node(w, node, path[known])
    nodes[node, BOTTOM] = path[path.size - 1]
    for index in range(known, path.size):
        rows[path[index], HOME] = node


@kernel
def _new_node(w: World, over: int, top: int) -> int:
    """An empty node without children, the last among its siblings."""
    nodes, whole = w.nodes, w.whole
    node = whole[FREE]
    if node >= 0:
        whole[FREE] = nodes[node, OVER]
    else:
        node = whole[NODES]
        whole[NODES] += 1
    nodes[node, OVER], nodes[node, TOP] = over, top
    nodes[node, CHILDREN] = nodes[node, CACHED_BLOCKS] = nodes[node, CACHED_CHILDREN] = nodes[node, MARK] = 0
    whole[TURNS] += 1
    nodes[node, TURN] = whole[TURNS]
    return int(node)


@kernel
def _node_ending_with(w: World, block: int) -> int:
    """The node of a block, split behind it if its run goes on."""
    rows, nodes, parents = w.rows, w.nodes, w.parents
    lower = rows[block, HOME]
    if nodes[lower, BOTTOM] == block:
        return int(lower)
    over, top = nodes[lower, OVER], nodes[lower, TOP]
    upper = _new_node(w, over, top)
    nodes[upper, BOTTOM], nodes[upper, CHILDREN] = block, 1
    nodes[upper, TURN], nodes[lower, TURN] = nodes[lower, TURN], nodes[upper, TURN]
    nodes[lower, OVER] = upper
    below = nodes[lower, BOTTOM]
    while parents[below] != block:
        below = parents[below]
    nodes[lower, TOP] = below
    while True:
        rows[block, HOME] = upper
        nodes[upper, CACHED_BLOCKS] += rows[block, HELD] != 0
        if block == top:
            break
        block = parents[block]
    was_cached = nodes[lower, CACHED_BLOCKS] > 0
    nodes[lower, CACHED_BLOCKS] -= nodes[upper, CACHED_BLOCKS]
    nodes[upper, CACHED_CHILDREN] = nodes[lower, CACHED_BLOCKS] > 0
    if over >= 0 and was_cached and nodes[upper, CACHED_BLOCKS] == 0:
        nodes[over, CACHED_CHILDREN] -= 1
    return upper


@kernel
def prune(w: World, blocks: Array) -> None:
    """Delete the nodes of blocks that have just been emptied, as long as one of these is an empty leaf."""
    rows, nodes, whole = w.rows, w.nodes, w.whole
    whole[PRUNED] += 1
    for block in blocks:
        if rows[block, HELD] == 0 and rows[block, HOME] >= 0:
            nodes[rows[block, HOME], MARK] = whole[PRUNED]
    for block in blocks:
        node = rows[block, HOME]
        while node >= 0 and nodes[node, MARK] == whole[PRUNED]:
            if nodes[node, CHILDREN] or nodes[node, CACHED_BLOCKS]:
                break
            over = nodes[node, OVER]
            _delete(w, node)
            node = over


@kernel
def _delete(w: World, node: int) -> None:
    rows, nodes, whole = w.rows, w.nodes, w.whole
    block = nodes[node, BOTTOM]
    while True:
        rows[block, HOME] = -1
        if block == nodes[node, TOP]:
            break
        block = w.parents[block]
    if nodes[node, OVER] >= 0:
        nodes[nodes[node, OVER], CHILDREN] -= 1
    nodes[node, MARK], nodes[node, OVER], whole[FREE] = 0, whole[FREE], node


@kernel
def evict_leaves(w: World, owner: int, tier: int, count: int, first: int) -> int:
    """Unlist from the tail what has cached children, evict the rest, list parents that become leaves; how many went.

    Victims stand from place ``first`` on.
    """
    rows, nodes, at, head, taken = w.rows, w.nodes, FIXED + WIDTH * tier, w.members[owner, HEAD], 0
    while taken < count:
        block = rows[head, at + NEWER]
        if block == head:
            break
        unlink(rows, block, at)
        rows[block, at + NEWER] = -1
        node = rows[block, HOME]
        if nodes[node, CACHED_CHILDREN]:
            continue
        drop(rows, nodes, block, tier)
        w.victims[first + taken] = block
        taken += 1
        over = nodes[node, OVER]
        if over >= 0 and nodes[over, CACHED_CHILDREN] == 0:
            _list_again(w, head, over, tier)
    return taken


@kernel
def _list_again(w: World, head: int, node: int, tier: int) -> None:
    """List the blocks of a node that the tier holds, from the first, by their times."""
    rows, nodes, scratch, at, size = w.rows, w.nodes, w.scratch, FIXED + WIDTH * tier, 0
    block = nodes[node, BOTTOM]
    while True:
        if rows[block, HELD] >> tier & 1 and rows[block, at + NEWER] < 0:
            scratch[size] = block
            size += 1
        if block == nodes[node, TOP]:
            break
        block = w.parents[block]
    for index in range(size - 1, -1, -1):
        _list_by_time(rows, head, scratch[index], at)


@kernel
def _list_by_time(rows: Array, head: int, block: int, at: int) -> None:
    """Put a block where its time belongs: behind the last that is not older, at the head if none is newer.

    Times never fall from the tail to the head, so the search goes from both ends and costs what the nearer one does.
    """
    time, newest = rows[block, at + WHEN], rows[head, at + OLDER]
    if newest == head or time >= rows[newest, at + WHEN]:
        link(rows, head, block, at)
        return
    up, down = rows[head, at + NEWER], newest
    while rows[up, at + WHEN] < time:
        if rows[down, at + WHEN] < time:
            up = rows[down, at + NEWER]
            break
        up, down = rows[up, at + NEWER], rows[down, at + OLDER]
    link(rows, up, block, at)
