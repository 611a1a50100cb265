"""Compiled: vLLM's pool of ``pool.py`` and ``pooled.py``. A copy is a block of the pool; a block here is a path.

In the row of a path, its first and last copy stand where other policies keep its neighbours. Helpers of ``tiered.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.cache.jit import kernel
from foreword.cache.living import begin_life, end_life
from foreword.cache.tables import (
    ABOVE,
    BLOCK_SIZE,
    CACHED,
    CAPACITY,
    COPIES,
    COUNT,
    EVICTED,
    FIXED,
    FREE_COPY,
    GROUP,
    HEAD_COPY,
    HELD,
    NEWER,
    NUMBERED,
    OF_PATH,
    OLDER,
    SERIAL,
    SIZE,
    TO_NEWER,
    TO_NEXT,
    TO_OLDER,
    WHEN,
    WRITTEN_TO,
    Further,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array

_FIRST, _LAST = FIXED + NEWER, FIXED + OLDER


@kernel
def hit_limit(w: World, owner: int, blocks: int, tokens: int) -> int:
    """Leading blocks of a prompt that may be hit; all of them where its tokens are not known."""
    return int(min(blocks, (tokens - 1) // w.members[owner, BLOCK_SIZE])) if tokens else blocks


@kernel
def touch_path(w: World, x: Further, owner: int, hit: Array) -> None:
    """Put the first copies of the blocks of a path where a request that ends leaves them."""
    for index in range(hit.size - 1, -1, -1):
        _unqueue(x, w.rows[hit[index], _FIRST])
        _queue(x, owner, w.rows[hit[index], _FIRST])


@kernel
def write_pool(  # noqa: PLR0913, PLR0917 - a kernel takes no keywords
    w: World, x: Further, owner: int, path: Array, tokens: int, event: int, now: int
) -> int:
    """Run a request to its end, if the pool can hold it; how many blocks it stored."""
    rows, tally, capacity = w.rows, w.tallies[owner, 0], w.members[owner, CAPACITY]
    limit, hits = hit_limit(w, owner, path.size, tokens), 0
    while hits < limit and rows[path[hits], _FIRST] >= 0:
        hits += 1
    stored, private = path.size - hits, tokens % w.members[owner, BLOCK_SIZE] > 0
    if capacity >= 0 and stored + private > capacity - hits:
        w.groups[w.members[owner, GROUP], ABOVE] += 1
        return 0
    before, held = tally[SIZE], w.scratch
    evicted = _take(w, x, owner, path, hits)
    if private and tally[SIZE] == capacity:
        evicted += _evict_copy(w, x, owner, evicted)
    _end_lives(w, evicted, now)
    for block in path:
        if not rows[block, HELD]:
            begin_life(w, block, event, now)
            rows[block, HELD], rows[block, FIXED + WHEN], rows[block, FIXED + COUNT] = 1, now, 0
    for index in range(path.size - 1, -1, -1):
        _queue(x, owner, held[index])
    tally[WRITTEN_TO] += stored
    tally[EVICTED] += evicted
    w.whole[CACHED] += tally[SIZE] - before
    return stored


@kernel
def _take(w: World, x: Further, owner: int, path: Array, hits: int) -> int:
    """Take a copy for each block of a path out of the queue and put it into ``scratch``; how many were evicted."""
    capacity, evicted = w.members[owner, CAPACITY], 0
    for index in range(path.size):
        if index < hits or (capacity < 0 and w.rows[path[index], _FIRST] >= 0):
            w.scratch[index] = w.rows[path[index], _FIRST]
            _unqueue(x, w.scratch[index])
    for index in range(hits, path.size):
        if capacity < 0 and w.rows[path[index], _FIRST] >= 0:
            continue
        if w.tallies[owner, 0, SIZE] == capacity:
            evicted += _evict_copy(w, x, owner, evicted)
        w.scratch[index] = _new_copy(w, x, owner, path[index])
    return evicted


@kernel
def _end_lives(w: World, evicted: int, now: int) -> None:
    """Take out of the tier what has lost its last copy; what the request has stored again lives on."""
    for block in w.victims[:evicted]:
        if w.rows[block, HELD] and w.rows[block, _FIRST] < 0:
            w.rows[block, HELD] = 0
            end_life(w, block, w.times[now])


@kernel
def _queue(x: Further, owner: int, copy: int) -> None:
    """Put a copy at the tail of the free queue."""
    copies, head = x.copies, x.pools[owner, HEAD_COPY]
    newest = copies[head, TO_OLDER]
    copies[copy, TO_NEWER], copies[copy, TO_OLDER] = head, newest
    copies[head, TO_OLDER], copies[newest, TO_NEWER] = copy, copy


@kernel
def _unqueue(x: Further, copy: int) -> None:
    newer, older = x.copies[copy, TO_NEWER], x.copies[copy, TO_OLDER]
    x.copies[newer, TO_OLDER], x.copies[older, TO_NEWER] = older, newer


@kernel
def _new_copy(w: World, x: Further, owner: int, block: int) -> int:
    """A blank block for a path, behind its other copies."""
    copies, copy = x.copies, x.further[FREE_COPY]
    if copy >= 0:
        x.further[FREE_COPY] = copies[copy, TO_NEXT]
    else:
        copy = x.further[COPIES]
        x.further[COPIES] += 1
    copies[copy, OF_PATH], copies[copy, TO_NEXT] = block, -1
    copies[copy, SERIAL] = x.pools[owner, NUMBERED]
    x.pools[owner, NUMBERED] += 1
    if w.rows[block, _FIRST] < 0:
        w.rows[block, _FIRST] = copy
    else:
        copies[w.rows[block, _LAST], TO_NEXT] = copy
    w.rows[block, _LAST] = copy
    w.tallies[owner, 0, SIZE] += 1
    return int(copy)


@kernel
def _evict_copy(w: World, x: Further, owner: int, found: int) -> int:
    """Let the copy at the head of the queue go, and note whose it was; 1, for what was evicted."""
    copies, rows = x.copies, w.rows
    copy = copies[x.pools[owner, HEAD_COPY], TO_NEWER]
    _unqueue(x, copy)
    block, before = copies[copy, OF_PATH], -1
    each = rows[block, _FIRST]
    while each != copy:
        before, each = each, copies[each, TO_NEXT]
    if before < 0:
        rows[block, _FIRST] = copies[copy, TO_NEXT]
    else:
        copies[before, TO_NEXT] = copies[copy, TO_NEXT]
    if copies[copy, TO_NEXT] < 0:
        rows[block, _LAST] = before
    copies[copy, TO_NEXT], x.further[FREE_COPY] = x.further[FREE_COPY], copy
    w.tallies[owner, 0, SIZE] -= 1
    w.victims[found] = block
    return 1
