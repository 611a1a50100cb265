"""The verdict of a report in a few sentences: what was built, what was served, what failed, and why they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.report.document import Doubt
from foreword.report.text import PASSES, difference, percent, points, whole
from foreword.terms import RuntimeVerdict, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.report.document import ConstructionVerdict, Headline, RequestCounts, RunVerdict


def summary(head: Headline, counts: RequestCounts, *, causes: Sequence[str]) -> str:
    """The headline in words; ``causes`` are those that explain the difference, likeliest first."""
    parts = [f"{_built(head.construction)}{_ran(head, counts)}", _failures(counts)]
    if causes and _differs(head):
        parts.append(f"Likely cause of the difference: {'; '.join(causes)}.")
    return " ".join(part for part in parts if part)


def _built(construction: ConstructionVerdict) -> str:
    built = {
        Status.PASS: "The data set meets its target",
        Status.PASS_WITH_WARNING: "The data set meets its target with a warning",
        Status.FAIL: f"The data set misses its target ({construction.reason.replace('_', ' ').lower()})",
    }[construction.status]
    return f"{built} ({points(construction.deviation_points)})"


def _ran(head: Headline, counts: RequestCounts) -> str:
    run, built = head.runtime, head.construction.status
    name = PASSES[head.designed_pass]
    match run.doubt:
        case None:
            place = "within" if run.verdict is RuntimeVerdict.WITHIN_GUIDE else "outside"
            joined = "and" if place == "within" and built is not Status.FAIL else "but"
            guide = f"{place} the guide of {run.guide_points:g} pp for {run.guide_case}"
            return f", {joined} {_served(head)}, {guide}."
        case Doubt.NOT_SENT:
            other = f" In the {PASSES[head.pass_name]} {_served(head)}." if head.pass_name != head.designed_pass else ""
            return f"; no request of the {name}, which it is designed for, was sent: the run is unproven.{other}"
        case Doubt.NO_SUCCESS:
            return f"; no request of the {name} succeeded, so its hit ratio is unproven."
        case Doubt.FEW_SUCCEEDED:
            share = f"{whole(counts.succeeded)} of {whole(counts.asked)}"
            return f"; only {share} requests of the {name} succeeded, too few to prove its hit ratio."
        case Doubt.BLOCK_SIZE:
            sizes = f"in blocks of {run.block_size_planned}, but the server has blocks of {run.block_size_reported}"
            return f", planned {sizes} tokens, so the run does not test it: {_served(head)}."
        case Doubt.NOT_REPORTED:
            return "; the hit ratio of this run is unproven: nothing tells in full what the cache served."


def _served(head: Headline) -> str:
    run = head.runtime
    if head.measured_hit_ratio is None:
        return "nothing tells in full what the cache served"
    design = " of the requests that succeeded" if run.design_replayed else ""
    return (
        f"the server served {percent(head.measured_hit_ratio)} of the prompt tokens from its cache: "
        f"{difference(head.measured_hit_ratio, run.design_hit_ratio)} from the design{design}"
    )


def _failures(counts: RequestCounts) -> str:
    if not counts.failed:
        return ""
    of = f" of {whole(counts.failed + counts.succeeded)} requests" if counts.succeeded else " requests"
    first = counts.first_error or ", ".join(counts.failures_by_kind)
    return f"{whole(counts.failed)}{of} failed; the first: {first}."


def _differs(head: Headline) -> bool:
    run: RunVerdict = head.runtime
    return run.deviation_points is not None and round(abs(run.deviation_points), 2) > 0
