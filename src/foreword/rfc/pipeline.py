"""The RFC's pipeline objects (P3.5.1): one final class a stage, static methods, new values out.

Where the RFC's sketch changes ``groups`` in place, the stage here returns the changed ones: write
``groups = PrefixPlanner.plan(groups, ...)``. Stages that compose text take the whole ``config`` as a keyword, for its
tokenizer, seed and engine; without it they use the built-in tokenizer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from foreword import flow
from foreword.engines.registry import PROFILES
from foreword.errors import ConfigError, ConstructionError, UsageError
from foreword.rfc.arrays import Ends, Members
from foreword.rfc.content import (
    DEFAULT_COMPOSING,
    Composing,
    composer_of,
    generate_prefix_cache_dataset,
    with_content,
)
from foreword.rfc.planning import (
    DEFAULT_BLOCK_SIZE,
    DEFAULT_SEED,
    NO_ENDS,
    allocate_prefix_groups,
    generate_request_lengths,
    plan_prefix_lengths,
    simulate_prefix_cache_watermarks,
    validate_target_reachability,
    validate_theoretical_hit_rate,
)
from foreword.rfc.runtime import DatasetManifest, PrefixCacheReport, report_of_run
from foreword.rfc.types import BlockRegistry, DataSourceConfig, RequestPlan
from foreword.run.spec import RunSpec
from foreword.simulate.design import content_key
from foreword.store.frames import frame_for
from foreword.store.tokenizers import load_tokenizer
from foreword.terms import CacheScope, ExecutionMode, PromptFormat, draw_key, request_id
from foreword.workload import order as ordering
from foreword.workload.content import ContentOptions
from foreword.workload.registry import Chunking
from foreword.workload.suffix import Picking
from foreword.workload.tokens import Frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from foreword.config.dataset import DatasetConfig, ExecutionConfig, OrderConfig, ValidationConfig
    from foreword.rfc.types import (
        CollisionDetectionConfig,
        DatasetGenerationResult,
        LengthDistributionConfig,
        PrefixCacheSimulationResult,
        PrefixGroupConfig,
        PrefixGroupPlan,
        PrefixPlanningResult,
        ReachabilityResult,
        SuffixGenerationConfig,
        TargetHitRateConfig,
        ValidationReport,
    )
    from foreword.run.spec import RunOutcome
    from foreword.terms import IntArray
    from foreword.workload.content import Composer

Groups = dict[str, "PrefixGroupPlan"]


@final
class LengthGenerator:
    """Prompt lengths."""

    @staticmethod
    def generate(
        input_length: LengthDistributionConfig,
        request_count: int,
        seed: int,
        *,
        dataset_id: str = "",
        minimum: int = 1,
    ) -> list[int]:
        """Lengths in generation order; see ``generate_request_lengths``."""
        return generate_request_lengths(input_length, request_count, seed, dataset_id=dataset_id, minimum=minimum)


@final
class RequestPlanner:
    """Requests before they belong to anything."""

    @staticmethod
    def create(lengths: Sequence[int]) -> list[RequestPlan]:
        """One request a length, named by its place."""
        return [
            RequestPlan(request_id(index), input_len=length, order_index=index) for index, length in enumerate(lengths)
        ]


@final
class PrefixGroupAllocator:
    """Groups."""

    @staticmethod
    def allocate(
        requests: Sequence[RequestPlan], prefix: PrefixGroupConfig, *, seed: int = DEFAULT_SEED, dataset_id: str = ""
    ) -> Groups:
        """Requests by group; see ``allocate_prefix_groups``."""
        return allocate_prefix_groups(requests, prefix, seed=seed, dataset_id=dataset_id)


@final
class RequestOrderPlanner:
    """Send order and lanes."""

    @staticmethod
    def sort_within_groups(
        groups: Mapping[str, PrefixGroupPlan], request_order: OrderConfig, *, config: DatasetConfig | None = None
    ) -> Groups:
        """Sort each group's requests, and give each the rank that the config routes it to (decision 3)."""
        members = Members.of(groups)
        how, key = _ordering(request_order, config)
        order = _arranged(members, how, key)
        requests = list(members.requests)
        if config is not None:
            lanes = ordering.lanes(ordering.routing(config.routing, order=how), members.groups, order=order)
            ranks = zip(requests, lanes.dp.tolist(), strict=True)
            requests = [replace(each, planned_dp_id=rank) for each, rank in ranks]
        place = {requests[index].request_id: at for at, index in enumerate(order.tolist())}
        ordered = [replace(each, order_index=place[each.request_id]) for each in requests]
        return {
            name: replace(group, requests=tuple(sorted(group.requests, key=lambda each: each.order_index)))
            for name, group in members.regrouped(groups, ordered).items()
        }

    @staticmethod
    def merge_groups(
        groups: Mapping[str, PrefixGroupPlan], request_order: OrderConfig, *, config: DatasetConfig | None = None
    ) -> list[RequestPlan]:
        """All requests in the order in which they are sent."""
        members = Members.of(groups)
        order = _arranged(members, *_ordering(request_order, config)).tolist()
        return [replace(members.requests[index], order_index=place) for place, index in enumerate(order)]


@final
class ReachabilityValidator:
    """Reachability."""

    @staticmethod
    def validate(groups: Mapping[str, PrefixGroupPlan], config: DatasetConfig) -> ReachabilityResult:
        """Bounds of what these groups can give under a config; see ``validate_target_reachability``."""
        size = block_size_of(config)
        own = config.prefix.minimum_non_shared_length
        return validate_target_reachability(
            groups,
            config.target,
            size,
            size if own is None else own,
            cache_scope=config.routing.cache_scope.value,
            ends=ends_of(config),
        )


@final
class PrefixPlanner:
    """Shared prefix lengths."""

    @staticmethod
    def plan(
        groups: Mapping[str, PrefixGroupPlan],
        target: TargetHitRateConfig,
        block_size: int | str | None = None,
        minimum_non_shared_length: int | None = None,
        *,
        cache_scope: str = CacheScope.GLOBAL.value,
        ends: Ends = NO_ENDS,
    ) -> PrefixPlanningResult:
        """Plan prefixes; the groups are in the result. See ``plan_prefix_lengths``."""
        size = block_size if isinstance(block_size, int) else DEFAULT_BLOCK_SIZE
        own = size if minimum_non_shared_length is None else minimum_non_shared_length
        return plan_prefix_lengths(groups, target, size, own, cache_scope=cache_scope, ends=ends)


@final
class MasterPrefixGenerator:
    """Master prefixes."""

    @staticmethod
    def generate(groups: Mapping[str, PrefixGroupPlan], config: DatasetConfig) -> Groups:
        """The groups with the content ids of their masters."""
        composer = _composer(groups, config.suffix, config=config)
        return {
            name: replace(group, master_token_ids=tuple(composer.masters[name].ids.tolist()))
            for name, group in groups.items()
        }


@final
class RequestContentGenerator:
    """Prompts."""

    @staticmethod
    def generate(
        groups: Mapping[str, PrefixGroupPlan], suffix: SuffixGenerationConfig, *, config: DatasetConfig | None = None
    ) -> Groups:
        """The groups with text and ids of every request: master, divergence, suffix, exact to the token."""
        members = Members.of(groups)
        composer = _composer(groups, suffix, config=config)
        prompts = composer.compose(range(len(members.requests)))
        pairs = zip(members.requests, prompts, strict=True)
        return members.regrouped(groups, [with_content(request, prompt) for request, prompt in pairs])


@final
class CollisionValidator:
    """Collisions."""

    @staticmethod
    def validate_and_repair(
        groups: Mapping[str, PrefixGroupPlan],
        collision_detection: CollisionDetectionConfig,
        *,
        config: DatasetConfig | None = None,
    ) -> Groups:
        """Check that what has to be unique is, over all groups; each request gets its ``collision_status``.

        Prompts that could not be proved were composed anew when they were generated (F3.3.15); what is still not
        unique here is ``conflict``. Raises ``ConstructionError`` with ``on_conflict: error``.
        """
        members = Members.of(groups)
        if not collision_detection.enabled:
            return dict(groups)
        frame, size = _frame(config), DEFAULT_BLOCK_SIZE if config is None else block_size_of(config)
        chunking = Chunking.of(collision_detection.chunks)
        registry = BlockRegistry(size, collision_detection.cache_match_semantics, chunking)
        for group in groups.values():
            registry.add_master([*frame.head_ids, *group.master_token_ids])
        checked = [_checked(request, registry, frame, groups) for request in members.requests]
        conflicts = [request.request_id for request in checked if request.collision_status == "conflict"]
        if conflicts and collision_detection.on_conflict == "error":
            raise ConstructionError(
                f"{len(conflicts)} requests share more than they should, first {conflicts[0]}",
                request_id=conflicts[0],
                stage="collisions",
                advice="use more groups, longer private parts or another source, or on_conflict: warn",
            )
        return members.regrouped(groups, checked)


@final
class WatermarkSimulator:
    """Watermarks."""

    @staticmethod
    def simulate(
        ordered_requests: Sequence[RequestPlan],
        cache_scope: str,
        *,
        warm: bool = False,
        block_size: int = DEFAULT_BLOCK_SIZE,
        head_len: int = 0,
    ) -> PrefixCacheSimulationResult:
        """Hits of a serial pass; see ``simulate_prefix_cache_watermarks``."""
        return simulate_prefix_cache_watermarks(
            ordered_requests, cache_scope, warm=warm, block_size=block_size, head_len=head_len
        )


@final
class TheoreticalHitRateValidator:
    """Verdict on the design."""

    @staticmethod
    def validate(
        simulation: PrefixCacheSimulationResult,
        target: TargetHitRateConfig,
        validation: ValidationConfig,
        *,
        reachability: ReachabilityResult | None = None,
        block_size: int = DEFAULT_BLOCK_SIZE,
    ) -> ValidationReport:
        """Compare a simulated ratio with a global target; see ``validate_theoretical_hit_rate``."""
        if target.hit_ratio is None:
            raise ConfigError("the target has no global hit_ratio", field="target.hit_ratio", advice="validate a group")
        return validate_theoretical_hit_rate(
            simulation,
            target.hit_ratio,
            validation.pass_tolerance,
            validation.warning_tolerance,
            reachability=reachability,
            block_size=block_size,
            allow_nearest=validation.allow_nearest,
        )


@final
class DatasetWriter:
    """Data-set folders."""

    @staticmethod
    def write(
        ordered_requests: Sequence[RequestPlan],
        groups: Mapping[str, PrefixGroupPlan],
        simulation: PrefixCacheSimulationResult,
        validation: ValidationReport,
        *,
        config: DatasetConfig,
        output: Path | None = None,
        overwrite: bool = False,
    ) -> DatasetGenerationResult:
        """Write the data set of a config, by default into ``outputs/<dataset_id>``.

        Files are those of ``generate_prefix_cache_dataset``, byte for byte. Raises ``UsageError`` if the requests,
        groups or hits that were worked out before are others than the config's, and writes nothing then.
        """
        _check_same(ordered_requests, simulation, config)
        if len(groups) != len(config.prefix.group_ids) or validation.target_hit_ratio != config.target.hit_ratio:
            raise UsageError("groups or target are not those of the config", advice="write what the config plans")
        return generate_prefix_cache_dataset(config, output=output, overwrite=overwrite)


@final
class PrefixCacheBenchmarkRunner:
    """Runs."""

    @staticmethod
    def run(
        ordered_requests: Sequence[RequestPlan],
        execution: ExecutionConfig,
        *,
        dataset: Path,
        urls: Sequence[str] = (),
        metrics_urls: Sequence[str] = (),
        output: Path | None = None,
    ) -> RunOutcome:
        """Send a written data set to servers and record every request; addresses default to the config's.

        Raises ``UsageError`` without an address or for another number of requests, ``ServerError`` as ``run`` does.
        """
        found = urls or ((execution.url,) if execution.url else ())
        if not found:
            raise UsageError("no address to send to", field="execution.url", advice="set execution.url, or pass urls")
        held = DatasetManifest.load(dataset).request_count
        if held != len(ordered_requests):
            raise UsageError(f"{dataset} holds {held} requests, not {len(ordered_requests)}", advice="write it again")
        metrics = metrics_urls or ((execution.metrics_url,) if execution.metrics_url else ())
        spec = RunSpec(
            dataset=dataset,
            urls=tuple(found),
            metrics_urls=tuple(metrics),
            concurrency=execution.concurrency,
            mode=execution.mode,
            output=output,
        )
        return flow.run(spec)


@final
class PrefixCacheReportBuilder:
    """Reports."""

    @staticmethod
    def build(manifest: DatasetManifest, validation: ValidationReport, runtime_result: RunOutcome) -> PrefixCacheReport:
        """The full report of a run, written into its folder. Raises ``DataError`` if the run is of another data set."""
        report = report_of_run(runtime_result.folder)
        if manifest.dataset_id != report.dataset_id or validation.target_hit_ratio != report.target_hit_ratio:
            raise UsageError(f"the run is of {report.dataset_id}, not of {manifest.dataset_id}")
        return report


def block_size_of(config: DatasetConfig) -> int:
    """The block size of a config, or its engine's default."""
    return config.block_size if isinstance(config.block_size, int) else PROFILES[config.engine].default_block_size


def ends_of(config: DatasetConfig) -> Ends:
    """Tokens that the engine of a config puts around prompts."""
    frame = _frame(config)
    return Ends(frame.head_len, frame.tail_len)


def _frame(config: DatasetConfig | None) -> Frame:
    if config is None or config.prompt_format is PromptFormat.COMPLETIONS_IDS:
        return Frame()
    return frame_for(load_tokenizer(config.tokenizer), config)


def _ordering(request_order: OrderConfig, config: DatasetConfig | None) -> tuple[ordering.SendOrder, int]:
    """The order with its slots filled in, and the key of its draws."""
    cold = config is None or config.execution_mode is ExecutionMode.PROGRESSIVE_PREFIX_FILL
    seed, name = (DEFAULT_SEED, "") if config is None else (config.seed, config.dataset_id)
    return ordering.send_order(request_order, progressive=cold), draw_key("order", seed, name)


def _arranged(members: Members, how: ordering.SendOrder, key: int) -> IntArray:
    lengths, shared = members.column("input_len"), members.column("planned_prefix_len")
    return ordering.arrange(how, members.groups, input_len=lengths, prefix_len=shared, key=key)


def _composer(
    groups: Mapping[str, PrefixGroupPlan], suffix: SuffixGenerationConfig, *, config: DatasetConfig | None
) -> Composer:
    seed = DEFAULT_SEED if config is None else config.seed
    source = DataSourceConfig.of(suffix.source, suffix.path, suffix=suffix, seed=seed)
    collisions = suffix.collision_detection
    options = ContentOptions(
        separator=suffix.separator,
        picking=Picking.of(suffix, None if config is None else config.prefix),
        max_retries=collisions.max_retries,
        on_conflict=collisions.on_conflict,
    )
    tokenizer = load_tokenizer("builtin" if config is None else config.tokenizer)
    composing = DEFAULT_COMPOSING if config is None else _composing(config, frame_for(tokenizer, config))
    return composer_of(groups, source, tokenizer, composing=composing, options=options)


def _composing(config: DatasetConfig, frame: Frame) -> Composing:
    prefix = config.prefix
    source = None
    if prefix.source is not None:
        path = prefix.path or config.suffix.path
        source = DataSourceConfig.of(prefix.source, path, suffix=config.suffix, seed=config.seed)
    return Composing(
        block_size=block_size_of(config),
        minimum_non_shared_length=prefix.minimum_non_shared_length,
        seed_key=content_key(config),
        frame=frame,
        as_ids=config.prompt_format is PromptFormat.COMPLETIONS_IDS,
        every_cut=config.seed_scope == "content",
        prefix_source=source,
    )


def _checked(
    request: RequestPlan, registry: BlockRegistry, frame: Frame, groups: Mapping[str, PrefixGroupPlan]
) -> RequestPlan:
    whole = [*frame.head_ids, *request.prompt_token_ids, *frame.tail_ids]
    shared = request.planned_prefix_len
    master = [*frame.head_ids, *groups[request.prefix_group_id].master_token_ids]
    unique = registry.check(whole, shared_tokens=shared).unique and whole[:shared] == master[:shared]
    registry.add(whole, shared_tokens=shared)
    return request if unique else replace(request, collision_status="conflict")


def _check_same(
    requests: Sequence[RequestPlan], simulation: PrefixCacheSimulationResult, config: DatasetConfig
) -> None:
    """Compare with the design of the config before anything is written."""
    planned = flow.plan(config)
    warm = not planned.designed_cold
    hits = planned.designed_hit.tolist()
    wanted = [
        (request_id(index), int(planned.prompts.input_len[index]), int(planned.plan.prefix_len[index]), hit)
        for index, hit in zip(planned.order.tolist(), hits, strict=True)
    ]
    given = [
        (request.request_id, request.input_len, request.planned_prefix_len, found.expected_hit_len)
        for request, found in zip(requests, simulation.requests, strict=True)
    ]
    if given != wanted or simulation.warm is not warm:
        at = next((at for at, pair in enumerate(zip(given, wanted, strict=False)) if pair[0] != pair[1]), len(given))
        raise UsageError(
            f"the requests differ from the plan of the config, first at place {at}",
            advice="pass seed, dataset_id and routing of the config to every stage, and warm as its designed pass is",
        )
