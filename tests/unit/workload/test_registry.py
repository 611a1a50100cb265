"""The registry of private content: what must be unique, by how an engine matches."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from foreword.terms import MatchSemantics, permutation
from foreword.workload.registry import BlockRegistry, Chunking, KeySet, chunk_ends

INDEPENDENT, CHUNKED = MatchSemantics.INDEPENDENT_BLOCK, MatchSemantics.CONTENT_DEFINED_CHUNK


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 5), max_size=30), max_size=12))
def test_a_key_set_is_a_set(batches: list[list[int]]) -> None:
    """Membership and size are those of a Python set, whatever the order and size of batches."""
    keys, plain = KeySet(), set[int]()
    for batch in batches:
        asked = np.array(batch, dtype=np.uint64)
        assert keys.contains(asked).tolist() == [key in plain for key in batch]
        keys.add(asked)
        plain.update(batch)

    assert len(keys) == len(plain)


def test_a_large_key_set_takes_eight_bytes_a_key() -> None:
    """A hundred thousand prompts need a megabyte, not a dictionary."""
    keys = KeySet()
    for start in range(0, 100_000, 1_000):
        keys.add(np.arange(start, start + 1_000, dtype=np.uint64))

    assert sum(run.nbytes for run in keys._runs) == 800_000
    assert len(keys._runs) < 20


def test_a_second_prompt_with_the_same_first_private_block_collides() -> None:
    """Under chained prefixes that block could be hit; the same block behind another prefix could not."""
    registry = BlockRegistry(block_size=4)
    registry.add_master(list(range(8)))
    first = [*range(8), 50, 51, 52, 53, 60]

    assert registry.check(first).unique
    registry.add(first)

    again = registry.check([*range(8), 50, 51, 52, 53, 61])
    assert (again.shared_tokens, again.conflicts) == (8, (8,))
    assert registry.check([*range(4), 50, 51, 52, 53, 61]).unique


def test_a_private_block_that_continues_the_master_collides() -> None:
    """A request that leaves its master early must not go on as the master does."""
    registry = BlockRegistry(block_size=4)
    registry.add_master(list(range(8)))

    assert registry.check(list(range(8)), shared_tokens=4).conflicts == (4,)


def test_a_block_that_is_not_full_collides_with_nothing() -> None:
    """Engines never cache it."""
    registry = BlockRegistry(block_size=4)
    registry.add([1, 2, 3])

    assert registry.check([1, 2, 3]).checked == 0


def test_independent_blocks_collide_wherever_they_stand() -> None:
    """A block repeated deep inside another prompt, or twice in one prompt, could be hit on its own."""
    registry = BlockRegistry(block_size=2, semantics=INDEPENDENT)
    registry.add_master([1, 2, 3, 4])
    registry.add([1, 2, 9, 9, 7, 8, 5], shared_tokens=2)

    found = registry.check([1, 2, 6, 6, 7, 8, 6, 6, 3, 4], shared_tokens=2)

    assert found.checked == 4
    assert found.conflicts == (4, 6, 8)


@given(st.lists(st.integers(0, 3), max_size=400), st.integers(1, 5), st.integers(1, 40), st.integers(0, 60))
def test_chunks_end_where_the_rule_says(ids: list[int], modulus: int, least: int, extra: int) -> None:
    """Each chunk is the shortest that the rule closes within its bounds, found token by token."""
    chunking = Chunking(modulus, least, least + extra)
    expected, start = [], 0
    for stop in range(1, len(ids) + 1):
        last = np.array(ids[max(0, stop - 8) : stop], dtype="<i4").tobytes()
        closes = stop >= 8 and xxhash.xxh3_64_intdigest(last) % modulus == 0
        if stop - start >= least and (closes or stop - start == least + extra):
            expected.append(stop)
            start = stop
    if start < len(ids):
        expected.append(len(ids))

    assert chunk_ends(np.array(ids, dtype=np.int64), chunking).tolist() == expected


def test_a_chunk_moves_with_its_text() -> None:
    """The same paragraph at another place in another prompt is the same chunk, which blocks would not see."""
    words = permutation(5, 9_000).tolist()
    text = words[:4_000]
    one, other = words[4_000:4_333] + text, words[5_000:5_471] + text
    by_chunk, by_block = BlockRegistry(16, CHUNKED), BlockRegistry(16, INDEPENDENT)
    by_chunk.add(one)
    by_block.add(one)

    shared = by_chunk.check(other)
    assert len(shared.conflicts) > 0.6 * shared.checked
    assert by_block.check(other).unique


@pytest.mark.parametrize("semantics", list(MatchSemantics))
def test_nothing_collides_in_an_empty_domain(semantics: MatchSemantics) -> None:
    """A first prompt of distinct tokens is unique."""
    assert BlockRegistry(4, semantics).check(list(range(300))).unique
