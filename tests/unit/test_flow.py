"""The chain of stages: block sizes, exit codes, workers, and what a plan needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from foreword import flow
from foreword.config.dataset import DatasetConfig
from foreword.errors import ConfigError, TokenizerError
from foreword.store.making import TASK_REQUESTS
from foreword.terms import Status
from tests.support.datasets import small

if TYPE_CHECKING:
    from pathlib import Path


def config(**changes: object) -> DatasetConfig:
    """The small config with changes."""
    return DatasetConfig.parse(small(**changes), root="prefix_cache_dataset")


def test_an_engine_brings_its_block_size_with_a_warning() -> None:
    """Without block_size an engine's default is planned with, and said; a number wins silently."""
    with_default = flow.plan(config(block_size=None, engine="vllm"))
    with_number = flow.plan(config(block_size=32, engine="vllm"))

    assert with_default.facts.block_size == 16
    assert [warning for warning in with_default.warnings if "16" in warning]
    assert (with_number.facts.block_size, with_number.warnings) == (32, ())


@pytest.mark.parametrize("size", [None, "auto"])
def test_no_block_size_and_no_engine_is_refused(size: str | None) -> None:
    """Nothing can be planned without a block size."""
    with pytest.raises(ConfigError, match="block_size"):
        flow.plan(config(block_size=size))


def test_an_engine_of_single_tokens_takes_no_blocks() -> None:
    """A block size above 1 contradicts an engine that matches token by token."""
    with pytest.raises(ConfigError, match="block_size: 1"):
        flow.plan(config(engine="llamacpp", block_size=16))


def test_planning_ids_needs_no_tokenizer() -> None:
    """Prompts of ids have no head, so that a plan of them reads no tokenizer; one of text does."""
    missing = {"tokenizer": "nowhere.json"}

    assert flow.plan(config(prompt_format="completions_ids", **missing)).input_tokens > 0
    with pytest.raises(TokenizerError):
        flow.plan(config(**missing))


@pytest.mark.parametrize(
    ("status", "on_failure", "strict", "code"),
    [
        (Status.PASS, "error", False, 0),
        (Status.PASS, "error", True, 0),
        (Status.PASS_WITH_WARNING, "error", False, 0),
        (Status.PASS_WITH_WARNING, "error", True, 1),
        (Status.FAIL, "error", False, 3),
        (Status.FAIL, "error", True, 3),
        (Status.FAIL, "warn", False, 0),
        (Status.FAIL, "warn", True, 1),
    ],
)
def test_exit_codes_of_a_construction(status: Status, on_failure: str, strict: bool, code: int) -> None:  # noqa: FBT001 - a case
    """FAIL is 3 unless the config only warns; --strict makes 1 of whatever is less than perfect."""
    found = flow.plan(config(validation={"on_failure": on_failure}))
    judged = replace(found, verdict=replace(found.verdict, status=status))

    assert flow.construction_exit_code(judged, strict=strict) == code


def test_strict_counts_warnings() -> None:
    """A design that passes with a warning is exit 1 under --strict."""
    found = flow.plan(config(block_size=None, engine="vllm"))

    assert flow.construction_exit_code(found, strict=False) == 0
    assert flow.construction_exit_code(found, strict=True) == 1


def test_few_requests_need_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process for a small data set; one a core, and no more, for a large one."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)

    assert [flow._fitting_workers(count) for count in (1, TASK_REQUESTS, 20_000, 1_000_000)] == [1, 1, 2, 4]


def test_progress_counts_up_to_all(tmp_path: Path) -> None:
    """Whoever watches hears of the last request, when generating and when validating."""
    heard: list[tuple[int, int]] = []

    flow.generate(
        config(), tmp_path / "dataset", making=flow.Making(), progress=lambda done, total: heard.append((done, total))
    )
    flow.validate(tmp_path / "dataset", progress=lambda done, total: heard.append((done, total)))

    assert heard.count((40, 40)) == 2
    assert {total for _, total in heard} == {40}
