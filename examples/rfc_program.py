"""Every stage of a data set called by itself, with the names of the RFC: from a config file to a report."""

from __future__ import annotations

import sys
from pathlib import Path

import foreword as fw
from foreword.server.running import server_process


def main(config_path: Path, folder: Path) -> None:
    """Plan, compose and check a data set stage by stage, write it, send it to the built-in server, report."""
    config = fw.PrefixCacheDatasetConfig.load(config_path)
    lengths = fw.LengthGenerator.generate(
        config.input_length, config.request_count, config.seed, dataset_id=config.dataset_id
    )
    requests = fw.RequestPlanner.create(lengths)
    groups = fw.PrefixGroupAllocator.allocate(requests, config.prefix, seed=config.seed, dataset_id=config.dataset_id)
    groups = fw.RequestOrderPlanner.sort_within_groups(groups, config.request_order, config=config)
    reachability = fw.ReachabilityValidator.validate(groups, config)
    print(f"reachable: {reachability.min_reachable_hit_ratio:.4f} to {reachability.max_reachable_hit_ratio:.4f}")

    planned = fw.PrefixPlanner.plan(groups, config.target, config.block_size)
    groups = fw.MasterPrefixGenerator.generate(planned.groups, config)
    groups = fw.RequestContentGenerator.generate(groups, config.suffix, config=config)
    groups = fw.CollisionValidator.validate_and_repair(groups, config.suffix.collision_detection, config=config)
    ordered = fw.RequestOrderPlanner.merge_groups(groups, config.request_order, config=config)
    simulation = fw.WatermarkSimulator.simulate(ordered, config.routing.cache_scope)
    validation = fw.TheoreticalHitRateValidator.validate(
        simulation, config.target, config.validation, reachability=reachability
    )
    print(f"designed: {validation.designed_hit_ratio:.6f}, {validation.validation_status}")

    dataset = folder / "dataset"
    fw.DatasetWriter.write(ordered, groups, simulation, validation, config=config, output=dataset)
    with server_process(fw.ServerConfig(port=0)) as url:
        result = fw.PrefixCacheBenchmarkRunner.run(
            ordered,
            config.execution,
            dataset=dataset,
            urls=[url],
            metrics_urls=[f"{url}/metrics"],
            output=folder / "run",
        )
    report = fw.PrefixCacheReportBuilder.build(fw.DatasetManifest.load(dataset), validation, result)
    print(f"measured: {report.actual_hit_ratio:.6f}, {report.verdict}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
