"""Predictions against a real SGLang on the CPU: pages of one token, where each token counts, and of 64."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.acceptance import Case, begun_table, check
from tests.support.groups import folder_of
from tests.support.servers import sglang_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.sglang

PAGE_SIZES = (1, 64)
KINDS = [
    (mode, prompt_format)
    for mode in ("progressive_prefix_fill", "warmup")
    for prompt_format in ("completions_text", "completions_ids", "chat")
]


class Server(NamedTuple):
    """A running SGLang."""

    url: str
    page_size: int
    version: str


@pytest.fixture(scope="module", params=PAGE_SIZES)
def server(
    request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """An SGLang, started once for all cases of a page size."""
    venv = folder_of("SGLANG_VENV")
    assert venv is not None
    with sglang_server(venv, tiny_model, tmp_path_factory.mktemp("sglang"), page_size=request.param) as url:
        with urllib.request.urlopen(f"{url}/server_info", timeout=5) as reply:  # noqa: S310 - a loopback URL of our own
            version = str(json.load(reply).get("version"))
        yield Server(url, request.param, version)


@pytest.fixture(scope="module")
def table() -> Path | None:
    """The file of ``FOREWORD_ACCURACY_TABLE`` with a name of its own, begun anew, or nothing."""
    return begun_table("sglang-")


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_every_request_hits_what_was_predicted(
    server: Server, kind: tuple[str, str], table: Path | None, tiny_model: Path, tmp_path: Path
) -> None:
    """Per request, and in the sum of the server's counters, SGLang's hits are the planned ones."""
    mode, prompt_format = kind
    case = Case(
        prompt_format,
        mode,
        seed=13,
        block_size=server.page_size,
        isolation="reset",
        engine="sglang",
        request_count=200,
    )

    name = f"SGLang {server.version}, CPU"
    check(case, server.url, server=name, table=table, tokenizer=tiny_model, folder=tmp_path / "case")
