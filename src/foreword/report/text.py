"""Every sentence of the report, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foreword.collect.ladder import Remainder, RungName
from foreword.report.document import Finding, MeasuredBy, Proof
from foreword.terms import Pass, RuntimeVerdict, Status

if TYPE_CHECKING:
    from foreword.report.document import ConstructionVerdict, RunVerdict

NOT_REPORTED = "not reported"

GUIDE_SINGLE = "one prefix, one cache"
GUIDE_MANY_PREFIXES = "several prefixes, one cache"
GUIDE_PROGRESSIVE = "progressive prefix fill"
GUIDE_MANY_CACHES = "several prefixes, several caches"

PLANNED_INPUT = "planned input tokens"
USAGE_PROMPT = "prompt tokens, summed over answers"
USAGE_CACHED = "cached tokens, summed over answers"
COUNTER_PROMPT = "prompt tokens, counter of the server"
COUNTER_QUERIES = "query tokens, cache counter"
COUNTER_HITS = "hit tokens, cache counter"
FAILURES_COUNT_TOO = "counters may include requests that failed"

RUNGS = {
    RungName.TARGET: "target",
    RungName.DESIGNED: "designed",
    RungName.ENGINE_RULE: "engine rule and template",
    RungName.BLOCK_SIZE: "block size of the server",
    RungName.ADDED_TOKENS: "tokens the server added",
    RungName.SERVED: "requests that succeeded",
    RungName.MEASURED: "measured",
}

RUNG_NOTES = {
    RungName.TARGET: "what the config asks for",
    RungName.DESIGNED: "the plan in send order: one request at a time, an unbounded cache",
    RungName.ENGINE_RULE: "the same plan under the engine's rule for whole blocks, the last token and the template",
    RungName.BLOCK_SIZE: "the same, in blocks of the size that the server reports",
    RungName.ADDED_TOKENS: "the same, with the tokens that the server counted in front of every prompt",
    RungName.SERVED: "the same, replayed for the requests that succeeded only",
}

REMAINDERS = {
    Remainder.NONE: "nothing is left to explain",
    Remainder.NOT_SIMULATED: "order, concurrency, routing, capacity (not simulated in this release)",
    Remainder.UNEXPLAINED: "unexplained",
}

MEASURED_BY = {
    MeasuredBy.USAGE: "cached tokens of every answer",
    MeasuredBy.COUNTERS: "cache counters of the server",
    MeasuredBy.PARTIAL_USAGE: "cached tokens of those answers that report them",
}

PROOFS = {Proof.EQUAL: "equal", Proof.DIFFERENT: "differs", Proof.NOT_REPORTED: NOT_REPORTED}
FINDINGS = {Finding.FOUND: "found", Finding.RULED_OUT: "ruled out", Finding.OPEN: "open"}
PASSES = {Pass.COLD: "cold pass", Pass.HOT: "hot pass", Pass.WARMUP: "warm-up"}

DEFINITIONS = (
    (
        "hit ratio",
        (
            "Prompt tokens served from the cache, divided by prompt tokens; always over a sum of tokens. A mean "
            "of ratios is never called hit ratio."
        ),
    ),
    (
        "target",
        "The hit ratio that the config asks for.",
    ),
    (
        "designed",
        (
            "The hit ratio of the written data set when it is sent one request at a time, in its order, to an "
            "unbounded cache."
        ),
    ),
    (
        "engine rule",
        "The same, but the engine serves whole blocks only and always computes the last token of a prompt.",
    ),
    (
        "measured",
        (
            "Cached tokens divided by prompt tokens, both as the server reports them: from the usage of every "
            "answer, else from its counters (after minus before, summed over endpoints and ranks)."
        ),
    ),
    (
        "deviation",
        "Construction: designed minus target. Run: measured minus designed. Both in percentage points (pp).",
    ),
    (
        "request class",
        (
            "First of lane: nothing is cached for its group yet. Extends the lane: its shared prefix is longer "
            "than what is cached. Full hit: all of its shared prefix is cached. None planned: no shared prefix."
        ),
    ),
    (
        "lane",
        "The requests of one group that meet in one cache.",
    ),
    (
        "TTFT, TPOT, ITL, E2EL",
        (
            "Time to the first token of any kind, from the time the request was due; time per output token after "
            "the first (undefined for one token); time between tokens; time to the last token. Latency counts "
            "from the due time, so waiting in the client is not hidden."
        ),
    ),
    (
        "not reported",
        "The server or the run did not give this number. It is not zero.",
    ),
)


def percent(ratio: float | None, digits: int = 2) -> str:
    """Ratio as percent."""
    return NOT_REPORTED if ratio is None else f"{ratio * 100:.{digits}f} %"


def points(value: float | None, digits: int = 2) -> str:
    """Signed percentage points, with a true minus sign.

    >>> points(-0.254)
    '−0.25 pp'
    """
    if value is None:
        return NOT_REPORTED
    rounded = round(value, digits) + 0.0
    sign = "−" if rounded < 0 else "+" if rounded > 0 else "±"
    return f"{sign}{abs(rounded):.{digits}f} pp"


def whole(value: float | None) -> str:
    """Whole number with thin thousands separators."""
    return NOT_REPORTED if value is None else f"{value:,.0f}"


def number(value: float | None) -> str:
    """Number with three significant digits, and never fewer than its whole ones."""
    if value is None:
        return NOT_REPORTED
    digits = 3 if abs(value) < 1 else max(0, 3 - len(str(int(abs(value)))))
    return f"{value:,.{digits}f}"


def sentence(run: RunVerdict, construction: ConstructionVerdict, measured: float | None) -> str:
    """The verdict in one sentence."""
    built = {
        Status.PASS: "The data set meets its target",
        Status.PASS_WITH_WARNING: "The data set meets its target with a warning",
        Status.FAIL: f"The data set misses its target ({construction.reason.replace('_', ' ').lower()})",
    }[construction.status]
    built += f" ({points(construction.deviation_points)})"
    match run.verdict:
        case RuntimeVerdict.UNPROVEN:
            return f"{built}; the hit ratio of this run is unproven, because nothing reported what the cache served."
        case RuntimeVerdict.WITHIN_GUIDE:
            place = "within"
        case RuntimeVerdict.OUTSIDE_GUIDE:
            place = "outside"
    joined = "and" if place == "within" and construction.status is not Status.FAIL else "but"
    return (
        f"{built}, {joined} the server served {percent(measured)} of the prompt tokens from its cache: "
        f"{points(run.deviation_points)} from the design, {place} the guide of {run.guide_points:g} pp "
        f"for {run.guide_case}."
    )
