"""The replay as an object: rows, delayed writes, calls of another simulator, and saved states."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest

from foreword.config.replay import ReplayConfig
from foreword.errors import ConfigError, DataError
from foreword.simulate.replay import UNKNOWN_INSTANCE, UNSUPPORTED_QUERY, Replay
from foreword.trace.columns import columns_from
from foreword.trace.schema import RowKind, RowRefused, TraceRow
from tests.support.replaying import contents, document, group, instance, replayed, requests, row, row_hits


def fresh(**trace_replay: int) -> Replay:
    """A replay of one unlimited instance ``a``."""
    return Replay(ReplayConfig.from_document(document(**trace_replay)))


def test_a_delayed_write_runs_before_rows_of_its_time() -> None:
    """A write that is due exactly when a row stands is seen by it; one that is due later is not."""
    rows = [row("request", "a", at=10), row("get", "a", at=14), row("get", "a", at=15)]

    assert row_hits(replayed(document(write_delay_ns=5), rows)) == [0, 0, 1]


def test_rows_of_one_time_keep_their_order() -> None:
    """A write behind a read of the same time is not seen by it, but counts as written by then."""
    replay = replayed(document(), [row("get", "a", at=5), row("write", "a", at=5), row("get", "a", at=5)])

    assert row_hits(replay) == [0, 1]
    assert list(replay.instances["a"].series.written_until()) == [1, 1]


def test_rows_out_of_order_are_moved_and_counted() -> None:
    """Sorting is stable; a row counts as moved if a later one stood before it."""
    rows = [row("get", path, at=at) for path, at in (("a", 3), ("b", 1), ("c", 3), ("d", 2))]

    ordered, moved = columns_from(rows).in_time_order()

    assert ([chr(each.keys[0]) for each in ordered.rows()], moved) == (["b", "d", "a", "c"], 2)


def test_strange_rows_are_skipped_and_counted() -> None:
    """An unknown instance and another query type do nothing; such a request does not write either."""
    other = replace(row("request", "a", at=2), query_type="batch_get")
    replay = replayed(document(), [row("write", "a", at=1, name="nobody"), other, row("get", "a", at=9)])

    assert replay.skipped == {UNKNOWN_INSTANCE: 1, UNSUPPORTED_QUERY: 1}
    assert row_hits(replay) == [0]


def test_more_keys_than_tokens_are_refused_with_the_line() -> None:
    """Keys are of full blocks; the row is refused where it would be executed, and changes nothing."""
    replay = fresh()
    bad = TraceRow(RowKind.REQUEST, "a", 5, array("q", [1, 2]), input_len=7, line=42)

    with pytest.raises(RowRefused) as caught:
        replay.feed(bad)
    replay.finish()

    assert (caught.value.error.line, caught.value.error.field) == (42, "keys")
    assert (len(replay.instances["a"].series), contents(replay)) == (0, set())


def test_a_write_due_past_the_end_of_time_is_refused() -> None:
    """Times are signed 64-bit."""
    with pytest.raises(RowRefused, match="timestamp_ns"):
        fresh().feed(row("request", "a", at=2**63 - 1))


def test_another_simulator_calls_read_and_write() -> None:
    """Calls say what they found; rates are over all reads."""
    replay = fresh()

    assert replay.write("a", 1, keys=[1, 2, 3]).written_blocks == 3
    again = replay.write("a", 2, keys=[1, 2, 9])
    found = replay.read("a", 3, keys=[1, 2, 3, 4], input_len=20, block_mask=1)

    assert (again.written_blocks, again.present_blocks) == (1, 2)
    assert (found.local_blocks, found.remote_blocks, found.tier_blocks, found.cached_blocks) == (1, 2, (3,), (4,))
    assert (replay.rates("a").hit_tokens, replay.rates("a").hit_ratio) == (12, 0.6)


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_call_without_tokens_is_refused(tokens: int) -> None:
    """A read has at least one token."""
    with pytest.raises(RowRefused, match="input_len"):
        fresh().read("a", 1, keys=[], input_len=tokens)


def test_a_call_for_an_unknown_instance_is_refused() -> None:
    """Unlike a row, a call names an instance on purpose."""
    with pytest.raises(DataError, match="no instance is called 'b'"):
        fresh().write("b", 1, keys=[1])


def test_clearing_empties_one_instance_or_all() -> None:
    """Cleared blocks are gone for reads, tiers and lives; what was measured stays."""
    config = document(group(instances=[instance("a"), instance("b", policy="leaf_aware_lru")]))
    rows = [*requests("xy"), *requests("xy", name="b")]
    replay = replayed(config, rows, lifecycle=True)

    replay.clear("a")
    assert (contents(replay, "a"), contents(replay, "b")) == (set(), {"x", "xy"})
    replay.clear()

    assert contents(replay, "b") == set()
    lives = replay.instances["b"].cache.lifecycle
    assert lives is not None
    assert [(life.birth_ns, life.death_ns) for life in lives] == [(11, 11), (11, 11)]
    assert replay.rates("b").reads == 1
    assert replay.read("b", 99, keys=[120], input_len=4).remote_blocks == 0


def test_a_state_of_another_config_is_refused() -> None:
    """A state belongs to its config, but not to where files are."""
    state = fresh().save()

    with pytest.raises(ConfigError, match="another config"):
        fresh(write_delay_ns=2).load(state)
    with pytest.raises(ConfigError, match="another config"):
        Replay(ReplayConfig.from_document(document()), lifecycle=True).load(state)
    Replay(ReplayConfig.from_document(document() | {"output_result_path": "elsewhere"})).load(state)
