"""The replay's config: the document's JSON, read strictly, with errors that name the JSON path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.config.replay import (
    LruInstance,
    LruParams,
    MaskSemantics,
    RandomLruInstance,
    ReplayConfig,
    TouchOrder,
    TtlInstance,
    WriteMode,
    json_schema,
)
from foreword.errors import ConfigError
from tests.support.replaying import document, group, instance

if TYPE_CHECKING:
    from collections.abc import Sequence

POOL = "$.instance_groups.0"


def changed(path: Sequence[str | int], value: object) -> dict[str, Any]:
    """A valid document of three tiers with one place set to a value; ``...`` deletes it."""
    whole = document(group(tiers=[1, 2, 3], instances=[instance("a"), instance("b", policy="ttl")]), write_delay_ns=1)
    at: Any = whole
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    elif isinstance(at, list) and path[-1] == len(at):
        at.append(value)
    else:
        at[path[-1]] = value
    return whole


def test_what_is_left_out_has_the_defaults_of_the_document() -> None:
    """Policy parameters, replay settings and the strategy's switches may be left out; ``{}`` is exact LRU."""
    config = ReplayConfig.from_document(changed(["trace_replay"], ...))

    (pool,) = config.instance_groups
    assert pool.instances[0] == LruInstance(
        instance_id="a",
        block_size=4,
        bytes_per_token=1 << 18,
        eviction_policy_type="lru",
        eviction_policy_params=LruParams(
            sample_rate=1.0, shard_count=1, sample_times=32, eviction_amplification_factor=1.0
        ),
    )
    assert (config.trace_replay.write_delay_ns, config.trace_replay.write_refresh) == (1, False)
    assert config.trace_replay.touch_order is TouchOrder.HEAD_FIRST
    assert config.trace_replay.block_mask_semantics is MaskSemantics.SIMULATED
    assert (pool.default_block_ttl_seconds, pool.ttl_refresh_on_read) == (0, True)
    strategy = pool.tier_strategy
    assert (strategy.write_mode, strategy.selective_write_threshold) == (WriteMode.WRITE_THROUGH, 2)
    assert (strategy.access_propagation_enabled, strategy.promote_enabled, strategy.tier_flows) == (True, True, ())


def test_policies_read_their_own_parameters() -> None:
    """The type of the policy says which parameters there are."""
    pool = group(
        instances=[
            instance("a", policy="random_lru", sample_rate=0.5),
            instance("b", policy="ttl", fallback_on_pressure=False),
        ]
    )

    sampled, timed = ReplayConfig.from_document(document(pool)).instance_groups[0].instances

    assert isinstance(sampled, RandomLruInstance)
    assert sampled.eviction_policy_params.sample_rate == 0.5
    assert isinstance(timed, TtlInstance)
    assert not timed.eviction_policy_params.fallback_on_pressure


def test_integers_are_numbers_and_tiers_come_by_priority() -> None:
    """A capacity may be written without a point; storages may stand in any order."""
    whole = changed(["instance_groups", 0, "storages", 0, "priority"], 9)
    whole["instance_groups"][0]["quota_capacity"] = -1

    pool = ReplayConfig.from_document(whole).instance_groups[0]

    assert [tier.unique_name for tier in pool.tiers] == ["t1", "t2", "t0"]


def test_no_storage_is_needed_without_a_hierarchy() -> None:
    """``storages: []`` is one pool."""
    assert ReplayConfig.from_document(document(group(5))).instance_groups[0].storages == ()


G: list[str | int] = ["instance_groups", 0]
T: list[str | int] = ["trace_replay"]
S: list[str | int] = [*G, "tier_strategy"]
A: list[str | int] = [*G, "instances", 0]


@pytest.mark.parametrize(
    ("path", "value", "field", "reason"),
    [
        (["trace_file_path"], ..., "$.trace_file_path", "required"),
        (["trace_file_pth"], "x", "$.trace_file_pth", "did you mean trace_file_path?"),
        (["eviction_params"], ..., "$.eviction_params", "required"),
        (["eviction_params", "eviction_mode"], 0, "$.eviction_params.eviction_mode", "1, 2 or 3"),
        (["eviction_params", "eviction_mode"], True, "$.eviction_params.eviction_mode", "1, 2 or 3"),
        (["eviction_params", "eviction_mode"], 3.0, "$.eviction_params.eviction_mode", "1, 2 or 3"),
        (
            ["eviction_params", "eviction_batch_size_per_instance"],
            0,
            "$.eviction_params.eviction_batch_size_per_instance",
            "greater than or equal to 1",
        ),
        ([*T, "write_delay_ns"], 0, "$.trace_replay.write_delay_ns", "greater than or equal to 1"),
        ([*T, "write_delay_ns"], "1", "$.trace_replay.write_delay_ns", "integer"),
        ([*T, "touch_order"], "tail", "$.trace_replay.touch_order", "'head_first' or 'tail_first'"),
        ([*T, "write_refresh"], 1, "$.trace_replay.write_refresh", "boolean"),
        ([*T, "block_mask_semantics"], "trust", "$.trace_replay.block_mask_semantics", "'simulated' or 'trusted'"),
        ([*T, "random_seed"], 0, "$.trace_replay.random_seed", "greater than or equal to 1"),
        (["instance_groups"], [], "$.instance_groups", "at least 1"),
        ([*G, "quota_capacity"], ..., f"{POOL}.quota_capacity", "required"),
        ([*G, "quota_capacity"], "1", f"{POOL}.quota_capacity", "number"),
        ([*G, "quota_capacity"], float("nan"), f"{POOL}.quota_capacity", "finite"),
        ([*G, "used_percentage"], -0.1, f"{POOL}.used_percentage", "greater than or equal to 0"),
        ([*G, "default_block_ttl_seconds"], 1.5, f"{POOL}.default_block_ttl_seconds", "integer"),
        ([*G, "instances"], [], f"{POOL}.instances", "at least 1"),
        ([*G, "storages"], [], POOL, "storages: empty"),
        ([*G, "storages", 1, "unique_name"], "t0", POOL, "unique_name 't0' is given twice"),
        ([*G, "storages", 1, "priority"], 0, POOL, "priority 0 is given twice"),
        ([*G, "storages", 1, "priority"], -1, f"{POOL}.storages.1.priority", "greater than or equal to 0"),
        ([*G, "storages", 1, "capacity"], ..., f"{POOL}.storages.1.capacity", "required"),
        ([*G, "storages", 1, "unique_name"], "a,b", f"{POOL}.storages.1.unique_name", "no comma"),
        ([*S], ..., f"{POOL}.tier_strategy", "required"),
        ([*S, "hierarchical_eviction_enabled"], ..., f"{POOL}.tier_strategy.hierarchical_eviction_enabled", "required"),
        ([*S, "write_mode"], "back", f"{POOL}.tier_strategy.write_mode", "'cascading'"),
        ([*S, "selective_write_threshold"], 0, f"{POOL}.tier_strategy.selective_write_threshold", "greater than"),
        ([*S, "tier_flows"], [{"from_tier": "t0", "to_tier": "t2"}], POOL, "tier_flows.0: 't0' to 't2' are not"),
        ([*S, "tier_flows"], [{"from_tier": "t1", "to_tier": "t0"}], POOL, "are not neighbours"),
        ([*S, "tier_flows"], [{"from_tier": "t0", "to_tier": "x"}], POOL, "no storage is called 'x'"),
        ([*S, "tier_flows"], [{"from_tier": "t0", "to_tier": "t1"}] * 2, POOL, "tier_flows.1: 't0' to 't1' is given"),
        (
            [*S, "tier_flows"],
            [{"from_tier": "t0", "to_tier": "t1", "promote_enabled": None}],
            f"{POOL}.tier_strategy.tier_flows.0",
            "promote_enabled is null",
        ),
        ([*A, "block_size"], 16.0, f"{POOL}.instances.0.block_size", "integer"),
        ([*A, "blok_size"], 16, f"{POOL}.instances.0.blok_size", "did you mean block_size?"),
        ([*A, "bytes_per_token"], 0, f"{POOL}.instances.0.bytes_per_token", "greater than or equal to 1"),
        ([*A, "instance_id"], "", f"{POOL}.instances.0.instance_id", "at least 1 character"),
        ([*A, "instance_id"], "../a", f"{POOL}.instances.0.instance_id", "becomes a file name"),
        ([*A, "eviction_policy_type"], ..., f"{POOL}.instances.0.eviction_policy_type", "required"),
        ([*A, "eviction_policy_type"], "mru", f"{POOL}.instances.0.eviction_policy_type", "'lru'"),
        ([*A, "eviction_policy_params"], ..., f"{POOL}.instances.0.eviction_policy_params", "required"),
        (
            [*A, "eviction_policy_params"],
            {"fallback_on_pressure": True},
            f"{POOL}.instances.0.eviction_policy_params.fallback_on_pressure",
            "unknown key (known here: eviction_amplification_factor, sample_rate, sample_times, shard_count)",
        ),
        (
            [*A, "eviction_policy_params"],
            {"shard_count": 0},
            f"{POOL}.instances.0.eviction_policy_params.shard_count",
            "greater than or equal to 1",
        ),
        ([*G, "instances", 1, "instance_id"], "a", "$", "instance_id 'a' is given twice"),
        (["instance_groups", 1], group(instances=[instance("c")]), "$", "group_name 'g' is given twice"),
        (["instance_groups", 1], group(name="h"), "$", "instance_id 'a' is given twice"),
    ],
)
def test_a_problem_is_named_by_its_path(path: list[str | int], value: object, field: str, reason: str) -> None:
    """Each wrong, missing, unknown or repeated value is a ConfigError of one line, with its JSON path."""
    with pytest.raises(ConfigError) as caught:
        ReplayConfig.from_document(changed(path, value))

    assert caught.value.field == field
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flows_are_checked_without_a_hierarchy_too() -> None:
    """A flow needs two storages, whether or not tiers are used."""
    flat = group(strategy={"tier_flows": [{"from_tier": "a", "to_tier": "b"}]})

    with pytest.raises(ConfigError, match="needs at least two storages"):
        ReplayConfig.from_document(document(flat))


@pytest.mark.parametrize("root", [None, [], "text", 3])
def test_a_document_that_is_no_object_is_refused(root: object) -> None:
    """The root is an object."""
    with pytest.raises(ConfigError, match=r"\$: must be a JSON object"):
        ReplayConfig.from_document(root)


def test_the_schema_knows_every_policy() -> None:
    """Editors can tell the four policies apart."""
    assert set(json_schema()["$defs"]) >= {"LruInstance", "LeafAwareLruInstance", "RandomLruInstance", "TtlInstance"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def places(node: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of all members and entries below a JSON value."""
    match node:
        case dict():
            steps: list[tuple[str | int, object]] = list(node.items())
        case list():
            steps = list(enumerate(node))
        case _:
            steps = []
    return [(*path, step) for step, _ in steps] + [
        deeper for step, below in steps for deeper in places(below, (*path, step))
    ]


def outcome(config: dict[str, Any]) -> str:
    """What reading a config says."""
    try:
        ReplayConfig.from_document(config)
    except ConfigError as error:
        return str(error)
    return "fine"


@settings(max_examples=300)
@given(st.sampled_from(places(changed(["trace_replay"], {"write_delay_ns": 1}))), JSON, st.text(max_size=4))
def test_no_json_makes_the_config_fail(path: tuple[str | int, ...], value: object, name: str) -> None:
    """A config with any value anywhere, or any further member, is read or refused in one printable line."""
    for place in (path, (*path[:-1], name)):
        if isinstance(place[-1], str) == isinstance(path[-1], str):
            assert outcome(changed(place, value)).isprintable()
