"""Wall time of ``foreword --help``, and of a Python that does nothing, in turns.

python bench/startup.py [--rounds 20]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time


def seconds(*arguments: str) -> float:
    """Wall time of a Python with these arguments."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Print the medians as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    seconds("-m", "foreword", "--help")
    pairs = [(seconds("-m", "foreword", "--help"), seconds("-c", "pass")) for _ in range(rounds)]
    ours, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"| command | wall time, s (median of {rounds} starts) |\n|---|---|")
    print(f"| `foreword --help` | {ours:.3f} |\n| `python -c pass` | {bare:.3f} |")


if __name__ == "__main__":
    main()
