"""What is written about a design: the manifest, the validation report and one row a request (RFC 3.3.16, 3.3.17).

Plain values, ready for JSON. No clock, host, path or worker count appears, so that equal inputs give equal bytes
(Law 7); ratios are token-weighted and lie between 0 and 1.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from foreword._version import __version__
from foreword.simulate.forecast import client_of, forecast
from foreword.simulate.predict import CLASSES
from foreword.terms import request_id
from foreword.workload.lengths import bin_counts
from foreword.workload.plan import private_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from foreword.config.dataset import DatasetConfig
    from foreword.simulate.design import Design, GroupDesign
    from foreword.terms import BoolArray, IntArray

SCHEMA_VERSION = 1
_PERCENTILES = (50, 90, 95, 99)


def request_rows(design: Design, start: int, *, stop: int) -> Iterator[dict[str, Any]]:
    """Metadata of the requests at send positions ``[start, stop)``."""
    marks = design.prediction.cold if design.designed_cold else design.prediction.hot
    prompts, block = design.prompts, design.facts.block_size
    for position in range(start, stop):
        index = int(design.order[position])
        input_len, shared = int(prompts.input_len[index]), int(design.plan.prefix_len[index])
        before, hit = int(marks.before[position]), int(design.designed_hit[position])
        own = input_len - max(shared, prompts.head_len) - prompts.tail_len
        divergence, suffix = private_split(own, block)
        yield {
            "request_id": request_id(index),
            "prefix_group_id": design.groups.ids[int(design.groups.of_request[index])],
            "order_index": position,
            "planned_dp_id": int(design.lanes.dp[index]),
            "input_len": input_len,
            "planned_prefix_len": shared,
            "cached_watermark_before": before,
            "expected_hit_len": hit,
            "expected_hit_ratio": hit / input_len,
            "cached_watermark_after": int(marks.after[position]),
            "new_cached_len": max(0, shared - before),
            "divergence_len": divergence,
            "suffix_len": suffix,
            "expected_hit_len_cold": int(design.prediction.cold_hit[position]),
            "expected_hit_len_hot": int(design.prediction.hot_hit[position]),
            "request_class": CLASSES[int(design.prediction.request_class[position])].value,
            "collision_status": "unique",
        }


def length_report(tokens: IntArray, edges: tuple[int, ...], *, seed: int) -> dict[str, Any]:
    """Count, extremes, mean, percentiles and bins of a set of lengths (RFC 3.3.1)."""
    percentiles = np.percentile(tokens, _PERCENTILES)
    return {
        "count": len(tokens),
        "sum": int(tokens.sum()),
        "min": int(tokens.min()),
        "max": int(tokens.max()),
        "mean": int(tokens.sum()) / len(tokens),
        **{f"p{rank}": float(value) for rank, value in zip(_PERCENTILES, percentiles, strict=True)},
        "bins": bin_counts(tokens, edges),
        "seed": seed,
    }


def theoretical_result(design: Design) -> dict[str, Any]:
    """Target, designed ratio, deviations and bounds, as RFC appendix B names them."""
    deviation = design.designed - design.target
    return {
        "target_hit_ratio": float(design.target),
        "designed_hit_ratio": float(design.designed),
        "signed_deviation": float(deviation),
        "absolute_deviation": float(abs(deviation)),
        "signed_deviation_points": float(deviation * 100),
        "absolute_deviation_points": float(abs(deviation) * 100),
        "max_reachable_hit_ratio": float(design.reach.ceiling),
        "min_reachable_hit_ratio": float(design.reach.floor),
        "validation_status": design.verdict.status.value,
        "reason": design.verdict.reason.value,
        "designed_pass": "cold" if design.designed_cold else "hot",
        "designed_hit_tokens": int(design.designed_hit.sum()),
        "input_tokens": design.input_tokens,
        "cold": _pass_result(design, design.prediction.cold_hit),
        "hot": _pass_result(design, design.prediction.hot_hit),
    }


def group_rows(design: Design) -> list[dict[str, Any]]:
    """One row a group (RFC ``PrefixGroupPlan``)."""
    return [_group_row(group, designed_cold=design.designed_cold) for group in design.by_group]


def rank_rows(design: Design) -> list[dict[str, Any]]:
    """One row a data-parallel rank that gets requests: what it is sent and what it is expected to hit.

    ``final_watermark`` are the tokens of master prefixes that its cache holds in the end, over its lanes; ranks that
    share one cache have theirs together, and so it is ``None`` for each of them.
    """
    dp, order = design.lanes.dp[design.order], design.order
    lens, groups = design.prompts.input_len[order], design.groups.of_request[order]
    cold, hot = design.prediction.cold_hit, design.prediction.hot_hit
    rows = []
    for rank in np.unique(dp).tolist():
        mine = dp == rank
        tokens = int(lens[mine].sum())
        hits = {"cold": int(cold[mine].sum()), "hot": int(hot[mine].sum())}
        rows.append(
            {
                "dp_id": rank,
                "group_ids": [design.groups.ids[group] for group in np.unique(groups[mine]).tolist()],
                "request_count": int(mine.sum()),
                "input_tokens": tokens,
                "designed_hit_tokens": hits["cold" if design.designed_cold else "hot"],
                "designed_hit_ratio": hits["cold" if design.designed_cold else "hot"] / tokens,
                "expected_hit_tokens_cold": hits["cold"],
                "expected_hit_tokens_hot": hits["hot"],
                "final_watermark": _final_watermark(design, mine) if design.route.local else None,
            }
        )
    return rows


def _final_watermark(design: Design, mine: BoolArray) -> int:
    """Sum over the lanes of a rank of the longest prefix; ``mine`` selects its requests in send order."""
    chosen = design.order[mine]
    longest: dict[int, int] = {}
    for lane, shared in zip(design.lanes.lane[chosen].tolist(), design.plan.prefix_len[chosen].tolist(), strict=True):
        longest[lane] = max(longest.get(lane, 0), shared)
    return sum(longest.values())


def validation_document(design: Design, checks: Mapping[str, Any]) -> dict[str, Any]:
    """The construction report; ``checks`` holds what was proven on the text: re-encoding, laws, collisions."""
    result = theoretical_result(design)
    return {
        "schema_version": SCHEMA_VERSION,
        "dataset_id": design.config.dataset_id,
        "status": design.verdict.status.value,
        "reason": design.verdict.reason.value,
        "message": design.verdict.message,
        "suggestions": [
            {"field": item.field, "text": item.text, "max_reachable_hit_ratio": item.ceiling}
            for item in design.suggestions
        ],
        **{key: value for key, value in result.items() if key not in {"validation_status", "reason"}},
        "lengths": length_report(design.prompts.input_len, design.lengths.edges, seed=design.config.seed),
        "groups": group_rows(design),
        "ranks": rank_rows(design),
        "predictions": predictions(design),
        "request_classes": _class_counts(design),
        "warnings": list(design.warnings),
        **checks,
    }


def predictions(design: Design) -> dict[str, Any]:
    """Hits of the designed pass one by one, under load, and in a cache of the config's size.

    ``None`` stands for what the config does not ask about.
    """
    found, client = forecast(design), client_of(design.config)
    arrays = {
        "serial": found.serial,
        "in_flight_bounded": found.in_flight,
        "simulated": found.simulated,
        "capacity_bounded": found.capacity_bounded,
    }
    return {
        "concurrency": client.concurrency if client.requests_per_s is None else None,
        "requests_per_s": client.requests_per_s,
        **{name: None if hits is None else _pass_result(design, hits) for name, hits in arrays.items()},
    }


def manifest_document(design: Design, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The data set's manifest; ``parts`` holds tokenizer, corpus, re-encoding, collisions and file digests."""
    config, prompts = design.config, design.prompts
    return {
        "schema_version": SCHEMA_VERSION,
        "state": "complete",
        "dataset_id": config.dataset_id,
        "generator_version": f"foreword {__version__}",
        "seed": config.seed,
        "block_size": design.facts.block_size,
        "request_count": config.request_count,
        "execution_mode": config.execution_mode.value,
        "semantics": config.target.semantics.value,
        "prompt_format": config.prompt_format.value,
        "engine": {"name": config.engine.value, "hit_rule": design.facts.rule.value},
        "frame": {"head_len": prompts.head_len, "tail_len": prompts.tail_len},
        "model": config.model,
        "isolation": config.isolation,
        "max_model_len": config.max_model_len,
        "target": config.target.model_dump(mode="json"),
        "input_length": config.input_length.model_dump(mode="json", exclude={"path"}),
        "output_length": config.output_length.model_dump(mode="json", exclude={"path"}),
        "prefix": {
            "mode": config.prefix.mode,
            "group_count": len(design.groups.ids),
            "minimum_non_shared_length": prompts.minimum_non_shared,
        },
        "request_order": config.request_order.model_dump(mode="json"),
        "order_sha256": sha256(design.order.astype("<i8").tobytes()).hexdigest(),
        "routing": _routing_facts(design),
        "planning": _planning_facts(design),
        "groups": group_rows(design),
        "ranks": rank_rows(design),
        "theoretical_result": theoretical_result(design),
        **parts,
        "config": config_document(config),
    }


def _routing_facts(design: Design) -> dict[str, Any]:
    return {
        "cache_scope": design.config.routing.cache_scope.value,
        "dp_size": design.route.dp_size,
        "assignment": design.route.assignment,
    }


def config_document(config: DatasetConfig) -> dict[str, Any]:
    """A config as it can be published: no server address, and file names without folders where paths are masked."""
    document = config.model_dump(mode="json", exclude={"execution": {"url", "metrics_url"}})
    document["routing"] |= {"instances": [], "dp_size": config.routing.rank_count}
    if config.privacy.mask_paths:
        for name in ("tokenizer", "chat_template"):
            document[name] = _base_name(document[name])
        for part in ("prefix", "suffix"):
            document[part]["path"] = _base_name(document[part]["path"])
    return document


def _base_name(path: str | None) -> str | None:
    return path if path is None or path.startswith("hub:") else PurePath(path).name


def _planning_facts(design: Design) -> dict[str, Any]:
    """How prefixes were planned; ``branches`` are the requests that may leave a master at one place (X16)."""
    facts: dict[str, Any] = {"strategy": design.plan.strategy, "shape": design.config.prefix.shape.value}
    return facts if design.facts.branches is None else facts | {"branches": design.facts.branches}


def _pass_result(design: Design, hits: IntArray) -> dict[str, Any]:
    total = int(hits.sum())
    return {"hit_tokens": total, "hit_ratio": total / design.input_tokens}


def _group_row(group: GroupDesign, *, designed_cold: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "group_id": group.group_id,
        "request_count": group.request_count,
        "planned_dp_ids": list(group.planned_dp_ids),
        "master_prefix_len": group.master_prefix_len,
        "input_tokens": group.input_tokens,
        "target_hit_tokens": group.target_hit_tokens,
        "designed_hit_tokens": group.designed_hit_tokens,
        "designed_hit_ratio": _ratio(group.designed_hit_tokens, group.input_tokens),
        "max_reachable_hit_ratio": group.max_reachable_hit_ratio,
        "cold_start_loss": group.cold_start_loss_tokens if designed_cold else 0,
    }
    if group.verdict is not None:
        row |= {"status": group.verdict.status.value, "reason": group.verdict.reason.value}
    return row


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _class_counts(design: Design) -> dict[str, int]:
    counts = np.bincount(design.prediction.request_class, minlength=len(CLASSES))
    return {kind.value: int(count) for kind, count in zip(CLASSES, counts, strict=True)}
