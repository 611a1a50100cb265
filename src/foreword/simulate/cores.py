"""Which core replays a trace: the plain reference, or the compiled one that is the same and faster."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from foreword.errors import UsageError

if TYPE_CHECKING:
    from foreword.simulate.replay import Replay

WORTH_COMPILING_KEYS = 300_000
"""Below this, the reference has answered before the compiled core is loaded."""

_LARGEST_BLOCK_BYTES = 2**30
_MOST_SHARDS, _MOST_TIERS = 1_000_000, 31


class Core(StrEnum):
    """What is asked for: ``auto`` is the compiled core for long traces that it can replay."""

    AUTO = "auto"
    REFERENCE = "reference"
    COMPILED = "compiled"


def chosen_core(replay: Replay, keys: int, *, asked: Core) -> Core:
    """The core that replays rows with so many keys; ``UsageError`` if the compiled one is asked for in vain."""
    reason = misfit(replay)
    match asked:
        case Core.REFERENCE:
            return Core.REFERENCE
        case Core.COMPILED if reason is not None:
            raise UsageError(f"the compiled core cannot replay this: {reason}", advice="use --core auto")
        case Core.COMPILED:
            return Core.COMPILED
        case Core.AUTO:
            return Core.COMPILED if reason is None and keys >= WORTH_COMPILING_KEYS else Core.REFERENCE


def misfit(replay: Replay) -> str | None:
    """Why the compiled core cannot run this replay, if it cannot."""
    instances = replay.instances.values()
    reasons = {
        "the replay has already begun": replay.started,
        "templates need the prefix tree": replay.templates,
        "blocks are larger than 1 GB": any(at.cache.bytes_per_block > _LARGEST_BLOCK_BYTES for at in instances),
        "there are more than a million shards": sum(at.cache.config.shard_count for at in instances) > _MOST_SHARDS,
        "there are more than 31 tiers": any(len(at.group.tiers) > _MOST_TIERS for at in instances),
    }
    return next((reason for reason, applies in reasons.items() if applies), None)
