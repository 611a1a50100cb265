"""Damage that ``foreword validate`` has to find and name, with digests made to fit what was damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.damage import (
    Damage,
    edit,
    in_divergence,
    in_shared_part,
    in_suffix,
    other_tokenizer,
    put,
    rows_of,
    shift,
    stated,
    swapped,
    token,
)
from tests.support.datasets import (
    DATA,
    MANIFEST,
    METADATA,
    REPORT,
    WARMUP,
    generate,
    read_document,
    read_rows,
    reseal,
    small,
    write_document,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    Named = set[tuple[str, str, str | None]]

BLOCK = 16
ON_TWO_RANKS = {"cache_scope": "dp_local", "dp_size": 2, "assignment": "round_robin"}

PROMPTS = (
    Damage("token shared", token(in_shared_part, fingerprint=False), DATA, "expected_hit_len_cold"),
    Damage("token shared, fingerprint too", token(in_shared_part, fingerprint=True), DATA, "expected_hit_len_hot"),
    Damage("token of the divergence", token(in_divergence, fingerprint=False), DATA, "prompt"),
    Damage("token of the divergence, fingerprint too", token(in_divergence, fingerprint=True), DATA, "prompt"),
    Damage("token of the suffix", token(in_suffix, fingerprint=False), DATA, "prompt"),
    Damage("token of the suffix, fingerprint too", token(in_suffix, fingerprint=True), DATA, "prompt"),
    Damage("rows swapped in the data", swapped(DATA), DATA, "request_id"),
    Damage("rows swapped in data and metadata", swapped(DATA, METADATA), METADATA, "request_id"),
    Damage("row removed", rows_of(DATA, lambda rows: rows[:9] + rows[10:], 9), DATA, "request_id"),
    Damage("last row removed", rows_of(DATA, lambda rows: rows[:-1], -1), DATA, "request_id"),
    Damage("row twice", rows_of(DATA, lambda rows: [*rows[:9], rows[8], *rows[9:]], 8), DATA, "request_id"),
    Damage("metadata row removed", rows_of(METADATA, lambda rows: rows[:-1], -1), METADATA, "request_id"),
    Damage("warm-up of another group", put(WARMUP, 0, prefix_group_id="B"), WARMUP, "prompt"),
    Damage("warm-up lane missing", rows_of(WARMUP, lambda rows: rows[1:], None), WARMUP, "rows"),
    Damage("warm-up lane twice", rows_of(WARMUP, lambda rows: [*rows, rows[0]], 0), WARMUP, "planned_prefix_len"),
    Damage("tokenizer", stated(MANIFEST, "tokenizer.sha256", "0" * 64), MANIFEST, "tokenizer.sha256"),
    Damage("block size", stated(MANIFEST, "block_size", 32), MANIFEST, "block_size"),
    Damage("groups removed", stated(MANIFEST, "groups", []), MANIFEST, "groups"),
    Damage("config", stated(MANIFEST, "config.target.hit_ratio", 0.6), MANIFEST, "target.hit_ratio"),
    Damage("config that is none", stated(MANIFEST, "config.target", {}), MANIFEST, "config"),
)

# Each to another row or value, so that one check has to find them all.
VALUES = (
    Damage("max_tokens", shift(DATA, "max_tokens", 1, 2), DATA, "max_tokens"),
    Damage("group of a prompt", put(DATA, 3, prefix_group_id="Z"), DATA, "prefix_group_id"),
    Damage("no prompt", put(DATA, 4, prompt=None), DATA, "prompt"),
    Damage(
        "watermark before", shift(METADATA, "cached_watermark_before", BLOCK, 5), METADATA, "cached_watermark_before"
    ),
    Damage("watermark after", shift(METADATA, "cached_watermark_after", -BLOCK, 6), METADATA, "cached_watermark_after"),
    Damage("expected hit", shift(METADATA, "expected_hit_len", -BLOCK, 7), METADATA, "expected_hit_len"),
    Damage("cold hit", shift(METADATA, "expected_hit_len_cold", BLOCK, 8), METADATA, "expected_hit_len_cold"),
    Damage("hot hit", shift(METADATA, "expected_hit_len_hot", BLOCK, 9), METADATA, "expected_hit_len_hot"),
    Damage("hit ratio", shift(METADATA, "expected_hit_ratio", 0.25, 10), METADATA, "expected_hit_ratio"),
    Damage("new cached", shift(METADATA, "new_cached_len", BLOCK, 11), METADATA, "new_cached_len"),
    Damage("divergence", shift(METADATA, "divergence_len", -1, 12), METADATA, "divergence_len"),
    Damage("suffix", shift(METADATA, "suffix_len", 1, 13), METADATA, "suffix_len"),
    Damage("input length", shift(METADATA, "input_len", 1, 14), METADATA, "input_len"),
    Damage("planned prefix", shift(METADATA, "planned_prefix_len", -BLOCK, 15), METADATA, "planned_prefix_len"),
    Damage("prefix inside a block", shift(METADATA, "planned_prefix_len", 3, 16), METADATA, "planned_prefix_len"),
    Damage("order", shift(METADATA, "order_index", 1, 17), METADATA, "order_index"),
    Damage("class", put(METADATA, 18, request_class="none planned"), METADATA, "request_class"),
    Damage("rank", put(METADATA, 19, planned_dp_id=7), METADATA, "planned_dp_id"),
    Damage("group", put(METADATA, 20, prefix_group_id="Z"), METADATA, "prefix_group_id"),
    Damage("name", put(METADATA, 21, request_id="r9999999"), METADATA, "request_id"),
    Damage("collision", put(METADATA, 22, collision_status="conflict"), METADATA, "collision_status"),
    Damage("no fingerprint", put(METADATA, 23, prompt_fingerprint=""), METADATA, "prompt_fingerprint"),
    Damage("warm-up length", shift(WARMUP, "input_len", 1, 0), WARMUP, "input_len"),
    Damage("warm-up answer", shift(WARMUP, "max_tokens", 1, 1), WARMUP, "max_tokens"),
    Damage("warm-up prefix", shift(WARMUP, "planned_prefix_len", -BLOCK, 2), WARMUP, "planned_prefix_len"),
    Damage("seed", stated(MANIFEST, "seed", 8), MANIFEST, "seed"),
    Damage("request count", stated(MANIFEST, "request_count", 41), MANIFEST, "request_count"),
    Damage("mode", stated(MANIFEST, "execution_mode", "hot"), MANIFEST, "execution_mode"),
)

DERIVED = {
    MANIFEST: (
        "theoretical_result", "groups", "target", "input_length", "prefix", "request_order", "planning", "semantics",
        "output_length", "model", "isolation", "max_model_len", "content",
    ),
    REPORT: (
        "status", "reason", "message", "target_hit_ratio", "designed_hit_ratio", "signed_deviation",
        "absolute_deviation", "signed_deviation_points", "absolute_deviation_points", "max_reachable_hit_ratio",
        "min_reachable_hit_ratio", "designed_pass", "designed_hit_tokens", "input_tokens", "cold", "hot", "lengths",
        "groups", "request_classes", "suggestions",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of text prompts in two groups on two ranks that share no cache."""
    return generate(tmp_path_factory.mktemp("sound") / "dataset", small(routing=ON_TWO_RANKS))


@pytest.fixture
def dataset(sound: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(sound, tmp_path / "dataset")


@pytest.fixture(scope="module")
def many(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Named, dict[str, str | None]]:
    """What is named when every one of ``VALUES`` is wrong at once, and the requests that were damaged."""
    dataset = shutil.copytree(sound, tmp_path_factory.mktemp("many") / "dataset")
    requests = {damage.name: damage.do(dataset) for damage in VALUES}
    reseal(dataset)
    return named(_check(dataset)), requests


def _check(dataset: Path) -> dict[str, Any]:
    from foreword import flow  # noqa: PLC0415 - as the command does

    return flow.validate(dataset).document()


def checked(capsys: pytest.CaptureFixture[str], dataset: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a check; nothing is said beside the JSON."""
    capsys.readouterr()
    code = main(["validate", "--dataset", str(dataset), "--json", *flags])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, json.loads(captured.out)


def named(found: dict[str, Any]) -> Named:
    """File, field and request of every problem."""
    return {(problem["file"], problem["field"], problem["request_id"]) for problem in found["problems"]}


def slug(damage: Damage) -> str:
    """A test's name."""
    return damage.name.replace(" ", "-")


def leaves(node: object, path: str = "") -> Iterable[tuple[str, Any]]:
    """Paths and values of everything in a document, members of lists by their group or place."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from leaves(value, f"{path}[{value.get('group_id', index) if isinstance(value, dict) else index}]")
    else:
        yield path, node


def altered(node: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The same shape with every value changed, except what tells where and what things are."""
    if isinstance(node, dict):
        kept = {"group_id", "designed_pass"}
        return {key: value if key in kept else altered(value) for key, value in node.items()}
    if isinstance(node, list):
        return [altered(value) for value in node]
    return f"{node}?" if isinstance(node, str) or node is None else node + 1


def test_a_sound_data_set_is_valid(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is found where nothing is wrong, and every prompt was made again."""
    code, found = checked(capsys, sound)

    assert (code, found["problems"], found["recomposed"]) == (0, [], 40)
    assert found["reencode"] == {"level": "full", "checked": 40, "wrong": 0}


@pytest.mark.parametrize("damage", PROMPTS, ids=slug)
def test_damage_is_named_although_digests_fit(
    damage: Damage, dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is changed is named by file, request and field, and the exit code is 5."""
    request = damage.do(dataset)
    reseal(dataset)

    code, found = checked(capsys, dataset)

    assert code == 5
    assert (damage.file, damage.field, request) in named(found)


@pytest.mark.parametrize("damage", VALUES, ids=slug)
def test_a_wrong_value_is_named_among_others(damage: Damage, many: tuple[Named, dict[str, str | None]]) -> None:
    """Every value of a row, and what the manifest says of the whole, is held to the plan."""
    found, requests = many

    assert (damage.file, damage.field, requests[damage.name]) in found


@pytest.mark.parametrize("file", [MANIFEST, REPORT])
def test_every_derived_value_of_a_document_is_checked(dataset: Path, file: str) -> None:
    """No number, status or message of the manifest or the report can be changed unnoticed."""
    document = read_document(dataset / file)
    parts = {name: document[name] for name in DERIVED[file]}
    write_document(dataset / file, {**document, **altered(parts)})
    reseal(dataset)

    found = {field for where, field, _ in named(_check(dataset)) if where == file}

    kept = ("group_id", "designed_pass")
    assert {path for path, _ in leaves(parts) if not path.endswith(kept)} - found == set()


def test_an_added_row_is_named(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A request that the data set does not have is named."""
    rows_of(DATA, lambda rows: [*rows, {**rows[3], "request_id": "r0000040"}], None)(dataset)
    reseal(dataset)

    code, found = checked(capsys, dataset)

    assert code == 5
    assert (DATA, "request_id", "r0000040") in named(found)


@pytest.mark.parametrize("key", ["system", "prefix"])
def test_a_column_that_a_server_might_read_is_refused(
    dataset: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of the data holds the four columns and nothing else."""
    request = edit(dataset, DATA, 3, **{key: "Be brief."})
    reseal(dataset)

    code = main(["validate", "--dataset", str(dataset)])

    error = capsys.readouterr().err
    assert code == 5
    assert f"{DATA}:4: damaged row of request {request}" in error
    assert key in error


@pytest.mark.parametrize("file", [DATA, METADATA, WARMUP])
def test_a_file_that_ends_in_a_line_is_named_with_the_line(
    dataset: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that was cut in the middle of a row gives its name, the line and the request, on one line."""
    rows = read_rows(dataset / file)
    (dataset / file).write_bytes((dataset / file).read_bytes()[:-60])
    reseal(dataset)

    code = main(["validate", "--dataset", str(dataset)])

    error = capsys.readouterr().err
    assert code == 5
    assert f"{file}:{len(rows)}: damaged row of request {rows[-1]['request_id']}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("file", [DATA, METADATA, REPORT, WARMUP])
def test_a_missing_file_is_named(dataset: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A data set without one of its files is damaged."""
    (dataset / file).unlink()

    code = main(["validate", "--dataset", str(dataset)])

    assert code == 5
    assert file in capsys.readouterr().err


def test_digests_are_checked_too(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes and digests that do not fit are problems of their own, whatever the content says."""
    (dataset / DATA).write_bytes((dataset / DATA).read_bytes() + b"\n")
    manifest = read_document(dataset / MANIFEST)
    manifest["files"][METADATA]["sha256"] = hashlib.sha256(b"").hexdigest()
    write_document(dataset / MANIFEST, manifest)
    (dataset / DATA).write_bytes((dataset / DATA).read_bytes()[:-1] + b" ")

    code = main(["validate", "--dataset", str(dataset)])
    capsys.readouterr()

    assert code == 5


def test_another_tokenizer_is_named(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tokenizer that gives other ids of the same lengths is told apart by its digest."""
    other = other_tokenizer(tmp_path / "other.json")

    code, found = checked(capsys, dataset, "--tokenizer", str(other))

    assert code == 5
    assert (MANIFEST, "tokenizer.sha256", None) in named(found)


def test_another_tokenizer_is_found_although_the_manifest_names_it(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the manifest edited to match, masters and prompts give other ids than were planned."""
    other = other_tokenizer(tmp_path / "other.json")
    stated(MANIFEST, "tokenizer.sha256", hashlib.sha256(other.read_bytes()).hexdigest())(dataset)
    stated(MANIFEST, "tokenizer.name", other.stem)(dataset)

    code, found = checked(capsys, dataset, "--tokenizer", str(other))

    assert code == 5
    masters = {(MANIFEST, f"masters[{group}].sha256_of_ids", None) for group in "AB"}
    prompts = {(METADATA, "prompt_fingerprint", row["request_id"]) for row in read_rows(dataset / DATA)}
    assert masters | prompts == named(found)


def test_a_data_set_of_another_version_is_held_to_itself(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What this version would plan says nothing there, but hits and watermarks still follow from lengths and lanes."""
    stated(MANIFEST, "generator_version", "foreword 0.0.1")(dataset)
    code, found = checked(capsys, dataset)
    assert (code, found["problems"], found["recomposed"]) == (0, [], 0)
    assert "foreword 0.0.1" in found["not_recomposed_because"]
    watermark = shift(METADATA, "cached_watermark_before", BLOCK, 5)(dataset)
    prompt = token(in_shared_part, fingerprint=True)(dataset)
    stated(MANIFEST, "groups.0.input_tokens", 1)(dataset)
    reseal(dataset)

    code, found = checked(capsys, dataset)

    assert code == 5
    assert named(found) >= {
        (METADATA, "cached_watermark_before", watermark),
        (DATA, "expected_hit_len_cold", prompt),
        (MANIFEST, "groups[A].input_tokens", None),
    }


def test_a_corpus_of_our_own_cannot_be_another_one(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever changes a prompt cannot keep it from being composed again by changing the built-in corpus's digest."""
    prompt = token(in_suffix, fingerprint=True)(dataset)
    stated(MANIFEST, "corpus.suffix.sha256", "0" * 64)(dataset)
    reseal(dataset)

    code, found = checked(capsys, dataset)

    assert code == 5
    assert (MANIFEST, "corpus.suffix.sha256", None) in named(found) or (DATA, "prompt", prompt) in named(found)


def test_people_read_the_same_problems(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json each problem is one line with file, request and field, and the verdict says how many."""
    request = put(METADATA, 21, request_class="none planned")(dataset)
    reseal(dataset)

    code = main(["validate", "--dataset", str(dataset)])

    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("foreword: ")]
    assert code == 5
    assert len(lines) == 1
    assert lines[0].startswith(f"foreword: {METADATA}: request {request}: request_class: ")
    assert captured.out.startswith("DAMAGED: 1 problems")
