"""``foreword probe`` on the built-in server and on servers that tell less, from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from aiohttp import web

from foreword.cli.app import main
from foreword.config.server import ServerConfig
from foreword.run.probe import ProbeSpec, probe_server
from foreword.server.app import Api
from foreword.server.running import server_process
from tests.support.chat import DATED, KINDS, rendered, template_of, tokenizer_folder
from tests.support.content import builtin_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.run.probe import Probed


def _served(model: str, block_size: int) -> ServerConfig:
    return ServerConfig(
        port=0, tokenizer=model, block_size=block_size, decode_tokens_per_s=None, prefill_tokens_per_s=1e9
    )


def test_a_probed_server_gets_a_data_set_that_hits_as_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Probe, generate from the fragment without the template, run: every request as predicted."""
    model = tokenizer_folder(tmp_path / "model", KINDS["system"])
    fragment, dataset, run = tmp_path / "server.yaml", tmp_path / "dataset", tmp_path / "run"
    with server_process(_served(str(model), 48)) as url:
        assert main(["probe", url, "--output", str(fragment)]) == 0
        told = capsys.readouterr()
        config = yaml.safe_load(fragment.read_text(encoding="utf-8"))
        config["prefix_cache_dataset"] |= {"dataset_id": "probed", "request_count": 30, "input_length": 250}
        config["prefix_cache_dataset"] |= {"target": {"hit_ratio": 0.5}, "output_length": 2}
        fragment.write_text(yaml.safe_dump(config), encoding="utf-8")
        assert main(["generate", "--config", str(fragment), "--output", str(dataset)]) == 0
        assert main(["run", "--dataset", str(dataset), "--url", url, "--output", str(run)]) == 0

    frame = config["prefix_cache_dataset"]["frame"]
    whole = builtin_tokenizer().encode(rendered(template_of(model), "Any words"))
    assert [*frame["head_ids"], *builtin_tokenizer().encode("Any words"), *frame["tail_ids"]] == whole
    assert config["prefix_cache_dataset"]["block_size"] == 48
    assert config["prefix_cache_dataset"]["prompt_format"] == "chat"
    assert "48 tokens, measured" in told.out
    assert told.err == ""
    rows = [json.loads(line) for line in (dataset / "request_metadata.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in (run / "runtime" / "request_results.jsonl").read_text().splitlines()]
    planned = {row["request_id"]: (row["input_len"], row["expected_hit_len"]) for row in rows}
    assert {row["request_id"]: (row["prompt_tokens"], row["cached_tokens"]) for row in found} == planned
    assert sum(row["cached_tokens"] for row in found) > 0


class _Silent(Api):
    """A server that tells no ids: no tokenize, no ids in answers."""

    def __init__(self, config: ServerConfig, hidden: frozenset[str]) -> None:
        super().__init__(config, builtin_tokenizer().engine)
        self.hidden = hidden

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        """Not there, or for texts only."""
        if "tokenize" in self.hidden or ("chats" in self.hidden and "messages" in await request.json()):
            return web.Response(status=404)
        return await super().tokenize(request)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Without ids, where those are hidden."""
        reply = await super().chat(request)
        if "ids" in self.hidden and isinstance(reply, web.Response):
            answer = json.loads(reply.text or "{}")
            answer.pop("prompt_token_ids", None)
            return web.json_response(answer)
        return reply


async def _probed(config: ServerConfig, *hidden: str, tokenizer: str | None = None) -> Probed:
    runner = web.AppRunner(_Silent(config, frozenset(hidden)).application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        return await probe_server(ProbeSpec(f"http://{host}:{port}", tokenizer=tokenizer))
    finally:
        await runner.cleanup()


async def test_ids_are_read_from_answers_where_chats_are_not_tokenised(tmp_path: Path) -> None:
    """A server that tokenises texts only may still return the ids of a chat."""
    model = str(tokenizer_folder(tmp_path / "model", KINDS["marked"]))

    found = await _probed(_served(model, 16), "chats")

    assert found.chat == (await _probed(_served(model, 16))).chat != None  # noqa: E711 - in a chain
    assert found.how == "ids in answers"


async def test_counts_are_enough_where_the_tokenizer_is_at_hand(tmp_path: Path) -> None:
    """Usage alone proves the template of the tokenizer, or tells that it is another one."""
    model = str(tokenizer_folder(tmp_path / "model", KINDS["marked"]))
    other = str(tokenizer_folder(tmp_path / "other", KINDS["system"]))

    same = await _probed(_served(model, 16), "tokenize", "ids", tokenizer=model)
    wrong = await _probed(_served(model, 16), "tokenize", "ids", tokenizer=other)
    without = await _probed(_served(model, 16), "tokenize", "ids")

    assert same.chat == (await _probed(_served(model, 16))).chat
    assert same.how.startswith("usage")
    assert wrong.chat is without.chat is None
    assert any("the server counts" in warning for warning in wrong.warnings)
    assert any("--tokenizer" in warning for warning in without.warnings)


async def test_another_template_than_the_tokenizers_is_named(tmp_path: Path) -> None:
    """The server's own ids win, with a warning."""
    model = str(tokenizer_folder(tmp_path / "model", KINDS["marked"]))
    other = str(tokenizer_folder(tmp_path / "other", KINDS["system"]))

    found = await _probed(_served(model, 16), tokenizer=other)

    assert found.chat == (await _probed(_served(model, 16))).chat
    assert any("another one" in warning for warning in found.warnings)


async def test_a_date_in_the_tokenizers_template_is_reported(tmp_path: Path) -> None:
    """Case 33: it stands in the head of the server, and will be another one tomorrow."""
    model = str(tokenizer_folder(tmp_path / "model", DATED))

    found = await _probed(_served(model, 16), tokenizer=model)

    assert any("TEMPLATE_HAS_DATE" in warning for warning in found.warnings)


@pytest.mark.parametrize("block_size", [1, 7, 16, 48, 128, 784])
async def test_the_block_size_is_measured(block_size: int) -> None:
    """Whatever it is, from hits alone."""
    assert (await _probed(_served("builtin", block_size))).block_size == block_size


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "nobody": (["http://127.0.0.1:9"], 4, "cannot be reached"),
    "no-scheme": (["127.0.0.1:9"], 2, "http://"),
    "no-url": ([], 2, "url"),
    "no-key": (["http://127.0.0.1:9", "--api-key-env", "NO_SUCH_KEY"], 2, "NO_SUCH_KEY"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), list(REFUSED.values()), ids=list(REFUSED))
def test_bad_input_is_one_line(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong and what is possible instead."""
    assert main(["probe", *arguments]) == code

    told: Any = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert words.lower() in told[0].lower()
