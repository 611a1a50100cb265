"""Memory and time of ``foreword generate``, beside a plain encoding of the same prompts with as many processes.

Memory is the sum of PSS over the command and all its children, at its peak; Linux only.

    python bench/generation.py [--requests 100000] [--tokens 1024] [--workers 2] [--tokenizer builtin]
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 64
KIB = 1024
INTERVAL_S = 0.2


def config_text(requests: int, tokens: int) -> str:
    """The data set: one group, half of the tokens shared."""
    document = {
        "dataset_id": "bench-generation",
        "request_count": requests,
        "block_size": 16,
        "input_length": tokens,
        "target": {"hit_ratio": 0.5},
    }
    return json.dumps({"prefix_cache_dataset": document})


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        own = [int(child) for child in children.read_text().split()]
    except OSError:
        return [pid]
    return [pid, *(descendant for child in own for descendant in family(child))]


def pss_kib(pid: int) -> int:
    """Proportional set size of a process, 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def generate(config: Path, output: Path, *, workers: int, tokenizer: str) -> tuple[float, float]:
    """Wall time in seconds and peak memory in MiB of one ``foreword generate``."""
    command = [sys.executable, "-m", "foreword", "generate", "--config", str(config), "--output", str(output)]
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(
        [*command, "--workers", str(workers), "--tokenizer", tokenizer], stdout=subprocess.DEVNULL
    ) as program:
        while program.poll() is None:
            peak = max(peak, sum(pss_kib(pid) for pid in family(program.pid)))
            time.sleep(INTERVAL_S)
    if program.returncode:
        sys.exit(f"foreword generate ended with {program.returncode}")
    return time.perf_counter() - start, peak / KIB


def chunks(path: Path) -> Iterator[list[str]]:
    """Prompts of a data set, 64 at a time."""
    with path.open(encoding="utf-8") as lines:
        while chunk := [json.loads(line)["prompt"] for line in islice(lines, CHUNK)]:
            yield chunk


def encode_part(path: Path, tokenizer: str, part: int, parts: int) -> int:
    """Encode every ``parts``-th chunk of a data set; the number of tokens."""
    encoder = Tokenizer.from_file(tokenizer)
    mine = islice(chunks(path), part, None, parts)
    return sum(len(one.ids) for chunk in mine for one in encoder.encode_batch_fast(chunk, add_special_tokens=False))


def encode(path: Path, tokenizer: str, workers: int) -> float:
    """Wall time in seconds of encoding a data set with so many processes of one thread each."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    start = time.perf_counter()
    with ProcessPoolExecutor(workers) as pool:
        parts = [pool.submit(encode_part, path, tokenizer, part, workers) for part in range(workers)]
        for part in parts:
            part.result()
    return time.perf_counter() - start


def main() -> None:
    """Print both as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tokenizer", default="builtin", help="builtin, or the path of a tokenizer.json")
    options = parser.parse_args()
    shipped = importlib.resources.files("foreword") / "data" / "tokenizer.json"
    with tempfile.TemporaryDirectory() as folder, importlib.resources.as_file(shipped) as builtin:
        config, output = Path(folder) / "config.yaml", Path(folder) / "dataset"
        config.write_text(config_text(options.requests, options.tokens), encoding="utf-8")
        taken, memory = generate(config, output, workers=options.workers, tokenizer=options.tokenizer)
        path = str(builtin) if options.tokenizer == "builtin" else options.tokenizer
        plain = encode(output / "data.jsonl", path, options.workers)
    print(f"| {options.requests:,} requests of {options.tokens:,} tokens, {options.workers} processes | |\n|---|---|")
    print(f"| `foreword generate` | {taken:.1f} s, {options.requests / taken:,.0f} requests/s |")
    print(f"| peak memory, sum of PSS | {memory:,.0f} MiB |")
    print(f"| plain encoding of the same prompts | {plain:.1f} s, {options.requests / plain:,.0f} requests/s |")
    print(f"| generate, in times of plain encoding | {taken / plain:.2f} |")


if __name__ == "__main__":
    main()
