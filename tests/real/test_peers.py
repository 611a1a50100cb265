"""Exported data sets sent by the real tools to the built-in server: the measured ratio is the designed one."""

from __future__ import annotations

import json
import shlex
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.server.running import server_process
from tests.support.datasets import generate, small
from tests.support.groups import folder_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.real


def counted(url: str, name: str) -> float:
    """A counter of the server's metrics page."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:  # noqa: S310 - a loopback URL of our own
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))


TOOLS = {
    "vllm": ("VLLM_VENV", "--tokenizer {model}"),
    "aiperf": ("AIPERF_VENV", "--tokenizer {model} --ui none"),
    "aiperf-mooncake": ("AIPERF_VENV", "--tokenizer {model} --ui none"),
    "guidellm": ("GUIDELLM_VENV", "--tokenizer kind=huggingface_auto,model={model} --disable-console"),
}
"""Where each tool is, and what its command needs here beside what is printed: a tokenizer, for a model of no hub."""


@pytest.mark.parametrize("order", ["interleave", "grouped"])
@pytest.mark.parametrize("tool", TOOLS)
def test_the_real_tool_keeps_the_designed_ratio(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, order: str
) -> None:
    """With the printed command every token of the design is asked for, and hits as planned."""
    variable, more = TOOLS[tool]
    venv = folder_of(variable)
    assert venv is not None, f"{variable} is not set to a folder"
    tokenizer = str(tiny_model / "tokenizer.json")
    document = small(model="tiny", tokenizer=tokenizer, request_order={"across_group": order})
    dataset = generate(tmp_path / "dataset", document)
    metadata = [json.loads(line) for line in (dataset / "request_metadata.jsonl").read_text().splitlines()]
    served = ServerConfig.model_validate(
        {"port": 0, "block_size": 16, "tokenizer": tokenizer, "model": "tiny", "prefill_tokens_per_s": 1e6}
    )
    capsys.readouterr()

    with server_process(served) as url:
        asked = ["export", "--dataset", str(dataset), "--format", tool, "--output", str(tmp_path), "--url", url]
        assert main([*asked, "--json"]) == 0
        command = shlex.split(json.loads(capsys.readouterr().out)["command"])
        done = subprocess.run(
            [venv / "bin" / command[0], *command[1:], *shlex.split(more.format(model=tiny_model))],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        queries, hits = (counted(url, f"vllm:prefix_cache_{name}_total") for name in ("queries", "hits"))

    assert queries == sum(row["input_len"] for row in metadata)
    assert hits == sum(row["expected_hit_len_cold"] for row in metadata)
