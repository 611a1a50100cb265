"""The data-set config: the native YAML of the RFC (root key ``prefix_cache_dataset``) and the keys that it lacks.

Every key has a default here or is required here. Short keys of RFC 2.1 are accepted as aliases.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from foreword.config.base import ConfigModel
from foreword.config.consistency import CHECKS
from foreword.config.lengths import Count, FixedLength, LengthLaw, Natural
from foreword.config.replay import ReplayConfig
from foreword.terms import (
    CacheScope,
    Engine,
    ExecutionMode,
    MatchSemantics,
    PlanAim,
    PromptFormat,
    Semantics,
    Shape,
    TargetScope,
    Visibility,
)

ROOT = "prefix_cache_dataset"
DEFAULT_OUTPUT_TOKENS = 16
DEFAULT_GROUP = "default"
OWN_TEMPLATE = "tokenizer"
"""Value of ``chat_template`` for the template that comes with the tokenizer."""
_ALL_PERCENT = 100
MOST_REQUESTS = 100_000_000
MOST_GROUPS = 1_000_000
HASHED = "sha256:"
_HASH = re.compile(r"sha256:[0-9a-f]{8,64}")


def _no_percentage(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 < value <= _ALL_PERCENT:
        message = f"is a ratio between 0 and 1: write {value / _ALL_PERCENT:g} for {value:g} %"
        raise ValueError(message)
    return value


Ratio = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False), BeforeValidator(_no_percentage)]
Weight = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
RequestCount = Annotated[int, Field(strict=True, ge=1, le=MOST_REQUESTS)]
GroupCount = Annotated[int, Field(strict=True, ge=1, le=MOST_GROUPS)]
Speed = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rank = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
Seed = Annotated[int, Field(strict=True, ge=0)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)]
Source = Literal["builtin", "gsm8k", "text", "random_tokens"]
SampleName = Annotated[str, Field(min_length=1, max_length=1024)]
SuffixMode = Literal["concat", "named", "named_then_random", "cycle"]
WithinGroup = Literal["sequential", "shuffle", "input_len_asc", "input_len_desc", "prefix_len_asc", "prefix_len_desc"]
AcrossGroup = Literal["grouped", "interleave", "weighted_interleave", "shuffle"]
OrderMode = Literal[
    "sequential",
    "shuffle",
    "grouped",
    "interleave",
    "weighted_interleave",
    "input_len_asc",
    "input_len_desc",
    "prefix_len_asc",
    "prefix_len_desc",
]


class GroupTarget(ConfigModel):
    """Target of one group, for ``scope: per_group``."""

    id: Identifier
    hit_ratio: Ratio


class TargetConfig(ConfigModel):
    """The hit ratio to build, token-weighted, 0 to 1."""

    hit_ratio: Ratio | None = None
    scope: TargetScope = TargetScope.GLOBAL
    semantics: Semantics = Semantics.ORDER_AWARE_GLOBAL
    groups: tuple[GroupTarget, ...] = ()

    @model_validator(mode="after")
    def _scoped(self) -> Self:
        if self.scope is TargetScope.GLOBAL and self.groups:
            message = "groups have targets, but scope is global; set scope: per_group"
            raise ValueError(message)
        if self.scope is TargetScope.GLOBAL and self.hit_ratio is None:
            message = "hit_ratio is required"
            raise ValueError(message)
        return self


class PrefixGroup(ConfigModel):
    """Requests that share one master prefix."""

    id: Identifier
    request_weight: Weight | None = None
    request_count: Natural | None = None


def _group_problem(prefix: PrefixConfig) -> str:
    ids = [group.id for group in prefix.groups]
    if prefix.mode == "single_prefix" and (len(ids) > 1 or (prefix.group_count or 1) > 1):
        return "single_prefix has one group; set mode: multi_prefix"
    if prefix.mode == "multi_prefix" and not ids and prefix.group_count is None:
        return "multi_prefix needs groups (a list with ids) or group_count"
    if ids and prefix.group_count is not None:
        return "give groups or group_count, not both"
    if len(set(ids)) < len(ids):
        return f"group id {next(id_ for id_ in ids if ids.count(id_) > 1)} is given twice"
    return _share_problem(prefix) or _named_problem("prefix.samples", prefix.samples, prefix.source)


def _named_problem(key: str, names: tuple[str, ...], source: Source | None, *, repeat: bool = False) -> str:
    """What is wrong with names of samples, whatever the text holds."""
    short = next((name for name in names if name.startswith(HASHED) and not _HASH.fullmatch(name)), None)
    if short is not None:
        return f"{key}: {short} is no hash: write {HASHED} and 8 to 64 lower-case hexadecimal digits"
    if names and source == "random_tokens":
        return f"{key}: random_tokens has no samples to name"
    if len(set(names)) < len(names) and not repeat:
        twice = next(name for name in names if names.count(name) > 1)
        return f"{key}: {twice} is named twice"
    return ""


def _share_problem(prefix: PrefixConfig) -> str:
    weighted = [group.id for group in prefix.groups if group.request_weight is not None]
    counted = [group.id for group in prefix.groups if group.request_count is not None]
    if weighted and counted:
        return "groups have request_weight or request_count, not both"
    for name, given in (("request_weight", weighted), ("request_count", counted)):
        if given and len(given) < len(prefix.groups):
            missing = next(group.id for group in prefix.groups if group.id not in given)
            return f"group {missing} has no {name}, but others do"
    if weighted and sum(group.request_weight or 0 for group in prefix.groups) <= 0:
        return "the request weights sum to 0"
    if prefix.assignment is not None and (weighted or counted):
        return "an explicit assignment excludes request_weight and request_count"
    return ""


class PrefixConfig(ConfigModel):
    """Groups, and what their master prefixes are made of."""

    mode: Literal["single_prefix", "multi_prefix"] = "single_prefix"
    nested_prefix: bool = True
    minimum_non_shared_length: Natural | None = None
    groups: tuple[PrefixGroup, ...] = ()
    group_count: GroupCount | None = None
    assignment: tuple[Identifier, ...] | str | None = None
    shape: Shape = Shape.PROPORTIONAL
    source: Source | None = None
    path: str | None = None
    samples: tuple[SampleName, ...] = ()

    @property
    def group_ids(self) -> tuple[str, ...]:
        """Names of the groups: as given, numbered for ``group_count``, else the default group alone."""
        if self.groups:
            return tuple(group.id for group in self.groups)
        if self.group_count is not None and self.mode == "multi_prefix":
            width = len(str(self.group_count - 1))
            return tuple(f"group_{index:0{width}d}" for index in range(self.group_count))
        return (DEFAULT_GROUP,)

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        problem = _group_problem(self)
        if problem:
            raise ValueError(problem)
        return self


class ChunkConfig(ConfigModel):
    """Where content-defined chunks end: behind a token where a digest of the last 8 is 0 modulo ``modulus``."""

    modulus: Count = 64
    least_tokens: Count = 32
    most_tokens: Count = 256

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.least_tokens > self.most_tokens:
            message = "least_tokens is above most_tokens"
            raise ValueError(message)
        return self


class CollisionConfig(ConfigModel):
    """What is checked about the private part of a prompt (RFC 3.3.14, 3.3.15)."""

    enabled: bool = True
    cache_match_semantics: MatchSemantics = MatchSemantics.CHAINED_PREFIX
    chunks: ChunkConfig = ChunkConfig()
    first_non_shared_block_unique: bool = True
    window_blocks: Count = 2
    max_retries: Natural = 8
    on_conflict: Literal["error", "warn", "accept_with_warning"] = "error"


def _picking_problem(suffix: SuffixConfig) -> str:
    if suffix.samples and suffix.mode == "concat":
        return "samples are named, but mode is concat; set mode: named, named_then_random or cycle"
    if suffix.mode in {"named", "named_then_random"} and not suffix.samples:
        return f"mode {suffix.mode} needs samples, a list of sample names"
    if suffix.mode == "cycle" and suffix.source == "random_tokens":
        return "mode cycle needs samples, random_tokens has none"
    return _named_problem("samples", suffix.samples, suffix.source, repeat=suffix.repeat_samples)


class SuffixConfig(ConfigModel):
    """What follows the shared prefix."""

    source: Source = "builtin"
    mode: SuffixMode = "concat"
    samples: tuple[SampleName, ...] = ()
    repeat_samples: bool = False
    path: str | None = None
    separator: str = "\n\n"
    language: Literal["en", "zh", "mixed"] = "en"
    divergence_block: bool = True
    collision_detection: CollisionConfig = CollisionConfig()

    @model_validator(mode="after")
    def _diverges(self) -> Self:
        if not self.divergence_block:
            message = "divergence_block: false would let requests hit beyond their planned prefix; leave it true"
            raise ValueError(message)
        return self

    @property
    def matched_anywhere(self) -> bool:
        """Whether private text anywhere in a prompt has to be unique, not its beginning alone."""
        asked = self.collision_detection
        return asked.enabled and asked.cache_match_semantics is not MatchSemantics.CHAINED_PREFIX

    @model_validator(mode="after")
    def _picked(self) -> Self:
        problem = _picking_problem(self)
        if problem:
            raise ValueError(problem)
        return self


class OrderConfig(ConfigModel):
    """Send order: ``mode`` for the whole set, or ``within_group`` and ``across_group`` (decision 4)."""

    mode: OrderMode | None = None
    within_group: WithinGroup | None = None
    across_group: AcrossGroup | None = None
    preserve_group_dependency: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.mode and (self.within_group or self.across_group):
            message = "mode is shorthand and excludes within_group and across_group"
            raise ValueError(message)
        return self


class ExecutionConfig(ConfigModel):
    """Which passes a run makes, and defaults for ``foreword run``."""

    mode: ExecutionMode | None = None
    warmup_rounds: Natural | None = None
    url: str | None = None
    metrics_url: str | None = None
    concurrency: Count = 1
    max_tokens: Count | None = None


class PlanningConfig(ConfigModel):
    """How the plan is searched. The exact closing step is not bounded by ``max_iterations``."""

    reachability_check: bool = True
    aim: PlanAim = PlanAim.DESIGNED
    base_ratio_search: Literal["binary_search"] = "binary_search"
    block_residual_calibration: bool = True
    max_iterations: Count = 1000


class ServingConfig(ConfigModel):
    """The engine that predictions under load are made for, and how fast it is; a cache rank is one engine.

    ``visibility`` is the engine's own where it is not given. With ``requests_per_s`` requests come at that rate, else
    ``execution.concurrency`` of them are under way at once.
    """

    slots: Count = 256
    step_tokens: Count = 8192
    prefill_tokens_per_s: Speed = 10_000.0
    decode_tokens_per_s: Speed | None = 50.0
    visibility: Visibility | None = None
    requests_per_s: Speed | None = None


def _routing_problem(routing: RoutingConfig) -> str:
    given, sticky = routing.assignment, ("bind", "sticky", "explicit")
    if routing.bind_prefix_group_to_dp and given not in {None, "bind"}:
        return f"assignment {given} contradicts bind_prefix_group_to_dp: true"
    if routing.instances and routing.dp_size not in {None, len(routing.instances)}:
        return f"dp_size is {routing.dp_size}, but {len(routing.instances)} instances are given"
    if (given == "explicit") is not bool(routing.ranks):
        return "assignment explicit and ranks, which say where requests go, belong together"
    if "sticky_routing" in routing.model_fields_set and given in sticky and not routing.sticky_routing:
        return f"assignment {given} contradicts sticky_routing: false"
    named = routing.ranks.values() if isinstance(routing.ranks, dict) else routing.ranks
    beyond = next((rank for rank in named if rank >= routing.rank_count), None)
    return "" if beyond is None else f"ranks name rank {beyond}, but there are {routing.rank_count}, from 0 on"


class RoutingConfig(ConfigModel):
    """Which cache domain a request goes to (RFC 2.7; decision 3)."""

    cache_scope: CacheScope = CacheScope.GLOBAL
    sticky_routing: bool = True
    bind_prefix_group_to_dp: bool | None = None
    dp_size: Count | None = None
    instances: tuple[str, ...] = ()
    assignment: Literal["bind", "sticky", "round_robin", "explicit", "by_send_order"] | None = None
    ranks: dict[Identifier, Rank] | tuple[Rank, ...] = Field(default=(), union_mode="left_to_right")

    @property
    def rank_count(self) -> int:
        """Ranks or instances: as given, else one for each address, else as many as ``ranks`` name, else 1."""
        named = self.ranks.values() if isinstance(self.ranks, dict) else self.ranks
        return self.dp_size or len(self.instances) or max(named, default=0) + 1

    @model_validator(mode="after")
    def _agreed(self) -> Self:
        problem = _routing_problem(self)
        if problem:
            raise ValueError(problem)
        return self


class ValidationConfig(ConfigModel):
    """Tolerances on |designed - target| as ratios, and what a failed check does."""

    pass_tolerance: Ratio = 0.01
    warning_tolerance: Ratio = 0.02
    on_failure: Literal["error", "warn"] = "error"
    allow_nearest: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.pass_tolerance > self.warning_tolerance:
            message = "pass_tolerance is above warning_tolerance"
            raise ValueError(message)
        return self


class PrivacyConfig(ConfigModel):
    """What may be written besides the data set itself (RFC 3.4.1)."""

    mask_paths: bool = True
    save_prompts: bool = False


class FrameConfig(ConfigModel):
    """What the server puts around every prompt, as it was probed; text only where it is known."""

    head_ids: tuple[Natural, ...] = ()
    tail_ids: tuple[Natural, ...] = ()
    head_text: str | None = None
    tail_text: str | None = None


class DatasetConfig(ConfigModel):
    """One data set: its requests, its target and where it will be sent."""

    dataset_id: Identifier
    seed: Seed = 42
    request_count: RequestCount
    block_size: Count | Literal["auto"] | None = None
    input_length: LengthLaw
    output_length: LengthLaw = FixedLength(mode="fixed", value=DEFAULT_OUTPUT_TOKENS)
    max_model_len: Count | None = None
    target: TargetConfig
    prefix: PrefixConfig = PrefixConfig()
    suffix: SuffixConfig = SuffixConfig()
    request_order: OrderConfig = OrderConfig()
    execution: ExecutionConfig = ExecutionConfig()
    planning: PlanningConfig = PlanningConfig()
    routing: RoutingConfig = RoutingConfig()
    validation: ValidationConfig = ValidationConfig()
    serving: ServingConfig = ServingConfig()
    capacity_blocks: Count | None = None
    tiers: dict[str, Any] | None = None
    engine: Engine = Engine.GENERIC
    prompt_format: PromptFormat = PromptFormat.COMPLETIONS_TEXT
    chat_template: Annotated[str, Field(min_length=1)] = OWN_TEMPLATE
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    frame: FrameConfig | None = None
    tokenizer: str = "builtin"
    model: str | None = None
    isolation: Literal["none", "salt", "reset", "nonce"] | None = None
    nonce: Identifier | None = None
    seed_scope: Literal["target", "content"] = "target"
    privacy: PrivacyConfig = PrivacyConfig()

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, data: object) -> object:
        return _without_aliases(data) if isinstance(data, dict) else data

    @field_validator("block_size", mode="before")
    @classmethod
    def _size_or_auto(cls, value: object) -> object:
        if isinstance(value, bool) or not (value is None or value == "auto" or (isinstance(value, int) and value > 0)):
            message = "must be an integer of at least 1, or auto"
            raise ValueError(message)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for check in (*CHECKS, _format_problem):
            problem = check(self)
            if problem:
                raise ValueError(problem)
        return self

    @property
    def replay_of_tiers(self) -> ReplayConfig:
        """The replay that ``tiers`` describe; raises ``ConfigError`` where they describe none."""
        nowhere = {"trace_file_path": "", "output_result_path": ""}
        return ReplayConfig.parse({**(self.tiers or {}), **nowhere}, root="tiers")

    @property
    def execution_mode(self) -> ExecutionMode:
        """The mode as written, else a cold pass in order, or a warmed one for ``static_prefix_ratio``."""
        if self.execution.mode:
            return self.execution.mode
        static = self.target.semantics is Semantics.STATIC_PREFIX_RATIO
        return ExecutionMode.WARMUP if static else ExecutionMode.PROGRESSIVE_PREFIX_FILL


def _without_aliases(data: dict[str, Any]) -> dict[str, Any]:
    """Rewrite the short keys of RFC 2.1 as the long ones."""
    plain = dict(data)
    execution = plain.get("execution")
    if isinstance(execution, dict) and execution.get("max_tokens") is not None:
        if "output_length" in plain:
            message = "execution.max_tokens and output_length both say how long answers are; keep one of them"
            raise ValueError(message)
        plain["output_length"] = execution["max_tokens"]
        plain["execution"] = {key: value for key, value in execution.items() if key != "max_tokens"}
    for key in ("input_length", "output_length"):
        if isinstance(plain.get(key), int) and not isinstance(plain[key], bool):
            plain[key] = {"mode": "fixed", "value": plain[key]}
    for short, long in (("target_prefix_ratio", "target"), ("prefix_mode", "prefix")):
        if short in plain and long in plain:
            message = f"{short} is short for a key of {long}, which is given too; keep one of them"
            raise ValueError(message)
    if "target_prefix_ratio" in plain:
        ratio = plain.pop("target_prefix_ratio")
        plain["target"] = {"hit_ratio": ratio, "semantics": Semantics.STATIC_PREFIX_RATIO.value}
    if "prefix_mode" in plain:
        plain["prefix"] = {"mode": plain.pop("prefix_mode")}
    return plain


def _format_problem(config: DatasetConfig) -> str:
    """What is said about a template that prompts of this format never meet."""
    if config.prompt_format is PromptFormat.COMPLETIONS_IDS and config.frame is not None:
        return "frame: servers add nothing to completions_ids; remove it, or set another prompt_format"
    given = config.chat_template != OWN_TEMPLATE or config.chat_template_kwargs
    if config.prompt_format is not PromptFormat.CHAT and given:
        return f"chat_template: {config.prompt_format} has no template; set prompt_format: chat"
    return ""
