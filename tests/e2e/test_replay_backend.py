"""The replay as the cache of another simulator: the example of the documentation, and measuring anew."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import foreword
from foreword.errors import DataError
from tests.support.groups import ROOT
from tests.support.replaying import document, group


def test_the_example_of_a_simulator_runs() -> None:
    """Each turn computes its new blocks and the unfilled one; the second part hits what the first one saved."""
    examples = ROOT / "examples"

    done = subprocess.run(
        [sys.executable, examples / "replay_backend.py", examples / "replay_three_tiers.json"],
        check=True,
        capture_output=True,
        text=True,
    )

    said = done.stdout.splitlines()
    assert len(said) == 17
    assert said[2] == "user 1, turn 1: 37 of 101 tokens computed, 2 blocks new"
    assert said[10] == "user 1, turn 5: 37 of 229 tokens computed, 2 blocks new"
    before = 2 * (64 + 96 + 128 + 160) / (2 * (69 + 101 + 133 + 165 + 197))
    assert said[-1].startswith(f"hit ratio: {before:.4f}, then ")


def test_a_backend_answers_as_the_reference_s_names_do() -> None:
    """New and present blocks of a write, remote hits of a read, clearing one instance and measuring anew."""
    cache = foreword.Replay(foreword.ReplayConfig.from_document(document(group())))

    first = cache.write("a", 1, keys=[1, 2, 3])
    again = cache.write("a", 2, keys=[1, 2, 3, 4])
    hit = cache.read("a", 3, keys=[1, 2, 9], input_len=13, block_mask=1)
    cache.reset_rates()
    after = cache.read("a", 4, keys=[1, 2], input_len=8)
    rates = cache.rates("a")
    cache.clear("a")
    cleared = cache.read("a", 5, keys=[1], input_len=4)

    assert (first.written_blocks, first.present_blocks) == (3, 0)
    assert (again.written_blocks, again.present_blocks) == (1, 3)
    assert (hit.local_blocks, hit.remote_blocks) == (1, 1)
    assert (after.remote_blocks, cleared.remote_blocks) == (2, 0)
    assert (rates.reads, rates.hit_ratio) == (1, 1.0)


def test_measuring_anew_changes_no_answer() -> None:
    """After a reset, reads hit as before it, and the saved state is that of the caches alone."""
    config = foreword.ReplayConfig.from_document(document(group(tiers=[1, 2])))
    plain, reset = foreword.Replay(config), foreword.Replay(config)
    for cache in (plain, reset):
        cache.write("a", 1, keys=[1, 2])
        cache.read("a", 2, keys=[1, 2], input_len=8)

    reset.reset_rates()

    answers = [cache.read("a", 3, keys=[1, 2], input_len=8) for cache in (plain, reset)]
    assert answers[0] == answers[1]
    tables = [json.dumps(cache.save()["groups"][0]["instances"][0]["table"]) for cache in (plain, reset)]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(("keys", "input_len"), [([1], 0), ([1, 2], 7)])
def test_a_read_that_cannot_be_is_an_error(keys: list[int], input_len: int) -> None:
    """No tokens, or more keys than they fill; nothing is counted."""
    cache = foreword.Replay(foreword.ReplayConfig.from_document(document()))

    with pytest.raises(DataError, match=r"^(input_len|keys): "):
        cache.read("a", 1, keys=keys, input_len=input_len)

    assert cache.rates("a").reads == 0


def test_an_unknown_instance_is_named() -> None:
    """The name that the caller gave stands in the message."""
    cache = foreword.Replay(foreword.ReplayConfig.from_document(document()))

    with pytest.raises(foreword.ForewordError, match="'nobody'"):
        cache.write("nobody", 1, keys=[1])
