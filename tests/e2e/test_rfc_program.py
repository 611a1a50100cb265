"""The RFC's program (3.5.1), stage by stage, gives the data set that one call gives, and runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

import foreword
from foreword import (
    CollisionValidator,
    DatasetManifest,
    DatasetWriter,
    LengthGenerator,
    MasterPrefixGenerator,
    PrefixCacheBenchmarkRunner,
    PrefixCacheDatasetConfig,
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
from foreword.config.server import ServerConfig
from foreword.server.running import server_process

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.config.dataset import DatasetConfig

YAML = """
prefix_cache_dataset:
  dataset_id: program
  seed: 11
  request_count: 30
  block_size: 16
  input_length: {mode: truncated_normal, min: 96, max: 400, mean: 220, std: 80}
  output_length: 2
  target: {hit_ratio: 0.5}
  prefix: {mode: multi_prefix, groups: [{id: a, request_weight: 2}, {id: b, request_weight: 1}]}
  request_order: {within_group: input_len_asc, across_group: interleave}
"""


@pytest.fixture
def config(tmp_path: Path) -> DatasetConfig:
    """A config of two groups, read from its file."""
    path = tmp_path / "config.yaml"
    path.write_text(YAML)
    return PrefixCacheDatasetConfig.load(path)


def staged(config: DatasetConfig) -> tuple[list[foreword.RequestPlan], dict[str, foreword.PrefixGroupPlan]]:
    """Requests in send order with their text, from stages called one by one."""
    name, size = config.dataset_id, 16
    lengths = LengthGenerator.generate(config.input_length, config.request_count, config.seed, dataset_id=name)
    requests = RequestPlanner.create(lengths)
    groups = PrefixGroupAllocator.allocate(requests, config.prefix, seed=config.seed, dataset_id=name)
    groups = RequestOrderPlanner.sort_within_groups(groups, config.request_order, config=config)
    planned = PrefixPlanner.plan(groups, config.target, size, config.prefix.minimum_non_shared_length)
    groups = MasterPrefixGenerator.generate(planned.groups, config)
    groups = RequestContentGenerator.generate(groups, config.suffix, config=config)
    groups = CollisionValidator.validate_and_repair(groups, config.suffix.collision_detection, config=config)
    return RequestOrderPlanner.merge_groups(groups, config.request_order, config=config), groups


def judged(
    config: DatasetConfig, ordered: list[foreword.RequestPlan], groups: dict[str, foreword.PrefixGroupPlan]
) -> tuple[foreword.PrefixCacheSimulationResult, foreword.ValidationReport]:
    """What the requests give, against the config's target."""
    reach = ReachabilityValidator.validate(groups, config)
    simulation = WatermarkSimulator.simulate(ordered, config.routing.cache_scope)
    report = TheoreticalHitRateValidator.validate(simulation, config.target, config.validation, reachability=reach)
    return simulation, report


def test_the_stages_write_what_one_call_writes(config: DatasetConfig, tmp_path: Path) -> None:
    """Stages called one by one end in the bytes of ``generate_prefix_cache_dataset``."""
    ordered, groups = staged(config)
    simulation, report = judged(config, ordered, groups)
    written = DatasetWriter.write(ordered, groups, simulation, report, config=config, output=tmp_path / "stages")
    whole = foreword.generate_prefix_cache_dataset(config, output=tmp_path / "whole")

    rows = [json.loads(line) for line in written.data_path.read_text().splitlines()]
    assert [row["prompt"] for row in rows] == [request.prompt for request in ordered]
    assert [row["request_id"] for row in rows] == [request.request_id for request in ordered]
    assert whole.data_path.read_bytes() == written.data_path.read_bytes()
    assert whole.manifest_path.read_bytes() == written.manifest_path.read_bytes()
    assert report.designed_hit_ratio == whole.validation.designed_hit_ratio
    assert report.validation_status == "PASS"


NAMED = {
    "named": ["suffix.mode=named_then_random", "suffix.samples=[en:1, en:2]", "prefix.samples=[en:3, en:4, en:5]"],
    "dealt": ["suffix.source=random_tokens", "suffix.collision_detection.cache_match_semantics=independent_block"],
    "nonce": ["nonce=run-7"],
}


@pytest.mark.parametrize("changes", list(NAMED.values()), ids=list(NAMED))
def test_the_stages_know_samples_and_matching(changes: list[str], tmp_path: Path) -> None:
    """Named samples, another way of matching and a nonce give the same prompts by stages as by one call."""
    path = tmp_path / "config.yaml"
    path.write_text(YAML)
    config = PrefixCacheDatasetConfig.load(path, overrides=changes)

    ordered, _ = staged(config)

    whole = foreword.generate_prefix_cache_dataset(config, output=tmp_path / "whole")
    rows = [json.loads(line) for line in whole.data_path.read_text().splitlines()]
    assert [request.prompt for request in ordered] == [row["prompt"] for row in rows]


def test_the_program_runs_and_reports(config: DatasetConfig, tmp_path: Path) -> None:
    """The runner and the report builder close the RFC's program: measured is designed."""
    ordered, groups = staged(config)
    simulation, validation = judged(config, ordered, groups)
    DatasetWriter.write(ordered, groups, simulation, validation, config=config, output=tmp_path / "set")
    with server_process(ServerConfig(port=0, decode_tokens_per_s=None)) as url:
        outcome = PrefixCacheBenchmarkRunner.run(
            ordered,
            config.execution,
            dataset=tmp_path / "set",
            urls=[url],
            metrics_urls=[f"{url}/metrics"],
            output=tmp_path / "run",
        )
    manifest = DatasetManifest.load(tmp_path / "set")
    metrics = foreword.PrefixCacheRuntimeMetrics.load(tmp_path / "run", "cold")

    report = PrefixCacheReportBuilder.build(manifest, validation, outcome)
    performance = foreword.PerformanceResult.load(tmp_path / "run")
    short = foreword.build_prefix_cache_report(manifest, validation, metrics, performance)

    assert report.actual_hit_ratio == pytest.approx(simulation.hit_ratio, abs=1e-12)
    assert metrics.hits_delta == simulation.hit_tokens
    assert report.verdict == short.verdict == "WITHIN_GUIDE"
    assert short.runtime_deviation_points == pytest.approx(0, abs=1e-9)
    assert report.written is not None
    assert report.written.html.is_file()


def test_a_changed_plan_is_not_written(config: DatasetConfig, tmp_path: Path) -> None:
    """The writer composes from the config, so requests that differ from its plan are refused before any file."""
    planned = foreword.plan(config)
    rows = [
        foreword.RequestPlan(f"r{index:07d}", "a", int(planned.prompts.input_len[index]), 16)
        for index in planned.order.tolist()
    ]
    simulation = WatermarkSimulator.simulate(rows, "global")
    validation = foreword.validate_theoretical_hit_rate(simulation, 0.5, 0.01, 0.02)
    groups = {name: foreword.PrefixGroupPlan(name, 15) for name in ("a", "b")}

    with pytest.raises(foreword.ForewordError, match="differ from the plan"):
        DatasetWriter.write(rows, groups, simulation, validation, config=config, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_metrics_between_two_snapshots() -> None:
    """Counters are taken before and after; a prompt of 40 tokens that comes twice hits 32 of 80."""
    with server_process(ServerConfig(port=0, decode_tokens_per_s=None)) as url:
        pages = [f"{url}/metrics"]
        body = {"model": "foreword", "prompt": list(range(40)), "max_tokens": 1}
        before = foreword.MetricsSnapshot.take(pages)
        for _ in range(2):
            asked = Request(f"{url}/v1/completions", json.dumps(body).encode())  # noqa: S310 - the test's own server
            with urlopen(asked, timeout=30) as answer:  # noqa: S310 - the same
                answer.read()
        after = foreword.MetricsSnapshot.take(pages)

    metrics = foreword.collect_prefix_cache_metrics(pages, before, after)

    assert (metrics.queries_delta, metrics.hits_delta, metrics.actual_hit_rate) == (80, 32, 0.4)
    with pytest.raises(foreword.ForewordError, match="2 endpoints"):
        foreword.collect_prefix_cache_metrics([*pages, "http://other"], before, after)
