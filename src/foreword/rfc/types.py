"""The RFC's types (P3.5.1, P3.5.2; decision 10): plain values that the functions and pipeline objects hand on.

Lengths are tokens as the engine sees them; hit ratios are token-weighted, 0 to 1. Fields that the RFC does not list
have defaults. Config types are those of the data-set config under the RFC's names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from foreword.config.base import ConfigModel
from foreword.config.dataset import CollisionConfig, DatasetConfig, PrefixConfig, SuffixConfig, TargetConfig
from foreword.config.lengths import LengthLaw
from foreword.store.configs import load_dataset_config
from foreword.workload.registry import BlockRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from foreword.config.dataset import Source
    from foreword.terms import Reason, Status

LengthDistributionConfig = LengthLaw
PrefixGroupConfig = PrefixConfig
TargetHitRateConfig = TargetConfig
SuffixGenerationConfig = SuffixConfig
CollisionDetectionConfig = CollisionConfig

__all__ = [
    "BlockRegistry",
    "CollisionDetectionConfig",
    "CollisionValidationResult",
    "DataSourceConfig",
    "DatasetGenerationResult",
    "LengthDistributionConfig",
    "PrefixCacheDatasetConfig",
    "PrefixCacheSimulationResult",
    "PrefixGroupConfig",
    "PrefixGroupPlan",
    "PrefixPlanningResult",
    "ReachabilityResult",
    "RequestPlan",
    "SimulatedRequest",
    "SuffixGenerationConfig",
    "SuffixGenerationResult",
    "TargetHitRateConfig",
    "ValidationReport",
]


class PrefixCacheDatasetConfig(DatasetConfig):
    """The whole config of one data set, the YAML below ``prefix_cache_dataset``."""

    @staticmethod
    def load(path: Path, *, overrides: Sequence[str] = ()) -> DatasetConfig:
        """Read and check a YAML file; ``overrides`` are ``path.to.key=value``. Raises ``ConfigError``."""
        return load_dataset_config(path, overrides=overrides)


class DataSourceConfig(ConfigModel):
    """Where text comes from: ``builtin`` and ``random_tokens`` need no path."""

    source: Literal["builtin", "gsm8k", "text", "random_tokens"] = "builtin"
    path: str | None = None
    language: Literal["en", "zh", "mixed"] = "en"
    separator: str = "\n\n"
    seed: int = Field(default=42, ge=0)

    @classmethod
    def of(cls, source: Source, path: str | None, *, suffix: SuffixConfig, seed: int) -> DataSourceConfig:
        """A source with the language and separator of a suffix config."""
        return cls(source=source, path=path, language=suffix.language, separator=suffix.separator, seed=seed)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One request: what is planned of it, then what it says.

    ``order_index`` is its place in the send order, before merging its place in generation order. ``prompt`` is the
    content as text, ``prompt_token_ids`` the content's ids, both without what the engine puts around it.
    """

    request_id: str
    prefix_group_id: str = ""
    input_len: int = 0
    planned_prefix_len: int = 0
    divergence_len: int = 0
    suffix_len: int = 0
    order_index: int = 0
    planned_dp_id: int = 0
    prompt_token_ids: tuple[int, ...] = field(default=(), repr=False)
    prompt: str = field(default="", repr=False)
    collision_status: str = ""


@dataclass(frozen=True, slots=True)
class PrefixGroupPlan:
    """One prefix group and its requests.

    ``cold_start_loss`` are the tokens that a cold pass pays to fill the cache. Ratios are ``None`` until they are
    known.
    """

    group_id: str
    request_count: int
    master_prefix_len: int = 0
    target_hit_tokens: int = 0
    max_reachable_hit_ratio: float | None = None
    cold_start_loss: int = 0
    requests: tuple[RequestPlan, ...] = field(default=(), repr=False)
    weight: float = 1.0
    master_token_ids: tuple[int, ...] = field(default=(), repr=False)

    @property
    def input_lens(self) -> tuple[int, ...]:
        """Tokens of each request."""
        return tuple(request.input_len for request in self.requests)

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Names of the requests."""
        return tuple(request.request_id for request in self.requests)


@dataclass(frozen=True, slots=True)
class ReachabilityResult:
    """Fewest and most that any plan can give, and computed advice where the target lies outside."""

    target_hit_ratio: float
    min_reachable_hit_ratio: float
    max_reachable_hit_ratio: float
    reachable: bool
    by_group: Mapping[str, float | None]
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixPlanningResult:
    """Groups whose requests have their prefix lengths, and what they give in the pass that was planned for."""

    groups: Mapping[str, PrefixGroupPlan]
    planned_hit_tokens: int
    input_tokens: int
    strategy: str

    @property
    def planned_hit_ratio(self) -> float:
        """Hit tokens of the plan over input tokens."""
        return self.planned_hit_tokens / self.input_tokens


@dataclass(frozen=True, slots=True)
class SuffixGenerationResult:
    """The private part of a prompt: first the tokens that set it apart, then its text, and the samples in it."""

    request_id: str
    token_ids: tuple[int, ...]
    divergence_len: int
    text: str
    retries: int
    collision_status: str
    sample_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollisionValidationResult:
    """What of a prompt should be unique in its cache domain and is not; positions are first tokens of blocks."""

    unique: bool
    shared_tokens: int
    checked: int
    conflicts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """What one request finds: the watermark of its lane before and after, and its hit tokens."""

    request_id: str
    prefix_group_id: str
    planned_dp_id: int
    input_len: int
    cached_watermark_before: int
    expected_hit_len: int
    cached_watermark_after: int


@dataclass(frozen=True, slots=True)
class PrefixCacheSimulationResult:
    """A serial pass over requests in send order."""

    requests: tuple[SimulatedRequest, ...]
    cache_scope: str
    warm: bool

    @property
    def hit_tokens(self) -> int:
        """Tokens found in the cache."""
        return sum(request.expected_hit_len for request in self.requests)

    @property
    def input_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(request.input_len for request in self.requests)

    @property
    def hit_ratio(self) -> float:
        """Hit tokens over input tokens."""
        return self.hit_tokens / self.input_tokens if self.input_tokens else 0.0


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Designed against target (RFC 3.3.17); ``document`` is the whole file where it was loaded from one."""

    target_hit_ratio: float
    designed_hit_ratio: float
    signed_deviation: float
    absolute_deviation: float
    validation_status: Status
    reason: Reason
    message: str
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class DatasetGenerationResult:
    """Files of a data set that was written, and its verdict."""

    data_path: Path
    manifest_path: Path
    metadata_path: Path
    validation_report_path: Path
    warmup_path: Path
    validation: ValidationReport
