"""The replay's config: the JSON of the reference optimizer, read strictly (spec: replay A2.1, A2.2, A2.12).

Capacities are in GB of 2**30 bytes and negative where there is no limit; ``band_width_mbps`` is 10**6 *bytes* a second.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from foreword.config.base import ConfigModel
from foreword.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = "$"
"""How error messages call the document, as in JSONPath."""

_INT64_MAX = 2**63 - 1
_UNFIT_FOR_A_FILE_NAME = frozenset('/\\"')
_UNFIT_FOR_A_COLUMN = frozenset(',"')

Number = Annotated[float, Field(allow_inf_nan=False)]
"""A finite number; JSON integers are numbers too."""
Positive = Annotated[int, Field(ge=1, le=_INT64_MAX)]


class WriteMode(StrEnum):
    """What flows down an edge between two adjacent tiers, and when."""

    WRITE_THROUGH = "write_through"
    CASCADING = "cascading"
    SELECTIVE = "write_through_selective"


class EvictionMode(IntEnum):
    """Whose blocks make room: all instances' in turn or the acting one's; by whole batches or no more than needed."""

    GROUP_ROUGH = 1
    INSTANCE_ROUGH = 2
    INSTANCE_PRECISE = 3


class TouchOrder(StrEnum):
    """In which order the blocks of one request become recent."""

    HEAD_FIRST = "head_first"
    TAIL_FIRST = "tail_first"


class MaskSemantics(StrEnum):
    """Whether a masked block counts where the simulated cache does not hold it."""

    SIMULATED = "simulated"
    TRUSTED = "trusted"


class _Strict(ConfigModel):
    """JSON types as they are: no number from a text, no integer from ``16.0``."""

    model_config = ConfigDict(strict=True)


class EvictionParams(_Strict):
    """How much leaves at once when a capacity is exceeded."""

    eviction_mode: Annotated[EvictionMode, Field(strict=False)]
    eviction_batch_size_per_instance: Positive

    @field_validator("eviction_mode", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        """Take integers only: an enumeration that is read leniently would take 1.0 and true."""
        if type(value) is not int and not isinstance(value, EvictionMode):
            raise ValueError("must be 1, 2 or 3")
        return value


class TraceReplay(_Strict):
    """How rows are played, and what a read and a write do beside the obvious."""

    write_delay_ns: Positive = 1
    touch_order: Annotated[TouchOrder, Field(strict=False)] = TouchOrder.HEAD_FIRST
    write_refresh: bool = False
    block_mask_semantics: Annotated[MaskSemantics, Field(strict=False)] = MaskSemantics.SIMULATED
    random_seed: Annotated[int, Field(ge=1, lt=2**64)] | None = None


class TierFlow(_Strict):
    """What one edge does differently from the group's strategy."""

    from_tier: Annotated[str, Field(min_length=1)]
    to_tier: Annotated[str, Field(min_length=1)]
    write_mode: Annotated[WriteMode, Field(strict=False)] | None = None
    access_propagation_enabled: bool | None = None
    promote_enabled: bool | None = None
    selective_write_threshold: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_null(cls, data: object) -> object:
        """What is inherited is left out; ``null`` is no value of these fields."""
        for name, value in data.items() if isinstance(data, dict) else ():
            if value is None:
                raise ValueError(f"{name} is null; leave it out to inherit")
        return data


class TierStrategy(_Strict):
    """Tiers together or each for itself, and what flows between neighbours."""

    hierarchical_eviction_enabled: bool
    write_mode: Annotated[WriteMode, Field(strict=False)] = WriteMode.WRITE_THROUGH
    access_propagation_enabled: bool = True
    promote_enabled: bool = True
    selective_write_threshold: Positive = 2
    tier_flows: Annotated[tuple[TierFlow, ...], Field(strict=False)] = ()


class Storage(_Strict):
    """One tier; the smallest priority is nearest to the computation."""

    unique_name: Annotated[str, Field(min_length=1)]
    storage_type: str
    band_width_mbps: Number
    priority: Annotated[int, Field(ge=0, le=_INT64_MAX)]
    capacity: Number

    @field_validator("unique_name")
    @classmethod
    def _fits_a_column(cls, name: str) -> str:
        if _UNFIT_FOR_A_COLUMN & set(name) or not name.isprintable():
            raise ValueError("becomes a CSV column: no comma, quote or control character")
        return name


class LruParams(_Strict):
    """Shards and candidates of ``lru``; the defaults are exact LRU. ``sample_rate`` is the document's, and unused."""

    sample_rate: Number = 1.0
    shard_count: Positive = 1
    sample_times: Positive = 32
    eviction_amplification_factor: Number = 1.0


class RandomLruParams(_Strict):
    """Sample size of ``random_lru`` is batch / ``sample_rate``; at most 0 counts as 0.1."""

    sample_rate: Number = 1.0


class TtlParams(_Strict):
    """Whether ``ttl`` evicts by recency once nothing is left to expire."""

    fallback_on_pressure: bool = True


class NoParams(_Strict):
    """A policy without parameters."""


class S3FifoParams(_Strict):
    """Shares of the blocks that the small and the ghost queue of ``s3fifo`` have, and touches that keep a new block."""

    small_ratio: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    ghost_ratio: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.9
    move_threshold: Annotated[int, Field(ge=1, le=3)] = 2


class _Instance(_Strict):
    instance_id: Annotated[str, Field(min_length=1)]
    block_size: Positive
    bytes_per_token: Positive
    instance_group_name: str = ""
    """Accepted and ignored: the enclosing group counts."""

    @property
    def bytes_per_block(self) -> int:
        """Bytes of one block's KV cache."""
        return self.block_size * self.bytes_per_token

    @property
    def shard_count(self) -> int:
        """Recency lists that a tier of this instance is kept in."""
        return 1

    @field_validator("instance_id")
    @classmethod
    def _fits_a_file_name(cls, name: str) -> str:
        if _UNFIT_FOR_A_FILE_NAME & set(name) or not name.isprintable():
            raise ValueError("becomes a file name: no slash, backslash, quote or control character")
        return name


class LruInstance(_Instance):
    """An instance whose least recently used blocks go first."""

    eviction_policy_type: Literal["lru"]
    eviction_policy_params: LruParams

    @property
    def shard_count(self) -> int:
        """As many as its parameters say."""
        return self.eviction_policy_params.shard_count


class LeafAwareLruInstance(_Instance):
    """An instance that evicts leaves of its prefix tree only; the parameters are the document's, and unused."""

    eviction_policy_type: Literal["leaf_aware_lru"]
    eviction_policy_params: LruParams


class RandomLruInstance(_Instance):
    """An instance that evicts the oldest of a random sample."""

    eviction_policy_type: Literal["random_lru"]
    eviction_policy_params: RandomLruParams


class TtlInstance(_Instance):
    """An instance whose blocks expire."""

    eviction_policy_type: Literal["ttl"]
    eviction_policy_params: TtlParams


class VllmInstance(_Instance):
    """An instance whose blocks are a pool of vLLM's: of N ``num_gpu_blocks``, a capacity of N - 1 blocks."""

    eviction_policy_type: Literal["vllm"]
    eviction_policy_params: NoParams


class FifoInstance(_Instance):
    """An instance that evicts what came first."""

    eviction_policy_type: Literal["fifo"]
    eviction_policy_params: NoParams


class LfuInstance(_Instance):
    """An instance that evicts what was touched least often since it came, of equal ones the least recent."""

    eviction_policy_type: Literal["lfu"]
    eviction_policy_params: NoParams


class S3FifoInstance(_Instance):
    """An instance with a small queue for what is new, a main queue, and a memory of what was evicted early."""

    eviction_policy_type: Literal["s3fifo"]
    eviction_policy_params: S3FifoParams


class OptimalInstance(_Instance):
    """An instance that evicts what is read again last: Belady's bound, which only a whole trace can have."""

    eviction_policy_type: Literal["optimal"]
    eviction_policy_params: NoParams


Instance = Annotated[
    LruInstance
    | LeafAwareLruInstance
    | RandomLruInstance
    | TtlInstance
    | VllmInstance
    | FifoInstance
    | LfuInstance
    | S3FifoInstance
    | OptimalInstance,
    Field(discriminator="eviction_policy_type"),
]


class InstanceGroup(_Strict):
    """Instances that share capacities."""

    group_name: str
    quota_capacity: Number
    used_percentage: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tier_strategy: TierStrategy
    default_block_ttl_seconds: Annotated[int, Field(ge=-_INT64_MAX, le=_INT64_MAX)] = 0
    ttl_refresh_on_read: bool = True
    storages: Annotated[tuple[Storage, ...], Field(strict=False)]
    instances: Annotated[tuple[Instance, ...], Field(strict=False, min_length=1)]

    @property
    def tiers(self) -> tuple[Storage, ...]:
        """The storages from the nearest to the farthest."""
        return tuple(sorted(self.storages, key=lambda storage: storage.priority))

    @model_validator(mode="after")
    def _tiers_fit(self) -> Self:
        if self.tier_strategy.hierarchical_eviction_enabled and not self.storages:
            raise ValueError("storages: empty, but hierarchical_eviction_enabled is true")
        for name in ("unique_name", "priority"):
            twice = _first_repeated(getattr(storage, name) for storage in self.storages)
            if twice is not None:
                raise ValueError(f"storages: {name} {twice!r} is given twice")
        for problem in _policy_problems(self):
            raise ValueError(problem)
        for problem in _flow_problems(self.tier_strategy.tier_flows, [tier.unique_name for tier in self.tiers]):
            raise ValueError(f"tier_strategy.tier_flows{problem}")
        return self


class ReplayConfig(_Strict):
    """One replay: a trace, groups of instances with their tiers, and where results go."""

    trace_file_path: str
    output_result_path: str
    eviction_params: EvictionParams
    trace_replay: TraceReplay = TraceReplay()
    instance_groups: Annotated[tuple[InstanceGroup, ...], Field(strict=False, min_length=1)]

    @classmethod
    def from_document(cls, document: object) -> ReplayConfig:
        """Check a parsed JSON document; ``ConfigError`` names the path of the first problem."""
        if not isinstance(document, dict):
            raise ConfigError(f"{ROOT}: must be a JSON object", field=ROOT)
        return cls.parse(document, root=ROOT)

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        group = _first_repeated(group.group_name for group in self.instance_groups)
        if group is not None:
            raise ValueError(f"instance_groups: group_name {group!r} is given twice")
        trusts = self.trace_replay.block_mask_semantics is MaskSemantics.TRUSTED
        if trusts and any(isinstance(each, VllmInstance) for group in self.instance_groups for each in group.instances):
            raise ValueError("trace_replay.block_mask_semantics: vllm counts what its pool holds; use simulated")
        instance = _first_repeated(each.instance_id for group in self.instance_groups for each in group.instances)
        if instance is not None:
            raise ValueError(f"instance_groups: instance_id {instance!r} is given twice")
        return self


def json_schema() -> dict[str, Any]:
    """Schema of the config document, for editors."""
    return ReplayConfig.model_json_schema()


def _first_repeated(values: Iterable[str | int]) -> str | int | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _policy_problems(group: InstanceGroup) -> Iterator[str]:
    """What a group cannot be with the policies of its instances."""
    for index, instance in enumerate(group.instances):
        here, policy = f"instances.{index}.eviction_policy_type", instance.eviction_policy_type
        if policy in {"vllm", "optimal"} and group.tier_strategy.hierarchical_eviction_enabled:
            yield f"{here}: {policy} is for one pool of blocks; set hierarchical_eviction_enabled to false"
        if policy == "vllm" and len(group.instances) > 1:
            yield f"{here}: vllm shares its blocks with no other instance; give it a group of its own"
        if policy == "vllm" and group.default_block_ttl_seconds:
            yield f"{here}: blocks of vllm do not expire; set default_block_ttl_seconds to 0"


def _flow_problems(flows: tuple[TierFlow, ...], names: list[str]) -> Iterator[str]:
    """What is wrong with overrides of edges, given the tiers in order."""
    if flows and len(names) < 2:  # noqa: PLR2004 - an edge has two ends
        yield ": needs at least two storages"
    edges = set(pairwise(names))
    seen: set[tuple[str, str]] = set()
    for index, flow in enumerate(flows):
        edge = (flow.from_tier, flow.to_tier)
        for end in edge:
            if end not in names:
                yield f".{index}: no storage is called {end!r}"
        if edge not in edges:
            yield f".{index}: {flow.from_tier!r} to {flow.to_tier!r} are not neighbours in the order of priority"
        if edge in seen:
            yield f".{index}: {flow.from_tier!r} to {flow.to_tier!r} is given twice"
        seen.add(edge)
