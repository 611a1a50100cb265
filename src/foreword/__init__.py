"""Foreword plans, generates, runs and explains prefix-cache workloads for LLM serving.

Names load their modules on first use, so that ``import foreword`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from foreword._version import __version__

if TYPE_CHECKING:
    from foreword.config.dataset import DatasetConfig
    from foreword.config.replay import ReplayConfig
    from foreword.config.server import ServerConfig
    from foreword.errors import ForewordError
    from foreword.flow import Making, generate, plan, report, run, validate
    from foreword.rfc.content import (
        Composing,
        generate_master_prefixes,
        generate_prefix_cache_dataset,
        generate_request_suffix,
        validate_block_collisions,
    )
    from foreword.rfc.pipeline import (
        CollisionValidator,
        DatasetWriter,
        LengthGenerator,
        MasterPrefixGenerator,
        PrefixCacheBenchmarkRunner,
        PrefixCacheReportBuilder,
        PrefixGroupAllocator,
        PrefixPlanner,
        ReachabilityValidator,
        RequestContentGenerator,
        RequestOrderPlanner,
        RequestPlanner,
        TheoreticalHitRateValidator,
        WatermarkSimulator,
    )
    from foreword.rfc.planning import (
        allocate_prefix_groups,
        generate_request_lengths,
        plan_prefix_lengths,
        simulate_prefix_cache_watermarks,
        validate_target_reachability,
        validate_theoretical_hit_rate,
    )
    from foreword.rfc.runtime import (
        DatasetManifest,
        MetricsSnapshot,
        PerformanceResult,
        PrefixCacheReport,
        PrefixCacheRuntimeMetrics,
        RuntimeMetrics,
        build_prefix_cache_report,
        collect_prefix_cache_metrics,
    )
    from foreword.rfc.types import (
        BlockRegistry,
        CollisionDetectionConfig,
        CollisionValidationResult,
        DatasetGenerationResult,
        DataSourceConfig,
        LengthDistributionConfig,
        PrefixCacheDatasetConfig,
        PrefixCacheSimulationResult,
        PrefixGroupConfig,
        PrefixGroupPlan,
        PrefixPlanningResult,
        ReachabilityResult,
        RequestPlan,
        SimulatedRequest,
        SuffixGenerationConfig,
        SuffixGenerationResult,
        TargetHitRateConfig,
        ValidationReport,
    )
    from foreword.run.spec import RunSpec
    from foreword.simulate.replay import Replay
    from foreword.store.configs import load_dataset_config
    from foreword.store.replays import load_replay_config
    from foreword.store.tokenizers import load_tokenizer
    from foreword.workload.tokens import Frame, TokenizerProtocol

_HOMES = {
    "BlockRegistry": "foreword.rfc.types",
    "CollisionDetectionConfig": "foreword.rfc.types",
    "CollisionValidationResult": "foreword.rfc.types",
    "CollisionValidator": "foreword.rfc.pipeline",
    "Composing": "foreword.rfc.content",
    "DataSourceConfig": "foreword.rfc.types",
    "DatasetConfig": "foreword.config.dataset",
    "DatasetGenerationResult": "foreword.rfc.types",
    "DatasetManifest": "foreword.rfc.runtime",
    "DatasetWriter": "foreword.rfc.pipeline",
    "ForewordError": "foreword.errors",
    "Frame": "foreword.workload.tokens",
    "LengthDistributionConfig": "foreword.rfc.types",
    "LengthGenerator": "foreword.rfc.pipeline",
    "Making": "foreword.flow",
    "MasterPrefixGenerator": "foreword.rfc.pipeline",
    "MetricsSnapshot": "foreword.rfc.runtime",
    "PerformanceResult": "foreword.rfc.runtime",
    "PrefixCacheBenchmarkRunner": "foreword.rfc.pipeline",
    "PrefixCacheDatasetConfig": "foreword.rfc.types",
    "PrefixCacheReport": "foreword.rfc.runtime",
    "PrefixCacheReportBuilder": "foreword.rfc.pipeline",
    "PrefixCacheRuntimeMetrics": "foreword.rfc.runtime",
    "PrefixCacheSimulationResult": "foreword.rfc.types",
    "PrefixGroupAllocator": "foreword.rfc.pipeline",
    "PrefixGroupConfig": "foreword.rfc.types",
    "PrefixGroupPlan": "foreword.rfc.types",
    "PrefixPlanner": "foreword.rfc.pipeline",
    "PrefixPlanningResult": "foreword.rfc.types",
    "ReachabilityResult": "foreword.rfc.types",
    "ReachabilityValidator": "foreword.rfc.pipeline",
    "Replay": "foreword.simulate.replay",
    "ReplayConfig": "foreword.config.replay",
    "RequestContentGenerator": "foreword.rfc.pipeline",
    "RequestOrderPlanner": "foreword.rfc.pipeline",
    "RequestPlan": "foreword.rfc.types",
    "RequestPlanner": "foreword.rfc.pipeline",
    "RunSpec": "foreword.run.spec",
    "RuntimeMetrics": "foreword.rfc.runtime",
    "ServerConfig": "foreword.config.server",
    "SimulatedRequest": "foreword.rfc.types",
    "SuffixGenerationConfig": "foreword.rfc.types",
    "SuffixGenerationResult": "foreword.rfc.types",
    "TargetHitRateConfig": "foreword.rfc.types",
    "TheoreticalHitRateValidator": "foreword.rfc.pipeline",
    "TokenizerProtocol": "foreword.workload.tokens",
    "ValidationReport": "foreword.rfc.types",
    "WatermarkSimulator": "foreword.rfc.pipeline",
    "allocate_prefix_groups": "foreword.rfc.planning",
    "build_prefix_cache_report": "foreword.rfc.runtime",
    "collect_prefix_cache_metrics": "foreword.rfc.runtime",
    "generate": "foreword.flow",
    "generate_master_prefixes": "foreword.rfc.content",
    "generate_prefix_cache_dataset": "foreword.rfc.content",
    "generate_request_lengths": "foreword.rfc.planning",
    "generate_request_suffix": "foreword.rfc.content",
    "load_dataset_config": "foreword.store.configs",
    "load_replay_config": "foreword.store.replays",
    "load_tokenizer": "foreword.store.tokenizers",
    "plan": "foreword.flow",
    "plan_prefix_lengths": "foreword.rfc.planning",
    "report": "foreword.flow",
    "run": "foreword.flow",
    "simulate_prefix_cache_watermarks": "foreword.rfc.planning",
    "validate": "foreword.flow",
    "validate_block_collisions": "foreword.rfc.content",
    "validate_target_reachability": "foreword.rfc.planning",
    "validate_theoretical_hit_rate": "foreword.rfc.planning",
}

__all__ = [
    "BlockRegistry",
    "CollisionDetectionConfig",
    "CollisionValidationResult",
    "CollisionValidator",
    "Composing",
    "DataSourceConfig",
    "DatasetConfig",
    "DatasetGenerationResult",
    "DatasetManifest",
    "DatasetWriter",
    "ForewordError",
    "Frame",
    "LengthDistributionConfig",
    "LengthGenerator",
    "Making",
    "MasterPrefixGenerator",
    "MetricsSnapshot",
    "PerformanceResult",
    "PrefixCacheBenchmarkRunner",
    "PrefixCacheDatasetConfig",
    "PrefixCacheReport",
    "PrefixCacheReportBuilder",
    "PrefixCacheRuntimeMetrics",
    "PrefixCacheSimulationResult",
    "PrefixGroupAllocator",
    "PrefixGroupConfig",
    "PrefixGroupPlan",
    "PrefixPlanner",
    "PrefixPlanningResult",
    "ReachabilityResult",
    "ReachabilityValidator",
    "Replay",
    "ReplayConfig",
    "RequestContentGenerator",
    "RequestOrderPlanner",
    "RequestPlan",
    "RequestPlanner",
    "RunSpec",
    "RuntimeMetrics",
    "ServerConfig",
    "SimulatedRequest",
    "SuffixGenerationConfig",
    "SuffixGenerationResult",
    "TargetHitRateConfig",
    "TheoreticalHitRateValidator",
    "TokenizerProtocol",
    "ValidationReport",
    "WatermarkSimulator",
    "__version__",
    "allocate_prefix_groups",
    "build_prefix_cache_report",
    "collect_prefix_cache_metrics",
    "generate",
    "generate_master_prefixes",
    "generate_prefix_cache_dataset",
    "generate_request_lengths",
    "generate_request_suffix",
    "load_dataset_config",
    "load_replay_config",
    "load_tokenizer",
    "plan",
    "plan_prefix_lengths",
    "report",
    "run",
    "simulate_prefix_cache_watermarks",
    "validate",
    "validate_block_collisions",
    "validate_target_reachability",
    "validate_theoretical_hit_rate",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'foreword' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
