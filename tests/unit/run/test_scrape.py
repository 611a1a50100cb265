"""The sampling process and what is read from its pages."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING

import pytest

from foreword.engines.registry import PROFILES
from foreword.run import sampler
from foreword.run.scrape import usage_samples
from foreword.terms import Engine, Pass
from tests.support.fake_openai import FakeOpenAI, served, vllm_page

if TYPE_CHECKING:
    from pathlib import Path

VLLM = PROFILES[Engine.VLLM]


def test_a_sampler_ends_with_its_input(tmp_path: Path) -> None:
    """One reading is taken at once; when standard input closes the sampler returns."""
    path = tmp_path / "pages.jsonl.gz"
    with served(FakeOpenAI()) as url:
        order = {"urls": [f"{url}/metrics"], "path": str(path), "origin_ns": 0, "interval_s": 30}
        (tmp_path / "order").write_text(json.dumps(order) + "\n")
        with (tmp_path / "order").open() as stdin:
            sampler.main(stdin)

    (sample,) = usage_samples(path, VLLM, spans={Pass.COLD: (0, 2**62)})
    assert (sample["kv_cache_usage"], sample["pass"], sample["running"]) == (0.25, "cold", None)


def test_a_page_that_cannot_be_had_is_left_out(tmp_path: Path) -> None:
    """Refused connections and error pages cost a sample, not the sampler."""
    file = io.BytesIO()
    with served(FakeOpenAI(metrics="missing")) as url:
        sampler.sample([f"{url}/metrics", "http://127.0.0.1:1/metrics"], 0, file=file)

    assert file.getvalue() == b""
    assert usage_samples(tmp_path / "none.gz", VLLM, spans={}) == []


def test_pages_that_were_cut_off(tmp_path: Path) -> None:
    """What a killed sampler wrote last is left out, what came before is read; a page of HTML tells nothing."""
    path = tmp_path / "pages.jsonl.gz"
    members = [
        gzip.compress(json.dumps({"t_ns": at_ns, "url_index": 0, "body": body}).encode() + b"\n")
        for at_ns, body in ((1, vllm_page(0, 0)), (2, "<html>"), (3, vllm_page(0, 0)))
    ]
    path.write_bytes(members[0] + members[1] + members[2][:-30])

    samples = usage_samples(path, VLLM, spans={Pass.COLD: (0, 1)})

    assert [(sample["t_ns"], sample["kv_cache_usage"]) for sample in samples if sample["kv_cache_usage"]] == [(1, 0.25)]


@pytest.mark.parametrize("url", ["http://me:pa%24s@host:9/metrics?x=1", "http://host:9/metrics?x=1"])
def test_credentials_become_a_header(url: str) -> None:
    """User and password leave the address and are sent as basic authorisation."""
    request = sampler.request_for(url)

    assert request.full_url == "http://host:9/metrics?x=1"
    expected = "Basic bWU6cGEkcw==" if "@" in url else None
    assert request.get_header("Authorization") == expected
