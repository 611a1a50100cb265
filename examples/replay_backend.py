"""A serving simulator of thirty lines that asks Foreword what its KV cache would have held.

    python examples/replay_backend.py examples/replay_three_tiers.json

Two users talk in turns. Each turn looks its blocks up, prefills what the cache does not have, and writes the blocks
back when the prefill has ended; the cache works on the simulator's own clock.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from foreword import Replay, ReplayConfig, load_replay_config

BLOCK_TOKENS = 16
PREFILL_TOKENS_PER_S = 4_000
NS_PER_S = 1_000_000_000


def converse(cache: Replay, *, now_ns: int, turns: range) -> int:
    """Let the users take these turns; returns the time at which the last one ends."""
    for turn in turns:
        for user in (1, 2):
            keys = [user * 1_000 + block for block in range(4 + 2 * turn)]
            tokens = len(keys) * BLOCK_TOKENS + 5
            hit = cache.read("instance-a", now_ns, keys=keys, input_len=tokens)
            computed = tokens - (hit.local_blocks + hit.remote_blocks) * BLOCK_TOKENS
            now_ns += computed * NS_PER_S // PREFILL_TOKENS_PER_S
            kept = cache.write("instance-a", now_ns, keys=keys)
            print(f"user {user}, turn {turn}: {computed} of {tokens} tokens computed, {kept.written_blocks} blocks new")
    return now_ns


def main(path: Path) -> None:
    """Run five turns, save the cache, and go on with three more in another one."""
    config: ReplayConfig = load_replay_config(path)
    first = Replay(config)
    now_ns = converse(first, now_ns=1, turns=range(5))
    saved = json.dumps(first.save())

    second = Replay(config)
    second.load(json.loads(saved))
    second.reset_rates()
    converse(second, now_ns=now_ns, turns=range(5, 8))
    print(f"hit ratio: {first.rates('instance-a').hit_ratio:.4f}, then {second.rates('instance-a').hit_ratio:.4f}")
    second.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
