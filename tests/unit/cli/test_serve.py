"""Flags and file of ``foreword serve``, up to the server that they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from foreword.cli.serve import serve
from foreword.config.server import ServerConfig
from foreword.errors import ConfigError
from foreword.server import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """The configs that the command would serve; each is ready at once and stopped at once."""
    configs: list[ServerConfig] = []

    def record(config: ServerConfig, on_ready: Callable[[str], None]) -> None:
        configs.append(config)
        on_ready("http://127.0.0.1:1")

    monkeypatch.setattr(running, "serve", record)
    return configs


def test_without_flags_the_defaults_are_served(asked: list[ServerConfig], capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stdout says where and what; one on stderr says that it ended."""
    assert serve() == 0

    assert asked == [ServerConfig()]
    said = capsys.readouterr()
    assert said.out == (
        "foreword at http://127.0.0.1:1: unlimited blocks of 16 tokens, "
        "prefill 100,000 tokens/s, decode 50 tokens/s a stream, 64 slots\n"
    )
    assert said.err == "foreword: server stopped\n"


def test_every_key_is_a_flag(asked: list[ServerConfig]) -> None:
    """Each flag sets the key of its name."""
    keys = ServerConfig(
        tokenizer="t.json",
        block_size=32,
        capacity_blocks=9,
        prefill_tokens_per_s=5.5,
        decode_tokens_per_s=2.5,
        slots=3,
        jitter=0.5,
        seed=4,
        host="localhost",
        port=1234,
        model="m",
    ).model_dump()

    serve(**keys)

    assert [config.model_dump() for config in asked] == [keys]


def test_a_flag_can_lift_what_the_file_limits(asked: list[ServerConfig], tmp_path: Path) -> None:
    """``unlimited`` wins over a number in the file."""
    file = tmp_path / "server.yaml"
    file.write_text("capacity_blocks: 5\ndecode_tokens_per_s: 10\nslots: 2\n")

    serve(config=file, capacity_blocks="unlimited", decode_tokens_per_s="unlimited")

    assert asked == [ServerConfig(capacity_blocks=None, decode_tokens_per_s=None, slots=2)]


@pytest.mark.parametrize(
    ("written", "served"),
    [("sub/tokenizer.json", "{folder}/sub/tokenizer.json"), ("builtin", "builtin"), ("hub:a/b@1", "hub:a/b@1")],
)
def test_a_path_in_the_file_is_relative_to_the_file(
    asked: list[ServerConfig], tmp_path: Path, written: str, served: str
) -> None:
    """A config can be moved with its tokenizer."""
    file = tmp_path / "server.yaml"
    file.write_text(f"server:\n  tokenizer: {written}\n")

    serve(config=file)

    assert asked[0].tokenizer == served.format(folder=tmp_path)


def test_a_bad_flag_is_a_config_error(asked: list[ServerConfig]) -> None:
    """Flags are checked like the file."""
    with pytest.raises(ConfigError, match=r"server\.slots"):
        serve(slots=0)

    assert asked == []
