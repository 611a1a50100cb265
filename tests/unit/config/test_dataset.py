"""The data-set config: what is accepted, and what is refused with its path."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
import yaml

from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ConfigError
from foreword.terms import ExecutionMode, Semantics
from tests.support.groups import ROOT as REPOSITORY

NAN, INF = math.nan, math.inf
EXAMPLES = ("fixed_single_prefix_50", "progressive_single_prefix_50", "progressive_multi_prefix_50")
SMALLEST: dict[str, Any] = {
    "dataset_id": "d",
    "request_count": 10,
    "input_length": {"mode": "fixed", "value": 100},
    "target": {"hit_ratio": 0.5},
}


def _parse(**changes: object) -> DatasetConfig:
    return DatasetConfig.parse({**SMALLEST, **changes}, root=ROOT)


def _refused(**changes: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        _parse(**changes)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(ROOT)
    return caught.value


def _groups(*groups: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"mode": "multi_prefix", "groups": list(groups), **more}


def _normal(**changes: object) -> dict[str, Any]:
    return {"mode": "truncated_normal", "min": 10, "max": 200, "mean": 100, "std": 10, **changes}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_rfc_are_configs(name: str) -> None:
    """The RFC's three YAML files are read as they are."""
    text = (REPOSITORY / "examples" / f"{name}.yaml").read_text(encoding="utf-8")

    config = DatasetConfig.parse(yaml.safe_load(text)[ROOT], root=ROOT)

    assert (config.dataset_id, config.seed, config.request_count, config.block_size) == (name, 42, 1000, 16)


def test_four_keys_are_enough() -> None:
    """Everything else has a default: 16 answer tokens, one group, one block apart, no warm-up."""
    config = _parse()

    assert config.seed == 42
    assert config.output_length.model_dump() == {"mode": "fixed", "value": 16}
    assert config.prefix.mode == "single_prefix"
    assert config.validation.pass_tolerance == 0.01
    assert config.execution_mode is ExecutionMode.PROGRESSIVE_PREFIX_FILL


def test_the_short_keys_of_the_rfc_are_aliases() -> None:
    """RFC 2.1: a plain length, target_prefix_ratio and prefix_mode spell out as a warmed fixed ratio."""
    short = {
        "dataset_id": "d",
        "request_count": 1000,
        "input_length": 4096,
        "target_prefix_ratio": 0.5,
        "prefix_mode": "single_prefix",
    }

    config = DatasetConfig.parse(short, root=ROOT)

    assert config.input_length.model_dump() == {"mode": "fixed", "value": 4096}
    assert config.target.hit_ratio == 0.5
    assert config.target.semantics is Semantics.STATIC_PREFIX_RATIO
    assert config.prefix.mode == "single_prefix"
    assert config.execution_mode is ExecutionMode.WARMUP


def test_the_answer_length_may_stand_under_execution() -> None:
    """``execution.max_tokens`` is another name for a fixed output_length; both together are refused."""
    config = _parse(execution={"max_tokens": 7, "concurrency": 2})

    assert config.output_length.model_dump() == {"mode": "fixed", "value": 7}
    assert config.execution.concurrency == 2
    assert "max_tokens" in _refused(execution={"max_tokens": 7}, output_length=8).message


def test_an_alias_reports_problems_at_the_key_that_it_stands_for() -> None:
    """A bad short key is refused like the long one."""
    plain = {name: value for name, value in SMALLEST.items() if name != "target"}

    with pytest.raises(ConfigError, match=r"target\.hit_ratio: is a ratio between 0 and 1"):
        DatasetConfig.parse({**plain, "target_prefix_ratio": 1.5}, root=ROOT)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"target_prefix_ratio": 0.5}, "target_prefix_ratio"),
        ({"prefix_mode": "single_prefix", "prefix": {}}, "prefix_mode"),
    ],
)
def test_an_alias_beside_its_long_key_is_refused(changes: dict[str, Any], named: str) -> None:
    """Two values for one thing are an error that names the short key."""
    assert named in _refused(**changes).message


@pytest.mark.parametrize(
    ("changes", "path", "nearest"),
    [
        ({"blocksize": 16}, "blocksize", "block_size"),
        ({"prefix": {"minimum_non_shared_len": 3}}, "prefix.minimum_non_shared_len", "minimum_non_shared_length"),
        ({"input_length": {"mode": "fixed", "valeu": 3}}, "input_length.valeu", "value"),
        ({"output_length": {"mode": "fixed", "valeu": 3}}, "output_length.valeu", "value"),
        ({"input_length": _normal(stdev=3)}, "input_length.stdev", "std"),
        (
            {"input_length": {"mode": "histogram", "bins": [{"range": [1, 2], "weigth": 3}]}},
            "input_length.bins.0.weigth",
            "weight",
        ),
        ({"suffix": {"collision_detection": {"enable": True}}}, "suffix.collision_detection.enable", "enabled"),
        ({"prefix": _groups({"id": "a", "weight": 1})}, "prefix.groups.0.weight", "request_weight"),
        ({"target": {"hit_ratio": 0.5, "semantic": "x"}}, "target.semantic", "semantics"),
        ({"fixed": 1}, "fixed", "suffix"),
    ],
)
def test_an_unknown_key_is_named_with_its_path_and_the_nearest_known(
    changes: dict[str, Any], path: str, nearest: str
) -> None:
    """A typing slip is answered with the key that was meant."""
    refused = _refused(**changes)

    assert refused.field == f"{ROOT}.{path}"
    assert refused.message == f"{ROOT}.{path}: unknown key"
    assert refused.advice == f"did you mean {nearest}?"


@pytest.mark.parametrize(
    ("changes", "path"),
    [({"request_count": value}, "request_count") for value in (0, -1, True, "10", 1.0, NAN, None, [10], 10**12)]
    + [({"block_size": value}, "block_size") for value in (0, -16, True, "16", "Auto", 16.0, NAN, 10**12)]
    + [({"seed": value}, "seed") for value in (-1, True, "42", 1.0, None)]
    + [({"max_model_len": value}, "max_model_len") for value in (0, True, "8k")]
    + [({"dataset_id": value}, "dataset_id") for value in ("", "a b", "../x", 5, False, "a" * 129, "-a")]
    + [({"dataset_id": dt.date(2024, 1, 1)}, "dataset_id")]
    + [
        ({"target": {"hit_ratio": value}}, "target.hit_ratio")
        for value in (-0.1, 1.1, NAN, INF, -INF, True, "0.5", "50%", [0.5])
    ]
    + [({"validation": {"pass_tolerance": value}}, "validation.pass_tolerance") for value in (-0.01, NAN, 1.5, True)]
    + [
        ({"prefix": {"minimum_non_shared_length": value}}, "prefix.minimum_non_shared_length")
        for value in (-1, True, "16", 1.5, 10**20)
    ]
    + [({section: "gsm8k"}, section) for section in ("suffix", "prefix", "target", "routing", "validation")]
    + [({section: None}, section) for section in ("suffix", "prefix", "target", "routing", "validation")]
    + [({"routing": {"dp_size": 0}}, "routing.dp_size"), ({"execution": {"mode": "warm"}}, "execution.mode")]
    + [({"execution": {"concurrency": 0}}, "execution.concurrency")]
    + [({"planning": {"max_iterations": 0}}, "planning.max_iterations")]
    + [({"request_order": {"mode": "random"}}, "request_order.mode")]
    + [({"prefix": {"assignment": 5}}, "prefix.assignment"), ({"engine": "vLLM"}, "engine")],
)
def test_a_value_of_the_wrong_kind_or_size_is_refused_at_its_path(changes: dict[str, Any], path: str) -> None:
    """Numbers out of range, booleans and strings for numbers, NaN, infinities and half sections are named."""
    assert _refused(**changes).field == f"{ROOT}.{path}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prefix": {"mode": "multi_prefix"}}, "multi_prefix needs groups"),
        ({"prefix": _groups()}, "multi_prefix needs groups"),
        ({"prefix": _groups({"id": "a"}, group_count=2)}, "not both"),
        ({"prefix": {"groups": [{"id": "a"}, {"id": "b"}]}}, "single_prefix has one group"),
        ({"prefix": _groups({"id": "a"}, {"id": "a"})}, "a is given twice"),
        ({"prefix": _groups({"id": "a", "request_weight": 0})}, "sum to 0"),
        ({"prefix": _groups({"id": "a", "request_weight": -1})}, "groups.0.request_weight"),
        ({"prefix": _groups({"id": "a", "request_weight": INF})}, "groups.0.request_weight"),
        ({"prefix": _groups({"id": "a", "request_weight": NAN})}, "groups.0.request_weight"),
        ({"prefix": _groups({"id": "a", "request_weight": True})}, "groups.0.request_weight"),
        ({"prefix": _groups({"id": "a", "request_weight": 1}, {"id": "b"})}, "b has no request_weight"),
        (
            {"prefix": _groups({"id": "a", "request_weight": 1}, {"id": "b", "request_count": 1})},
            "request_weight or request_count",
        ),
        ({"prefix": _groups({"id": "a", "request_count": 4}, {"id": "b", "request_count": 5})}, "sum to 9"),
        ({"prefix": _groups({"id": 1})}, "groups.0.id"),
        ({"prefix": _groups({"id": "a"}, assignment=["a"] * 9)}, "names 9 requests"),
        ({"prefix": _groups({"id": "a", "request_weight": 1}, assignment=["a"] * 10)}, "excludes request_weight"),
        ({"target": {}}, "hit_ratio is required"),
        ({"target": {"hit_ratio": 0.5, "groups": [{"id": "a", "hit_ratio": 0.1}]}}, "scope is global"),
        ({"target": {"scope": "per_group"}}, "default has no target"),
        ({"validation": {"pass_tolerance": 0.03}}, "above warning_tolerance"),
        ({"request_order": {"mode": "shuffle", "within_group": "shuffle"}}, "excludes within_group"),
        ({"routing": {"bind_prefix_group_to_dp": True, "assignment": "round_robin"}}, "contradicts"),
        ({"suffix": {"divergence_block": False}}, "divergence_block"),
        ({"input_length": {"mode": "explicit", "values": [10] * 9}}, "9 lengths, but request_count is 10"),
    ],
)
def test_values_that_contradict_each_other_are_refused(changes: dict[str, Any], words: str) -> None:
    """The message says which two things do not fit."""
    assert words in str(_refused(**changes))


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([{"id": "c", "hit_ratio": 0.5}], "c, which is no group"),
        ([{"id": "a", "hit_ratio": 0.5}], "group b has no target"),
        ([{"id": "a", "hit_ratio": 0.5}, {"id": "a", "hit_ratio": 0.2}, {"id": "b", "hit_ratio": 0.2}], "a twice"),
    ],
)
def test_targets_by_group_name_every_group_once(groups: list[dict[str, Any]], words: str) -> None:
    """A target for no group, a group without one, and two for one are refused."""
    target = {"scope": "per_group", "groups": groups}

    assert words in str(_refused(prefix=_groups({"id": "a"}, {"id": "b"}), target=target))


def test_groups_without_a_target_inherit_the_common_one() -> None:
    """With hit_ratio beside the groups, only the exceptions are listed; numbered groups have names too."""
    target = {"scope": "per_group", "hit_ratio": 0.3, "groups": [{"id": "group_0", "hit_ratio": 0.5}]}

    config = _parse(prefix={"mode": "multi_prefix", "group_count": 2}, target=target)

    assert config.prefix.group_ids == ("group_0", "group_1")


@pytest.mark.parametrize("missing", ["dataset_id", "request_count", "input_length", "target"])
def test_a_required_key_that_is_absent_is_named(missing: str) -> None:
    """Each of the four required keys is asked for by name."""
    data = {name: value for name, value in SMALLEST.items() if name != missing}

    with pytest.raises(ConfigError, match=f"^{ROOT}.{missing}: required, but not given$"):
        DatasetConfig.parse(data, root=ROOT)


@pytest.mark.parametrize("nothing", [None, [], "text", 5])
def test_a_root_that_is_no_mapping_is_refused(nothing: Any) -> None:  # noqa: ANN401 - any YAML value may stand there
    """An empty file or a list under the root key is a config error, not a crash."""
    with pytest.raises(ConfigError, match=ROOT):
        DatasetConfig.parse(nothing, root=ROOT)


def test_a_config_cannot_be_changed() -> None:
    """Configs are values."""
    with pytest.raises(ValueError, match="frozen"):
        setattr(_parse(), "seed", 1)  # noqa: B010 - the type checker refuses the plain assignment


@pytest.mark.parametrize(
    ("semantics", "mode"),
    [("static_prefix_ratio", ExecutionMode.WARMUP), ("order_aware_global", ExecutionMode.PROGRESSIVE_PREFIX_FILL)],
)
def test_the_default_passes_follow_the_semantics(semantics: str, mode: ExecutionMode) -> None:
    """A warmed ratio is run warmed, an order-aware one cold; what is written wins."""
    target = {"hit_ratio": 0.5, "semantics": semantics}

    assert _parse(target=target).execution_mode is mode
    assert _parse(target=target, execution={"mode": "compare"}).execution_mode is ExecutionMode.COMPARE


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("request_count: 1_000", 1000),
        ("request_count: 0x10", 16),
        ("request_count: 010", 8),
        ("dataset_id: 'yes'", "yes"),
        ("dataset_id: '2024-01-01'", "2024-01-01"),
        ("seed: 0", 0),
    ],
)
def test_numbers_as_yaml_writes_them_are_read(line: str, value: object) -> None:
    """Underscores, hexadecimal and quoted words mean what YAML says."""
    name = line.partition(":")[0]

    assert getattr(_parse(**yaml.safe_load(line)), name) == value


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("request_count: 1,000", "request_count"),
        ("request_count: 1k", "request_count"),
        ("request_count: 1e3", "request_count"),
        ("request_count:", "request_count"),
        ("dataset_id: yes", "dataset_id"),
        ("dataset_id: 2024-01-01", "dataset_id"),
        ("target: {hit_ratio: 50%}", "target.hit_ratio"),
        ("target: {hit_ratio: .nan}", "target.hit_ratio"),
        ("target: {hit_ratio: on}", "target.hit_ratio"),
        ("target: [hit_ratio, 0.5]", "target"),
        ("prefix: {nested_prefix: maybe}", "prefix.nested_prefix"),
        ("prefix: {mode: multi_prefix, groups: {a: 1, b: 2}}", "prefix.groups"),
        ("input_length: {mode: histogram, bins: {range: [1, 2], weight: 1}}", "input_length.bins"),
        ("5: five", "5"),
    ],
)
def test_what_yaml_reads_as_another_kind_is_refused_at_its_path(line: str, path: str) -> None:
    """Words that YAML turns into booleans, dates or nothing, and forms that it leaves as text, are named."""
    assert _refused_data({**SMALLEST, **yaml.safe_load(line)}).field == f"{ROOT}.{path}"


def _refused_data(data: dict[Any, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        DatasetConfig.parse(data, root=ROOT)
    return caught.value
