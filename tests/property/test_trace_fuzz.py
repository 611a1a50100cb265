"""A short run of the fuzzer over trace rows; ``python -m tests.fuzz.trace_rows`` is the long one."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.trace_rows import check


@pytest.mark.parametrize("seed", range(8))
def test_foreign_and_torn_rows_are_read_alike_and_break_nothing(seed: int) -> None:
    """Both readers find the same rows and errors, both cores the same series."""
    for number in range(15):
        check(random.Random(f"short {seed}/{number}"))  # noqa: S311 - traces, not secrets
