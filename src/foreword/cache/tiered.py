"""The compiled cache of a replay: any tiers, edges, modes and switches.

It does what ``group.py``, ``instance.py`` and the policies do, on the arrays of ``tables.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.expiring import earliest, expiry_ns, queue, schedule
from foreword.cache.further import evict_further, pass_read
from foreword.cache.interning import is_masked
from foreword.cache.jit import entry, kernel
from foreword.cache.leaves import evict_leaves, insert, prune
from foreword.cache.lists import drop, link
from foreword.cache.living import access_life, begin_life, end_life
from foreword.cache.orders import enter, head_of, raise_run, touch, vacate
from foreword.cache.pooling import hit_limit, touch_path, write_pool
from foreword.cache.sorting import partial_sort_by
from foreword.cache.table import NEVER
from foreword.cache.tables import (
    ABOVE,
    ALL_CACHED,
    ANCHOR,
    BATCH,
    BIRTH,
    BOUND,
    BY_TIER,
    BYTES,
    CACHED,
    CASCADING,
    CLOCK,
    COPIED_DOWN,
    COUNT,
    DEMOTED,
    DUE,
    EDGE_MODE,
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
    HELD,
    INSTANCE,
    INSTANCE_PRECISE,
    LAST,
    LEAF,
    LIVES,
    LOCAL,
    LRU,
    MASK,
    MODE,
    MOMENT,
    NEWER,
    NODES,
    OLDER,
    OWNER,
    POLICY,
    POOL,
    PROMOTED,
    PROMOTES,
    PROPAGATES,
    QUOTA,
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
    TO,
    TOKENS,
    TRUSTED,
    WHEN,
    WIDTH,
    WRITE_REFRESH,
    WRITES,
    WRITTEN,
    WRITTEN_TO,
    YIELDS,
    Further,
    World,
)

if TYPE_CHECKING:
    from foreword.cache.tables import Array


@kernel
def _expire(w: World, group: Array) -> None:
    """Take out of all tiers of a group what has outlived its time."""
    now = w.times[group[CLOCK]]
    while group[HEAP_SIZE] and w.heap[group[HEAP], DUE] < now:
        block = earliest(w.heap, group)
        held, owner = w.rows[block, HELD], w.rows[block, OWNER]
        if held == 0 or w.ttl_ns[w.rows[block, BIRTH]] == NEVER:
            continue
        actual = expiry_ns(w, block)
        if actual >= now:
            schedule(w.heap, group, block, actual)
            continue
        for tier in range(group[TIERS]):
            if held >> tier & 1:
                vacate(w, w.members[owner], block, tier, w.tallies[owner, tier, SIZE])
                drop(w.rows, w.nodes, block, tier)
                w.tallies[owner, tier, SIZE] -= 1
                w.tallies[owner, tier, EXPIRED] += 1
                w.whole[CACHED] -= 1
        end_life(w, block, actual)


@kernel
def _copy(  # noqa: PLR0913, PLR0917 - a kernel takes no keywords
    w: World, x: Further | None, owner: int, block: int, tier: int, now: int, kind: int
) -> None:
    """Let a living block enter one more tier; it lives on from its last access."""
    member, tally = w.members[owner], w.tallies[owner]
    enter(w, x, owner, block, tier, now)
    tally[tier, kind] += 1
    w.whole[CACHED] += 1
    anchor = w.rows[block, LAST]
    queued = w.rows[block, HELD] != 1 << tier and anchor >= w.rows[block, ANCHOR]
    w.rows[block, ANCHOR] = anchor
    if member[EXPIRES] and not queued:
        queue(w, w.groups[member[GROUP]], block)


@kernel
def _copy_below(  # noqa: PLR0913, PLR0917 - the same
    w: World, x: Further | None, owner: int, block: int, tier: int, now: int, kind: int
) -> int:
    """Copy to the next tier, and on across write-through edges, wherever it is not held; to how many tiers."""
    group, copied = w.members[owner, GROUP], 0
    for below in range(tier + 1, w.groups[group, TIERS]):
        if below > tier + 1 and w.tiers[group, below - 1, EDGE_MODE] != THROUGH:
            break
        if not w.rows[block, HELD] >> below & 1:
            _copy(w, x, owner, block, below, now, kind)
            copied += 1
    return copied


@kernel
def _stalest(rows: Array, member: Array, at: int) -> int:
    """The list whose least recent block is oldest, of equal ones the first; -1 if all are empty."""
    best, oldest = -1, 0
    for head in range(member[HEAD], member[HEAD] + member[SHARDS]):
        tail = rows[head, at + NEWER]
        if tail != head and (best < 0 or rows[tail, at + WHEN] < oldest):
            best, oldest = head, rows[tail, at + WHEN]
    return best


@kernel
def _evict_listed(w: World, owner: int, tier: int, count: int, first: int) -> int:
    """Victims of recency lists, from place ``first`` on; how many."""
    rows, member, victims, at = w.rows, w.members[owner], w.victims, FIXED + WIDTH * tier
    wanted = max(count, int(max(w.amplification[owner], 1.0) * count))
    rounds = min(member[SAMPLE_TIMES], member[SHARDS])
    share, taken = -(-wanted // rounds), 0
    for _ in range(rounds):
        head = _stalest(rows, member, at)
        if head < 0 or taken >= wanted:
            break
        block, stop = rows[head, at + NEWER], taken + share
        while block != head and taken < stop:
            victims[first + taken] = block
            block = rows[block, at + NEWER]
            taken += 1
        rows[head, at + NEWER], rows[block, at + OLDER] = block, head
    if taken > count:
        partial_sort_by(victims[first : first + taken], count, rows, at + WHEN)
        for back in range(count, taken):
            block = victims[first + back]
            link(rows, rows[head_of(w, member, block), at + NEWER], block, at)
        taken = count
    for place in range(first, first + taken):
        drop(rows, w.nodes, victims[place], tier)
    return taken


@kernel
def _evict_drawn(w: World, owner: int, tier: int, count: int, first: int) -> int:
    """Victims of a random sample, from place ``first`` on; how many."""
    rows, member, scratch, resident = w.rows, w.members[owner], w.scratch, w.tallies[owner, tier, SIZE]
    size = min(member[SAMPLE_SIZE], resident)
    state = w.random[owner, tier]
    for place in range(size):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        scratch[place] = w.slots[member[FIRST] + np.int64(state % np.uint64(resident)), tier]
    w.random[owner, tier] = state
    wanted, taken = min(count, size), 0
    partial_sort_by(scratch[:size], wanted, rows, FIXED + WIDTH * tier + WHEN)
    for place in range(wanted):
        block = scratch[place]
        if rows[block, HELD] >> tier & 1:
            vacate(w, member, block, tier, resident - taken)
            drop(rows, w.nodes, block, tier)
            w.victims[first + taken] = block
            taken += 1
    return taken


@kernel
def _give(w: World, x: Further | None, owner: int, tier: int, count: int, first: int) -> int:
    """Let an instance evict up to so many blocks from a tier; how many went."""
    if w.members[owner, POLICY] == RANDOM:
        gone = _evict_drawn(w, owner, tier, count, first)
    elif w.members[owner, POLICY] == LEAF:
        gone = evict_leaves(w, owner, tier, count, first)
    elif w.members[owner, POLICY] == LRU:
        gone = _evict_listed(w, owner, tier, count, first)
    else:
        gone = 0
        if x is not None:
            gone = evict_further(w, x, owner, tier, count, first)
    w.tallies[owner, tier, SIZE] -= gone
    w.tallies[owner, tier, EVICTED] += gone
    w.whole[CACHED] -= gone
    return gone


@kernel
def _evict(w: World, x: Further | None, group: int, tier: int, actor: int) -> int:
    """Evict from a tier until its quota holds, or nobody has anything left to give; how many victims."""
    members, mode, excess, found = w.members, w.whole[MODE], -w.tiers[group, tier, QUOTA], 0
    if excess > 0:
        return 0
    for each in range(w.groups[group, FROM], w.groups[group, TO]):
        excess += w.tallies[each, tier, SIZE] * members[each, BYTES]
    while excess > 0:
        before, freed, yields = found, 0, False
        for each in range(w.groups[group, FROM], w.groups[group, TO]):
            if (each != actor and mode != GROUP_ROUGH) or not members[each, YIELDS]:
                continue
            yields = True
            count = w.whole[BATCH]
            if mode == INSTANCE_PRECISE:
                count = min(count, -(-excess // members[each, BYTES]))
            gone = _give(w, x, each, tier, count, found)
            found += gone
            freed += gone * members[each, BYTES]
        if found == before:
            w.groups[group, ABOVE] += yields
            break
        excess -= freed
    return found


@kernel
def _make_room(w: World, x: Further | None, actor: int, now: int) -> None:
    """Check each tier from the nearest; what a cascading edge takes over counts in the next tier's check."""
    group = w.members[actor, GROUP]
    tiers = w.groups[group, TIERS]
    for tier in range(tiers):
        found = _evict(w, x, group, tier, actor)
        if found == 0:
            continue
        victims = w.victims[:found]
        if tier + 1 < tiers and w.tiers[group, tier, EDGE_MODE] == CASCADING:
            for block in victims:
                _copy_below(w, x, w.rows[block, OWNER], block, tier, now, DEMOTED)
        if w.whole[LIVES]:
            for block in victims:
                if w.rows[block, HELD] == 0:
                    end_life(w, block, w.times[now])
        if w.whole[NODES]:
            prune(w, victims)


@kernel
def _match(w: World, path: Array, mask: int, bits: Array, ends: Array, outcome: Array) -> int:
    """Put the held blocks of the leading hits into ``scratch``, and count local and remote hits; how many are held."""
    hits, local_blocks, matched, trusted = 0, 0, 0, w.whole[TRUSTED]
    for index in range(path.size):
        local = is_masked(mask, index, bits, ends)
        block = path[index]
        if block >= 0 and w.rows[block, HELD] != 0:
            w.scratch[hits] = block
            hits += 1
        elif not (trusted and local):
            break
        matched += 1
        local_blocks += local
    outcome[LOCAL], outcome[REMOTE] = local_blocks, matched - local_blocks
    return hits


@kernel
def _hit(w: World, x: Further | None, owner: int, block: int, tier: int, now: int) -> int:
    """What one hit sets off in other tiers than its own, and beyond hits: lives and copies; how many of these."""
    group, copied, tiers = w.members[owner, GROUP], 0, w.tiers[w.members[owner, GROUP]]
    bits, last = w.rows[block, HELD], w.groups[group, TIERS] - 1
    for below in range(tier + 1, last + 1):
        if not tiers[below - 1, PROPAGATES]:
            break
        if bits >> below & 1:
            touch(w, x, owner, block, below, now)
    selects = tier < last and tiers[tier, EDGE_MODE] == SELECTIVE
    if selects and w.rows[block, FIXED + WIDTH * tier + COUNT] >= tiers[tier, THRESHOLD]:
        copied += _copy_below(w, x, owner, block, tier, now, COPIED_DOWN)
    for above in range(tier - 1, -1, -1):
        if not tiers[above, PROMOTES]:
            break
        _copy(w, x, owner, block, above, now, PROMOTED)
        copied += 1
    return copied


@kernel
def _read(w: World, x: Further | None, owner: int, hits: int, now: int, outcome: Array) -> int:
    """Make what was hit recent, and copy between tiers; how many copies were made."""
    rows, scratch, member = w.rows, w.scratch, w.members[owner]
    refresh, records, tail_first = w.groups[member[GROUP], REFRESH], w.whole[LIVES], w.whole[TAIL_FIRST]
    tiers, copied = w.groups[member[GROUP], TIERS], 0
    for step in range(hits):
        block = scratch[hits - 1 - step if tail_first else step]
        bits, tier = rows[block, HELD], 0
        while not bits >> tier & 1:
            tier += 1
        at = FIXED + WIDTH * tier
        outcome[BY_TIER + tier] += 1
        rows[block, LAST] = now
        rows[block, READS] += 1
        rows[block, at + COUNT] += 1
        touch(w, x, owner, block, tier, now)
        if refresh:
            rows[block, ANCHOR] = now
        if records:
            access_life(w, block, now)
        if tiers > 1:
            copied += _hit(w, x, owner, block, tier, now)
    for tier in range(tiers):
        raise_run(w, member, tier)
        w.tallies[owner, tier, READ_FROM] += outcome[BY_TIER + tier]
    return copied


@kernel
def _bear(w: World, owner: int, path: Array, event: int, now: int) -> int:
    """Let the blocks of a path that no tier has be born, and put them into ``scratch``; how many."""
    born, group, expires = 0, w.groups[w.members[owner, GROUP]], w.members[owner, EXPIRES]
    for block in path:
        if w.rows[block, HELD] != 0:
            continue
        w.scratch[born] = block
        born += 1
        begin_life(w, block, event, now)
        if expires:
            queue(w, group, block)
    return born


@kernel
def _place(w: World, x: Further | None, owner: int, path: Array, now: int) -> None:
    """Bring the blocks of a path that no tier has into the tiers that are written, and refresh the others."""
    rows, member, tally, written = (
        w.rows,
        w.members[owner],
        w.tallies[owner],
        w.groups[w.members[owner, GROUP], WRITTEN],
    )
    tail_first, tiers = w.whole[TAIL_FIRST], w.groups[member[GROUP], TIERS]
    for step in range(path.size):
        block = path[path.size - 1 - step if tail_first else step]
        bits = rows[block, HELD]
        if bits == 0:
            for tier in range(written):
                enter(w, x, owner, block, tier, now)
                tally[tier, WRITTEN_TO] += 1
            w.whole[CACHED] += written
        else:
            for tier in range(tiers):
                if bits >> tier & 1:
                    touch(w, x, owner, block, tier, now)
    for tier in range(tiers):
        raise_run(w, member, tier)


@kernel
def _write(w: World, x: Further | None, owner: int, path: Array, event: int, now: int) -> int:
    """Bring in the blocks of a path that no tier has; how many there were."""
    if w.members[owner, POLICY] == LEAF:
        insert(w, path)
    born = _bear(w, owner, path, event, now)
    _place(w, x, owner, path if w.whole[WRITE_REFRESH] else w.scratch[:born], now)
    return born


@kernel
def _wrote(w: World, x: Further | None, event: Array, path: Array, number: int, outcome: Array) -> bool:
    """Run a write; whether room may have to be made after it."""
    owner, now = event[INSTANCE], event[MOMENT]
    if x is not None:  # noqa: SIM102 - Numba leaves out what is behind a plain test for None
        if w.members[owner, POLICY] == POOL:
            outcome[LOCAL] = write_pool(w, x, owner, path, event[TOKENS], number, now)
            return False
    outcome[LOCAL] = _write(w, x, owner, path, number, now)
    return True


@kernel
def _copied(w: World, x: Further | None, event: Array, path: Array, masks: tuple[Array, Array], outcome: Array) -> bool:
    """Run a read; whether room may have to be made after it, for what it copied."""
    owner = event[INSTANCE]
    pooled = w.members[owner, POLICY] == POOL
    if x is not None:  # noqa: SIM102 - Numba leaves out what is behind a plain test for None
        if w.members[owner, POLICY] == BOUND:
            pass_read(w, x, owner, event[START], path)
    upto = hit_limit(w, owner, path.size, event[TOKENS]) if pooled else path.size
    hits = _match(w, path[:upto], event[MASK], masks[0], masks[1], outcome)
    if x is not None:  # noqa: SIM102 - Numba leaves out what is behind a plain test for None
        if pooled:
            touch_path(w, x, owner, w.scratch[:hits])
    return _read(w, x, owner, hits, event[MOMENT], outcome) > 0


@entry
def run(  # noqa: PLR0913, PLR0917 - a kernel takes no keywords
    w: World,
    x: Further | None,
    events: Array,
    ids: Array,
    masks: tuple[Array, Array],
    outcomes: Array,
    start: int,
    stop: int,
) -> None:
    """Run the events of a stretch in order, and note what each came to."""
    tiers = w.tallies.shape[1]
    for number in range(start, stop):
        event, outcome = events[number], outcomes[number]
        owner, path = event[INSTANCE], ids[event[START] : event[STOP]]
        group = w.groups[w.members[owner, GROUP]]
        group[CLOCK] = max(group[CLOCK], event[MOMENT])
        if group[HEAP_SIZE]:
            _expire(w, group)
        if event[WRITES]:
            crowds = _wrote(w, x, event, path, number, outcome)
        else:
            crowds = _copied(w, x, event, path, masks, outcome)
        if crowds:
            _make_room(w, x, owner, event[MOMENT])
        outcome[ALL_CACHED] = w.whole[CACHED]
        for tier in range(tiers):
            outcome[BY_TIER + tiers + tier] = w.tallies[owner, tier, SIZE]
