"""The bounded cache in small scenes: who stays, who goes, and who waits."""

from __future__ import annotations

import pytest

from foreword.cache.pool import BlockPool, replay_hits
from foreword.cache.reference import UnboundedCache


def test_the_least_recently_used_block_goes_first_and_a_tail_before_its_head() -> None:
    """A chain shrinks from its end."""
    cache = BlockPool(3)
    for keys in ([1, 2, 3], [9]):
        lease = cache.acquire(keys, hit_limit_blocks=9)
        assert lease is not None
        cache.release(lease)

    assert cache.match([1, 2, 3]) == 2
    assert cache.match([9]) == 1
    assert cache.evicted_blocks == 1


def test_use_refreshes() -> None:
    """A chain that was hit again outlives one that was not."""
    hits = list(replay_hits([(3, [1]), (3, [2]), (3, [1]), (3, [3]), (3, [1]), (3, [2])], block_size=2))
    bounded = list(
        replay_hits([(2, [1]), (2, [2]), (2, [1]), (2, [3]), (2, [1]), (2, [2])], block_size=1, capacity_blocks=2)
    )

    assert hits == [0, 0, 2, 0, 2, 2]
    assert bounded == [0, 0, 1, 0, 1, 0]


def test_what_runs_is_never_evicted() -> None:
    """A request that does not fit beside the running ones is not admitted, and changes nothing."""
    cache = BlockPool(4)
    running = cache.acquire([1, 2], hit_limit_blocks=9, private_blocks=1)
    assert running is not None

    assert cache.acquire([7, 8], hit_limit_blocks=9) is None

    assert (cache.pinned_blocks, cache.cached_blocks, cache.evicted_blocks) == (3, 2, 0)
    assert cache.match([7]) == 0
    cache.release(running)
    assert cache.acquire([7, 8, 9], hit_limit_blocks=9) is not None
    assert cache.match([1, 2]) == 1


def test_a_shared_block_is_held_until_its_last_holder_ends() -> None:
    """Two requests on one chain pin it together, once."""
    cache = BlockPool(2)
    first, second = (cache.acquire([1, 2], hit_limit_blocks=9) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (second.hit_blocks, cache.pinned_blocks) == (2, 2)

    cache.release(first)

    assert cache.acquire([5], hit_limit_blocks=9) is None
    cache.release(second)
    assert cache.acquire([5], hit_limit_blocks=9) is not None


def test_matching_stops_at_the_first_missing_block() -> None:
    """A block behind a gap is no hit, although it is cached."""
    cache = BlockPool()
    lease = cache.acquire([2], hit_limit_blocks=9)
    assert lease is not None

    assert cache.match([1, 2]) == 0
    assert cache.match([2, 1]) == 1


def test_the_hit_limit_leaves_the_last_token_to_compute() -> None:
    """A hit is cut at the limit, but the blocks beyond it are not stored twice."""
    cache = BlockPool()
    for expected in (0, 1):
        lease = cache.acquire([1, 2], hit_limit_blocks=1)
        assert lease is not None
        assert lease.hit_blocks == expected
        cache.release(lease)

    assert cache.cached_blocks == 2


def test_decoding_fills_private_blocks_and_then_asks_for_room() -> None:
    """A filled block becomes matchable; without room the request has to wait."""
    cache = BlockPool(3)
    lease = cache.acquire([1], hit_limit_blocks=9, private_blocks=1)
    assert lease is not None

    assert cache.extend(lease, 2)
    assert cache.extend(lease, 3)
    assert not cache.extend(lease, 4)

    assert (lease.keys, lease.private_blocks) == ([1, 2, 3], 0)
    assert cache.match([1, 2, 3, 4]) == 3


def test_reserving_takes_an_unkeyed_block_if_there_is_one() -> None:
    """A running request may grow into idle blocks, not into held ones."""
    cache = BlockPool(2)
    old = cache.acquire([9], hit_limit_blocks=9)
    assert old is not None
    cache.release(old)
    lease = cache.acquire([1], hit_limit_blocks=9)
    assert lease is not None

    assert cache.reserve(lease)
    assert not cache.reserve(lease)

    assert cache.match([9]) == 0
    assert (lease.private_blocks, cache.pinned_blocks) == (1, 2)


def test_clearing_waits_for_running_requests() -> None:
    """A reset while requests run does nothing and says so."""
    cache = BlockPool()
    lease = cache.acquire([1], hit_limit_blocks=9)
    assert lease is not None

    assert not cache.clear()
    assert cache.match([1]) == 1

    cache.release(lease)
    assert cache.clear()
    assert cache.cached_blocks == 0


def test_a_prompt_larger_than_the_cache_hits_nothing_and_harms_nothing() -> None:
    """Replay goes on after a prompt that no empty cache could hold."""
    requests = [(3, [1]), (9, [5, 6, 7, 8]), (3, [1])]

    assert list(replay_hits(requests, block_size=2, capacity_blocks=3)) == [0, 0, 2]


@pytest.mark.parametrize("capacity", [1, 2])
def test_a_partial_block_takes_room_while_it_runs(capacity: int) -> None:
    """A prompt of one block and a bit needs two blocks."""
    hits = list(replay_hits([(3, [1]), (3, [1])], block_size=2, capacity_blocks=capacity))

    assert hits == [0, 0 if capacity == 1 else 2]


def test_the_unbounded_cache_splits_where_chains_part() -> None:
    """Branches of a chain are found whichever was first, and a longer chain extends a shorter one."""
    cache = UnboundedCache()

    found = [cache.read_and_write(keys) for keys in ([1, 2, 3], [1, 2, 4, 5], [1], [1, 2, 4, 5, 6], [1, 2, 3], [])]

    assert found == [0, 2, 1, 4, 3, 0]


def test_the_unbounded_cache_stores_a_shared_chain_once() -> None:
    """A thousand requests on one master cost the master and their own ends, not a thousand masters."""
    cache = UnboundedCache()
    master = list(range(1, 501))

    hits = [cache.read_and_write([*master, 1000 + request]) for request in range(1000)]

    assert hits == [0] + [500] * 999
    assert len(cache._keys) == 500 + 1000
