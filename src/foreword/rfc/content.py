"""The RFC's content functions (P3.5.2): masters, suffixes, collisions, and whole data sets."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foreword import flow
from foreword.errors import ConfigError
from foreword.rfc.arrays import Members
from foreword.rfc.planning import DEFAULT_BLOCK_SIZE, DEFAULT_SEED
from foreword.rfc.types import (
    CollisionValidationResult,
    DatasetGenerationResult,
    DataSourceConfig,
    PrefixGroupPlan,
    SuffixGenerationResult,
    ValidationReport,
)
from foreword.store.corpora import load_corpus, stories_for
from foreword.store.rows import DATA, MANIFEST, METADATA, REPORT, WARMUP
from foreword.terms import Reason, Status, draw_key
from foreword.workload.content import ContentOptions, ContentPlan, prepare
from foreword.workload.suffix import Picking
from foreword.workload.tokens import NO_FRAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foreword.config.dataset import DatasetConfig
    from foreword.rfc.types import BlockRegistry, CollisionDetectionConfig, RequestPlan, SuffixGenerationConfig
    from foreword.workload.content import ComposedPrompt, Composer, ProofLevel
    from foreword.workload.tokens import Frame, TokenizerProtocol

DEFAULT_OUTPUT = Path("outputs")


@dataclass(frozen=True, slots=True)
class Composing:
    """What prompts depend on beside their plan. ``seed_key`` seeds every draw; ``as_ids`` composes ids without text."""

    block_size: int = DEFAULT_BLOCK_SIZE
    minimum_non_shared_length: int | None = None
    seed_key: int = draw_key("content", DEFAULT_SEED)
    frame: Frame = NO_FRAME
    as_ids: bool = False
    every_cut: bool = False
    prefix_source: DataSourceConfig | None = None


DEFAULT_COMPOSING = Composing()


def generate_prefix_cache_dataset(
    config: DatasetConfig,
    *,
    output: Path | None = None,
    workers: int | None = None,
    proof: ProofLevel = "window",
    overwrite: bool = False,
) -> DatasetGenerationResult:
    """Plan, compose, prove and write a data set, by default into ``outputs/<dataset_id>``.

    A target that cannot be met still gives the nearest data set, with status FAIL. Raises ``ForewordError``.
    """
    folder = output or DEFAULT_OUTPUT / config.dataset_id
    made = flow.generate(config, folder, making=flow.Making(workers, proof, overwrite))
    return DatasetGenerationResult(
        data_path=folder / DATA,
        manifest_path=folder / MANIFEST,
        metadata_path=folder / METADATA,
        validation_report_path=folder / REPORT,
        warmup_path=folder / WARMUP,
        validation=report_of(made.written.report),
    )


def generate_master_prefixes(
    groups: Mapping[str, PrefixGroupPlan],
    data_source: DataSourceConfig,
    tokenizer: TokenizerProtocol,
    *,
    composing: Composing = DEFAULT_COMPOSING,
) -> dict[str, list[int]]:
    """Content ids of every group's master prefix; masters of two groups begin differently (F3.3.2).

    Raises ``TokenizerError`` or ``ConstructionError`` where exact prompts are impossible.
    """
    composer = composer_of(groups, data_source, tokenizer, composing=composing)
    return {name: master.ids.tolist() for name, master in composer.masters.items()}


def generate_request_suffix(
    request: RequestPlan,
    config: SuffixGenerationConfig,
    tokenizer: TokenizerProtocol,
    *,
    groups: Mapping[str, PrefixGroupPlan] | None = None,
    composing: Composing = DEFAULT_COMPOSING,
) -> SuffixGenerationResult:
    """The private part of one request: divergence tokens, then samples up to the exact length (F3.3.11, F3.3.13).

    With all ``groups`` of a data set it is unique among them; alone it is what a set of this one request has.
    """
    alone = {request.prefix_group_id: PrefixGroupPlan(request.prefix_group_id, 1, requests=(request,))}
    around = alone if groups is None else groups
    source = DataSourceConfig.of(config.source, config.path, suffix=config, seed=DEFAULT_SEED)
    options = ContentOptions(separator=config.separator, picking=Picking.of(config))
    composer = composer_of(around, source, tokenizer, composing=composing, options=options)
    names = [each.request_id for each in Members.of(around).requests]
    if request.request_id not in names:
        message = f"{request.request_id} is not among the requests of the groups"
        raise ConfigError(message, field="request", request_id=request.request_id, advice="pass the groups it is in")
    prompt = composer.compose([names.index(request.request_id)])[0]
    return suffix_of(request, prompt, composer, frame=composing.frame)


def validate_block_collisions(
    request_tokens: Sequence[int],
    group_registry: BlockRegistry,
    config: CollisionDetectionConfig,
    *,
    shared_tokens: int | None = None,
) -> CollisionValidationResult:
    """Look a whole prompt up among what a cache domain holds, then let it count (F3.3.14).

    ``shared_tokens`` is what the prompt may share; without it, the leading blocks that a registered master has. A
    config with ``enabled: false`` only registers.
    """
    found = group_registry.check(request_tokens, shared_tokens=shared_tokens)
    group_registry.add(request_tokens, shared_tokens=found.shared_tokens)
    if not config.enabled:
        return CollisionValidationResult(unique=True, shared_tokens=found.shared_tokens, checked=0, conflicts=())
    return CollisionValidationResult(found.unique, found.shared_tokens, found.checked, found.conflicts)


def composer_of(
    groups: Mapping[str, PrefixGroupPlan],
    source: DataSourceConfig,
    tokenizer: TokenizerProtocol,
    *,
    composing: Composing,
    options: ContentOptions | None = None,
) -> Composer:
    """What composes the prompts of all requests of these groups; a request's number is its place among them all."""
    members = Members.of(groups)
    input_len, prefix_len = members.column("input_len"), members.column("planned_prefix_len")
    own = composing.minimum_non_shared_length
    plan = ContentPlan(
        group=members.groups.of_request,
        input_len=input_len,
        prefix_len=prefix_len,
        group_ids=members.groups.ids,
        block_size=composing.block_size,
        minimum_non_shared=composing.block_size if own is None else own,
        frame=composing.frame,
        seed_key=composing.seed_key,
        as_ids=composing.as_ids,
        every_cut=composing.every_cut,
    )
    options = options or ContentOptions(separator=source.separator)
    stories = _stories_of(plan, apart=options.picking.dealt)
    corpora = [
        load_corpus(
            each.source,
            path=each.path,
            language=each.language,
            seed=draw_key("corpus", each.seed),
            stories=stories,
        )
        for each in (source, composing.prefix_source or source)
    ]
    return prepare(tokenizer, corpora[0], plan=plan, options=options, prefix_corpus=corpora[1])


def _stories_of(plan: ContentPlan, *, apart: bool) -> int:
    """Size of the built-in pool for all requests."""
    tops = np.zeros(len(plan.group_ids), np.int64)
    np.maximum.at(tops, plan.group, plan.prefix_len)
    lengths = plan.input_len
    return stories_for(longest=int(lengths.max()), shared=int(tops.sum()), total=int(lengths.sum()), apart=apart)


def suffix_of(
    request: RequestPlan, prompt: ComposedPrompt, composer: Composer, *, frame: Frame
) -> SuffixGenerationResult:
    """The part of a composed prompt that its group's master does not have."""
    shared = max(request.planned_prefix_len - frame.head_len, 0)
    raw = text_of(prompt).encode()
    master = composer.masters[request.prefix_group_id]
    begins = int(master.stops[shared - 1]) if shared and raw else 0
    return SuffixGenerationResult(
        request_id=request.request_id,
        token_ids=tuple(prompt.ids[shared:].tolist()),
        divergence_len=request.divergence_len,
        text=raw[begins:].decode(errors="replace"),
        retries=prompt.retries,
        collision_status=prompt.status,
        sample_ids=prompt.samples,
    )


def text_of(prompt: ComposedPrompt) -> str:
    """A composed prompt as text; empty for one of ids."""
    text: str = json.loads(b'"' + prompt.escaped + b'"')
    return text


def with_content(request: RequestPlan, prompt: ComposedPrompt) -> RequestPlan:
    """A request with what it says."""
    return replace(
        request,
        prompt=text_of(prompt),
        prompt_token_ids=tuple(prompt.ids.tolist()),
        collision_status=prompt.status,
    )


def report_of(document: Mapping[str, object]) -> ValidationReport:
    """A validation report from its file."""
    return ValidationReport(
        target_hit_ratio=float(str(document["target_hit_ratio"])),
        designed_hit_ratio=float(str(document["designed_hit_ratio"])),
        signed_deviation=float(str(document["signed_deviation"])),
        absolute_deviation=float(str(document["absolute_deviation"])),
        validation_status=Status(str(document["status"])),
        reason=Reason(str(document["reason"])),
        message=str(document["message"]),
        document=dict(document),
    )
