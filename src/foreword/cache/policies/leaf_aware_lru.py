"""Leaves of the prefix tree first, by recency (spec: replay B2.7, leaf_aware_lru, and A2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.policies.base import Policy
from foreword.cache.recency import RecencyList

if TYPE_CHECKING:
    from foreword.cache.radix import Node, RadixTree
    from foreword.cache.table import BlockTable, State


class LeafAwareLruPolicy(Policy):
    """Every block of the tier is registered; those that may go are listed by recency."""

    def __init__(self, table: BlockTable, tier: int, tree: RadixTree) -> None:
        super().__init__(table, tier)
        self._tree = tree
        self._registered: set[int] = set()
        self._listed = RecencyList()

    def __len__(self) -> int:
        return len(self._registered)

    def enter(self, block: int) -> None:
        """Register; list as most recent only what stands in a childless node."""
        self._registered.add(block)
        if not self._tree.node_of(block).children:
            self._listed.push(block)

    def touch(self, block: int) -> None:
        """Move to the head if listed; the tier's time has been set either way."""
        if block in self._listed:
            self._listed.push(block)

    def leave(self, block: int) -> None:
        """Forget the block."""
        self._registered.remove(block)
        if block in self._listed:
            self._listed.remove(block)

    def evict(self, count: int) -> list[int]:
        """From the tail: unlist what has cached children, evict the rest, and list parents that become leaves."""
        victims: list[int] = []
        while len(victims) < count and (block := self._listed.tail) is not None:
            self._listed.remove(block)
            node = self._tree.node_of(block)
            if self._tree.has_cached_child(node):
                continue
            self._registered.remove(block)
            self._table.drop(block, self._tier)
            victims.append(block)
            if node.parent is not None and not self._tree.has_cached_child(node.parent):
                self._list_again(node.parent)
        return victims

    def save(self) -> State:
        """Registered blocks, and the listed ones from the most recent."""
        return {"registered": sorted(self._registered), "listed": list(self._listed)}

    def load(self, state: State) -> None:
        """Take over registered and listed blocks."""
        self._registered = set(state["registered"])
        self._listed = RecencyList(state["listed"])

    def _list_again(self, node: Node) -> None:
        for block in node.blocks:
            if block in self._registered and block not in self._listed:
                self._list_by_time(block)

    def _list_by_time(self, block: int) -> None:
        """Put a block where its time belongs: behind the last that is not older, at the head if none is newer."""
        time, head = self._time(block), self._listed.head
        if head is None or time >= self._time(head):
            self._listed.push(block)
            return
        newer = next(other for other in self._listed.from_tail() if self._time(other) >= time)
        self._listed.insert_behind(newer, block)
