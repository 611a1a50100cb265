"""The compiled cache of a replay: any tiers, edges, modes and switches, and the policies that are orders of recency.

It does what ``group.py``, ``instance.py`` and the policies do, on the arrays of ``tables.py``. Kernels and nearly all
helpers share this file, since a cached kernel does not see a change elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from foreword.cache.interning import is_masked
from foreword.cache.sorting import partial_sort_by
from foreword.cache.table import NEVER
from foreword.cache.tables import (
    ABOVE,
    ALL_CACHED,
    ANCHOR,
    BATCH,
    BIRTH,
    BORN,
    BY_TIER,
    BYTES,
    CACHED,
    CASCADING,
    CLOCK,
    COPIED_DOWN,
    DEMOTED,
    EDGE_MODE,
    END_OF_TIME,
    EVICTED,
    EXPIRED,
    EXPIRES,
    FIRST,
    FIXED,
    FROM,
    GROUP,
    GROUP_ROUGH,
    HEAD,
    HEAP,
    HEAP_SIZE,
    INSTANCE,
    INSTANCE_PRECISE,
    LAST,
    LIFE,
    LIFE_BIRTH,
    LIFE_BLOCK,
    LIFE_DEATH,
    LIFE_LAST,
    LIFE_READS,
    LIVES,
    LOCAL,
    LRU,
    MASK,
    MODE,
    OWNER,
    POLICY,
    PROMOTED,
    PROMOTES,
    PROPAGATES,
    RANDOM,
    READ_FROM,
    READS,
    REFRESH,
    REMOTE,
    SAMPLE_SIZE,
    SAMPLE_TIMES,
    SELECTIVE,
    SHARDS,
    SIZE,
    START,
    STOP,
    TAIL_FIRST,
    THRESHOLD,
    THROUGH,
    TIERS,
    TIME,
    TO,
    TRUSTED,
    WRITE_REFRESH,
    WRITES,
    WRITTEN,
    WRITTEN_TO,
    YIELDS,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@njit(cache=True, nogil=True)
def _unlink(links: Array, block: int, tier: int) -> None:
    newer, older = links[block, 2 * tier], links[block, 2 * tier + 1]
    links[newer, 2 * tier + 1], links[older, 2 * tier] = older, newer


@njit(cache=True, nogil=True)
def _link(links: Array, newer: int, block: int, tier: int) -> None:
    """Put a block on the older side of another, or of a list's head."""
    older = links[newer, 2 * tier + 1]
    links[block, 2 * tier], links[block, 2 * tier + 1] = newer, older
    links[newer, 2 * tier + 1], links[older, 2 * tier] = block, block


@njit(cache=True, nogil=True)
def _head(member: Array, shard: Array, block: int) -> int:
    return int(member[HEAD] + (shard[block] if member[SHARDS] > 1 else 0))


@njit(cache=True, nogil=True)
def _touch(  # noqa: PLR0913, PLR0917 - arrays are a kernel's state
    links: Array, info: Array, member: Array, shard: Array, block: int, tier: int, now: int
) -> None:
    """Make a block the most recent of a tier that holds it."""
    info[block, FIXED + tier] = now
    if member[POLICY] == LRU:
        _unlink(links, block, tier)
        _link(links, _head(member, shard, block), block, tier)


@njit(cache=True, nogil=True)
def _enter(  # noqa: PLR0913, PLR0917 - arrays are a kernel's state
    w: World, links: Array, info: Array, member: Array, shard: Array, tally: Array, block: int, tier: int, now: int
) -> None:
    """Place a block in a tier that does not hold it, as the most recent; the caller counts cached blocks."""
    held = links.shape[1] - 1
    links[block, held] |= 1 << tier
    info[block, FIXED + tier] = now
    info[block, FIXED + held // 2 + tier] = 0
    if member[POLICY] == RANDOM:
        place = member[FIRST] + tally[tier, SIZE]
        w.slots[place, tier], w.places[block, tier] = block, place
    else:
        _link(links, _head(member, shard, block), block, tier)
    tally[tier, SIZE] += 1


@njit(cache=True, nogil=True)
def _leave(w: World, owner: int, block: int, tier: int) -> None:
    """Take a block out of a tier and out of its policy's order."""
    if w.members[owner, POLICY] == RANDOM:
        last = w.members[owner, FIRST] + w.tallies[owner, tier, SIZE] - 1
        moved, place = w.slots[last, tier], w.places[block, tier]
        w.slots[place, tier], w.places[moved, tier] = moved, place
    else:
        _unlink(w.links, block, tier)
    _dropped(w, owner, block, tier)


@njit(cache=True, nogil=True)
def _dropped(w: World, owner: int, block: int, tier: int) -> None:
    w.links[block, w.links.shape[1] - 1] &= ~(1 << tier)
    w.tallies[owner, tier, SIZE] -= 1
    w.whole[CACHED] -= 1


@njit(cache=True, nogil=True)
def _expiry(w: World, block: int) -> int:
    """When a block's time is over; the end of time where that lies behind it."""
    anchor, ttl = w.info[block, ANCHOR], w.ttl_ns[w.info[block, BIRTH]]
    return anchor + ttl if anchor <= END_OF_TIME - ttl else END_OF_TIME


@njit(cache=True, nogil=True)
def _schedule(w: World, group: int, block: int) -> None:
    """Queue a block by its expiry: a binary heap, earliest first."""
    base, hole, time = w.groups[group, HEAP], w.groups[group, HEAP_SIZE], _expiry(w, block)
    w.groups[group, HEAP_SIZE] += 1
    while hole and w.heap_time[base + (hole - 1) // 2] > time:
        above = (hole - 1) // 2
        w.heap_time[base + hole], w.heap_block[base + hole] = w.heap_time[base + above], w.heap_block[base + above]
        hole = above
    w.heap_time[base + hole], w.heap_block[base + hole] = time, block


@njit(cache=True, nogil=True)
def _earliest(w: World, group: int) -> int:
    """Take the first block out of a group's queue."""
    base = w.groups[group, HEAP]
    block = w.heap_block[base]
    w.groups[group, HEAP_SIZE] -= 1
    size = w.groups[group, HEAP_SIZE]
    time, moved, hole, child = w.heap_time[base + size], w.heap_block[base + size], 0, 1
    while child < size:
        if child + 1 < size and w.heap_time[base + child + 1] < w.heap_time[base + child]:
            child += 1
        if w.heap_time[base + child] >= time:
            break
        w.heap_time[base + hole], w.heap_block[base + hole] = w.heap_time[base + child], w.heap_block[base + child]
        hole, child = child, 2 * child + 1
    w.heap_time[base + hole], w.heap_block[base + hole] = time, moved
    return int(block)


@njit(cache=True, nogil=True)
def _queue_if_earlier(w: World, group: int, block: int, anchor: int) -> None:
    """Before a block's anchor is set: queue it where its old entry, if any, would be met too late."""
    earlier = anchor < w.info[block, ANCHOR] or w.links[block, w.links.shape[1] - 1] == 0
    if earlier and w.ttl_ns[w.info[block, BIRTH]] != NEVER:
        w.info[block, ANCHOR] = anchor
        _schedule(w, group, block)


@njit(cache=True, nogil=True)
def _expire(w: World, group: int, now: int) -> None:
    """Take out of all tiers what has outlived its time."""
    while w.groups[group, HEAP_SIZE] and w.heap_time[w.groups[group, HEAP]] < now:
        block = _earliest(w, group)
        held = w.links[block, w.links.shape[1] - 1]
        if held == 0 or w.ttl_ns[w.info[block, BIRTH]] == NEVER:
            continue
        actual = _expiry(w, block)
        if actual >= now:
            _schedule(w, group, block)
            continue
        for tier in range(w.groups[group, TIERS]):
            if held >> tier & 1:
                w.tallies[w.info[block, OWNER], tier, EXPIRED] += 1
                _leave(w, w.info[block, OWNER], block, tier)
        if w.whole[LIVES]:
            w.lives[w.info[block, LIFE], LIFE_DEATH] = actual


@njit(cache=True, nogil=True)
def _copy(  # noqa: PLR0913, PLR0917 - a kernel takes no keywords at this speed
    w: World, group: int, owner: int, block: int, tier: int, now: int, kind: int
) -> None:
    """Let a living block enter one more tier; it lives on from its last access."""
    _enter(w, w.links, w.info, w.members[owner], w.shard, w.tallies[owner], block, tier, now)
    w.whole[CACHED] += 1
    w.tallies[owner, tier, kind] += 1
    anchor = w.info[block, LAST]
    if w.members[owner, EXPIRES]:
        _queue_if_earlier(w, group, block, anchor)
    w.info[block, ANCHOR] = anchor


@njit(cache=True, nogil=True)
def _copy_below(  # noqa: PLR0913, PLR0917 - the same
    w: World, group: int, owner: int, block: int, tier: int, now: int, kind: int
) -> bool:
    """Copy to the next tier, and on across write-through edges, wherever it is not held; whether that was anywhere."""
    copied = False
    for below in range(tier + 1, w.groups[group, TIERS]):
        if below > tier + 1 and w.edges[group, below - 1, EDGE_MODE] != THROUGH:
            break
        if not w.links[block, w.links.shape[1] - 1] >> below & 1:
            _copy(w, group, owner, block, below, now, kind)
            copied = True
    return copied


@njit(cache=True, nogil=True)
def _copies(w: World, group: int, owner: int, block: int, tier: int, now: int) -> bool:
    """Copy a block that was hit across a selective edge below and promoting edges above; whether anything was."""
    copied, counts = False, FIXED + w.links.shape[1] // 2 + tier
    selects = tier + 1 < w.groups[group, TIERS] and w.edges[group, tier, EDGE_MODE] == SELECTIVE
    if selects and w.info[block, counts] >= w.edges[group, tier, THRESHOLD]:
        copied = _copy_below(w, group, owner, block, tier, now, COPIED_DOWN)
    for above in range(tier - 1, -1, -1):
        if not w.edges[group, above, PROMOTES]:
            break
        _copy(w, group, owner, block, above, now, PROMOTED)
        copied = True
    return copied


@njit(cache=True, nogil=True)
def _stalest(w: World, owner: int, tier: int) -> int:
    """The list whose least recent block is oldest, of equal ones the first; -1 if all are empty."""
    best, oldest = -1, 0
    for head in range(w.members[owner, HEAD], w.members[owner, HEAD] + w.members[owner, SHARDS]):
        tail = w.links[head, 2 * tier]
        if tail != head and (best < 0 or w.info[tail, FIXED + tier] < oldest):
            best, oldest = head, w.info[tail, FIXED + tier]
    return best


@njit(cache=True, nogil=True)
def _evict_listed(w: World, owner: int, tier: int, count: int, at: int) -> int:
    """Victims of recency lists, from place ``at`` on; how many."""
    shards = w.members[owner, SHARDS]
    wanted = max(count, int(max(w.amplification[owner], 1.0) * count))
    rounds = min(w.members[owner, SAMPLE_TIMES], shards)
    share, taken = -(-wanted // rounds), 0
    for _ in range(rounds):
        head = _stalest(w, owner, tier)
        if head < 0 or taken >= wanted:
            break
        for _ in range(share):
            block = w.links[head, 2 * tier]
            if block == head:
                break
            _unlink(w.links, block, tier)
            w.victims[at + taken] = block
            taken += 1
    if taken > count:
        partial_sort_by(w.victims[at : at + taken], count, w.info, FIXED + tier)
        for back in range(count, taken):
            block = w.victims[at + back]
            head = _head(w.members[owner], w.shard, block)
            _link(w.links, w.links[head, 2 * tier], block, tier)
        taken = count
    for place in range(at, at + taken):
        _dropped(w, owner, w.victims[place], tier)
    return taken


@njit(cache=True, nogil=True)
def _evict_drawn(w: World, owner: int, tier: int, count: int, at: int) -> int:
    """Victims of a random sample, from place ``at`` on; how many."""
    resident = w.tallies[owner, tier, SIZE]
    size = min(w.members[owner, SAMPLE_SIZE], resident)
    state, first = w.random[owner, tier], w.members[owner, FIRST]
    for place in range(size):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        w.scratch[place] = w.slots[first + np.int64(state % np.uint64(resident)), tier]
    w.random[owner, tier] = state
    wanted, taken = min(count, size), 0
    partial_sort_by(w.scratch[:size], wanted, w.info, FIXED + tier)
    for place in range(wanted):
        block = w.scratch[place]
        if w.links[block, w.links.shape[1] - 1] >> tier & 1:
            _leave(w, owner, block, tier)
            w.victims[at + taken] = block
            taken += 1
    return taken


@njit(cache=True, nogil=True)
def _evict(w: World, group: int, tier: int, actor: int) -> int:
    """Evict from a tier until its quota holds, or nobody has anything left to give; how many victims."""
    quota, excess = w.quotas[group, tier], 0
    if quota < 0:
        return 0
    for each in range(w.groups[group, FROM], w.groups[group, TO]):
        excess += w.tallies[each, tier, SIZE] * w.members[each, BYTES]
    excess -= quota
    found = 0
    while excess > 0:
        before, freed, yields = found, 0, False
        for each in range(w.groups[group, FROM], w.groups[group, TO]):
            if (each != actor and w.whole[MODE] != GROUP_ROUGH) or not w.members[each, YIELDS]:
                continue
            yields = True
            count = w.whole[BATCH]
            if w.whole[MODE] == INSTANCE_PRECISE:
                count = min(count, -(-excess // w.members[each, BYTES]))
            if w.members[each, POLICY] == RANDOM:
                gone = _evict_drawn(w, each, tier, count, found)
            else:
                gone = _evict_listed(w, each, tier, count, found)
            found += gone
            freed += gone * w.members[each, BYTES]
        if found == before:
            w.groups[group, ABOVE] += yields
            break
        excess -= freed
    return found


@njit(cache=True, nogil=True)
def _make_room(w: World, group: int, actor: int, now: int) -> None:
    """Check each tier from the nearest; what a cascading edge takes over counts in the next tier's check."""
    for tier in range(w.groups[group, TIERS]):
        found = _evict(w, group, tier, actor)
        cascades = tier + 1 < w.groups[group, TIERS] and w.edges[group, tier, EDGE_MODE] == CASCADING
        for place in range(found):
            block = w.victims[place]
            w.tallies[w.info[block, OWNER], tier, EVICTED] += 1
            if cascades:
                _copy_below(w, group, w.info[block, OWNER], block, tier, now, DEMOTED)
        for place in range(found if w.whole[LIVES] else 0):
            block = w.victims[place]
            if w.links[block, w.links.shape[1] - 1] == 0:
                w.lives[w.info[block, LIFE], LIFE_DEATH] = now


@njit(cache=True, nogil=True)
def _match(w: World, path: Array, mask: int, bits: Array, ends: Array, outcome: Array) -> int:
    """Put the held blocks of the leading hits into ``scratch``, and count local and remote hits; how many are held."""
    links, scratch, trusted, hits = w.links, w.scratch, w.whole[TRUSTED], 0
    held = links.shape[1] - 1
    for index in range(path.size):
        local = is_masked(mask, index, bits, ends)
        if path[index] >= 0 and links[path[index], held] != 0:
            scratch[hits] = path[index]
            hits += 1
        elif not (trusted and local):
            break
        outcome[LOCAL if local else REMOTE] += 1
    return hits


@njit(cache=True, nogil=True)
def _read(w: World, owner: int, now: int, hits: int, outcome: Array) -> None:  # noqa: C901 - one loop, for speed
    """Make what was matched recent, and copy between tiers."""
    links, info, member, shard, scratch, lives = w.links, w.info, w.members[owner], w.shard, w.scratch, w.lives
    tally, edges, group = w.tallies[owner], w.edges[member[GROUP]], w.groups[member[GROUP]]
    tail_first, records, expires, tiers = w.whole[TAIL_FIRST], w.whole[LIVES], member[EXPIRES], group[TIERS]
    copied, held = False, links.shape[1] - 1
    for step in range(hits):
        block = scratch[hits - 1 - step if tail_first else step]
        bits, tier = links[block, held], 0
        while not bits >> tier & 1:
            tier += 1
        outcome[BY_TIER + tier] += 1
        info[block, LAST] = now
        info[block, READS] += 1
        info[block, FIXED + held // 2 + tier] += 1
        _touch(links, info, member, shard, block, tier, now)
        tally[tier, READ_FROM] += 1
        if group[REFRESH]:
            if expires:
                _queue_if_earlier(w, member[GROUP], block, now)
            info[block, ANCHOR] = now
        if records:
            lives[info[block, LIFE], LIFE_READS] += 1
            lives[info[block, LIFE], LIFE_LAST] = now
        for below in range(tier + 1, tiers):
            if not edges[below - 1, PROPAGATES]:
                break
            if bits >> below & 1:
                _touch(links, info, member, shard, block, below, now)
        if tier or (tiers > 1 and edges[tier, EDGE_MODE] == SELECTIVE):
            copied |= _copies(w, member[GROUP], owner, block, tier, now)
    if copied:
        _make_room(w, member[GROUP], owner, now)


@njit(cache=True, nogil=True)
def _bear(w: World, owner: int, path: Array, now: int, event: int) -> int:
    """Let the blocks of a path that no tier has be born; how many."""
    links, info, lives, whole, born, held = w.links, w.info, w.lives, w.whole, 0, w.links.shape[1] - 1
    records, expires = whole[LIVES], w.members[owner, EXPIRES]
    for block in path:
        if links[block, held] != 0:
            continue
        born += 1
        info[block, LAST], info[block, BIRTH] = now, event
        if expires:
            _queue_if_earlier(w, w.members[owner, GROUP], block, now)
        info[block, ANCHOR] = now
        if records:
            life = whole[BORN]
            info[block, LIFE] = life
            lives[life, LIFE_BLOCK], lives[life, LIFE_READS], lives[life, LIFE_DEATH] = block, 0, -1
            lives[life, LIFE_BIRTH] = lives[life, LIFE_LAST] = now
            whole[BORN] += 1
    return born


@njit(cache=True, nogil=True)
def _write(w: World, owner: int, path: Array, now: int, event: int) -> int:
    """Bring in the blocks of a path that no tier has, and make room for them; how many there were."""
    born = _bear(w, owner, path, now, event)
    links, info, member, shard, tally = w.links, w.info, w.members[owner], w.shard, w.tallies[owner]
    group, held = w.groups[member[GROUP]], links.shape[1] - 1
    tail_first, refresh, tiers, written = w.whole[TAIL_FIRST], w.whole[WRITE_REFRESH], group[TIERS], group[WRITTEN]
    if born or refresh:
        for step in range(path.size):
            block = path[path.size - 1 - step if tail_first else step]
            bits = links[block, held]
            if bits == 0:
                for tier in range(written):
                    _enter(w, links, info, member, shard, tally, block, tier, now)
                    tally[tier, WRITTEN_TO] += 1
            elif refresh:
                for tier in range(tiers):
                    if bits >> tier & 1:
                        _touch(links, info, member, shard, block, tier, now)
    w.whole[CACHED] += born * written
    _make_room(w, member[GROUP], owner, now)
    return born


@njit(cache=True, nogil=True)
def run(  # noqa: PLR0913, PLR0917 - arrays are a kernel's state
    w: World, events: Array, ids: Array, bits: Array, ends: Array, outcomes: Array, start: int, stop: int
) -> None:
    """Run the events of a stretch in order, and note what each came to."""
    groups, members, tallies, whole, tiers = w.groups, w.members, w.tallies, w.whole, w.tallies.shape[1]
    for event in range(start, stop):
        now, owner, outcome = events[event, TIME], events[event, INSTANCE], outcomes[event]
        path, group = ids[events[event, START] : events[event, STOP]], members[owner, GROUP]
        groups[group, CLOCK] = max(groups[group, CLOCK], now)
        if groups[group, HEAP_SIZE]:
            _expire(w, group, groups[group, CLOCK])
        if events[event, WRITES]:
            outcome[LOCAL] = _write(w, owner, path, now, event)
        else:
            _read(w, owner, now, _match(w, path, events[event, MASK], bits, ends, outcome), outcome)
        outcome[ALL_CACHED] = whole[CACHED]
        for tier in range(tiers):
            outcome[BY_TIER + tiers + tier] = tallies[owner, tier, SIZE]
