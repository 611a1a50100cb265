"""A config on its way in: keys, addresses and notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Draft:
    """Keys of a data-set config, the server's addresses, and what of the source has no counterpart."""

    config: dict[str, Any]
    url: str
    metrics_urls: tuple[str, ...]
    notes: tuple[str, ...]


def groups_of(weights: list[float]) -> dict[str, Any]:
    """The prefix section for groups ``group-0``, ``group-1``, ... with these weights of traffic."""
    if len(weights) == 1:
        return {"mode": "single_prefix"}
    groups = [{"id": f"group-{number}", "request_weight": weight} for number, weight in enumerate(weights)]
    return {"mode": "multi_prefix", "groups": groups}


def ranks_of(dp_size: int) -> dict[str, Any]:
    """Routing to ranks with caches of their own, the requests of a group in turn."""
    if dp_size == 1:
        return {}
    return {"routing": {"cache_scope": "dp_local", "dp_size": dp_size, "assignment": "round_robin"}}


KEY_NOTE = "api_key: not copied, no file should hold it; name its variable with run --api-key-env"
