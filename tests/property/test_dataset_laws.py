"""Laws 4, 5 and 7 on whole data sets of random configs: what is written is encoded, replayed and made again."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foreword import flow
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError
from foreword.store.workshop import Order, Workshop, open_workshop
from tests.support.datasets import TupleCache, token_ids
from tests.support.designs import configs

if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIXES: tuple[dict[str, Any], ...] = (
    {"source": "builtin"},
    {"source": "random_tokens"},
    {"source": "builtin", "language": "zh"},
    {"source": "builtin", "mode": "named_then_random", "samples": ["en:5", "en:2"]},
    {"source": "builtin", "mode": "cycle", "samples": ["en:1", "en:3", "en:9"], "repeat_samples": True},
)


@st.composite
def whole_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Any config of few requests, with text of every kind, as text or as ids, in blocks of several sizes."""
    return {
        **draw(configs()),
        "block_size": draw(st.sampled_from([1, 4, 7, 16, 32])),
        "prompt_format": draw(st.sampled_from(["completions_text", "completions_ids"])),
        "suffix": draw(st.sampled_from(SUFFIXES)),
    }


def opened(document: dict[str, Any]) -> Workshop | None:
    """The workshop of a config, or nothing for the combination that is refused."""
    config = DatasetConfig.parse(document, root=ROOT)
    try:
        return open_workshop(Order(config, flow.plan(config).facts, "none"))
    except ConfigError as refused:
        assert refused.field == "routing.assignment"  # noqa: PT017 - one class of refusal is part of the behaviour
        return None


def lines(data: bytes) -> list[dict[str, Any]]:
    """Rows of JSON Lines."""
    return [json.loads(line) for line in data.splitlines()]


def served(
    rows: Sequence[dict[str, Any]], ranks: Sequence[int], warmups: Sequence[dict[str, Any]], size: int
) -> list[tuple[int, int]]:
    """Tokens and hits of each row, replayed as tuples of ids through a cache for each rank, warm-ups first."""
    caches: dict[int, TupleCache] = {}
    for row, ids in zip(warmups, token_ids(warmups), strict=True):
        caches.setdefault(row["planned_dp_id"], TupleCache(size)).serve(ids)
    return [
        (len(ids), caches.setdefault(rank, TupleCache(size)).serve(ids))
        for rank, ids in zip(ranks, token_ids(rows), strict=True)
    ]


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(whole_configs())
def test_what_is_written_hits_what_is_planned(document: dict[str, Any]) -> None:
    """Laws 4 and 5: request by request, cold and warmed, for every order, scope, lane and block size."""
    workshop = opened(document)
    if workshop is None:
        return
    (made,) = workshop.rows(0, document["request_count"])

    rows, facts = lines(made.data), lines(made.metadata)
    local = document["routing"]["cache_scope"] == "dp_local"
    ranks = [fact["planned_dp_id"] if local else 0 for fact in facts]
    warmups = lines(workshop.warmup_lines()[0])
    for row in warmups:
        row["planned_dp_id"] *= local
    for name, before in (("cold", []), ("hot", warmups)):
        planned = [(fact["input_len"], fact[f"expected_hit_len_{name}"]) for fact in facts]
        assert served(rows, ranks, before, document["block_size"]) == planned


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(whole_configs(), st.data())
def test_a_request_depends_on_the_config_and_its_place_alone(document: dict[str, Any], data: st.DataObject) -> None:
    """Law 7: a workshop that is opened anew and makes requests in any stretches gives the same bytes."""
    workshop, anew = opened(document), opened(document)
    if workshop is None or anew is None:
        assert workshop is anew
        return
    n = document["request_count"]
    cuts = sorted({0, n, *data.draw(st.lists(st.integers(0, n), max_size=3))})
    stretches = data.draw(st.permutations(list(pairwise(cuts))))

    (whole,) = workshop.rows(0, n)
    parts = {start: part for start, stop in stretches for part in anew.rows(start, stop)}

    for name in ("data", "metadata"):
        assert b"".join(getattr(parts[start], name) for start in sorted(parts)) == getattr(whole, name)
    assert anew.warmup_lines()[0] == workshop.warmup_lines()[0]
