"""Block keys: tokens and everything before them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import xxhash

from foreword.cache.blocks import block_keys, next_key, root_key


def test_a_key_digests_parent_and_tokens() -> None:
    """A key is xxh3 over the parent's eight bytes and the block's little-endian 32-bit tokens."""
    parent = root_key()
    first = xxhash.xxh3_64_intdigest(struct.pack("<Qii", parent, 5, 70_000))
    second = xxhash.xxh3_64_intdigest(struct.pack("<Qii", first, 1, 2))

    assert block_keys([5, 70_000, 1, 2, 9], 2, parent=parent) == [first, second]


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 0), (15, 0), (16, 1), (31, 1), (32, 2)])
def test_only_full_blocks_have_keys(tokens: int, blocks: int) -> None:
    """A tail shorter than a block has no key."""
    assert len(block_keys(list(range(tokens)), 16, parent=root_key())) == blocks


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32])
def test_lists_and_arrays_have_the_same_keys(kind: type[np.integer]) -> None:
    """Keys do not depend on how ids are held."""
    tokens = [3, 1, 4, 1, 5, 151_642]
    held: Any = np.asarray(tokens, dtype=kind)

    from_array = block_keys(held, 2, parent=root_key())

    assert from_array == block_keys(tokens, 2, parent=root_key()) == block_keys(tuple(tokens), 2, parent=root_key())


def test_a_strided_array_is_read_in_its_own_order() -> None:
    """A view with gaps has the keys of its values."""
    tokens = np.arange(20, dtype=np.int64)

    assert block_keys(tokens[::2], 2, parent=root_key()) == block_keys(list(range(0, 20, 2)), 2, parent=root_key())


def test_salts_separate_caches() -> None:
    """The same prompt under different salts shares nothing; no salt is a salt too."""
    chains = [block_keys([1, 2, 3, 4], 2, parent=root_key(salt)) for salt in ("", "a", "b")]

    assert len({key for chain in chains for key in chain}) == 6


def test_equal_blocks_at_different_places_differ() -> None:
    """The same tokens after another beginning are another block."""
    first, second, third = block_keys([7, 7, 7, 7, 7, 7], 2, parent=root_key())

    assert len({first, second, third}) == 3


def test_one_more_block_continues_a_chain() -> None:
    """The key of a next block is what the longer prompt has there, and a partial block has its own."""
    chain = block_keys([1, 2, 3, 4], 2, parent=root_key())

    assert next_key(chain[0], [3, 4]) == chain[1]
    assert next_key(chain[0], [3]) != chain[1]
