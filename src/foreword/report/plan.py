"""A plan as a person reads it, before any text exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreword.simulate.documents import validation_document
from foreword.simulate.verdict import percent
from foreword.terms import ExecutionMode
from foreword.workload.order import send_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.simulate.design import Design

_MOST_GROUPS = 20


def plan_document(design: Design) -> dict[str, Any]:
    """The construction report without what only text can prove."""
    return validation_document(design, {})


def plan_text(design: Design) -> str:
    """Verdict, the ladder as far as it goes, lengths and groups."""
    document = plan_document(design)
    parts = (
        _verdict_lines(design),
        _ladder_lines(design),
        _prediction_lines(document),
        _length_lines(design, document),
        _group_lines(document),
        _rank_lines(document),
    )
    return "\n".join(line for part in parts for line in part)


def _verdict_lines(design: Design) -> list[str]:
    lines = [f"{design.verdict.status}  {design.config.dataset_id}: {design.verdict.message}"]
    if design.suggestions:
        options = ", ".join(f"{item.text} (up to {percent(item.ceiling)})" for item in design.suggestions)
        lines.append(f"      reachable {options}")
    return lines


def _ladder_lines(design: Design) -> list[str]:
    cold, hot = (int(hits.sum()) for hits in (design.prediction.cold_hit, design.prediction.hot_hit))
    total = design.input_tokens
    return [
        "",
        f"  target            {percent(design.target):>10}",
        f"  designed          {percent(design.designed):>10}   the {'cold' if design.designed_cold else 'hot'} pass",
        f"  cold pass         {percent(cold / total):>10}   {cold:,} of {total:,} tokens",
        f"  hot pass          {percent(hot / total):>10}   {hot:,} of {total:,} tokens",
        f"  reachable         {percent(design.reach.floor):>10} to {percent(design.reach.ceiling)}",
    ]


_PREDICTIONS = {
    "in_flight_bounded": ("at least", "whatever the order in which requests under way are computed"),
    "simulated": ("under load", "simulated, in an endless cache"),
    "capacity_bounded": ("predicted", "simulated, in a cache of the size that the config gives"),
}


def _prediction_lines(document: dict[str, Any]) -> list[str]:
    """What is left of the designed pass under load and in a small cache, where the config asks about it."""
    found = document["predictions"]
    lines = [
        f"  {name:<17} {percent(found[key]['hit_ratio']):>10}   {found[key]['hit_tokens']:,} tokens, {meaning}"
        for key, (name, meaning) in _PREDICTIONS.items()
        if found[key] is not None
    ]
    rate, together = found["requests_per_s"], found["concurrency"]
    sent = f"{together:,} requests at once" if rate is None else f"{rate:g} requests a second"
    return ["", f"  with {sent}:", *lines] if lines else []


def _length_lines(design: Design, document: dict[str, Any]) -> list[str]:
    lengths = document["lengths"]
    spread = "  ".join(f"P{rank} {lengths[f'p{rank}']:,.0f}" for rank in (50, 90, 95, 99))
    classes = ", ".join(f"{count:,} {kind}" for kind, count in document["request_classes"].items() if count)
    span = f"{lengths['count']:,} requests, {lengths['min']:,} to {lengths['max']:,} tokens"
    return [
        "",
        f"  lengths           {span}, mean {lengths['mean']:,.1f}  {spread}",
        f"  request classes   {classes}",
        f"  sent              {_sent(design)}",
    ]


def _sent(design: Design) -> str:
    """The passes of a run and the send order, as they are after defaults."""
    config = design.config
    order = send_order(config.request_order, progressive=config.execution_mode is ExecutionMode.PROGRESSIVE_PREFIX_FILL)
    way = order.whole or (f"{order.within} within groups" if len(design.groups.ids) > 1 else order.within)
    across = "" if order.whole or len(design.groups.ids) == 1 else f", {order.across} across"
    return f"{config.execution_mode}; order {way}{across}"


def _group_lines(document: dict[str, Any]) -> list[str]:
    groups: Sequence[dict[str, Any]] = document["groups"]
    shown = groups[:_MOST_GROUPS]
    width = max(len("group"), *(len(group["group_id"]) for group in shown))
    ranked = any(group["planned_dp_ids"] not in ([], [0]) for group in groups)
    lines = ["", f"  {'group':{width}}  requests   master tokens   designed   reachable{'   ranks' if ranked else ''}"]
    for group in shown:
        designed, reachable = (
            "-" if ratio is None else percent(ratio)
            for ratio in (group["designed_hit_ratio"], group["max_reachable_hit_ratio"])
        )
        counts = f"{group['request_count']:>8,}   {group['master_prefix_len']:>13,}"
        ranks = f"   {', '.join(map(str, group['planned_dp_ids']))}" if ranked else ""
        lines.append(f"  {group['group_id']:{width}}  {counts}   {designed:>8}   {reachable:>9}{ranks}")
    if len(groups) > _MOST_GROUPS:
        lines.append(f"  and {len(groups) - _MOST_GROUPS:,} more groups")
    return lines


def _rank_lines(document: dict[str, Any]) -> list[str]:
    """What each rank is sent and should hit, where there is more than one."""
    ranks: Sequence[dict[str, Any]] = document["ranks"]
    if len(ranks) == 1:
        return []
    lines = ["", "  rank   groups   requests     input tokens   designed"]
    for rank in ranks[:_MOST_GROUPS]:
        counts = f"{len(rank['group_ids']):>6,}   {rank['request_count']:>8,}   {rank['input_tokens']:>14,}"
        lines.append(f"  {rank['dp_id']:>4}   {counts}   {percent(rank['designed_hit_ratio']):>8}")
    if len(ranks) > _MOST_GROUPS:
        lines.append(f"  and {len(ranks) - _MOST_GROUPS:,} more ranks")
    return lines
