"""Memory and time of ``foreword generate``, beside a plain encoding of the same prompts with as many processes.

Memory is the sum of PSS over the command and all its children, at its peak; Linux only.

    python bench/generation.py [--requests 100000] [--tokens 1024] [--workers 2] [--tokenizer builtin]
        [--proofs window full tiktoken] [--encode-requests N] [--peer-python VENV/bin/python]

``tiktoken`` is the full proof by that engine. With ``--encode-requests`` only so many prompts are encoded plainly, and
their time is scaled. With the Python of a vLLM its own sampling runs too, on as many requests, in one process.
"""

from __future__ import annotations

import argparse
import importlib.resources
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 64
KIB = 1024
INTERVAL_S = 0.2
PROOFS = {
    "window": ["--proof", "window"],
    "full": ["--proof", "full"],
    "tiktoken": ["--proof", "full", "--proof-engine", "tiktoken"],
}


class Taken(NamedTuple):
    """Wall and user time in seconds of a step and all its processes, and its peak memory in MiB."""

    wall_s: float
    user_s: float
    memory: float = 0.0


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


def user_s() -> float:
    """User time of all processes that ended so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def generate(config: Path, output: Path, *, proof: str, workers: int, tokenizer: str) -> Taken:
    """What one ``foreword generate`` takes."""
    command = [sys.executable, "-m", "foreword", "generate", "--config", str(config), "--output", str(output)]
    command += [*PROOFS[proof], "--workers", str(workers), "--tokenizer", tokenizer, "--overwrite"]
    start, before, peak = time.perf_counter(), user_s(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        while program.poll() is None:
            peak = max(peak, sum(pss_kib(pid) for pid in family(program.pid)))
            time.sleep(INTERVAL_S)
    if program.returncode:
        sys.exit(f"foreword generate ended with {program.returncode}")
    return Taken(time.perf_counter() - start, user_s() - before, peak / KIB)


def chunks(path: Path, requests: int) -> Iterator[list[str]]:
    """The first prompts of a data set, 64 at a time."""
    with path.open(encoding="utf-8") as file:
        lines = islice(file, requests)
        while chunk := [json.loads(line)["prompt"] for line in islice(lines, CHUNK)]:
            yield chunk


def encode_part(path: Path, tokenizer: str, requests: int, part: int, parts: int) -> int:
    """Encode every ``parts``-th chunk of a data set; the number of tokens."""
    encoder = Tokenizer.from_file(tokenizer)
    mine = islice(chunks(path, requests), part, None, parts)
    return sum(len(one.ids) for chunk in mine for one in encoder.encode_batch_fast(chunk, add_special_tokens=False))


def encode(path: Path, tokenizer: str, *, requests: int, workers: int) -> Taken:
    """What encoding so many prompts takes with so many processes of one thread each."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    start, before = time.perf_counter(), user_s()
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        parts = [pool.submit(encode_part, path, tokenizer, requests, part, workers) for part in range(workers)]
        for part in parts:
            part.result()
    return Taken(time.perf_counter() - start, user_s() - before)


def sampled_by_vllm(python: str, tokenizer: str, *, requests: int, tokens: int) -> tuple[Taken, int]:
    """What vLLM's sampling takes, and how many of its prompts have the tokens that were asked for."""
    script = Path(__file__).with_name("vllm_sampling.py")
    command = [python, str(script), str(Path(tokenizer).parent), str(requests), str(tokens)]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
    found = json.loads(done.stdout.splitlines()[-1])
    return Taken(found["wall_s"], found["user_s"]), found["exact"]


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tokenizer", default="builtin", help="builtin, or the path of a tokenizer.json")
    parser.add_argument("--proofs", nargs="+", choices=PROOFS, default=["window"])
    parser.add_argument("--encode-requests", type=int, help="prompts to encode plainly, all of them by default")
    parser.add_argument("--peer-python", help="Python with vLLM; the tokenizer must be a folder's tokenizer.json")
    return parser.parse_args()


def row(name: str, taken: Taken, options: argparse.Namespace, *, plain: Taken, note: str = "") -> str:
    """A line of the table."""
    rate, memory = options.requests / taken.wall_s, f"{taken.memory:,.0f}" if taken.memory else ""
    ratios = f"{taken.wall_s / plain.wall_s:.3f} | {taken.user_s / plain.user_s:.3f}"
    return f"| {name} | {taken.wall_s:.1f} | {taken.user_s:.1f} | {rate:,.0f} | {memory} | {ratios} |{note}"


def main() -> None:
    """Print all as a table."""
    options = parsed()
    shipped = importlib.resources.files("foreword") / "data" / "tokenizer.json"
    with tempfile.TemporaryDirectory() as folder, importlib.resources.as_file(shipped) as builtin:
        config, output = Path(folder) / "config.yaml", Path(folder) / "dataset"
        config.write_text(config_text(options.requests, options.tokens), encoding="utf-8")
        made = {
            proof: generate(config, output, proof=proof, workers=options.workers, tokenizer=options.tokenizer)
            for proof in options.proofs
        }
        path = str(builtin) if options.tokenizer == "builtin" else options.tokenizer
        count = min(options.encode_requests or options.requests, options.requests)
        part = encode(output / "data.jsonl", path, requests=count, workers=options.workers)
    plain = Taken(*(each * options.requests / count for each in part[:2]))
    print(f"{options.requests:,} requests of {options.tokens:,} tokens, {options.workers} processes\n")
    print("| | wall, s | user, s | requests/s | peak PSS, MiB | wall, in times of plain encoding | user |")
    print("|---|---|---|---|---|---|---|")
    for proof, taken in made.items():
        print(row(f"`foreword generate`, {proof}", taken, options, plain=plain))
    print(row(f"plain encoding of {count:,} of the prompts, scaled", plain, options, plain=plain))
    if options.peer_python:
        peer, exact = sampled_by_vllm(
            options.peer_python, options.tokenizer, requests=options.requests, tokens=options.tokens
        )
        print(row("vLLM, PrefixRepetitionRandomDataset", peer, options, plain=plain, note=f" {exact:,} exact"))


if __name__ == "__main__":
    main()
