"""The replay: a trace, or another simulator, against groups of instances with tiered caches (spec: replay B2).

>>> from foreword.config.replay import ReplayConfig
>>> group = {
...     "group_name": "g",
...     "quota_capacity": -1,
...     "used_percentage": 1.0,
...     "tier_strategy": {"hierarchical_eviction_enabled": False},
...     "storages": [],
...     "instances": [
...         {
...             "instance_id": "a",
...             "block_size": 16,
...             "bytes_per_token": 512,
...             "eviction_policy_type": "lru",
...             "eviction_policy_params": {},
...         }
...     ],
... }
>>> document = {
...     "trace_file_path": "",
...     "output_result_path": "",
...     "eviction_params": {"eviction_mode": 3, "eviction_batch_size_per_instance": 100},
...     "instance_groups": [group],
... }
>>> replay = Replay(ReplayConfig.from_document(document))
>>> replay.write("a", 1, keys=[11, 12]).written_blocks
2
>>> replay.read("a", 2, keys=[11, 12, 13], input_len=50).remote_blocks
2
>>> replay.rates("a").hit_ratio
0.64
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foreword.cache.group import Lookup
from foreword.cache.instance import Tracking, Traffic
from foreword.cache.pooled import group_of
from foreword.errors import ConfigError, DataError
from foreword.simulate.cores import Core
from foreword.simulate.schedule import PendingWrites
from foreword.simulate.series import Series
from foreword.trace.schema import INT64_MAX, PREFIX_MATCH, RowError, RowKind, RowRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from foreword.cache.group import CacheGroup, ReadOutcome, WriteOutcome
    from foreword.cache.instance import InstanceCache
    from foreword.cache.masks import BlockMask
    from foreword.cache.table import State
    from foreword.config.replay import ReplayConfig
    from foreword.simulate.schedule import DelayedWrite
    from foreword.simulate.series import Totals
    from foreword.trace.schema import TraceRow

STATE_VERSION = 2
UNKNOWN_INSTANCE = "instance_id: not in the config"
UNSUPPORTED_QUERY = "query_type: not prefix_match"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a whole run came to for one instance, where its caches are still in the form of the compiled core."""

    series: Series
    cached_blocks: tuple[int, ...]
    stranded_blocks: int
    traffic: list[Traffic]
    over_quota_checks: int


@dataclass(slots=True)
class ReplayedInstance:
    """An instance, the group that it shares capacities with, and what was measured of it."""

    group: CacheGroup
    cache: InstanceCache
    series: Series
    trace_ids: list[str] = field(default_factory=list)
    paths: list[array[int]] = field(default_factory=list)
    """Keys of each read, kept for the analysis of templates only."""
    figures: Figures | None = None

    @property
    def cached_blocks(self) -> tuple[int, ...]:
        """Blocks in each tier."""
        return self.cache.cached_blocks if self.figures is None else self.figures.cached_blocks

    @property
    def stranded_blocks(self) -> int:
        """Blocks that are cached but cannot be hit, since a block before them is not."""
        return self.cache.stranded_blocks() if self.figures is None else self.figures.stranded_blocks

    @property
    def instance_id(self) -> str:
        """Its name in traces and file names."""
        return self.cache.config.instance_id


class Replay:
    """State of a replay between rows."""

    def __init__(self, config: ReplayConfig, *, lifecycle: bool = False, templates: bool = False) -> None:
        self.config = config
        self.templates = templates
        tracking = Tracking(lifecycle=lifecycle, tree=templates)
        self.groups = [group_of(group, config, tracking=tracking) for group in config.instance_groups]
        self.instances = {
            cache.config.instance_id: ReplayedInstance(group, cache, Series(len(group.tiers)))
            for group in self.groups
            for cache in group.instances
        }
        self.skipped: Counter[str] = Counter()
        self.core = Core.REFERENCE
        """Which core ran the rows."""
        self._pending = PendingWrites()
        self._later: Callable[[], State] | None = None

    @property
    def lifecycle(self) -> bool:
        """Whether the lives of blocks are recorded."""
        return any(at.cache.lifecycle is not None for at in self.instances.values())

    def adopt(self, figures: Mapping[str, Figures], *, later: Callable[[], State]) -> None:
        """Take over what a compiled run came to; its state is built when somebody reads, writes or saves."""
        for name, at in self.instances.items():
            at.figures = figures[name]
            at.series, at.cache.traffic = at.figures.series, at.figures.traffic
            at.group.over_quota_checks = at.figures.over_quota_checks
        self._later = later

    def settle(self) -> None:
        """Have the caches themselves, if a compiled run left them to be built."""
        if self._later is not None:
            state, self._later = self._later(), None
            self._load(state)

    @property
    def foresees(self) -> bool:
        """Whether a policy has to know all rows before the first one runs."""
        return any(at.cache.foresight is not None for at in self.instances.values())

    def foresee(self, rows: Iterable[TraceRow]) -> None:
        """Look through the rows that will be fed, in the order of their times."""
        reads = list(self._planned_reads(rows))
        for cache, keys in reads:
            if cache.foresight is not None:
                cache.foresight.expect(list(cache.table.index.known(keys)))

    def _planned_reads(self, rows: Iterable[TraceRow]) -> Iterator[tuple[InstanceCache, Sequence[int]]]:
        """Reads that will run; on the way, blocks become known in the order in which they will be written."""
        pending = PendingWrites()
        for row in rows:
            self._make_known(pending.due(row.timestamp_ns))
            at = self.instances.get(row.instance_id)
            if at is None or at.cache.foresight is None or not self._will_run(row):
                continue
            if row.kind is RowKind.WRITE:
                at.cache.table.intern(row.keys)
                continue
            if row.kind is RowKind.REQUEST:
                pending.add(self._due_ns(row), row)
            yield at.cache, row.keys
        self._make_known(pending.due(None))

    def _make_known(self, writes: Iterable[DelayedWrite]) -> None:
        for write in writes:
            self.instances[write.instance_id].cache.table.intern(write.keys)

    def _will_run(self, row: TraceRow) -> bool:
        if row.kind is RowKind.WRITE:
            return True
        try:
            self.check_read(row)
        except RowRefused:
            return False
        return row.query_type == PREFIX_MATCH

    def feed(self, row: TraceRow) -> None:
        """Run what is due, then the row. Rows come in the order of their times.

        A row of an unknown instance or query type is skipped and counted; ``RowRefused`` leaves the caches as they are.
        """
        self.settle()
        self._run_due(row.timestamp_ns)
        if row.instance_id not in self.instances:
            self.skipped[UNKNOWN_INSTANCE] += 1
        elif row.kind is RowKind.WRITE:
            self.write(row.instance_id, row.timestamp_ns, keys=row.keys, ttl_us=row.ttl_us)
        elif row.query_type != PREFIX_MATCH:
            self.skipped[UNSUPPORTED_QUERY] += 1
        else:
            self._feed_read(row)

    def finish(self) -> None:
        """Run all writes that still wait."""
        self._run_due(None)

    @property
    def started(self) -> bool:
        """Whether it has read or written anything."""
        return bool(self.skipped) or any(len(at.series) or at.series.write_ns for at in self.instances.values())

    def check_read(self, row: TraceRow) -> None:
        """Raise ``RowRefused`` for a get or request of a known instance that cannot be executed."""
        if row.kind is RowKind.REQUEST and self._due_ns(row) > INT64_MAX:
            raise RowRefused(RowError(row.line, "timestamp_ns", "its delayed write is due past 64 bits"))
        try:
            _check_lengths(len(row.keys), row.input_len, self._instance(row.instance_id).cache.config.block_size)
        except RowRefused as refused:
            raise RowRefused(refused.error.at(row.line)) from None

    def read(
        self,
        instance_id: str,
        timestamp_ns: int,
        *,
        keys: Sequence[int],
        input_len: int,
        block_mask: BlockMask = 0,
        trace_id: str = "",
    ) -> ReadOutcome:
        """Look a prompt up: the keys of its full blocks, of ``input_len`` tokens."""
        self.settle()
        at = self._instance(instance_id)
        _check_lengths(len(keys), input_len, at.cache.config.block_size)
        outcome = at.group.read(at.cache, Lookup(keys, block_mask, timestamp_ns, input_len))
        cached = sum(sum(each.cache.cached_blocks) for each in self.instances.values())
        at.series.add_read(timestamp_ns, outcome, blocks=len(keys), input_tokens=input_len, all_cached_blocks=cached)
        if self.templates:
            at.trace_ids.append(trace_id)
            at.paths.append(array("q", keys))
        return outcome

    def write(
        self, instance_id: str, timestamp_ns: int, *, keys: Sequence[int], ttl_us: int = 0, input_len: int = 0
    ) -> WriteOutcome:
        """Cache the blocks of a prompt now, of ``input_len`` tokens if that is known (policy ``vllm``)."""
        self.settle()
        at = self._instance(instance_id)
        outcome = at.group.write(at.cache, keys, now=timestamp_ns, ttl_us=ttl_us, input_tokens=input_len)
        at.series.add_write(timestamp_ns, len(keys), new_blocks=outcome.written_blocks)
        return outcome

    def clear(self, instance_id: str | None = None) -> None:
        """Empty the caches of one instance or of all; what was measured stays."""
        self.settle()
        for at in self.instances.values() if instance_id is None else [self._instance(instance_id)]:
            at.cache.clear()

    def reset_rates(self) -> None:
        """Measure from here on: series, traffic and counts begin again; what is cached stays."""
        self.settle()
        for at in self.instances.values():
            tiers = len(at.group.tiers)
            at.series, at.cache.traffic = Series(tiers), [Traffic() for _ in range(tiers)]
            at.trace_ids, at.paths = [], []
        for group in self.groups:
            group.over_quota_checks = 0
        self.skipped.clear()

    def rates(self, instance_id: str) -> Totals:
        """Sums and ratios over the reads of an instance so far."""
        at = self._instance(instance_id)
        return at.series.totals(at.cache.config.block_size)

    def save(self) -> State:
        """Everything, as a document of JSON; loading it and going on gives what one run gives."""
        self.settle()
        return {
            "schema_version": STATE_VERSION,
            "config": self.meaning(),
            "groups": [group.save() for group in self.groups],
            "pending": self._pending.save(),
            "skipped": dict(self.skipped),
            "series": {name: at.series.save() for name, at in self.instances.items()},
            "reads": {
                name: [at.trace_ids.copy(), [p.tolist() for p in at.paths]] for name, at in self.instances.items()
            },
        }

    def load(self, state: State) -> None:
        """Become the replay that was saved; ``ConfigError`` where that had another config or recorded other things."""
        if state.get("schema_version") != STATE_VERSION or state.get("config") != self.meaning():
            raise ConfigError("the saved state is of another config or version", field="state")
        self._later = None
        self._load(state)

    def _load(self, state: State) -> None:
        for group, saved in zip(self.groups, state["groups"], strict=True):
            group.load(saved)
        self._pending.load(state["pending"])
        self.skipped = Counter(state["skipped"])
        for name, at in self.instances.items():
            at.series.load(state["series"][name])
            trace_ids, paths = state["reads"][name]
            at.trace_ids, at.paths = list(trace_ids), [array("q", keys) for keys in paths]
            at.figures = None

    def meaning(self) -> State:
        """What the config and the records asked for say, but for where files are."""
        document = self.config.model_dump(mode="json", exclude={"trace_file_path", "output_result_path"})
        return {**document, "lifecycle": self.lifecycle, "templates": self.templates}

    def _feed_read(self, row: TraceRow) -> None:
        self.check_read(row)
        self.read(
            row.instance_id,
            row.timestamp_ns,
            keys=row.keys,
            input_len=row.input_len,
            block_mask=row.block_mask,
            trace_id=row.trace_id,
        )
        if row.kind is RowKind.REQUEST:
            self._pending.add(self._due_ns(row), row)

    def _due_ns(self, row: TraceRow) -> int:
        return row.timestamp_ns + self.config.trace_replay.write_delay_ns

    def _run_due(self, now: int | None) -> None:
        for write in self._pending.due(now):
            self.write(write.instance_id, write.due_ns, keys=write.keys, ttl_us=write.ttl_us, input_len=write.input_len)

    def _instance(self, instance_id: str) -> ReplayedInstance:
        at = self.instances.get(instance_id)
        if at is None:
            raise DataError(f"no instance is called {instance_id!r}", field="instance_id")
        return at


def _check_lengths(blocks: int, input_len: int, block_size: int) -> None:
    """Refuse a read without tokens, or with more keys than its tokens fill."""
    if input_len <= 0:
        raise RowRefused(RowError(0, "input_len", "must be positive", str(input_len)))
    if blocks > input_len // block_size:
        found = f"{blocks} keys for {input_len} tokens in blocks of {block_size}"
        raise RowRefused(RowError(0, "keys", "more than input_len fills blocks", found))
