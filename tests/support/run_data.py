"""Small data sets written by hand, with the five files of the contract."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 4


@dataclass(frozen=True)
class Planned:
    """One request as a test plans it: ``shared`` tokens of its group's master, ``length`` in all."""

    group: str
    shared: int
    length: int
    cold: int
    dp: int = 0


# two groups; hits by hand for blocks of 4: the watermark of a lane is the longest shared prefix sent before
SMALL = (
    Planned("a", shared=8, length=16, cold=0),
    Planned("b", shared=4, length=12, cold=0),
    Planned("a", shared=8, length=20, cold=8),
    Planned("a", shared=12, length=20, cold=8),
    Planned("b", shared=4, length=12, cold=4),
)
SMALL_COLD_HITS, SMALL_HOT_HITS, SMALL_TOKENS = 20, 36, 80


def token_ids(number: int, plan: Planned) -> list[int]:
    """Prompt of a request (number below 60): its group's master, then ids of its own, all below 8,192."""
    master = [400 * (ord(plan.group) - ord("a") + 1) + position for position in range(plan.shared)]
    return master + [2000 + 100 * number + position for position in range(plan.length - plan.shared)]


def write_dataset(folder: Path, plans: tuple[Planned, ...] = SMALL, **changes: object) -> Path:
    """Write a data set; ``changes`` replace keys of the manifest. Text prompts are the ids as words."""
    folder.mkdir(parents=True, exist_ok=True)
    prompt_format = str(changes.get("prompt_format", "completions_ids"))
    _write_lines(folder / "data.jsonl", [_data_row(number, plan, prompt_format) for number, plan in enumerate(plans)])
    _write_lines(folder / "request_metadata.jsonl", [_meta_row(number, plan) for number, plan in enumerate(plans)])
    _write_lines(folder / "warmup.jsonl", _warmup_rows(plans, prompt_format))
    manifest = {
        "schema_version": 1,
        "state": "complete",
        "dataset_id": "small",
        "request_count": len(plans),
        "block_size": BLOCK,
        "execution_mode": "compare",
        "prompt_format": "completions_ids",
        "engine": {"name": "generic", "hit_rule": "cap_then_floor"},
        "routing": {"cache_scope": "global", "dp_size": 1},
        "config": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    (folder / "validation_report.json").write_text(json.dumps({"schema_version": 1, "status": "PASS"}))
    return folder


def _data_row(number: int, plan: Planned, prompt_format: str) -> dict[str, object]:
    return {
        "request_id": f"r{number}",
        **_prompt(token_ids(number, plan), prompt_format),
        "max_tokens": 3,
        "prefix_group_id": plan.group,
    }


def _prompt(ids: list[int], prompt_format: str) -> dict[str, object]:
    if prompt_format == "completions_ids":
        return {"prompt_token_ids": ids}
    return {"prompt": " ".join(str(token) for token in ids)}


def _meta_row(number: int, plan: Planned) -> dict[str, object]:
    return {
        "request_id": f"r{number}",
        "prefix_group_id": plan.group,
        "order_index": number,
        "planned_dp_id": plan.dp,
        "input_len": plan.length,
        "planned_prefix_len": plan.shared,
        "expected_hit_len": plan.cold,
        "expected_hit_len_cold": plan.cold,
        "expected_hit_len_hot": plan.shared,
    }


def _warmup_rows(plans: tuple[Planned, ...], prompt_format: str) -> list[dict[str, object]]:
    lanes: dict[tuple[str, int], Planned] = {}
    for plan in plans:
        lane = (plan.group, plan.dp)
        if lane not in lanes or lanes[lane].shared < plan.shared:
            lanes[lane] = plan
    rows: list[dict[str, object]] = []
    for number, plan in enumerate(lanes.values()):
        longest = Planned(plan.group, plan.shared, plan.shared + BLOCK + 1, cold=0, dp=plan.dp)
        rows.append(
            {
                "request_id": f"w{number}",
                **_prompt(token_ids(50 + number, longest), prompt_format),
                "max_tokens": 2,
                "prefix_group_id": plan.group,
                "planned_dp_id": plan.dp,
                "input_len": longest.length,
                "planned_prefix_len": plan.shared,
            }
        )
    return rows


def _write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
