"""Requests and key operations a second of the replay, beside a plain LRU of Python and, if given, libcachesim.

The benchmark trace is made here: 300 system prompts of 8 to 40 blocks under weights 1/i; 85 % of the requests go on
with one of the latest sessions and add 2 to 12 blocks; one beyond 160 blocks keeps its first 8 to 20 and 4 new ones.
A key that is read and a key that is written are two operations.

    python bench/replay.py [--requests 200000] [--rounds 3] [--large 10] [--peer-python VENV/bin/python]
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import tempfile
import time
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword import flow
from foreword.config.replay import ReplayConfig
from foreword.simulate.compiled import prepare, run_events
from foreword.simulate.cores import Core
from foreword.simulate.replay import Replay
from foreword.store.parquet import write_parquet
from foreword.store.replays import Export, SeriesChoice
from foreword.store.traces import LoadedTrace, TraceSource, load_trace, replay_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROMPTS, PROMPT_BLOCKS = 300, (8, 40)
GOES_ON, MEAN_BACK, ADDED_BLOCKS = 0.85, 200, (2, 12)
LONGEST_BLOCKS, KEPT_BLOCKS, NEW_BLOCKS = 160, (8, 20), 4
OPEN_SESSIONS = 4_000
GAP_NS = (100_000, 2_000_000)
BLOCK_TOKENS, BYTES_PER_TOKEN = 16, 65_536
QUOTA_BLOCKS = 100_000
TIERS = (20_000, 60_000, 200_000)
LRU = {"eviction_policy_type": "lru", "eviction_policy_params": {}}


def write_trace(path: Path, requests: int, *, scale: int = 1) -> int:
    """Write the trace; returns its keys. A larger ``scale`` has as many times the prompts and open sessions."""
    draws, keys, now = random.Random(20_26), 0, 10**9  # noqa: S311 - a trace, not a secret
    prompts = [_fresh(draws, draws.randint(*PROMPT_BLOCKS)) for _ in range(PROMPTS * scale)]
    weights = [1 / rank for rank in range(1, len(prompts) + 1)]
    sessions: list[list[int]] = []
    with path.open("w", encoding="ascii") as file:
        for number in range(requests):
            now += draws.randint(*GAP_NS)
            if sessions and draws.random() < GOES_ON:
                back = int(draws.expovariate(1 / (MEAN_BACK * scale)))
                path_keys = sessions[max(-len(sessions), -1 - back)]
            else:
                path_keys = list(draws.choices(prompts, weights)[0])
                sessions.append(path_keys)
                del sessions[: -OPEN_SESSIONS * scale]
            path_keys += _fresh(draws, draws.randint(*ADDED_BLOCKS))
            if len(path_keys) > LONGEST_BLOCKS:
                path_keys[draws.randint(*KEPT_BLOCKS) :] = _fresh(draws, NEW_BLOCKS)
            keys += len(path_keys)
            tokens = len(path_keys) * BLOCK_TOKENS + draws.randrange(BLOCK_TOKENS)
            head = f'{{"type":"request","instance_id":"a","trace_id":"r{number}","timestamp_ns":{now},"keys":['
            file.write(f'{head}{",".join(map(str, path_keys))}],"input_len":{tokens}}}\n')
    return keys


def _fresh(draws: random.Random, count: int) -> list[int]:
    return [draws.getrandbits(63) for _ in range(count)]


def config_of(trace: Path, policy: dict[str, Any], write_mode: str | None = None) -> dict[str, Any]:
    """One pool, or three tiers of a write mode."""
    gigabytes = [blocks * BLOCK_TOKENS * BYTES_PER_TOKEN / 2**30 for blocks in (QUOTA_BLOCKS, *TIERS)]
    storages = [
        {"unique_name": f"t{at}", "storage_type": "", "band_width_mbps": 20_000, "priority": at, "capacity": size}
        for at, size in enumerate(gigabytes[1:])
    ]
    instance = {"instance_id": "a", "block_size": BLOCK_TOKENS, "bytes_per_token": BYTES_PER_TOKEN, **policy}
    group = {
        "group_name": "g",
        "quota_capacity": gigabytes[0],
        "used_percentage": 1.0,
        "default_block_ttl_seconds": 60,
        "tier_strategy": {"hierarchical_eviction_enabled": write_mode is not None}
        | ({"write_mode": write_mode} if write_mode else {}),
        "storages": storages if write_mode else [],
        "instances": [instance],
    }
    return {
        "trace_file_path": str(trace),
        "output_result_path": str(trace.parent / "results"),
        "eviction_params": {"eviction_mode": 3, "eviction_batch_size_per_instance": 100},
        "instance_groups": [group],
    }


CASES: dict[str, tuple[dict[str, Any], str | None]] = {
    "lru, one pool": (LRU, None),
    "three tiers, write_through": (LRU, "write_through"),
    "three tiers, cascading": (LRU, "cascading"),
    "three tiers, write_through_selective": (LRU, "write_through_selective"),
    "ttl": ({"eviction_policy_type": "ttl", "eviction_policy_params": {}}, None),
    "leaf_aware_lru": ({"eviction_policy_type": "leaf_aware_lru", "eviction_policy_params": {}}, None),
}


@contextmanager
def unheard(_what: str, _unit: str) -> Iterator[Callable[[int, int], None]]:
    """Progress that nobody watches."""
    yield lambda _done, _total: None


def end_to_end(config: Path, *, cached: bool) -> None:
    """What ``foreword replay --series none`` does, loading of the program apart."""
    asked = flow.Replaying(None, Export(SeriesChoice.NONE), core="compiled", cached=cached)
    flow.replay(config, asked, hearing=unheard)


def core_only(document: dict[str, Any], trace: LoadedTrace) -> None:
    """The rows of a loaded trace through a new replay."""
    source = TraceSource("", core=Core.COMPILED)
    replay = Replay(ReplayConfig.from_document(document))
    replay_trace(replay, trace, source=source, progress=lambda _done, _total: None)


def kernels_s(document: dict[str, Any], trace: LoadedTrace, rounds: int) -> float:
    """Seconds of the compiled caches alone, keys being dense ids already; the fastest round."""
    times = []
    for _ in range(rounds):
        replay = Replay(ReplayConfig.from_document(document))
        ready = prepare(replay, trace.columns, refuse=lambda _error: None)
        begin = time.perf_counter()
        run_events(ready)
        times.append(time.perf_counter() - begin)
    return min(times)


def plain_lru(trace: LoadedTrace) -> None:
    """Look every key up and then write it, in one ordered dictionary."""
    cache: OrderedDict[int, None] = OrderedDict()
    keys, columns = trace.columns.keys.tolist(), trace.columns
    for start, stop in columns.spans.tolist():
        path = keys[start:stop]
        for key in path:
            if key not in cache:
                break
            cache.move_to_end(key)
        for key in path:
            cache[key] = None
        while len(cache) > QUOTA_BLOCKS:
            cache.popitem(last=False)


PEER = """
import sys, time, numpy, libcachesim
keys = numpy.load(sys.argv[1]).tolist()
cache, request = libcachesim.LRU(int(sys.argv[2])), libcachesim.Request()
request.obj_size = 1
begin = time.perf_counter()
for key in keys:
    request.obj_id = key
    cache.get(request)
print(time.perf_counter() - begin)
"""


def peer_s(python: str, trace: LoadedTrace, folder: Path) -> float | None:
    """Seconds of libcachesim's LRU over the keys, which get writes in one operation; ``None`` where it fails."""
    np.save(folder / "keys.npy", trace.columns.keys & 0x7FFF_FFFF_FFFF_FFFF)
    command = [python, "-c", PEER, str(folder / "keys.npy"), str(QUOTA_BLOCKS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def best(rounds: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure(folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, float, int, int]]:
    """Name, seconds, requests and key operations of each figure, in the order in which they are made."""
    path, requests, rounds = folder / "trace.jsonl", options.requests, options.rounds
    operations = 2 * write_trace(path, requests)
    config = folder / "r.json"
    config.write_text(json.dumps(config_of(path, LRU)), encoding="utf-8")
    trace = load_trace(TraceSource(str(path)), lambda _done, _total: None)
    core_only(config_of(path, LRU), trace)  # compile
    yield "end to end, first run", best(rounds, partial(end_to_end, config, cached=False)), requests, operations
    end_to_end(config, cached=True)
    yield "end to end, kept arrays", best(rounds, partial(end_to_end, config, cached=True)), requests, operations
    _as_parquet(config, trace, path)
    yield "end to end, Parquet", best(rounds, partial(end_to_end, config, cached=True)), requests, operations
    for name, (policy, mode) in CASES.items():
        document = config_of(path, policy, mode)
        yield (
            f"loaded trace, {name}",
            best(rounds, partial(core_only, document, trace)),
            requests,
            operations,
        )
        yield f"core only, {name}", kernels_s(document, trace, rounds), requests, operations
    yield "plain OrderedDict, lru", best(1, partial(plain_lru, trace)), requests, operations
    peer = peer_s(options.peer_python, trace, folder) if options.peer_python else None
    if peer is not None:
        yield "libcachesim, lru", peer, requests, operations // 2
    if options.large:
        large = folder / "large.jsonl"
        operations = 2 * write_trace(large, requests, scale=options.large)
        trace = load_trace(TraceSource(str(large)), lambda _done, _total: None)
        seconds = kernels_s(config_of(large, LRU), trace, rounds)
        yield f"core only, lru, {options.large} times the prompts", seconds, requests, operations


def _as_parquet(config: Path, trace: LoadedTrace, path: Path) -> None:
    packed = path.with_suffix(".parquet")
    write_parquet(trace.columns, packed)
    config.write_text(json.dumps(config_of(packed, LRU)), encoding="utf-8")


def main() -> None:
    """Make the trace, measure, and print a table with ratios to the plain LRU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=10, help="scale of the large trace; 0 leaves it out")
    parser.add_argument("--peer-python", help="a Python that has libcachesim")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foreword-bench-") as folder:
        found = list(measure(Path(folder), options))
    plain = next(operations / seconds for name, seconds, _, operations in found if name.startswith("plain"))
    print(f"{'':54} {'seconds':>9} {'requests/s':>12} {'M key ops/s':>12} {'to plain':>9}")
    for name, seconds, requests, operations in found:
        speed = operations / seconds
        print(f"{name:54} {seconds:9.3f} {requests / seconds:12,.0f} {speed / 1e6:12.2f} {speed / plain:8.1f}x")
    if not any(name.startswith("libcachesim") for name, *_ in found):
        print("libcachesim: left out (--peer-python names no Python that has it)")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak_mb:,.0f} MB")


if __name__ == "__main__":
    main()
