"""Bad traces and configs, each through the command line: one line, where it is, no result."""

from __future__ import annotations

import copy
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.replaying import document, group, instance

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Document = dict[str, Any]

GET = {"type": "get", "instance_id": "a", "timestamp_ns": 10, "keys": [1, 2], "input_len": 9}
WRITE = {"type": "write", "instance_id": "a", "timestamp_ns": 5, "keys": [1]}


def changed(**members: object) -> bytes:
    """A get row with other members; ``...`` leaves one out."""
    row = {name: value for name, value in {**GET, **members}.items() if value is not ...}
    return json.dumps(row).encode()


ROWS: dict[str, tuple[bytes, str]] = {
    "no json": (b"{", "json: not a line of JSON"),
    "no object": (b"[1]", "json: "),
    "not utf-8": (b'{"type": "\xff"}', "json: "),
    "type missing": (changed(type=...), "type: "),
    "type unknown": (changed(type="delete"), "type: "),
    "type no string": (changed(type=3), "type: "),
    "instance missing": (changed(instance_id=...), "instance_id: "),
    "instance empty": (changed(instance_id=""), "instance_id: "),
    "time missing": (changed(timestamp_ns=...), "timestamp_ns: "),
    "time zero": (changed(timestamp_ns=0), "timestamp_ns: "),
    "time a float": (changed(timestamp_ns=1.5), "timestamp_ns: "),
    "time beyond 64 bits": (changed(timestamp_ns=2**63), "timestamp_ns: "),
    "time true": (changed(timestamp_ns=True), "timestamp_ns: "),
    "keys missing": (changed(keys=...), "keys: "),
    "keys no array": (changed(keys=7), "keys: "),
    "key a string": (changed(keys=["1"]), "keys"),
    "key a float": (changed(keys=[1.0]), "keys"),
    "key beyond 64 bits": (changed(keys=[2**64]), "keys"),
    "key below 64 bits": (changed(keys=[-(2**63) - 1]), "keys"),
    "length missing": (changed(input_len=...), "input_len: "),
    "length zero": (changed(input_len=0), "input_len: "),
    "length too short": (changed(input_len=7), "keys: more than input_len fills blocks"),
    "mask null": (changed(block_mask=None), "block_mask: "),
    "mask negative": (changed(block_mask=-1), "block_mask: "),
    "mask of numbers": (changed(block_mask=[1, 0]), "block_mask"),
    "query no string": (changed(query_type=1), "query_type: "),
    "trace id no string": (changed(trace_id=1), "trace_id: "),
    "window no integer": (changed(sw_size="x"), "sw_size: "),
    "locations no strings": (changed(location_spec_names=[1]), "location_spec_names"),
    "ttl beyond 64 bits": (changed(type="request", ttl_us=2**63), "ttl_us: "),
    "write due too late": (changed(type="request", timestamp_ns=2**63 - 1), "timestamp_ns: its delayed write"),
}


def put(*path: str | int, value: object = ...) -> Callable[[Document], None]:
    """A change of a config at a path; without a value, the member is left out."""

    def change(config: Any) -> None:  # noqa: ANN401 - JSON
        for name in path[:-1]:
            config = config[name]
        if value is ...:
            del config[path[-1]]
        else:
            config[path[-1]] = value

    return change


GROUP, POOL = ("instance_groups", 0), group(tiers=[2, 3], instances=[instance("a"), instance("b")])
CONFIGS: dict[str, tuple[Callable[[Document], None], str]] = {
    "no groups": (put("instance_groups", value=[]), "instance_groups"),
    "no instances": (put(*GROUP, "instances", value=[]), "instance_groups.0.instances"),
    "no storages with tiers": (put(*GROUP, "storages", value=[]), "storages"),
    "two groups of a name": (lambda config: config["instance_groups"].append(copy.deepcopy(POOL)), "group_name 'g'"),
    "two instances of a name": (put(*GROUP, "instances", 1, "instance_id", value="a"), "instance_id 'a'"),
    "two tiers of a name": (put(*GROUP, "storages", 1, "unique_name", value="t0"), "unique_name 't0'"),
    "two tiers of a priority": (put(*GROUP, "storages", 1, "priority", value=0), "priority 0"),
    "mode unknown": (put("eviction_params", "eviction_mode", value=4), "eviction_params.eviction_mode"),
    "batch zero": (put("eviction_params", "eviction_batch_size_per_instance", value=0), "eviction_batch_size"),
    "delay zero": (put("trace_replay", "write_delay_ns", value=0), "trace_replay.write_delay_ns"),
    "field unknown": (put(*GROUP, "quota_capactiy", value=1), "quota_capacity"),
    "field missing": (put(*GROUP, "quota_capacity"), "instance_groups.0.quota_capacity"),
    "capacity a string": (put(*GROUP, "storages", 0, "capacity", value="1"), "instance_groups.0.storages.0.capacity"),
    "percentage negative": (put(*GROUP, "used_percentage", value=-1), "instance_groups.0.used_percentage"),
    "block size zero": (put(*GROUP, "instances", 0, "block_size", value=0), "instances.0"),
    "block size a float": (put(*GROUP, "instances", 0, "block_size", value=16.0), "instances.0"),
    "bytes zero": (put(*GROUP, "instances", 0, "bytes_per_token", value=0), "instances.0"),
    "policy unknown": (put(*GROUP, "instances", 0, "eviction_policy_type", value="mru"), "eviction_policy_type"),
    "parameter of another policy": (
        put(*GROUP, "instances", 0, "eviction_policy_params", value={"fallback_on_pressure": True}),
        "fallback_on_pressure",
    ),
    "write mode unknown": (put(*GROUP, "tier_strategy", "write_mode", value="back"), "tier_strategy.write_mode"),
    "threshold zero": (
        put(*GROUP, "tier_strategy", "selective_write_threshold", value=0),
        "tier_strategy.selective_write_threshold",
    ),
    "flow of no tier": (
        put(*GROUP, "tier_strategy", "tier_flows", value=[{"from_tier": "t0", "to_tier": "t9"}]),
        "tier_flows.0: no storage is called 't9'",
    ),
    "flow upwards": (
        put(*GROUP, "tier_strategy", "tier_flows", value=[{"from_tier": "t1", "to_tier": "t0"}]),
        "tier_flows.0: 't1' to 't0' are not neighbours",
    ),
    "flow twice": (
        put(*GROUP, "tier_strategy", "tier_flows", value=[{"from_tier": "t0", "to_tier": "t1"}] * 2),
        "is given twice",
    ),
}


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """Exit code and the one line of a replay in a folder, which leaves nothing behind."""
    code = main(["replay", "--config", str(folder / "r.json"), "--output", str(folder / "out"), *options])
    said = capsys.readouterr()
    assert not (folder / "out").exists()
    assert said.out == ""
    assert said.err.startswith("foreword: ")
    assert said.err.count("\n") == 1
    return code, said.err


@pytest.mark.parametrize("kind", ROWS)
def test_a_bad_row_is_named_by_file_and_line(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``<file>:<line>: <field>: <reason>`` and exit code 5, with good rows before and behind it."""
    bad, message = ROWS[kind]
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"\n".join([json.dumps(WRITE).encode(), b"", bad, json.dumps(GET).encode()]))
    (tmp_path / "r.json").write_text(json.dumps(document()), encoding="utf-8")

    code, said = refused(tmp_path, capsys)

    assert code == 5
    assert said.startswith(f"foreword: {trace}:3: {message}")


@pytest.mark.parametrize("kind", ROWS)
def test_a_bad_row_can_be_skipped(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--on-error skip`` it is counted by its kind, and the rest is as if it were not there."""
    rows = [json.dumps(WRITE).encode(), ROWS[kind][0], json.dumps(GET).encode()]
    (tmp_path / "trace.jsonl").write_bytes(b"\n".join(rows))
    (tmp_path / "r.json").write_text(json.dumps(document()), encoding="utf-8")

    code = main(["replay", "--config", str(tmp_path / "r.json"), "--on-error", "skip", "--json"])

    summary = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (summary["trace"]["skipped_rows"], summary["total"]["hit_blocks"]) == (1, 1)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_bad_config_is_named_by_its_path(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON path of the field and exit code 2, before the trace is opened."""
    change, message = CONFIGS[kind]
    config = document(copy.deepcopy(POOL), write_delay_ns=1)
    change(config)
    (tmp_path / "r.json").write_text(json.dumps(config), encoding="utf-8")

    code, said = refused(tmp_path, capsys)

    assert code == 2
    assert message in said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.jsonl", None, "cannot be read"),
        ("empty.jsonl", b"", "no row to replay"),
        ("blank.jsonl", b"\n  \n", "no row to replay"),
        ("cut.jsonl.gz", gzip.compress(json.dumps(GET).encode(), mtime=0)[:-9], "damaged"),
        ("plain.jsonl.gz", json.dumps(GET).encode(), "damaged"),
        ("plain.jsonl.zst", json.dumps(GET).encode(), "damaged"),
        ("plain.parquet", json.dumps(GET).encode(), "plain.parquet: "),
    ],
)
def test_a_bad_file_is_named(
    name: str, content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace that is missing, empty or damaged ends with its name and exit code 5."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "r.json").write_text(json.dumps(document() | {"trace_file_path": name}), encoding="utf-8")

    code, said = refused(tmp_path, capsys)

    assert code == 5
    assert name in said
    assert message in said


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1, "a": 2}', '{"a": Infinity}'])
def test_a_config_that_is_no_json_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    (tmp_path / "r.json").write_text(text, encoding="utf-8")

    assert refused(tmp_path, capsys)[0] == 2
