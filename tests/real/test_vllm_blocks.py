"""Policy ``vllm`` and the built-in server's cache against vLLM's own block manager, request by request."""

from __future__ import annotations

import json
import os
import random
import subprocess
from array import array
from functools import cache
from pathlib import Path

import pytest

from foreword.cache.blocks import block_keys, root_key
from foreword.config.replay import ReplayConfig
from foreword.server.engine import Engine, Service, job_of
from foreword.simulate.replay import Replay
from foreword.trace.schema import RowKind, TraceRow
from tests.support.groups import folder_of
from tests.support.replaying import document, group, instance, row_hits

pytestmark = pytest.mark.real

BLOCK_SIZE = 16
CAPACITIES = (6001, 601, 151)
"""``num_gpu_blocks``: room for all, for a part, and for little more than one request."""

DRIVER = Path(__file__).parents[1] / "support" / "vllm_blocks.py"

Request = tuple[list[int], list[int]]


@cache
def requests(answer_tokens: int) -> tuple[Request, ...]:
    """2,000 prompts of 60 documents, popular ones more often, cut, repeated whole and continued; keyed chance."""
    chance = random.Random(f"{answer_tokens} answer tokens")  # noqa: S311 - no secret
    documents = [[chance.randrange(1000, 150_000) for _ in range(chance.randrange(64, 1200))] for _ in range(60)]
    popularity = [1 / place for place in range(1, len(documents) + 1)]
    found = []
    for _ in range(2000):
        (text,) = chance.choices(documents, popularity)
        cut = chance.choice((len(text), len(text), len(text) // 2, len(text) // BLOCK_SIZE * BLOCK_SIZE))
        own = [chance.randrange(1000, 150_000) for _ in range(chance.choice((0, 0, 1, 17, 60)))]
        answer = [chance.randrange(1000, 150_000) for _ in range(answer_tokens)]
        found.append((text[:cut] + own, answer))
    return tuple(found)


def real_hits(asked: tuple[Request, ...], num_gpu_blocks: int) -> list[int]:
    """What vLLM's manager finds, in tokens."""
    venv = folder_of("VLLM_VENV")
    assert venv is not None
    question = {"block_size": BLOCK_SIZE, "num_gpu_blocks": num_gpu_blocks, "requests": asked}
    done = subprocess.run(
        [venv / "bin" / "python", DRIVER],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
        timeout=600,
    )
    hits: list[int] = json.loads(done.stdout.splitlines()[-1])
    return hits


@pytest.mark.parametrize("num_gpu_blocks", CAPACITIES)
def test_policy_vllm_is_vllm(num_gpu_blocks: int) -> None:
    """Each of 2,000 requests of one answer token hits exactly what vLLM's own manager gives it."""
    pool = group(num_gpu_blocks - 1, instances=[instance(policy="vllm", block_size=BLOCK_SIZE)])
    pool["instances"][0]["bytes_per_token"] = (1 << 20) // BLOCK_SIZE
    replay = Replay(ReplayConfig.from_document(document(pool)))
    asked = requests(1)
    for at, (prompt, _) in enumerate(asked, start=1):
        keys = array("q", [key - (1 << 63) for key in block_keys(prompt, BLOCK_SIZE, parent=root_key())])
        replay.feed(TraceRow(RowKind.REQUEST, "a", 10 * at, keys, len(prompt), 0, 0))
    replay.finish()

    expected = real_hits(asked, num_gpu_blocks)

    assert [hit * BLOCK_SIZE for hit in row_hits(replay)] == expected
    assert sum(expected) > 0


@pytest.mark.parametrize("num_gpu_blocks", CAPACITIES)
def test_the_built_in_server_keeps_blocks_as_vllm_does(num_gpu_blocks: int) -> None:
    """With answers of 40 tokens, whose blocks are cached too."""
    service = Service(
        block_size=BLOCK_SIZE,
        capacity_blocks=num_gpu_blocks - 1,
        prefill_tokens_per_s=1e9,
        decode_tokens_per_s=None,
        slots=1,
        jitter=0.0,
        seed=0,
        max_model_len=1 << 20,
    )
    engine, asked, found = Engine(service), requests(40), []
    for at, (prompt, answer) in enumerate(asked):
        job = job_of(prompt, answer, block_size=BLOCK_SIZE)
        engine.submit(job, at * 10**12)
        engine.advance((at + 1) * 10**12 - 1)
        found.append(job.cached_tokens)

    assert found == real_hits(asked, num_gpu_blocks)
