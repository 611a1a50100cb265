"""Predictions against NVIDIA Dynamo's front end and its simulated engine, which has a block table of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.acceptance import Case, assert_as_predicted, exercise

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mocker

# The mocker ignores salts and cannot be reset, so each case has content of its own.
CASES = [
    Case(prompt_format=prompt_format, mode=mode, seed=seed, block_size=16, isolation="none", request_count=100)
    for seed, (prompt_format, mode) in enumerate(
        (prompt_format, mode)
        for prompt_format in ("completions_text", "completions_ids")
        for mode in ("progressive_prefix_fill", "warmup")
    )
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_request_hits_what_was_predicted(case: Case, mocker: str, tiny_model: Path, tmp_path: Path) -> None:
    """Per request, and in the sum of the server's counters, the mocker's hits are the planned ones."""
    for result in exercise(case, mocker, tokenizer=tiny_model, folder=tmp_path / "case"):
        assert_as_predicted(result)
