"""What `foreword run` costs the machine it runs on, and how late its own clock is, under two loads.

    standard: prompts of 64 token ids, 16 chunks out, 64 in flight
    large:    prompts of 50,000 token ids, 4 chunks out, 16 in flight

The built-in server answers from a process of its own. CPU time is the client's alone and holds on a busy machine;
requests per second are the pair's. The client's peak memory stands beside the size of the data set it streamed.

    python bench/client_load.py [--requests 4000] [--load standard|large]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foreword.config.server import ServerConfig
from foreword.run.session import run
from foreword.run.spec import Isolation, RunSpec
from foreword.server.running import server_process
from foreword.store.runs import open_run, read_document, read_rows
from foreword.terms import ExecutionMode

if TYPE_CHECKING:
    from foreword.run.spec import RunOutcome

VOCABULARY = 8000


@dataclass(frozen=True)
class Load:
    """One kind of load."""

    prompt_tokens: int
    tokens_out: int
    in_flight: int


LOADS = {"standard": Load(64, 16, 64), "large": Load(50_000, 4, 16)}


def write_dataset(folder: Path, load: Load, requests: int) -> Path:
    """A data set without shared prefixes, written line by line."""
    folder.mkdir()
    with (folder / "data.jsonl").open("w") as data, (folder / "request_metadata.jsonl").open("w") as metadata:
        for number in range(requests):
            ids = [(number * 7919 + position * 31) % VOCABULARY for position in range(load.prompt_tokens)]
            row = {"request_id": str(number), "prompt_token_ids": ids, "max_tokens": load.tokens_out}
            data.write(json.dumps(row) + "\n")
            plan = {"request_id": str(number), "prefix_group_id": "a", "input_len": load.prompt_tokens}
            metadata.write(json.dumps(plan) + "\n")
    manifest = {
        "dataset_id": "client-load",
        "request_count": requests,
        "block_size": 16,
        "execution_mode": "cold",
        "prompt_format": "completions_ids",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def measure(folder: Path, load: Load, requests: int) -> None:
    """Run once and print what it took."""
    dataset = write_dataset(folder / "dataset", load, requests)
    config = ServerConfig(port=0, prefill_tokens_per_s=1e9, decode_tokens_per_s=None, slots=256)
    with server_process(config) as url:
        spec = RunSpec(
            dataset,
            (url,),
            mode=ExecutionMode.COLD,
            isolation=Isolation.NONE,
            concurrency=load.in_flight,
            output=folder / "run",
        )
        begun_s, cpu_s = time.perf_counter(), time.process_time()
        outcome = run(spec)
        took_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - cpu_s
    tell(outcome, dataset, took_s=took_s, cpu_s=cpu_s)


def tell(outcome: RunOutcome, dataset: Path, *, took_s: float, cpu_s: float) -> None:
    """Print the figures of a run."""
    folder = open_run(outcome.folder)
    figures = read_document(folder.performance)["passes"][0]
    chunks = sum(len(row.token_ns) for row in read_rows(folder.requests))
    requests, lag = figures["counts"]["requests"], figures["client"]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"requests        {requests} ({figures['counts']['failed']} failed) in {took_s:.1f} s")
    print(
        f"pair            {figures['request_throughput_per_s']:.0f} req/s, "
        f"{chunks / figures['duration_s']:.0f} chunks/s"
    )
    print(f"client CPU      {cpu_s / requests * 1e6:.0f} us a request, {cpu_s / max(chunks, 1) * 1e6:.1f} us a chunk")
    print(f"loop lag        p50 {lag['loop_lag_ms_p50']:.2f} ms, p99 {lag['loop_lag_ms_p99']:.2f} ms")
    print(f"send lag        p50 {lag['send_lag_ms_p50']:.3f} ms, p99 {lag['send_lag_ms_p99']:.3f} ms")
    print(f"peak memory     {peak_mb:.0f} MB for a data set of {(dataset / 'data.jsonl').stat().st_size / 1e6:.0f} MB")


def main() -> None:
    """Measure one load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--load", choices=sorted(LOADS), default="standard")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), LOADS[asked.load], asked.requests)


if __name__ == "__main__":
    main()
