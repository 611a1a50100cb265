"""The compressed prefix tree of an instance: nodes are runs of blocks (spec: replay B2.3).

Its shape depends on the order of writes: a write below a childless node lengthens that node, a write that leaves a run
in the middle splits it, and nodes never merge again. Only ``leaf_aware_lru`` and views of the tree look at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from foreword.cache.table import BlockTable, State


class Node:
    """A run of blocks, whose first names it among its siblings; ``reads`` are requests that hit into the run."""

    __slots__ = ("blocks", "children", "parent", "reads")

    def __init__(self, blocks: list[int], parent: Node | None, reads: int = 0) -> None:
        self.blocks = blocks
        self.parent = parent
        self.children: dict[int, Node] = {}
        self.reads = reads


class RadixTree:
    """Nodes over the block ids of a table; evicted blocks stay in their node as holes until the node goes."""

    def __init__(self, table: BlockTable) -> None:
        self.root = Node([], None)
        self._table = table
        self._homes: dict[int, Node] = {}

    def node_of(self, block: int) -> Node:
        """The node that a block stands in."""
        return self._homes[block]

    def find(self, block: int) -> Node | None:
        """The node of a block, if the tree still has it."""
        return self._homes.get(block)

    def insert(self, path: Sequence[int]) -> None:
        """Make every block of a path part of the tree."""
        known = next((index for index, block in enumerate(path) if block not in self._homes), len(path))
        if known == len(path):
            return
        node = self._node_ending_with(path[known - 1]) if known else self.root
        fresh = list(path[known:])
        if node is self.root or node.children:
            child = Node(fresh, node)
            node.children[fresh[0]] = child
            node = child
        else:
            node.blocks.extend(fresh)
        self._homes.update(dict.fromkeys(fresh, node))

    def has_cached_child(self, node: Node) -> bool:
        """Whether a direct child has a block in any tier."""
        return any(self._is_cached(child) for child in node.children.values())

    def count_read(self, hits: Iterable[int]) -> None:
        """Count a request for every node that it hits into."""
        for node in {id(node): node for block in hits if (node := self._homes.get(block))}.values():
            node.reads += 1

    def prune(self, emptied: Iterable[int]) -> None:
        """Delete nodes in which blocks have just become empty, as long as one of these is an empty leaf."""
        candidates = {id(node): node for block in emptied if (node := self._homes.get(block))}
        while gone := [key for key, node in candidates.items() if not node.children and not self._is_cached(node)]:
            for key in gone:
                self._delete(candidates.pop(key))

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root, breadth first, siblings in the order in which they came."""
        level = list(self.root.children.values())
        while level:
            yield from level
            level = [child for node in level for child in node.children.values()]

    def save(self) -> State:
        """Nodes in breadth-first order; a parent is known by the block before the run."""
        return {"nodes": [[list(node.blocks), node.reads] for node in self.nodes()]}

    def load(self, state: State) -> None:
        """Become the tree that was saved."""
        self.root, self._homes = Node([], None), {}
        for blocks, reads in state["nodes"]:
            above = self._table.index.parents[blocks[0]]
            parent = self.root if above == ROOT else self._homes[above]
            node = Node(list(blocks), parent, reads)
            parent.children[blocks[0]] = node
            self._homes.update(dict.fromkeys(blocks, node))

    def _node_ending_with(self, block: int) -> Node:
        """The node of a block, split behind it if its run goes on."""
        node = self._homes[block]
        cut = node.blocks.index(block) + 1
        if cut == len(node.blocks) or node.parent is None:
            return node
        upper = Node(node.blocks[:cut], node.parent, node.reads)
        node.parent.children[upper.blocks[0]] = upper
        node.blocks, node.parent = node.blocks[cut:], upper
        upper.children[node.blocks[0]] = node
        self._homes.update(dict.fromkeys(upper.blocks, upper))
        return upper

    def _is_cached(self, node: Node) -> bool:
        return any(self._table.held[block] for block in node.blocks)

    def _delete(self, node: Node) -> None:
        if node.parent is not None:
            del node.parent.children[node.blocks[0]]
        for block in node.blocks:
            del self._homes[block]
