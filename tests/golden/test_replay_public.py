"""Figures of the public Mooncake FAST'25 conversation trace, to the last hit (spec: replay A3)."""

from __future__ import annotations

import gzip
import json
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from foreword.config.replay import ReplayConfig
from foreword.simulate.replay import Replay
from foreword.trace.schema import RowKind, TraceRow
from tests.support.groups import data_folder
from tests.support.replaying import BYTES_PER_BLOCK, document, gigabytes, group, instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.simulate.series import Totals

pytestmark = pytest.mark.data

BLOCK_TOKENS = 512
TRACE = data_folder() / "data" / "traces" / "mooncake-fast25" / "conversation_trace.jsonl.gz"


@pytest.fixture(scope="module")
def with_tails() -> list[TraceRow]:
    """Requests whose last block may be a prompt's tail; their tokens are those of their blocks."""
    return [request(at, each["hash_ids"], BLOCK_TOKENS * len(each["hash_ids"])) for at, each in conversations()]


def conversations() -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of the trace, ids of 512-token blocks and prompt tokens, at their times made different by their place."""
    with gzip.open(TRACE, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file):
            each = json.loads(line)
            yield each["timestamp"] * 10**6 + 1 + 2 * number, each


def request(at: int, keys: list[int], tokens: int) -> TraceRow:
    """A request row."""
    return TraceRow(RowKind.REQUEST, "a", at, array("q", keys), tokens)


def totals(rows: list[TraceRow], pool: dict[str, Any], **trace_replay: Any) -> Totals:  # noqa: ANN401 - JSON
    """Sums over rows for one instance of 512-token blocks in a pool."""
    one = instance(policy=pool.pop("policy", "lru"), block_size=BLOCK_TOKENS) | {
        "bytes_per_token": BYTES_PER_BLOCK // BLOCK_TOKENS
    }
    replay = Replay(ReplayConfig.from_document(document(group(instances=[one]) | pool, **trace_replay)))
    for row in rows:
        replay.feed(row)
    replay.finish()
    return replay.rates("a")


@pytest.mark.parametrize(
    ("blocks", "hits", "ratio"),
    [
        (1_000, 12_831, 0.0445),
        (10_000, 60_921, 0.2112),
        (30_000, 93_967, 0.3257),
        (50_000, 102_290, 0.3546),
        (100_000, 104_924, 0.3637),
        (None, 105_710, 0.3664),
    ],
)
def test_lru_with_refresh(with_tails: list[TraceRow], blocks: int | None, hits: int, ratio: float) -> None:
    """Exact LRU, head first, rewritten blocks becoming recent."""
    found = totals(with_tails, {"quota_capacity": gigabytes(blocks)}, write_refresh=True)

    assert (found.hit_blocks, round(found.hit_ratio, 4)) == (hits, ratio)


@pytest.mark.parametrize(
    ("blocks", "hits", "switches"),
    [
        (10_000, 60_822, {}),
        (1_000, 12_847, {"write_refresh": True, "touch_order": "tail_first"}),
        (10_000, 61_046, {"write_refresh": True, "touch_order": "tail_first"}),
        (30_000, 93_978, {"write_refresh": True, "touch_order": "tail_first"}),
    ],
)
def test_lru_by_other_orders(with_tails: list[TraceRow], blocks: int, hits: int, switches: dict[str, Any]) -> None:
    """Without refresh, and tail first."""
    assert totals(with_tails, {"quota_capacity": gigabytes(blocks)}, **switches).hit_blocks == hits


def test_full_blocks_only() -> None:
    """Without the tails' blocks, tokens of the prompt are the denominator."""
    rows = [
        request(at, each["hash_ids"][: each["input_length"] // BLOCK_TOKENS], each["input_length"])
        for at, each in conversations()
    ]

    found = totals(rows, {})

    assert (found.reads, found.input_tokens) == (12_031, 144_793_823)
    assert (found.hit_blocks, found.hit_tokens, round(found.hit_ratio, 4)) == (105_592, 54_063_104, 0.3734)


@pytest.mark.parametrize(("seconds", "hits"), [(60, 28_848), (300, 82_941), (600, 98_973)])
def test_ttl_with_refresh_on_read(with_tails: list[TraceRow], seconds: int, hits: int) -> None:
    """Nothing but time takes blocks away."""
    assert totals(with_tails, {"policy": "ttl", "default_block_ttl_seconds": seconds}).hit_blocks == hits
