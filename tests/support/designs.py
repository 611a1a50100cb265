"""Random data-set configs: every law of lengths, group form, order, routing, semantics and mode."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from foreword.terms import ExecutionMode, Semantics

SORTS = ("sequential", "shuffle", "input_len_asc", "input_len_desc", "prefix_len_asc", "prefix_len_desc")
MERGES = ("grouped", "interleave", "weighted_interleave", "shuffle")
SHORTEST, LONGEST = 24, 200
RATIO = st.one_of(st.integers(0, 1000).map(lambda n: n / 1000), st.floats(0, 1), st.sampled_from([0, 1, 1 / 3]))
SIZE = st.integers(SHORTEST, LONGEST)
IDS = ("a", "b", "c", "d")


@st.composite
def length_laws(draw: st.DrawFn, n: int) -> dict[str, Any]:
    """One law of every kind."""
    low, middle, high = sorted(draw(st.lists(SIZE, min_size=3, max_size=3, unique=True)))
    normal = {"mode": "truncated_normal", "min": low, "max": high, "mean": middle}
    bins = [{"range": [low, middle], "weight": draw(st.integers(0, 3))}, {"range": [middle, high], "weight": 1.5}]
    return draw(
        st.sampled_from(
            [
                {"mode": "fixed", "value": middle},
                {"mode": "explicit", "values": draw(st.lists(SIZE, min_size=n, max_size=n))},
                {"mode": "empirical", "values": draw(st.lists(SIZE, min_size=1, max_size=4))},
                {**normal, "std": draw(st.sampled_from([0, 0.5, 10, 90])), "out_of_range": "clip"},
                {**normal, "std": draw(st.sampled_from([0, 0.5, 10, 90]))},
                {"mode": "histogram", "bins": bins},
            ]
        )
    )


@st.composite
def group_forms(draw: st.DrawFn, n: int) -> dict[str, Any]:
    """One group, equal shares, weights, counts, a number of groups or an explicit list."""
    ids = IDS[: draw(st.integers(1, 4))]
    many: dict[str, Any] = {"mode": "multi_prefix"}
    match draw(st.sampled_from(["single", "equal", "weights", "counts", "count", "explicit"])):
        case "single":
            return {"mode": "single_prefix"}
        case "count":
            return {**many, "group_count": len(ids)}
        case "weights":
            weights = [1.0, *(draw(st.sampled_from([0, 0.5, 1, 2.5])) for _ in ids[1:])]
            return {**many, "groups": [_group(id_, request_weight=w) for id_, w in zip(ids, weights, strict=True)]}
        case "counts":
            cuts = sorted(draw(st.integers(0, n)) for _ in ids[1:])
            counts = np.diff([0, *cuts, n]).tolist()
            return {**many, "groups": [_group(id_, request_count=c) for id_, c in zip(ids, counts, strict=True)]}
        case "explicit":
            chosen = draw(st.lists(st.sampled_from(ids), min_size=n, max_size=n))
            return {**many, "groups": [_group(id_) for id_ in ids], "assignment": chosen}
        case _:
            return {**many, "groups": [_group(id_) for id_ in ids]}


def _group(id_: str, **share: float) -> dict[str, Any]:
    return {"id": id_, **share}


@st.composite
def orders(draw: st.DrawFn) -> dict[str, Any]:
    """The shorthand, or any filling of the slots."""
    if draw(st.booleans()):
        return {"mode": draw(st.sampled_from(sorted({*SORTS, *MERGES})))}
    slots = {"within_group": draw(st.sampled_from(SORTS)), "across_group": draw(st.sampled_from(MERGES))}
    chosen = {name: value for name, value in slots.items() if draw(st.booleans())}
    return {**chosen, "preserve_group_dependency": draw(st.booleans())}


@st.composite
def routings(draw: st.DrawFn, n: int) -> dict[str, Any]:
    """Any number of ranks, shared or local caches, every assignment."""
    given = draw(st.sampled_from([None, "bind", "sticky", "explicit", "round_robin", "by_send_order"]))
    ranks = {"ranks": draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))} if given == "explicit" else {}
    sticks = given in {"bind", "sticky", "explicit"} or draw(st.booleans())
    return {
        "cache_scope": draw(st.sampled_from(["global", "dp_local"])),
        "dp_size": 3 if ranks else draw(st.integers(1, 3)),
        "sticky_routing": sticks,
        **({"assignment": given} if given else {}),
        **ranks,
    }


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """A config that an exact plan exists for."""
    n = draw(st.integers(1, 14))
    prefix = draw(group_forms(n))
    target: dict[str, Any] = {"hit_ratio": draw(RATIO), "semantics": draw(st.sampled_from(list(Semantics))).value}
    if draw(st.booleans()):
        named = [group["id"] for group in prefix.get("groups", []) if draw(st.booleans())]
        target |= {"scope": "per_group", "groups": [{"id": id_, "hit_ratio": draw(RATIO)} for id_ in named]}
    private = draw(st.sampled_from([None, 0, 1, 8, 16, 17, 40]))
    return {
        "dataset_id": "random",
        "seed": draw(st.integers(0, 99)),
        "request_count": n,
        "input_length": draw(length_laws(n)),
        "target": target,
        "prefix": {
            **prefix,
            **({} if private is None else {"minimum_non_shared_length": private}),
            "shape": draw(st.sampled_from(["proportional", "uniform_cap"])),
        },
        "request_order": draw(orders()),
        "routing": draw(routings(n)),
        "execution": {"mode": draw(st.sampled_from(list(ExecutionMode))).value},
        # no reachability check: it only adds suggestions, which have tests of their own
        "planning": {"max_iterations": draw(st.sampled_from([1, 3, 1000])), "reachability_check": False},
    }
