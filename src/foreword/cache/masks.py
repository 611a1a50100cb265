"""Masks of a read: the blocks that its trace knows as local hits."""

from __future__ import annotations

BlockMask = int | bytes
"""So many leading blocks, or one byte a block and none beyond."""


def masked(mask: BlockMask, index: int) -> bool:
    """Whether a mask names the block at this index.

    >>> masked(2, 1), masked(2, 2), masked(bytes([0, 1]), 1), masked(bytes([1]), 1)
    (True, False, True, False)
    """
    if isinstance(mask, int):
        return index < mask
    return index < len(mask) and mask[index] != 0
