"""A replay's config file and result files."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from foreword.config.replay import ReplayConfig
from foreword.errors import ConfigError
from foreword.simulate.replay import Replay
from foreword.store.replays import SAMPLED_ROWS, Export, SeriesChoice, load_replay_config, write_replay
from tests.support.replaying import document, group, instance, replayed, requests, row

if TYPE_CHECKING:
    from pathlib import Path


def rows_of(path: Path) -> list[list[str]]:
    """Header and rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_paths_of_a_config_are_relative_to_it(tmp_path: Path) -> None:
    """The trace and the results stand where the config's folder says; a dash stays standard input."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    config = load_replay_config(path)
    assert (config.trace_file_path, config.output_result_path) == (
        str(tmp_path / "trace.jsonl"),
        str(tmp_path / "results"),
    )

    path.write_text(json.dumps(document() | {"trace_file_path": "-"}), encoding="utf-8")
    assert load_replay_config(path).trace_file_path == "-"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON"),
        ("{'a': 1}", "no JSON"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": {"b": 1, "b": 2}}', "b is given twice"),
        ("[" * 100_000, "no JSON"),
        ("[]", "must be a JSON object"),
        ("\xff", "no JSON"),
    ],
)
def test_a_file_that_is_no_config_is_an_error_of_one_line(text: str, reason: str, tmp_path: Path) -> None:
    """Broken JSON, foreign numbers and repeated members are refused."""
    path = tmp_path / "r.json"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(ConfigError, match=reason) as caught:
        load_replay_config(path)

    assert "\n" not in str(caught.value)


def test_a_missing_config_is_named(tmp_path: Path) -> None:
    """The path stands in the message."""
    with pytest.raises(ConfigError, match=r"absent\.json"):
        load_replay_config(tmp_path / "absent.json")


def test_a_series_has_ratios_of_six_digits_and_only_of_instances_that_read(tmp_path: Path) -> None:
    """Ratios are written as C++ streams do; an instance without reads has no file."""
    config = document(group(instances=[instance("a"), instance("b")]))
    replay = replayed(config, [*requests("abab", "abab"), row("write", "x", at=3, name="b")])

    files = write_replay(replay, {"schema_version": 1}, output=tmp_path / "new", export=Export())

    assert [path.name for path in files] == ["a_hit_rates.csv", "summary.json"]
    assert (tmp_path / "new" / "a_hit_rates.csv").read_bytes().endswith(b",0.470588,4\n")
    header, first, second = rows_of(files[0])
    assert (first[header.index("HitRate")], second[header.index("HitRate")]) == ("0", "0.941176")


def test_a_sampled_series_ends_with_the_last_row(tmp_path: Path) -> None:
    """About a thousand rows, with the sums of all; the last row is that of the full series."""
    replay = replayed(document(), requests(*["ab"] * (2 * SAMPLED_ROWS + 1)))
    for choice in SeriesChoice:
        write_replay(replay, {}, output=tmp_path / choice, export=Export(choice))

    full = rows_of(tmp_path / "full" / "a_hit_rates.csv")
    sampled = rows_of(tmp_path / "sampled" / "a_hit_rates.csv")
    assert len(full) == 2 * SAMPLED_ROWS + 2
    assert SAMPLED_ROWS / 2 < len(sampled) <= SAMPLED_ROWS + 2
    assert (sampled[0], sampled[-1]) == (full[0], full[-1])
    assert sampled[1:] == [line for line in full if line in sampled[1:]]
    assert [path.name for path in (tmp_path / "none").iterdir()] == ["summary.json"]


def test_lives_have_one_row_each(tmp_path: Path) -> None:
    """A block that comes back has another life; lives that last end at the last time seen."""
    rows = [row("write", "a", at=1), row("get", "a", at=4), row("write", "b", at=6), row("write", "a", at=9)]
    replay = replayed(document(group(1)), rows, lifecycle=True)

    write_replay(replay, {}, output=tmp_path, export=Export(lifecycle=True))

    assert rows_of(tmp_path / "a_lifecycle.csv") == [
        ["BlockKey", "BirthTimeNs", "DeathTimeNs", "LifespanNs", "AccessCount", "LastAccessTimeNs", "IsAlive"],
        ["97", "1", "6", "5", "1", "4", "false"],
        ["98", "6", "9", "3", "0", "6", "false"],
        ["97", "9", "9", "0", "0", "9", "true"],
    ]


def test_templates_are_two_tables(tmp_path: Path) -> None:
    """Prefixes with their keys in quotes, and the template of each read."""
    replay = Replay(ReplayConfig.from_document(document()), templates=True)
    shared = "abcdefghij"
    for each in requests(*[shared + letter for letter in "wxyz"] * 3, "q"):
        replay.feed(each)
    replay.finish()

    write_replay(replay, {}, output=tmp_path, export=Export(SeriesChoice.NONE, templates=True))

    summary = rows_of(tmp_path / "a_template_prefix_summary.csv")
    assert summary[1][:6] == ["T0", "10", "4", "11", "110", "12"]
    assert summary[1][-1] == ", ".join(str(ord(letter)) for letter in shared)
    traces = rows_of(tmp_path / "a_template_prefix_traces.csv")
    assert traces[1][1:] == ["T0", "11", "0", "10", "0.909091"]
    assert traces[-1][1:] == ["NONE", "1", "0", "0", "0"]
