"""Salts, resets, and the probe that finds out whether a salt works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from foreword.errors import ServerError, UsageError
from foreword.run.isolation import ResetResult, Resetter, probe_prompt, salts_of
from foreword.run.spec import Isolation
from foreword.run.web import Web
from foreword.terms import ExecutionMode, Pass, PromptFormat
from tests.support.fake_openai import FakeOpenAI, serving
from tests.support.run_data import write_dataset
from tests.support.stored_run import load_run
from tests.unit.run.runs import make_run

if TYPE_CHECKING:
    from pathlib import Path

COLD = ExecutionMode.COLD


async def isolation_of(server: FakeOpenAI, folder: Path) -> dict[str, str]:
    """What a cold run wrote down about isolation."""
    outcome = await make_run(server, folder, mode=COLD)
    isolation: dict[str, str] = load_run(outcome.folder).run["isolation"]
    return isolation


async def test_a_server_that_honours_salts(tmp_path: Path) -> None:
    """One salt a pass keeps a second run from hitting what the first one cached."""
    server = FakeOpenAI()

    first = await make_run(server, tmp_path, mode=COLD)
    second = await make_run(server, tmp_path, mode=COLD)

    assert first.passes[0].usage_hit_ratio == second.passes[0].usage_hit_ratio == first.passes[0].designed_hit_ratio
    assert second.warnings == ()
    assert len({body["cache_salt"] for body in server.sent}) == 2


async def test_a_server_that_ignores_salts(tmp_path: Path) -> None:
    """It is found out and said, and no salt is sent."""
    server = FakeOpenAI(honours_salt=False)

    isolation = await isolation_of(server, tmp_path)

    assert isolation == {"applied": "none", "salt_probe": "ignored"}
    assert not any("cache_salt" in body for body in server.sent)


async def test_residue_of_an_earlier_run_is_noticed(tmp_path: Path) -> None:
    """The second run on a server that ignores salts says that the cache was not empty (case 10)."""
    server = FakeOpenAI(honours_salt=False)
    await make_run(server, tmp_path, mode=COLD)

    outcome = await make_run(server, tmp_path, mode=COLD)

    assert any(warning.startswith("residual cache: request r") for warning in outcome.warnings)
    assert outcome.passes[0].usage_hit_ratio != outcome.passes[0].designed_hit_ratio


async def test_a_server_that_refuses_salts(tmp_path: Path) -> None:
    """By default it is left alone; where a salt was asked for, the run does not start."""
    server = FakeOpenAI(refuses_salt=True)

    isolation = await isolation_of(server, tmp_path)

    assert isolation == {"applied": "none", "salt_probe": "refused"}
    with pytest.raises(ServerError, match="refuses cache_salt"):
        await make_run(server, tmp_path, mode=COLD, isolation=Isolation.SALT)


async def test_a_reset_stands_in_for_a_salt(tmp_path: Path) -> None:
    """A server that ignores salts can be reset before the cold pass, when that is asked for; it is not by default."""
    server = FakeOpenAI(honours_salt=False, reset="success")
    await make_run(server, tmp_path, mode=COLD)
    assert server.resets == 0

    outcome = await make_run(server, tmp_path, mode=COLD, isolation=Isolation.RESET)

    assert outcome.passes[0].usage_hit_ratio == outcome.passes[0].designed_hit_ratio
    assert load_run(outcome.folder).run["isolation"] == {"applied": "reset", "salt_probe": "not probed"}
    assert outcome.warnings == ()


async def test_hits_are_probed_by_counters_where_usage_is_silent(tmp_path: Path) -> None:
    """A server that reports no cached tokens shows by its counters that it honours salts."""
    isolation = await isolation_of(FakeOpenAI(reports="never"), tmp_path)

    assert isolation == {"applied": "salt", "salt_probe": "honoured"}


async def test_nothing_tells_whether_a_salt_works(tmp_path: Path) -> None:
    """Without usage and counters the salt is sent and the doubt is said."""
    server = FakeOpenAI(reports="never", metrics="missing")

    isolation = await isolation_of(server, tmp_path)

    assert isolation == {"applied": "salt", "salt_probe": "unproven"}
    assert all("cache_salt" in body for body in server.sent)


async def test_no_isolation_sends_no_probe(tmp_path: Path) -> None:
    """With ``none`` the first request of the server is the first of the data set."""
    server = FakeOpenAI()

    await make_run(server, tmp_path, mode=COLD, isolation=Isolation.NONE)

    assert server.bodies == server.sent
    assert len(server.bodies) == 5


async def test_a_hot_run_keeps_the_salt_of_its_warm_up(tmp_path: Path) -> None:
    """A hot run uses the salt it is given, none by default, and never a fresh one."""
    server = FakeOpenAI()
    await make_run(server, tmp_path, mode=ExecutionMode.WARMUP, salt="mine")

    hot = await make_run(server, tmp_path, mode=ExecutionMode.HOT, salt="mine")
    cold = await make_run(server, tmp_path, mode=ExecutionMode.HOT)

    assert hot.passes[0].usage_hit_ratio is not None
    assert hot.passes[0].usage_hit_ratio > (hot.passes[0].designed_hit_ratio or 1)
    assert ["has served this data set before" in warning for warning in hot.warnings] == [True]
    assert any("not warm" in warning for warning in cold.warnings)
    for isolation, refused in ((Isolation.SALT, "fresh salt"), (Isolation.RESET, "a reset makes a warm server cold")):
        with pytest.raises(UsageError, match=refused):
            await make_run(server, tmp_path, mode=ExecutionMode.HOT, isolation=isolation)


@pytest.mark.parametrize("isolation", ["salt", "reset"])
async def test_a_hot_run_leaves_the_cache_as_it_is(tmp_path: Path, isolation: str) -> None:
    """Whatever the data set says of isolation: a hot run finds what is cached, and resets nothing."""
    dataset, server = write_dataset(tmp_path / "d", config={"isolation": isolation}), FakeOpenAI(reset="success")
    await make_run(server, tmp_path, dataset, mode=ExecutionMode.WARMUP, isolation=Isolation.NONE)

    hot = await make_run(server, tmp_path, dataset, mode=ExecutionMode.HOT)

    assert server.resets == 0
    assert load_run(hot.folder).run["isolation"]["applied"] == "none"
    assert not any("not warm" in warning for warning in hot.warnings)


async def test_a_nonce_belongs_to_the_data_set(tmp_path: Path) -> None:
    """A nonce changes prompts, so a data set without one is refused with what to do instead."""
    with pytest.raises(UsageError, match="generate it with nonce"):
        await make_run(FakeOpenAI(), tmp_path, isolation=Isolation.NONCE)


async def test_a_nonce_keeps_no_two_passes_apart(tmp_path: Path) -> None:
    """In compare the hot pass would hit the private parts of the cold one."""
    dataset = write_dataset(tmp_path / "d", config={"nonce": "run-1"})

    with pytest.raises(UsageError, match="compare makes two"):
        await make_run(FakeOpenAI(), tmp_path, dataset, mode=ExecutionMode.COMPARE, isolation=Isolation.NONCE)


@pytest.mark.parametrize(
    ("behaviour", "result"),
    [
        ("success", ResetResult.CONFIRMED),
        ("failure", ResetResult.FAILED),
        ("empty", ResetResult.UNKNOWN),
        ("none", ResetResult.UNSUPPORTED),
    ],
)
async def test_what_a_reset_proves(behaviour: str, result: ResetResult) -> None:
    """HTTP 200 with ``success: false`` is a failure, an empty body proves nothing (case 15)."""
    server = FakeOpenAI(reset=behaviour)

    async with serving(server) as url, Web({}) as web:
        assert await Resetter(web, (url,), wait_s=0).reset() is result


async def test_a_reset_waits_for_requests_to_drain() -> None:
    """A reset that fails while requests are in flight is asked for again."""
    server = FakeOpenAI(reset="failure", drains_after=3)

    async with serving(server) as url, Web({}) as web:
        result = await Resetter(web, (url,), wait_s=0).reset()

    assert (result, server.resets) == (ResetResult.CONFIRMED, 3)


async def test_an_unconfirmed_reset_is_said(tmp_path: Path) -> None:
    """A run whose reset proves nothing says that its cold pass is unproven."""
    outcome = await make_run(FakeOpenAI(reset="empty"), tmp_path, mode=COLD, isolation=Isolation.RESET)

    assert any("unproven" in warning for warning in outcome.warnings)
    with pytest.raises(ServerError, match="no way to reset"):
        await make_run(FakeOpenAI(), tmp_path, mode=COLD, isolation=Isolation.RESET)


async def test_outer_tiers_are_reset_too(tmp_path: Path) -> None:
    """Where outer tiers are in use the reset asks for them; hits from there make cold unproven (case 16)."""
    server = FakeOpenAI(reset="success", outer_tier=0)

    first = await make_run(server, tmp_path, mode=COLD, isolation=Isolation.RESET)
    await make_run(server, tmp_path, mode=COLD, isolation=Isolation.RESET)

    assert any("outer cache tier hit in the cold pass" in warning for warning in first.warnings)
    assert server.reset_queries[1] == ""
    assert server.reset_queries[-1] == "reset_external=true"


def test_salts_differ_between_passes_and_runs() -> None:
    """Cold and hot pass of a comparison have different salts, warm-up and hot the same, two runs none in common."""
    first, second = (salts_of(ExecutionMode.COMPARE, None) for _ in range(2))

    assert first[Pass.COLD] != first[Pass.WARMUP] == first[Pass.HOT]
    assert not {*first.values()} & {*second.values()}


def test_a_probe_shares_no_beginning_with_the_data_set() -> None:
    """Ids of a probe are legal ids of the data set in another order; text begins by chance; both are short."""
    prompt = msgspec.Raw(msgspec.json.encode(list(range(100, 140))))

    ids = msgspec.json.decode(
        probe_prompt(PromptFormat.COMPLETIONS_IDS, prompt, block_size=16, room=4096), type=list[int]
    )
    texts = {
        msgspec.json.decode(probe_prompt(PromptFormat.COMPLETIONS_TEXT, prompt, block_size=16, room=4096), type=str)
        for _ in range(3)
    }

    assert len(ids) == 3 * 16 + 1
    assert set(ids) <= set(range(100, 140))
    assert ids[:2] != [100, 101]
    assert len({text[:16] for text in texts}) == 3
