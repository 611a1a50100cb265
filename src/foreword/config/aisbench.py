"""The scenario of AISBench's prefix-cache plugin, schema 1.0: its keys, defaults and modes (spec: interop 2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from foreword.config.base import ConfigModel
from foreword.config.lengths import Count, Natural

ROOT = "scenario"

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RunSection(ConfigModel):
    """Name, seed and folder of a run."""

    run_id: str = "gsm8k-prefix-cache-60"
    random_seed: Natural = 42
    output_dir: str = ""
    overwrite: bool = False


class TokenizerSection(ConfigModel):
    """The tokenizer, and the blocks of the server; the plugin's default path is one of its authors'."""

    path: str = "builtin"
    block_size: Count = 16
    revision: str | None = None
    trust_remote_code: bool = False


class Selection(ConfigModel):
    """Which rows of the corpus are used; ``values`` stands for the list of its mode."""

    mode: Literal["random", "indices", "question_sha256", "mixed"] = "random"
    values: tuple[int | str, ...] = ()
    indices: tuple[Natural, ...] = ()
    question_sha256: tuple[str, ...] = ()


class CorpusSection(ConfigModel):
    """The file of questions."""

    path: str = "./GSM8K.jsonl"
    field: str = "question"
    selection: Selection = Selection()


class LengthRange(ConfigModel):
    """``count`` lengths of the closed interval from ``min`` to ``max``."""

    min: Count
    max: Count
    count: Natural


class Length(ConfigModel):
    """Lengths of prompts or answers."""

    mode: Literal["fixed", "explicit", "range", "uniform", "truncated_normal", "csv"] = "fixed"
    value: Count | None = None
    values: tuple[Count, ...] = ()
    ranges: tuple[LengthRange, ...] = ()
    min: Count | None = None
    max: Count | None = None
    mean: Number | None = None
    std: Number | None = None
    path: str | None = None


class RequestsSection(ConfigModel):
    """How many requests, and how long."""

    count: Count = 100
    input_length: Length = Length(value=1024)
    output_length: Length = Length(value=32)


class OutputSection(ConfigModel):
    """The third field of the plugin's own request file."""

    output_key: Literal["max_tokens", "output_tokens"] | None = None


class Assignment(ConfigModel):
    """How requests are dealt out to groups."""

    mode: Literal["uniform", "zipf", "weights"] = "uniform"
    exponent: Number = 1.0
    weights: tuple[float, ...] = ()


class GroupsSection(ConfigModel):
    """Prefix groups."""

    count: Count = 1
    assignment: Assignment = Assignment()
    overrides: dict[str, Any] = Field(default_factory=dict)


class OrderSection(ConfigModel):
    """The order in which requests are sent."""

    strategy: Literal["sequential", "within_group_shuffle", "interleave", "global_shuffle", "input_len_asc"] = (
        "interleave"
    )


class PrefixSection(ConfigModel):
    """What is shared, and how much is to be hit."""

    mode: Literal["cold", "warmup"] = "warmup"
    target_hit_rate: Share = 0.6
    seed_blocks: Count = 1
    minimum_non_shared_length: Count | None = None
    groups: GroupsSection = GroupsSection()
    order: OrderSection = OrderSection()


class ServiceSection(ConfigModel):
    """The server."""

    inference_url: str = "http://127.0.0.1:8000/v1/completions"
    metrics_url: str = "http://127.0.0.1:8000/metrics"
    reset_url: str = "http://127.0.0.1:8000/reset_prefix_cache"
    model: str = "model-name"
    dp_size: Count = 2
    assume_empty_cache: bool = False
    engine_label_map: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: Number = 30.0
    api_key: str = ""
    poll_interval_seconds: Annotated[float, Field(ge=0)] = 5.0


class ValidationSection(ConfigModel):
    """Percentage points from which on a difference is warned of."""

    target_warning_pp: Annotated[float, Field(ge=0)] = 1.0
    actual_warning_pp: Annotated[float, Field(ge=0)] = 5.0


class ModelSection(ConfigModel):
    """How AISBench asks the server; ``batch_size`` are its requests in flight."""

    abbr: str | None = None
    attr: str = "service"
    stream: bool = True
    max_out_len: Count = 1
    retry: Natural = 2
    batch_size: Count = 1
    generation_kwargs: dict[str, Any] = Field(default_factory=dict)


class AisbenchSection(ConfigModel):
    """What the plugin hands on to AISBench."""

    config: str = ""
    work_dir: str = ""
    extra_args: Any = None
    dataset: dict[str, Any] = Field(default_factory=dict)
    model: ModelSection = ModelSection()


class Scenario(ConfigModel):
    """A whole scenario; what is left out has the plugin's own default."""

    schema_version: Literal["1.0"] = "1.0"
    run: RunSection = RunSection()
    tokenizer: TokenizerSection = TokenizerSection()
    corpus: CorpusSection = CorpusSection()
    requests: RequestsSection = RequestsSection()
    output: OutputSection = OutputSection()
    prefix_cache: PrefixSection = PrefixSection()
    service: ServiceSection = ServiceSection()
    validation: ValidationSection = ValidationSection()
    aisbench: AisbenchSection = AisbenchSection()
    multimodal: dict[str, Any] | None = None
