"""Prefixes that many requests branch from, found in the final tree (spec: replay B1.7).

A node is a template if it has enough children, reads and blocks down to its end. Below a template, nodes with less
than half of its children are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreword.cache.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.cache.radix import Node
    from foreword.simulate.replay import ReplayedInstance

LEAST_CHILDREN, LEAST_READS, LEAST_BLOCKS = 4, 10, 10
_LEAST_SHARE_OF_CHILDREN = 0.5


@dataclass(slots=True)
class Template:
    """A template and what the reads that enter its last node came to. ``path_hits`` are read hits on its blocks."""

    template_id: str
    keys: list[int]
    fan_out: int
    reads: int
    path_hits: int
    matched_reads: int = 0
    matched_hit_blocks: int = 0
    matched_blocks: int = 0

    @property
    def depth(self) -> int:
        """Blocks from the root to the template's end."""
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class TemplateMatch:
    """A read, and the deepest template that it enters."""

    trace_id: str
    template: Template | None
    blocks: int
    hit_blocks: int

    @property
    def covered(self) -> float:
        """Share of the read's blocks that the template spans; the whole of a read that ends inside it."""
        return min(self.template.depth, self.blocks) / self.blocks if self.template and self.blocks else 0.0


def find_templates(at: ReplayedInstance) -> tuple[list[Template], list[TemplateMatch]]:
    """Templates of an instance by falling reads, and the template of each of its reads."""
    nodes = sorted(_template_nodes(at.cache.tree.root), key=lambda node: -node.reads)
    templates = {id(node): _template(at, node, f"T{rank}") for rank, node in enumerate(nodes)}
    matches = []
    for row, (trace_id, keys) in enumerate(zip(at.trace_ids, at.paths, strict=True)):
        hits = at.series.local_blocks[row] + at.series.remote_blocks[row]
        template = _deepest(at, keys.tolist(), templates)
        if template is not None:
            template.matched_reads += 1
            template.matched_hit_blocks += hits
            template.matched_blocks += len(keys)
        matches.append(TemplateMatch(trace_id, template, len(keys), hits))
    return list(templates.values()), matches


def _template_nodes(root: Node) -> Iterator[Node]:
    """Nodes that qualify, from the top; ``floor`` is what a template above asks of their children."""
    waiting = [(child, 0, 0.0) for child in root.children.values()]
    while waiting:
        node, above, floor = waiting.pop()
        depth, children = above + len(node.blocks), len(node.children)
        large = children >= LEAST_CHILDREN and node.reads >= LEAST_READS and depth >= LEAST_BLOCKS
        if large and children >= floor:
            yield node
            floor = max(floor, children * _LEAST_SHARE_OF_CHILDREN)
        waiting.extend((child, depth, floor) for child in node.children.values())


def _template(at: ReplayedInstance, node: Node, template_id: str) -> Template:
    index = at.cache.table.index
    path, block = [], node.blocks[-1]
    while block != ROOT:
        path.append(block)
        block = index.parents[block]
    path.reverse()
    keys = [index.keys[block] for block in path]
    hits = sum(at.cache.table.reads[block] for block in path)
    return Template(template_id, keys, len(node.children), node.reads, hits)


def _deepest(at: ReplayedInstance, keys: list[int], templates: dict[int, Template]) -> Template | None:
    """The deepest template whose node a path enters; its first key is enough."""
    found = None
    for block in at.cache.table.index.known(keys):
        node = at.cache.tree.find(block)
        if node is None:
            break
        found = templates.get(id(node), found)
    return found
