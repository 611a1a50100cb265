"""Ranks and instances: what each is sent, what its own cache hits, and where the requests of a run really go."""

from __future__ import annotations

from collections import Counter
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
    replayed,
    small,
    write_config,
)
from tests.support.fake_openai import FakeOpenAI, served

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = {"cache_scope": "dp_local"}
FIVE = {"prefix": {"mode": "multi_prefix", "group_count": 5}, "target": {"hit_ratio": 0.25}}
ROUTINGS = {
    "bind": {**LOCAL, "dp_size": 3, "assignment": "bind"},
    "sticky": {**LOCAL, "dp_size": 3, "assignment": "sticky"},
    "round-robin": {**LOCAL, "dp_size": 3, "assignment": "round_robin"},
    "by-group": {**LOCAL, "assignment": "explicit", "ranks": {f"group_{k}": (k + 1) % 3 for k in range(5)}},
    "by-request": {**LOCAL, "assignment": "explicit", "ranks": [k % 3 for k in range(40)]},
    "by-send-order": {**LOCAL, "dp_size": 3, "assignment": "by_send_order"},
    "shared": {"cache_scope": "global", "dp_size": 3, "assignment": "round_robin"},
}


@pytest.mark.parametrize("routing", list(ROUTINGS.values()), ids=list(ROUTINGS))
def test_each_rank_hits_what_is_said_of_it(routing: dict[str, Any], tmp_path: Path) -> None:
    """RFC 2.7: the rows of the ranks are what replaying the written prompts through a cache a rank gives."""
    dataset = generate(tmp_path / "dataset", small(**FIVE, routing=routing))

    facts = read_rows(dataset / METADATA)
    hits = {name: hit for name, _, hit in replayed(dataset, warm=False)}
    ranks = read_document(dataset / MANIFEST)["ranks"]
    assert read_document(dataset / REPORT)["ranks"] == ranks
    for row in ranks:
        mine = [fact for fact in facts if fact["planned_dp_id"] == row["dp_id"]]
        assert row["request_count"] == len(mine)
        assert row["input_tokens"] == sum(fact["input_len"] for fact in mine)
        assert row["designed_hit_tokens"] == sum(hits[fact["request_id"]] for fact in mine)
        assert row["group_ids"] == sorted({fact["prefix_group_id"] for fact in mine})
        longest = Counter[str]()
        for fact in mine:
            group = fact["prefix_group_id"]
            longest[group] = max(longest[group], fact["planned_prefix_len"])
        assert row["final_watermark"] == (longest.total() if routing["cache_scope"] == "dp_local" else None)
    assert sum(row["request_count"] for row in ranks) == 40
    assert main(["validate", "--dataset", str(dataset)]) == 0


def test_groups_that_are_spread_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A group on three caches pays its cold start three times: a warning with the number, and a table of the ranks."""
    config = write_config(tmp_path / "config.yaml", small(**FIVE, routing=ROUTINGS["round-robin"]))

    assert main(["plan", "--config", str(config)]) == 0

    said = capsys.readouterr()
    assert "warning: groups are spread over ranks that share no cache: 10 more cold starts than groups" in said.err
    table = said.out.partition("  rank   groups   requests")[2].splitlines()[1:4]
    assert [line.split()[:2] for line in table] == [["0", "5"], ["1", "5"], ["2", "5"]]


def test_a_run_sends_each_request_to_its_instance(tmp_path: Path) -> None:
    """Addresses of the config's instances are defaults of a run; planned and actual route stand in each row."""
    servers = [FakeOpenAI(), FakeOpenAI()]
    with served(servers[0]) as first, served(servers[1]) as second:
        routing = {**LOCAL, "instances": [first, second], "assignment": "sticky"}
        document = small(**FIVE, routing=routing, prompt_format="completions_ids", block_size=4)
        dataset = generate(tmp_path / "dataset", document)
        manifest = (dataset / MANIFEST).read_text(encoding="utf-8")
        output = tmp_path / "run"
        arguments = ["run", "--dataset", str(dataset), "--config", str(tmp_path / "dataset.yaml")]

        code = main([*arguments, "--output", str(output), "--mode", "cold", "--isolation", "none"])

    assert code == 0
    assert "127.0.0.1" not in manifest
    assert read_document(dataset / MANIFEST)["routing"]["dp_size"] == 2
    rows = read_rows(output / "runtime" / "request_results.jsonl")
    assert {(row["planned_dp_id"], row["url_index"]) for row in rows} == {(0, 0), (1, 1)}
    sent = {row["request_id"]: row["prompt_token_ids"] for row in read_rows(dataset / DATA)}
    for index, server in enumerate(servers):
        mine = [sent[row["request_id"]] for row in rows if row["url_index"] == index]
        assert sorted(body["prompt"] for body in server.sent) == sorted(mine)
    assert [row["cached_tokens"] for row in rows] == [row["expected_hit_len"] for row in rows]
