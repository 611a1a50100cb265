"""The browser that all tests of a module share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.page import browser

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One browser for all tests here; each opens a tab."""
    with browser(chromium, tmp_path_factory.mktemp("profile")) as address:
        yield address
