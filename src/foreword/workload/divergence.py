"""The first private tokens of each prompt: unique by construction, without a registry.

Every request has a number. Its first private block spells the number in words, so that no two requests whose blocks
have the same parent key have the same block, and none has the block of a master (design: content, 3.3). Where only the
first token counts (one-token blocks, token-granular engines, one free token in the block), siblings are numbered apart
for each parent and the master's next word is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.terms import draw_key
from foreword.workload.draws import coprime_step, drawn_table

if TYPE_CHECKING:
    from foreword.terms import BoolArray, IntArray

ROOT = -1


@dataclass(frozen=True, slots=True)
class Children:
    """Requests to give words to, one row each.

    ``number`` is unique in the data set, ``rank`` among the requests with the same parent block; ``at_root`` marks
    those that share no content token; ``forbidden`` is the place of the master's next word in the lexicon (ROOT if it
    is none); ``free`` the tokens of the first private block.
    """

    number: IntArray
    rank: IntArray
    at_root: BoolArray
    forbidden: IntArray
    free: IntArray


@dataclass(frozen=True, slots=True)
class Spelling:
    """How numbers become words: sizes of the lexicon and keyed steps."""

    words: int
    starts: int
    by_rank: bool
    seed_key: int

    def places(self, children: Children, width: int) -> IntArray:
        """Places of words, ``width`` columns; in rows at the root the first is a place among the free start words."""
        table = drawn_table(
            draw_key("divergence", self.seed_key), children.number, columns=max(width, 1), limit=self.words
        )
        root = children.at_root
        ranked = ~root & ((children.free == 1) | self.by_rank)
        self._spell_ranks(table, children, ranked)
        self._spell_numbers(table, children, ~root & ~ranked)
        self._spell_roots(table, children, root)
        return table[:, :width]

    def siblings(self, *, at_root: bool) -> int:
        """How many requests of one parent can differ in their first token alone."""
        return self.starts if at_root else self.words - 1

    def _spell_numbers(self, table: IntArray, children: Children, rows: BoolArray) -> None:
        """Word 0 gives ``n mod H`` whichever twin is taken, word 1 gives ``n div H``."""
        half = self.words // 2
        number = children.number[rows]
        x = (number * coprime_step(half, "twin", self.seed_key) + draw_key("twin start", self.seed_key) % half) % half
        first = 2 * x + (2 * x == children.forbidden[rows])
        table[rows, 0] = first
        if table.shape[1] > 1:
            table[rows, 1] = self._second(number // half, x)

    def _spell_ranks(self, table: IntArray, children: Children, rows: BoolArray) -> None:
        """Word 0 differs among ``W - 1`` siblings, word 1 tells those apart that share it."""
        options = self.words - 1
        rank, forbidden = children.rank[rows], children.forbidden[rows]
        start = draw_key("rank start", self.seed_key) % options
        x = (rank * coprime_step(options, "rank", self.seed_key) + start) % options
        table[rows, 0] = x + ((forbidden != ROOT) & (x >= forbidden))
        if table.shape[1] > 1:
            table[rows, 1] = self._second(rank // options, x)

    def _spell_roots(self, table: IntArray, children: Children, rows: BoolArray) -> None:
        """A start word that begins no master, then a word that tells apart those that share it."""
        if not rows.any():
            return
        rank = children.rank[rows]
        start = draw_key("root start", self.seed_key) % self.starts
        x = (rank * coprime_step(self.starts, "root", self.seed_key) + start) % self.starts
        table[rows, 0] = x
        if table.shape[1] > 1:
            table[rows, 1] = self._second(rank // self.starts, x)

    def _second(self, high: IntArray, x: IntArray) -> IntArray:
        step = coprime_step(self.words, "second", self.seed_key)
        return (high * step + 7 * x + draw_key("second start", self.seed_key) % self.words) % self.words


def ranks(parents: IntArray) -> IntArray:
    """Rank of each element among the earlier ones with the same parent."""
    order = np.argsort(parents, kind="stable")
    grouped = parents[order]
    firsts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]])) if len(parents) else order
    starts = np.repeat(firsts, np.diff(np.append(firsts, len(parents))))
    result = np.empty(len(parents), np.int64)
    result[order] = np.arange(len(parents)) - starts
    return result
