"""Law 7: the same prompts in every process."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
from foreword.workload.content import ContentOptions, prepare
from tests.support.content import builtin_tokenizer, few_stories, spread_plan
plan = spread_plan(300, block_size=16)
composer = prepare(builtin_tokenizer(), few_stories("mixed"), plan=plan, options=ContentOptions(full_least=5))
digest = hashlib.sha256()
for prompt in composer.compose(range(300)):
    digest.update(prompt.escaped + prompt.ids.astype("<i8").tobytes())
digest.update(composer.warmup_prompt("group-1", 64, lane=3).escaped)
print(digest.hexdigest())
"""


def _digest(**environment: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.strip()


def test_hash_seeds_and_thread_counts_do_not_change_a_byte() -> None:
    """Composing depends on no hash of Python's and no order of threads."""
    one = _digest(PYTHONHASHSEED="1", RAYON_NUM_THREADS="1")

    assert one == _digest(PYTHONHASHSEED="2", RAYON_NUM_THREADS="2")
    assert len(one) == 64
