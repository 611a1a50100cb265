"""The server's config: two layouts of one file, defaults, and errors that name the key."""

from __future__ import annotations

import pytest

from foreword.config.server import ServerConfig
from foreword.errors import ConfigError


def test_the_root_key_may_be_left_out() -> None:
    """``server:`` with keys below it and the keys alone mean the same."""
    keys = {"block_size": 32, "port": 0}

    assert ServerConfig.from_document({"server": keys}) == ServerConfig.from_document(keys)


@pytest.mark.parametrize("document", [None, {}, {"server": None}])
def test_an_empty_file_is_the_default_server(document: object) -> None:
    """Every key has a default: unbounded cache, 50 tokens a second, loopback."""
    config = ServerConfig.from_document(document)

    assert config == ServerConfig()
    assert (config.capacity_blocks, config.decode_tokens_per_s, config.host) == (None, 50.0, "127.0.0.1")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"server": {"blok_size": 16}}, "server.blok_size"),
        ({"block_size": 0}, "server.block_size"),
        ({"capacity_blocks": 0}, "server.capacity_blocks"),
        ({"prefill_tokens_per_s": 0}, "server.prefill_tokens_per_s"),
        ({"decode_tokens_per_s": -1}, "server.decode_tokens_per_s"),
        ({"slots": 0}, "server.slots"),
        ({"jitter": 1}, "server.jitter"),
        ({"port": 65_536}, "server.port"),
        ({"host": ""}, "server.host"),
        ({"server": {}, "other": 1}, "server.server"),
        ([1], "server"),
        ("text", "server"),
    ],
)
def test_a_bad_value_is_named_by_its_path(document: object, field: str) -> None:
    """A typing error or a value out of range is a ConfigError with the key's path."""
    with pytest.raises(ConfigError) as caught:
        ServerConfig.from_document(document)

    assert caught.value.field == field
