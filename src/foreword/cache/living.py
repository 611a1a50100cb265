"""Compiled: lives of blocks as ``lifecycle.py`` records them. Helpers of ``tiered.py``."""

from __future__ import annotations

from foreword.cache.jit import kernel
from foreword.cache.tables import (
    ANCHOR,
    BIRTH,
    BORN,
    LAST,
    LIFE,
    LIFE_BIRTH,
    LIFE_BLOCK,
    LIFE_DEATH,
    LIFE_LAST,
    LIFE_READS,
    LIVES,
    World,
)


@kernel
def begin_life(w: World, block: int, event: int, now: int) -> None:
    """Let a block that no tier has be born; it enters tiers after that."""
    rows, lives = w.rows, w.lives
    rows[block, LAST] = rows[block, ANCHOR] = now
    rows[block, BIRTH] = event
    if w.whole[LIVES]:
        life = w.whole[BORN]
        rows[block, LIFE] = life
        lives[life, LIFE_BLOCK], lives[life, LIFE_READS], lives[life, LIFE_DEATH] = block, 0, -1
        lives[life, LIFE_BIRTH] = lives[life, LIFE_LAST] = w.times[now]
        w.whole[BORN] += 1


@kernel
def access_life(w: World, block: int, now: int) -> None:
    """Note a read hit, where lives are recorded."""
    w.lives[w.rows[block, LIFE], LIFE_READS] += 1
    w.lives[w.rows[block, LIFE], LIFE_LAST] = w.times[now]


@kernel
def end_life(w: World, block: int, at_ns: int) -> None:
    """Note that no tier has a block any more."""
    if w.whole[LIVES]:
        w.lives[w.rows[block, LIFE], LIFE_DEATH] = at_ns
