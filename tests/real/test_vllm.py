"""Predictions against a real vLLM on the CPU: the item that counts."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.acceptance import Case, begun_table, check
from tests.support.groups import data_folder, folder_of
from tests.support.servers import vllm_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.real

BLOCK_SIZES = (32, 128)
KINDS = [
    (mode, language, prompt_format)
    for mode, language in (("progressive_prefix_fill", "en"), ("warmup", "zh"), ("compare", "mixed"))
    for prompt_format in ("completions_text", "completions_ids", "chat")
]


EXAMPLES = {
    "fixed_single_prefix_50": "compare",
    "progressive_single_prefix_50": "progressive_prefix_fill",
    "progressive_multi_prefix_50": "progressive_prefix_fill",
}
RFC_KINDS = [
    (example, prompt_format) for example in EXAMPLES for prompt_format in ("completions_text", "completions_ids")
]


class Server(NamedTuple):
    """A running vLLM."""

    url: str
    block_size: int
    version: str


@pytest.fixture(scope="module", params=BLOCK_SIZES)
def server(
    request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A vLLM, started once for all cases of a block size."""
    venv = folder_of("VLLM_VENV")
    assert venv is not None
    with vllm_server(venv, tiny_model, tmp_path_factory.mktemp("vllm"), block_size=request.param) as url:
        with urllib.request.urlopen(f"{url}/version", timeout=5) as reply:  # noqa: S310 - a loopback URL of our own
            version = json.load(reply)["version"]
        yield Server(url, request.param, version)


@pytest.fixture(scope="module")
def table() -> Path | None:
    """The file of ``FOREWORD_ACCURACY_TABLE``, begun anew, or nothing."""
    return begun_table()


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_every_request_hits_what_was_predicted(
    server: Server, kind: tuple[str, str, str], table: Path | None, tiny_model: Path, tmp_path: Path
) -> None:
    """Per request, and in the sum of the server's counters, vLLM's hits are the planned ones."""
    mode, language, prompt_format = kind
    case = Case(prompt_format, mode, seed=11, block_size=server.block_size, isolation="salt", language=language)

    name = f"vLLM {server.version}, CPU"
    check(case, server.url, server=name, table=table, tokenizer=tiny_model, folder=tmp_path / "case")


@pytest.mark.data
@pytest.mark.parametrize("kind", RFC_KINDS, ids="-".join)
def test_the_examples_of_the_rfc_measure_what_they_design(
    server: Server, kind: tuple[str, str], table: Path | None, tiny_model: Path, tmp_path: Path
) -> None:
    """The RFC's configs with 300 requests from GSM8K: every request hits what was designed, in every pass."""
    example, prompt_format = kind
    case = Case(
        prompt_format,
        EXAMPLES[example],
        seed=12,
        block_size=server.block_size,
        isolation="salt",
        example=example,
        corpus=data_folder() / "data" / "gsm8k",
    )

    name = f"vLLM {server.version}, CPU"
    check(case, server.url, server=name, table=table, tokenizer=tiny_model, folder=tmp_path / "case")
