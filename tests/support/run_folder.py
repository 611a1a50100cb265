"""Synthetic run folders, written as the file formats say, with hits from a cache of plain sets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

MS = 1_000_000


@dataclass(frozen=True, slots=True)
class RunShape:
    """What a folder is to hold; the server may differ from the plan."""

    mode: str = "progressive_prefix_fill"
    semantics: str = "order_aware_global"
    groups: tuple[str, ...] = ("A", "B", "C")
    requests: int = 60
    block_size: int = 16
    server_block_size: int | None = 16
    added_tokens: int = 0
    dp_size: int = 1
    target: float = 0.5
    in_flight: int = 1
    lost_visibility: bool = False
    fails: Callable[[int], bool] = lambda _at: False
    drops: Callable[[int], bool] = lambda _at: False
    usage: bool = True
    omits_zeros: bool = False
    counters: bool = True
    residual_tokens: int = 0
    reports_block_size: bool = True
    runs: str | None = None
    state: str = "complete"
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """One request of the synthetic plan."""

    at: int
    request_id: str
    group: str
    dp: int
    input_len: int
    prefix_len: int


class SetCache:
    """An unbounded cache as a set of (domain, group, token position): what a prefix cache means."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.blocks: dict[tuple[int, str], set[int]] = {}

    def lookup(self, one: Planned, added: int = 0) -> int:
        """Leading cached tokens in whole blocks, never the whole prompt."""
        cached = self.blocks.get((one.dp, one.group), set())
        hit = len(cached.intersection(range(one.prefix_len + added)))
        return min(hit, one.input_len + added - 1) // self.block_size * self.block_size

    def write(self, one: Planned, added: int = 0) -> None:
        """Cache the shared tokens of a request."""
        self.blocks.setdefault((one.dp, one.group), set()).update(range(one.prefix_len + added))


def make_plan(shape: RunShape) -> list[Planned]:
    """Requests with growing lengths, groups interleaved; of many shares the one that meets the target best."""
    return list(
        _best_plan(shape.groups, shape.requests, shape.block_size, shape.dp_size, (shape.target, _designed_hot(shape)))
    )


@lru_cache
def _best_plan(
    groups: tuple[str, ...], requests: int, block_size: int, dp_size: int, target: tuple[float, bool]
) -> tuple[Planned, ...]:
    shape = RunShape(groups=groups, requests=requests, block_size=block_size, dp_size=dp_size)
    plans = [_plan_of_share(shape, share / 500) for share in range(25, 475)]

    def miss(plan: list[Planned]) -> float:
        hits = serial_hits(plan, block_size, warm_rows(plan) if target[1] else ())
        return abs(sum(hits) / sum(one.input_len for one in plan) - target[0])

    best: list[Planned] = min(plans[:: max(1, requests // 60)], key=miss)
    return tuple(best)


def _designed_hot(shape: RunShape) -> bool:
    return shape.mode in {"warmup", "hot"} or (shape.mode == "compare" and shape.semantics == "static_prefix_ratio")


def _plan_of_share(shape: RunShape, share: float) -> list[Planned]:
    rows = []
    for at in range(shape.requests):
        group = shape.groups[at % len(shape.groups)]
        input_len = 160 + 48 * (at // len(shape.groups)) % 2400 + 7 * (at % 5)
        prefix = int(input_len * share) // shape.block_size * shape.block_size
        dp = at // len(shape.groups) % shape.dp_size
        rows.append(Planned(at, f"r{at:05d}", group, dp, input_len, prefix))
    return rows


def serial_hits(plan: Iterable[Planned], block_size: int, warm: Iterable[Planned] = ()) -> list[int]:
    """Hits of requests one by one."""
    cache = SetCache(block_size)
    for one in warm:
        cache.write(one)
    hits = []
    for one in plan:
        hits.append(cache.lookup(one))
        cache.write(one)
    return hits


def warm_rows(plan: Iterable[Planned]) -> list[Planned]:
    """The longest request of each lane."""
    longest: dict[tuple[str, int], Planned] = {}
    for one in plan:
        key = (one.group, one.dp)
        if key not in longest or longest[key].prefix_len < one.prefix_len:
            longest[key] = one
    return list(longest.values())


def write_run(folder: Path, shape: RunShape) -> Path:
    """Write a run folder and return it."""
    plan = make_plan(shape)
    cold = serial_hits(plan, shape.block_size)
    hot = serial_hits(plan, shape.block_size, warm_rows(plan))
    (folder / "dataset").mkdir(parents=True)
    (folder / "runtime").mkdir()
    _write_dataset(folder / "dataset", shape, plan, cold, hot, hot if _designed_hot(shape) else cold)
    _write_runtime(folder / "runtime", shape, plan)
    return folder


def _write_dataset(
    folder: Path, shape: RunShape, plan: list[Planned], cold: list[int], hot: list[int], designed: list[int]
) -> None:
    rows = []
    top: dict[tuple[str, int], int] = {}
    for one, c, h, d in zip(plan, cold, hot, designed, strict=True):
        lane = (one.group, one.dp)
        before = top.get(lane, 0)
        after = top[lane] = max(before, one.prefix_len)
        kind = "first of lane" if before == 0 else "extends the lane" if one.prefix_len > before else "full hit"
        rows.append(
            {
                "request_id": one.request_id, "prefix_group_id": one.group, "order_index": one.at,
                "planned_dp_id": one.dp, "input_len": one.input_len, "planned_prefix_len": one.prefix_len,
                "cached_watermark_before": before, "expected_hit_len": d, "expected_hit_ratio": d / one.input_len,
                "cached_watermark_after": after, "new_cached_len": after - before, "divergence_len": 16,
                "suffix_len": one.input_len - one.prefix_len - 16, "expected_hit_len_cold": c,
                "expected_hit_len_hot": h, "request_class": kind, "collision_status": "ok",
            }
        )  # fmt: skip
    _jsonl(folder / "request_metadata.jsonl", rows)
    (folder / "manifest.json").write_text(json.dumps(_manifest(shape, plan, sum(designed))))


def _manifest(shape: RunShape, plan: list[Planned], hits: int) -> dict[str, Any]:
    total = sum(one.input_len for one in plan)
    groups = [
        {
            "group_id": group, "request_count": sum(one.group == group for one in plan),
            "master_prefix_len": max(one.prefix_len for one in plan if one.group == group),
            "input_tokens": (tokens := sum(one.input_len for one in plan if one.group == group)),
            "target_hit_tokens": tokens * shape.target, "designed_hit_tokens": 0,
            "max_reachable_hit_ratio": 0.91, "cold_start_loss": 512,
        }
        for group in shape.groups
    ]  # fmt: skip
    deviation = hits / total - shape.target
    status = "PASS" if abs(deviation) <= 0.01 else "PASS_WITH_WARNING" if abs(deviation) <= 0.02 else "FAIL"
    return {
        "schema_version": 1, "state": "complete", "dataset_id": "demo-set", "generator_version": "0.1.0",
        "seed": 42, "tokenizer": {"name": "/home/someone/models/qwen/tokenizer.json", "sha256": "ab" * 32},
        "block_size": shape.block_size, "request_count": len(plan), "execution_mode": shape.mode,
        "semantics": shape.semantics, "prompt_format": "completions_text",
        "engine": {"name": "vllm", "hit_rule": "cap_then_floor"}, "frame": {"head_len": 0, "tail_len": 0},
        "target": {"scope": "global", "hit_ratio": shape.target}, "input_length": {"mode": "explicit"},
        "prefix": {"mode": "multi_prefix", "group_count": len(shape.groups), "minimum_non_shared_length": 16},
        "routing": {"cache_scope": "dp_local" if shape.dp_size > 1 else "global", "dp_size": shape.dp_size},
        "groups": groups, "reencode": {"level": "window", "checked": 200, "checked_full": 20, "wrong": 0},
        "theoretical_result": {
            "target_hit_ratio": shape.target, "designed_hit_ratio": hits / total, "signed_deviation": deviation,
            "absolute_deviation": abs(deviation), "max_reachable_hit_ratio": 0.93, "validation_status": status,
            "reason": "OK" if status != "FAIL" else "GRANULARITY", "designed_hit_tokens": hits, "input_tokens": total,
        },
        "later_field": {"of": "another release"},
    }  # fmt: skip


def _write_runtime(folder: Path, shape: RunShape, plan: list[Planned]) -> None:
    names = {"compare": ["cold", "hot"], "warmup": ["hot"], "hot": ["hot"]}.get(shape.runs or shape.mode, ["cold"])
    rows: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    performance: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    clock = 0
    for name in names:
        done, clock = _one_pass(shape, plan, name, clock)
        if name == "hot":
            rows += [_row(one, "warmup", clock, clock + MS, ok=True) for one in warm_rows(plan)]
        rows += done
        metrics.append(_counters(shape, name, done))
        performance.append(_performance(name, done))
        samples += [
            {"t_ns": row["sent_ns"], "pass": name, "kv_cache_usage": 0.1 + 0.6 * at / len(done), "running": 1}
            for at, row in enumerate(done[::4])
        ]
    _jsonl(folder / "request_results.jsonl", rows)
    (folder / "performance_metrics.json").write_text(json.dumps({"schema_version": 1, "passes": performance}))
    if shape.counters:
        cache_metrics = {
            "schema_version": 1, "engine": {"name": "vllm", "version": "0.32.0", "detected_by": "names"},
            "block_size_reported": shape.server_block_size if shape.reports_block_size else None,
            "passes": metrics, "usage_samples": samples,
            "absent": ["external_hits"],
        }  # fmt: skip
        (folder / "prefix_cache_metrics.json").write_text(json.dumps(cache_metrics))
    run = {
        "schema_version": 1, "foreword_version": "0.1.0", "dataset_id": "demo-set", "mode": shape.runs or shape.mode,
        "concurrency": shape.in_flight, "urls": ["http://***:8000"] * shape.dp_size, "state": shape.state,
        "started_utc": "2026-03-01T12:00:00Z", "model": "qwen3-8b", "salts": {"cold": "9f0c"},
        "isolation": {"applied": "salt", "salt_probe": "honoured"}, **shape.extra,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))


def _one_pass(shape: RunShape, plan: list[Planned], name: str, clock: int) -> tuple[list[dict[str, Any]], int]:
    cache = SetCache(shape.server_block_size or shape.block_size)
    for one in warm_rows(plan) if name == "hot" else ():
        cache.write(one, shape.added_tokens)
    for group in shape.groups if shape.residual_tokens else ():
        cache.blocks[0, group] = set(range(shape.residual_tokens))
    rows, waiting = [], []
    for one in plan:
        if shape.drops(one.at):
            continue
        start = clock + one.at // shape.in_flight * 60 * MS
        ok = not shape.fails(one.at)
        hit = cache.lookup(one, shape.added_tokens)
        row = _row(one, name, start, start + (4 + (one.input_len - hit) // 40) * MS, ok=ok)
        if ok and shape.usage:
            told = None if shape.omits_zeros and hit == 0 else hit
            row |= {"prompt_tokens": one.input_len + shape.added_tokens, "cached_tokens": told}
        rows.append(row)
        waiting += [one] if ok else []
        if not shape.lost_visibility or (one.at + 1) % shape.in_flight == 0:
            for earlier in waiting:
                cache.write(earlier, shape.added_tokens)
            waiting = []
        row["_hit"] = hit if ok else 0
        row["_tokens"] = one.input_len + shape.added_tokens if ok else 0
    return rows, clock + (len(plan) + 4) * 60 * MS


def _row(one: Planned, name: str, sent: int, first: int, *, ok: bool) -> dict[str, Any]:
    row = {
        "request_id": one.request_id, "pass": name, "order_index": one.at, "prefix_group_id": one.group,
        "planned_dp_id": one.dp, "url_index": one.dp, "ok": ok, "error": None if ok else "Bearer sk-secret refused",
        "error_kind": None if ok else "timeout", "http_status": 200 if ok else None, "due_ns": sent, "sent_ns": sent,
        "first_token_ns": first if ok else None, "last_token_ns": first + 5 * MS if ok else None,
        "done_ns": first + 6 * MS, "token_ns": [first, first + 5 * MS], "chunk_tokens": None,
        "input_len": one.input_len, "prompt_tokens": None, "completion_tokens": 8 if ok else None,
        "cached_tokens": None, "expected_hit_len": 0, "max_tokens": 8, "finish_reason": "length",
        "connection_retries": 0,
    }  # fmt: skip
    return row | ({"request_id": f"warm-{one.group}-{one.dp}"} if name == "warmup" else {})


def _counters(shape: RunShape, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    ranks = {
        str(dp): {
            "queries_delta": (tokens := sum(row["_tokens"] for row in rows if row["planned_dp_id"] == dp)),
            "hits_delta": (hits := sum(row["_hit"] for row in rows if row["planned_dp_id"] == dp)),
            "hit_rate": hits / max(tokens, 1),
        }
        for dp in range(shape.dp_size)
    }
    queries = sum(row["_tokens"] for row in rows)
    hits = sum(row["_hit"] for row in rows)
    return {
        "pass": name, "before_ns": 0, "after_ns": 1, "endpoints": [{"url_index": 0, "series_by_rank": ranks}],
        "queries_delta": queries, "hits_delta": hits, "actual_hit_rate": hits / max(queries, 1), "unit": "tokens",
        "external_queries_delta": None, "external_hits_delta": None, "prompt_tokens_delta": queries,
        "preemptions_delta": 0, "restarts": [],
    }  # fmt: skip


def _performance(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    ok = [row for row in rows if row["ok"]]
    times = sorted((row["first_token_ns"] - row["due_ns"]) / MS for row in ok)

    def spread(scale: float) -> dict[str, Any]:
        values = [value * scale for value in times]
        if not values:
            return {"unit": "ms", "count": 0} | dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "min", "max"))
        pick = {f"p{q}": values[min(len(values) - 1, len(values) * q // 100)] for q in (50, 90, 95, 99)}
        return {"unit": "ms", "count": len(ok), "mean": sum(values) / len(values), "min": values[0], **pick}

    return {
        "pass": name, "counts": {"requests": len(rows), "ok": len(ok)}, "duration_s": 1.24, "TTFT": spread(1),
        "TPOT": spread(0.02), "ITL": spread(0.021), "E2EL": spread(1.4), "request_throughput_per_s": 48.3,
        "output_token_throughput_per_s": 386.4, "input_token_throughput_per_s": 30_400.0, "qps": 48.3,
        "success_rate": len(ok) / max(len(rows), 1), "timeout_rate": 1 - len(ok) / max(len(rows), 1),
        "client": {"loop_lag_ms_p99": 0.4, "send_lag_ms_p99": 0.7},
    }  # fmt: skip


def _jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    visible = ({key: value for key, value in row.items() if not key.startswith("_")} for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in visible))
