"""What is written about a design."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from foreword.config.dataset import DatasetConfig
from foreword.engines.registry import PROFILES
from foreword.simulate.design import Design, Facts, design
from foreword.simulate.documents import (
    config_document,
    length_report,
    manifest_document,
    request_rows,
    validation_document,
)
from foreword.terms import Engine
from tests.support.datasets import small

FACTS = Facts(16, PROFILES[Engine.GENERIC].hit_rule)


def planned(**changes: object) -> Design:
    """The design of the small config with changes."""
    return design(DatasetConfig.parse(small(**changes), root="prefix_cache_dataset"), FACTS)


def test_lengths_are_reported_as_statistics_has_them() -> None:
    """Count, sum, extremes, mean and percentiles agree with the standard library; bins hold every length."""
    lengths = [30, 10, 20, 50, 40, 90, 70, 60, 80, 100]

    report = length_report(np.asarray(lengths, dtype=np.int64), (10, 50, 101), seed=3)

    assert (report["count"], report["sum"], report["min"], report["max"], report["seed"]) == (10, 550, 10, 100, 3)
    assert report["mean"] == statistics.mean(lengths)
    cuts = statistics.quantiles(lengths, n=100, method="inclusive")
    assert [report[f"p{rank}"] for rank in (50, 90, 95, 99)] == pytest.approx([cuts[r - 1] for r in (50, 90, 95, 99)])
    assert [one["requests"] for one in report["bins"]] == [4, 6]


def test_rows_of_a_stretch_are_the_rows_of_the_whole() -> None:
    """Rows do not depend on where a stretch begins."""
    found = planned()

    assert [*request_rows(found, 0, stop=13), *request_rows(found, 13, stop=40)] == list(
        request_rows(found, 0, stop=40)
    )


def test_the_designed_pass_gives_the_expected_hits() -> None:
    """A warmed data set expects the hot hits, and its watermark is the warmed one from the first request on."""
    rows = list(request_rows(planned(execution={"mode": "warmup"}), 0, stop=40))
    longest = {
        group: max(row["planned_prefix_len"] for row in rows if row["prefix_group_id"] == group) for group in "AB"
    }

    for row in rows:
        assert row["expected_hit_len"] == row["expected_hit_len_hot"] == row["planned_prefix_len"]
        assert row["cached_watermark_before"] == longest[row["prefix_group_id"]]
        assert row["new_cached_len"] == 0


def test_both_documents_state_the_same_result() -> None:
    """Manifest and report agree on every number of the result and of the groups."""
    found = planned()

    manifest, report = manifest_document(found, {}), validation_document(found, {})

    result = manifest["theoretical_result"]
    assert result == {**{key: report[key] for key in result if key not in {"validation_status", "reason"}},
                      "validation_status": report["status"], "reason": report["reason"]}  # fmt: skip
    assert manifest["groups"] == report["groups"]
    assert sum(group["designed_hit_tokens"] for group in manifest["groups"]) == result["designed_hit_tokens"]
    assert sum(group["cold_start_loss"] for group in manifest["groups"]) == sum(
        group["master_prefix_len"] for group in manifest["groups"]
    )


def test_deviations_are_given_as_ratio_and_in_points() -> None:
    """Signed and absolute, one hundred times as many points."""
    report = validation_document(planned(), {})

    assert report["signed_deviation"] == pytest.approx(report["designed_hit_ratio"] - 0.5)
    assert report["absolute_deviation"] == abs(report["signed_deviation"])
    assert report["signed_deviation_points"] == pytest.approx(100 * report["signed_deviation"])


@pytest.mark.parametrize(("masked", "path"), [(True, "stories.txt"), (False, "/home/user/secret/stories.txt")])
def test_a_published_config_names_no_server_and_no_folder(masked: bool, path: str) -> None:  # noqa: FBT001 - a case
    """Addresses are left out; paths keep only the name unless the config says otherwise."""
    config = DatasetConfig.parse(
        small(
            suffix={"source": "text", "path": "/home/user/secret/stories.txt"},
            tokenizer="/home/user/secret/tokenizer.json",
            execution={"url": "http://10.0.0.7:8000", "metrics_url": "http://10.0.0.7:8000/metrics"},
            privacy={"mask_paths": masked},
        ),
        root="prefix_cache_dataset",
    )

    document = config_document(config)

    assert document["suffix"]["path"] == path
    assert "10.0.0.7" not in str(document)
    assert ("secret" in str(document)) is not masked


def test_a_hub_name_is_no_path() -> None:
    """The name of a tokenizer on the hub is kept whole, so that it can be fetched again."""
    config = DatasetConfig.parse(small(tokenizer="hub:Qwen/Qwen3-0.6B@abc"), root="prefix_cache_dataset")

    assert config_document(config)["tokenizer"] == "hub:Qwen/Qwen3-0.6B@abc"
