"""Compiled: lists of blocks, and what a tree node counts of its blocks.

``at`` is the first column of a tier in a block's row. Helpers of ``tiered.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel
from foreword.cache.tables import (
    CACHED_BLOCKS,
    CACHED_CHILDREN,
    HELD,
    HOME,
    NEWER,
    OLDER,
    OVER,
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
def drop(rows: Array, nodes: Array, block: int, tier: int) -> None:
    """Take a block out of a tier whose order it has left."""
    rows[block, HELD] &= ~(1 << tier)
    if rows[block, HOME] >= 0 and rows[block, HELD] == 0:
        uncache_in_node(nodes, rows[block, HOME])


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
