"""Runs of tests wait for nothing, and start no process unless the test is about it."""

from __future__ import annotations

import pytest

from foreword.run import scrape


class NoSampler:
    """Samples nothing."""

    def __init__(self, urls: object, path: object, origin_ns: int) -> None:
        """Take what a sampler takes."""

    async def __aenter__(self) -> None:
        """Start nothing."""

    async def __aexit__(self, *error: object) -> None:
        """Stop nothing."""


@pytest.fixture
def sampled() -> None:
    """Ask for the real sampling process."""


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "SETTLE_STEP_S", 0.002)
    if "sampled" not in request.fixturenames:
        monkeypatch.setattr("foreword.run.session.Sampler", NoSampler)
