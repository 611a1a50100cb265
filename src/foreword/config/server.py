"""The config of the built-in server: YAML with the root key ``server``, or the same keys without a root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from foreword.config.base import ConfigModel
from foreword.errors import ConfigError

ROOT = "server"

Speed = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class ServerConfig(ConfigModel):
    """What the built-in server serves, how large its cache is and how fast it pretends to be."""

    tokenizer: str = "builtin"
    """``builtin``, a tokenizer file or folder, or ``hub:NAME@REV``."""
    chat_template: Annotated[str, Field(min_length=1)] = "tokenizer"
    """``tokenizer`` for its own (the built-in one where it has none), or a template file."""
    block_size: Count = 16
    """Tokens of a cache block."""
    capacity_blocks: Count | None = None
    """Blocks that requests can use; ``None`` never evicts."""
    prefill_tokens_per_s: Speed = 100_000.0
    """Uncached prompt tokens computed in a second; one prefill at a time."""
    decode_tokens_per_s: Speed | None = 50.0
    """Tokens of one stream in a second; ``None`` sends all of them at once."""
    slots: Count = 64
    """Requests that run at once; others wait in order."""
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Each prefill and each token gap is longer or shorter by up to this share, by keyed draws."""
    seed: int = 0
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    """0 takes a free port."""
    model: Annotated[str, Field(min_length=1)] = "foreword"

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Validate what a YAML file holds; an empty document is the default server."""
        data = {} if document is None else document
        if isinstance(data, Mapping) and set(data) == {ROOT}:
            data = data[ROOT] or {}
        if not isinstance(data, Mapping):
            raise ConfigError(f"{ROOT}: expected keys and values, got {type(data).__name__}", field=ROOT)
        return cls.parse(_string_keys(data), root=ROOT)


def _string_keys(data: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in data.items()}
