"""What plan, generate and validate say when they cannot do what is asked: one line and the right exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from foreword.cli.app import main
from tests.support.datasets import (
    DATA,
    MANIFEST,
    METADATA,
    REPORT,
    generate,
    read_document,
    read_rows,
    small,
    write_config,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_TOKENIZER = "nowhere/tokenizer.json"
LIMIT_S = 120.0


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines on stderr that are no progress."""
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if not line.startswith(("generating: ", "validating: "))]


def attempt(tmp_path: Path, document: dict[str, Any], *flags: str) -> int:
    """Exit code of ``foreword generate`` into ``tmp_path/dataset``."""
    config = write_config(tmp_path / "config.yaml", document)
    return main(["generate", "--config", str(config), "--output", str(tmp_path / "dataset"), *flags])


def refused(capsys: pytest.CaptureFixture[str], code: int, expected: int, *words: str) -> None:
    """One line with these words, and the exit code."""
    lines = said(capsys)
    assert (code, len(lines)) == (expected, 1), lines
    assert lines[0].startswith("foreword: ")
    assert [word for word in words if word not in lines[0]] == []


def test_an_unreachable_target_still_gives_the_nearest_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, the bound and what would help are printed, and the data set with the most hits is there and valid."""
    code = attempt(tmp_path, small(target={"hit_ratio": 0.8}))

    out = capsys.readouterr().out
    dataset = tmp_path / "dataset"
    report = read_document(dataset / REPORT)
    assert code == 3
    assert out.startswith("FAIL")
    assert "reachable" in out.splitlines()[1]
    assert (report["status"], report["reason"]) == ("FAIL", "TARGET_UNREACHABLE")
    assert report["designed_hit_ratio"] == report["max_reachable_hit_ratio"]
    assert report["suggestions"]
    assert all(item["max_reachable_hit_ratio"] > report["max_reachable_hit_ratio"] for item in report["suggestions"])
    assert main(["validate", "--dataset", str(dataset)]) == 0
    told = capsys.readouterr()
    assert "VALID" in told.out
    assert "warning: the data set misses its target (TARGET_UNREACHABLE): " in told.err


def test_a_suggestion_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of requests from which a target is said to be reachable is one with which it is."""
    document = small(target={"hit_ratio": 0.87}, input_length=160)
    attempt(tmp_path, document)
    report = read_document(tmp_path / "dataset" / REPORT)
    capsys.readouterr()
    promised = [one for one in report["suggestions"] if one["field"] == "request_count"]
    wanted = int("".join(filter(str.isdigit, promised[0]["text"])))

    code = main(["plan", "--config", str(write_config(tmp_path / "more.yaml", {**document, "request_count": wanted}))])

    assert code == 0


@pytest.mark.parametrize("on_failure", ["error", "warn"])
def test_a_config_may_only_warn_of_failure(on_failure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With validation.on_failure: warn an unreachable target is no failure of the command."""
    document = small(target={"hit_ratio": 0.95}, validation={"on_failure": on_failure})

    assert attempt(tmp_path, document) == {"error": 3, "warn": 0}[on_failure]


SANE = {
    "target-0": ({"target": {"hit_ratio": 0}}, 0, 0),
    "target-0-warmed": ({"target": {"hit_ratio": 0, "semantics": "static_prefix_ratio"}}, 0, 0),
    "one-request-per-group": ({"prefix": {"mode": "multi_prefix", "group_count": 40}}, 3, 0),
    "lengths-below-a-block": ({"input_length": 9}, 3, 0),
    "lengths-below-a-block-for-nothing": ({"input_length": 9, "target": {"hit_ratio": 0}}, 0, 0),
    "length-1": ({"input_length": 1, "target": {"hit_ratio": 0}}, 0, 0),
    "length-1-ids": ({"input_length": 1, "target": {"hit_ratio": 0}, "prompt_format": "completions_ids"}, 0, 0),
    "one-request": ({"request_count": 1, "prefix": {}, "request_order": {}, "target": {"hit_ratio": 0}}, 0, 0),
    "target-1": ({"target": {"hit_ratio": 1}, "prefix": {}, "request_order": {}, "input_length": 33}, 3, 39 * 16),
    "target-1-warmed": ({"target": {"hit_ratio": 1, "semantics": "static_prefix_ratio"}, "input_length": 33}, 3, 640),
}


@pytest.mark.parametrize(("changes", "expected", "hits"), list(SANE.values()), ids=list(SANE))
def test_an_extreme_config_has_a_sane_result(
    changes: dict[str, Any], expected: int, hits: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to share gives no hits, everything gives what the last token leaves; either data set is valid."""
    code = attempt(tmp_path, small(**changes))

    assert code == expected
    assert read_document(tmp_path / "dataset" / MANIFEST)["theoretical_result"]["designed_hit_tokens"] == hits
    assert len(read_rows(tmp_path / "dataset" / DATA)) == small(**changes)["request_count"]
    assert main(["validate", "--dataset", str(tmp_path / "dataset")]) == 0
    assert [line for line in said(capsys) if not line.startswith("warning: ")] == []


REFUSED_CONFIGS = {
    "unknown-key": ({"input_lenght": 3}, 2, "input_lenght", "did you mean input_length"),
    "unknown-key-below": ({"target": {"hit_ration": 0.5}}, 2, "target.hit_ration", "did you mean hit_ratio"),
    "missing-chat-template": ({"prompt_format": "chat", "chat_template": "no.jinja"}, 2, "no.jinja", ".jinja file"),
    "template-without-chat": ({"chat_template": "my.jinja"}, 2, "prompt_format: chat"),
    "frame-for-ids": ({"prompt_format": "completions_ids", "frame": {"head_ids": [1]}}, 2, "frame"),
    "target-above-1": ({"target": {"hit_ratio": 1.5}}, 2, "target.hit_ratio", "1.5"),
    "no-requests": ({"request_count": 0}, 2, "request_count"),
    "too-long-for-the-model": ({"max_model_len": 100}, 2, "max_model_len 100"),
    "missing-tokenizer": ({"tokenizer": NO_TOKENIZER}, 2, NO_TOKENIZER),
    "hub-without-revision": ({"tokenizer": "hub:name"}, 2, "hub:NAME@REV"),
    "source-without-path": ({"suffix": {"source": "text"}}, 2, "suffix.path"),
    "gsm8k-without-path": ({"suffix": {"source": "gsm8k"}}, 2, "suffix.path"),
    "lengths-from-a-missing-file": ({"input_length": {"mode": "empirical", "path": "no.csv"}}, 2, "no.csv"),
}


@pytest.mark.parametrize(
    ("changes", "code", "words"), [(c[0], c[1], c[2:]) for c in REFUSED_CONFIGS.values()], ids=list(REFUSED_CONFIGS)
)
def test_a_config_that_cannot_be_used_leaves_no_folder(
    changes: dict[str, Any], code: int, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the key or the file, and nothing was written."""
    refused(capsys, attempt(tmp_path, small(**changes)), code, *words)

    assert not (tmp_path / "dataset").exists()


CORPORA = {
    "empty": (b"", "holds no text", "1"),
    "empty-in-workers": (b"", "holds no text", "2"),
    "blank": (b"\n\n  \n", "holds no text", "1"),
    "too-small": (b"Hi", "CORPUS_TOO_SMALL", "1"),
    "binary": (bytes(range(256)) * 40, "CORPUS_TOO_SMALL", "1"),
    "missing": (None, "corpus.txt", "1"),
}


@pytest.mark.parametrize(("content", "words", "workers"), list(CORPORA.values()), ids=list(CORPORA))
def test_a_useless_corpus_is_refused(
    content: bytes | None, words: str, workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text source that is empty, missing or too small is named on one line, from any process."""
    path = tmp_path / "corpus.txt"
    if content is not None:
        path.write_bytes(content)

    code = attempt(tmp_path, small(suffix={"source": "text", "path": str(path)}), "--workers", workers)

    assert code in {2, 3, 5}
    refused(capsys, code, code, words)


def test_a_failed_attempt_is_no_obstacle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a typo in the corpus the same command with the right file works without --overwrite."""
    assert attempt(tmp_path, small(suffix={"source": "text", "path": "typo.txt"})) != 0

    assert attempt(tmp_path, small()) == 0


def test_overwriting_keeps_the_old_data_set_until_there_is_a_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --overwrite a typo in the corpus costs nothing."""
    attempt(tmp_path, small())
    before = (tmp_path / "dataset" / DATA).read_bytes()

    assert attempt(tmp_path, small(suffix={"source": "text", "path": "typo.txt"}), "--overwrite") != 0

    assert (tmp_path / "dataset" / DATA).read_bytes() == before
    assert main(["validate", "--dataset", str(tmp_path / "dataset")]) == 0


NO_TOKENIZERS = {
    "html": "<html><body>404 not found</body></html>",
    "json": '{"a": 1}',
    "list": "[1]",
    "empty": "",
    "no-vocabulary": '{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
}


@pytest.mark.parametrize("text", list(NO_TOKENIZERS.values()), ids=list(NO_TOKENIZERS))
def test_a_file_that_is_no_tokenizer_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page, any JSON, or a tokenizer without words is no tokenizer; exit 2."""
    path = tmp_path / "downloaded.json"
    path.write_text(text, encoding="utf-8")

    refused(capsys, attempt(tmp_path, small(), "--tokenizer", str(path)), 2)


SETTINGS = {
    "target": "path.to.key=value",
    "=1": "path.to.key=value",
    "target.hit_ratio=many": "target.hit_ratio",
    "target.hit_ratio=[1": "not YAML",
    "seed.x=1": "seed holds a value",
    "targett.hit_ratio=1": "targett",
}


@pytest.mark.parametrize(("setting", "words"), list(SETTINGS.items()))
def test_a_bad_override_is_named(setting: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--set says what it expects, or which key cannot be set."""
    refused(capsys, attempt(tmp_path, small(), "--set", setting), 2, words)


YAML = {
    "open-bracket": (b"prefix_cache_dataset:\n  a: [1\n  b: 2\n", "config.yaml:3"),
    "tab": (b"prefix_cache_dataset:\n\ta: 1\n", "config.yaml:2"),
    "two-documents": (b"a: 1\n---\nb: 2\n", "config.yaml:2"),
    "python-object": (b"prefix_cache_dataset: !!python/object:os.system x\n", "config.yaml:1"),
    "key-twice": (b"prefix_cache_dataset:\n  a: 1\n  a: 2\n", "config.yaml:3: key a is given twice"),
    "list-as-key": (b"? [1, 2]\n: 3\n", "config.yaml:1"),
    "empty": (b"", "prefix_cache_dataset is missing"),
    "list": (b"- 1\n", "prefix_cache_dataset is missing"),
    "no-keys": (b"prefix_cache_dataset:\n", "no keys below"),
    "other-root": (b"dataset: {}\n", "prefix_cache_dataset is missing"),
    "utf-16": ("prefix_cache_dataset: {}".encode("utf-16"), "not UTF-8"),
    "control-character": (b"a: \x01\n", "config.yaml"),
}


@pytest.mark.parametrize("command", ["plan", "generate"])
@pytest.mark.parametrize(("content", "words"), list(YAML.values()), ids=list(YAML))
def test_broken_yaml_is_named_with_its_line(
    content: bytes, words: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A config that is no YAML, or no config, gives the file and where it can the line."""
    (tmp_path / "config.yaml").write_bytes(content)
    output = ["--output", str(tmp_path / "dataset")] if command == "generate" else []

    refused(capsys, main([command, "--config", str(tmp_path / "config.yaml"), *output]), 2, words)


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_config_that_is_no_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing config, or a folder in its place, is exit 2."""
    refused(capsys, main(["plan", "--config", str(tmp_path / name)]), 2, "cannot be read")


@pytest.mark.parametrize("below", ["a-file/dataset", "a-file", "/proc/nowhere", "/dev/null/dataset"])
def test_an_output_that_cannot_be_made(below: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file in the way, or a place that takes no folders, is named; exit 2."""
    (tmp_path / "a-file").write_text("mine", encoding="utf-8")
    config = write_config(tmp_path / "config.yaml", small())

    code = main(["generate", "--config", str(config), "--output", str(tmp_path / below)])

    refused(capsys, code, 2, below)
    assert (tmp_path / "a-file").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are no data set are never touched, not even with --overwrite; a data set only with it."""
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "thesis.txt").write_text("mine", encoding="utf-8")

    refused(capsys, attempt(tmp_path, small()), 2, "not empty")
    refused(capsys, attempt(tmp_path, small(), "--overwrite"), 2, "not empty")
    assert [path.name for path in (tmp_path / "dataset").iterdir()] == ["thesis.txt"]
    (tmp_path / "dataset" / "thesis.txt").unlink()
    assert attempt(tmp_path, small()) == 0
    refused(capsys, attempt(tmp_path, small(seed=8)), 2, "--overwrite")
    assert read_document(tmp_path / "dataset" / MANIFEST)["seed"] == 7
    assert attempt(tmp_path, small(seed=8), "--overwrite") == 0
    assert read_document(tmp_path / "dataset" / MANIFEST)["seed"] == 8


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--workers", "0"], "--workers"),
        (["--workers", "many"], "--workers"),
        (["--proof", "some"], "--proof"),
        (["--proof-engine", "tiktoken"], "--proof full"),
        (["--colour", "red"], "--colour"),
        (["--corpus", "stories.txt"], "builtin reads no file"),
    ],
)
def test_a_flag_that_does_not_fit(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flags that are unknown, out of range or without effect are named; exit 2."""
    refused(capsys, attempt(tmp_path, small(suffix={"source": "builtin"}), *flags), 2, words)


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_validate_needs_a_data_set(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no folder of a data set is said to be none; exit 5."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}", encoding="utf-8")

    refused(capsys, main(["validate", "--dataset", str(tmp_path / name)]), 5, "manifest.json")


def test_validate_needs_the_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A data set of another tokenizer's file, which the manifest names without its folder, asks for it."""
    dataset = generate(tmp_path / "dataset", small())
    manifest = read_document(dataset / MANIFEST)
    manifest["config"]["tokenizer"] = "tokenizer-of-mine.json"
    (dataset / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    capsys.readouterr()

    refused(capsys, main(["validate", "--dataset", str(dataset)]), 2, "tokenizer-of-mine.json", "--tokenizer")


@pytest.mark.parametrize("command", ["plan", "generate", "validate"])
def test_json_is_all_that_stands_on_stdout(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints one object and nothing else, for a target that cannot be met too."""
    document = small(target={"hit_ratio": 0.95})
    code = {"plan": 3, "generate": 3, "validate": 0}[command]
    config = str(write_config(tmp_path / "config.yaml", document))
    if command == "validate":
        attempt(tmp_path, document)
        capsys.readouterr()
    dataset = str(tmp_path / "dataset")
    flags = {"plan": ["--config", config], "generate": ["--config", config, "--output", dataset]}

    found = main([command, *flags.get(command, ["--dataset", dataset]), "--json"])

    captured = capsys.readouterr()
    assert found == code
    assert isinstance(json.loads(captured.out), dict)
    assert captured.err == ""


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(descendant for child in children for descendant in family(int(child)))]


def running(pids: list[int]) -> list[int]:
    """Those that still run."""
    return [pid for pid in pids if _state(pid) not in {"", "Z", "X"}]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_for(condition: Iterator[bool]) -> None:
    """Look until something holds."""
    end = time.monotonic() + LIMIT_S
    pause = time.sleep
    while not next(condition):
        assert time.monotonic() < end, "it never happened"
        pause(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
@pytest.mark.parametrize(("workers", "how"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGKILL)])
def test_stopped_in_the_middle(workers: int, how: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C is one line and exit 130; after it, and after a kill, nothing runs on and the data set is incomplete."""
    config = write_config(tmp_path / "config.yaml", small(request_count=60_000, input_length=600))
    dataset = tmp_path / "dataset"
    command = [sys.executable, "-m", "foreword", "generate", "--config", str(config), "--output", str(dataset)]
    growing = dataset / f"{METADATA}.partial"
    with subprocess.Popen(
        [*command, "--workers", str(workers)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as program:
        wait_for(program.poll() is not None or (growing.exists() and growing.stat().st_size > 0) for _ in iter(int, 1))
        started = family(program.pid)
        assert program.poll() is None

        if how is signal.SIGINT:
            os.killpg(program.pid, how)
        else:
            os.kill(program.pid, how)

        errors = program.communicate(timeout=LIMIT_S)[1].decode().splitlines()
    wait_for(not running(started) for _ in iter(int, 1))
    if how is signal.SIGINT:
        assert program.returncode == 130
        assert [line for line in errors if not line.startswith("generating: ")] == ["foreword: interrupted"]
    assert read_document(dataset / MANIFEST)["state"] == "incomplete"
    assert main(["validate", "--dataset", str(dataset)]) == 5
