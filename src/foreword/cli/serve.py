"""``foreword serve``: the built-in server."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from foreword.cli.options import Json, print_json

if TYPE_CHECKING:
    from foreword.config.server import ServerConfig

_UNLIMITED = "unlimited"

Tokenizer = Annotated[str | None, Parameter(help="builtin, a tokenizer.json or its folder, or hub:NAME@REV.")]
Capacity = Annotated[
    int | Literal["unlimited"] | None, Parameter(help="Blocks that requests can use; default unlimited.")
]
Prefill = Annotated[float | None, Parameter(help="Uncached prompt tokens computed in a second; default 100000.")]
Decode = Annotated[float | Literal["unlimited"] | None, Parameter(help="Tokens of one stream in a second; default 50.")]


def serve(  # noqa: PLR0913 - one parameter a flag
    *,
    config: Annotated[Path | None, Parameter(help="YAML file; flags win over it.")] = None,
    tokenizer: Tokenizer = None,
    chat_template: Annotated[
        str | None, Parameter(help="tokenizer for its own, or a template file; default tokenizer.")
    ] = None,
    block_size: Annotated[int | None, Parameter(help="Tokens of a cache block; default 16.")] = None,
    capacity_blocks: Capacity = None,
    prefill_tokens_per_s: Prefill = None,
    decode_tokens_per_s: Decode = None,
    slots: Annotated[int | None, Parameter(help="Requests that run at once; default 64.")] = None,
    jitter: Annotated[float | None, Parameter(help="Share by which times vary, 0 up to 1; default 0.")] = None,
    seed: Annotated[int | None, Parameter(help="Seed of the jitter; default 0.")] = None,
    host: Annotated[str | None, Parameter(help="Address to listen on; default 127.0.0.1.")] = None,
    port: Annotated[int | None, Parameter(help="Port to listen on, 0 for a free one; default 8000.")] = None,
    model: Annotated[str | None, Parameter(help="Name of the served model; default foreword.")] = None,
    json: Json = False,
) -> int:
    """Start the built-in OpenAI-compatible server, a real prefix cache behind a simulated model, until Ctrl-C."""
    from foreword.server.running import serve as serve_now

    flags = {
        "tokenizer": tokenizer,
        "chat_template": chat_template,
        "block_size": block_size,
        "capacity_blocks": capacity_blocks,
        "prefill_tokens_per_s": prefill_tokens_per_s,
        "decode_tokens_per_s": decode_tokens_per_s,
        "slots": slots,
        "jitter": jitter,
        "seed": seed,
        "host": host,
        "port": port,
        "model": model,
    }
    asked = _config(config, {name: value for name, value in flags.items() if value is not None})
    serve_now(asked, partial(_announce, asked, json=json))
    print("foreword: server stopped", file=sys.stderr)
    return 0


def _announce(config: ServerConfig, url: str, *, json: bool) -> None:
    """Say where the server is, at once: a program may be waiting for the line."""
    if json:
        print_json({"url": url, **config.model_dump()})
    else:
        print(_ready_line(config, url))
    sys.stdout.flush()


def _config(path: Path | None, flags: dict[str, str | float]) -> ServerConfig:
    """The file's config with the flags over it; a tokenizer that the file names is relative to the file."""
    from foreword.config.server import ServerConfig
    from foreword.store.configs import read_yaml

    read = ServerConfig.from_document(None if path is None else read_yaml(path))
    if path is not None and read.tokenizer != "builtin" and not read.tokenizer.startswith("hub:"):
        read = read.model_copy(update={"tokenizer": str(path.parent / Path(read.tokenizer).expanduser())})
    if path is not None and read.chat_template != "tokenizer":
        read = read.model_copy(update={"chat_template": str(path.parent / Path(read.chat_template).expanduser())})
    given = {name: None if value == _UNLIMITED else value for name, value in flags.items()}
    return ServerConfig.from_document(read.model_dump() | given)


def _ready_line(config: ServerConfig, url: str) -> str:
    capacity = _UNLIMITED if config.capacity_blocks is None else f"{config.capacity_blocks:,}"
    decode = _UNLIMITED if config.decode_tokens_per_s is None else f"{config.decode_tokens_per_s:,g} tokens/s a stream"
    return (
        f"{config.model} at {url}: {capacity} blocks of {config.block_size} tokens, "
        f"prefill {config.prefill_tokens_per_s:,.0f} tokens/s, decode {decode}, {config.slots} slots"
    )
