"""Words of the report that are computed or shared; headings stand in the templates, notices in ``wording``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from foreword.collect.ladder import Remainder, RungName
from foreword.report.document import Doubt, Finding, MeasuredBy, Proof
from foreword.terms import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.report.document import LengthSection, RequestProof

NOT_REPORTED = "not reported"
NOT_ESTIMATED = "not estimated"
NOT_MEASURABLE = "not measurable"
IN_BURSTS = "most tokens came together with others, so the client saw no time between them"
NBSP = "\u00a0"
ROWS_SHOWN = 40
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")

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
EXTERNAL_COUNTS_TOO = "cached tokens of an answer may include hits of the external tier"
WHOLE_PROMPTS_COUNT_MORE = "MindIE's counter has one block more for each prompt that hit as a whole"

RUNGS = {
    RungName.TARGET: "target",
    RungName.DESIGNED: "designed",
    RungName.ENGINE_RULE: "engine rule and template",
    RungName.BLOCK_SIZE: "block size of the server",
    RungName.ADDED_TOKENS: "tokens the server added",
    RungName.WARM: "lanes that were warm",
    RungName.SENT: "requests that were sent",
    RungName.SERVED: "requests that succeeded",
    RungName.CONCURRENCY: "order and concurrency",
    RungName.CAPACITY: "capacity and eviction",
    RungName.MEASURED: "measured",
}

RUNG_NOTES = {
    RungName.TARGET: "what the config asks for",
    RungName.DESIGNED: "the plan in send order: one request at a time, an unbounded cache",
    RungName.ENGINE_RULE: "the same plan under the engine's rule for whole blocks, the last token and the template",
    RungName.BLOCK_SIZE: "the same, in blocks of the size that the server reports",
    RungName.ADDED_TOKENS: "the same, with the tokens that the server counted in front of every prompt",
    RungName.WARM: "the same, with the lanes that were not warm starting from nothing",
    RungName.SENT: "the same, replayed for the requests that were sent only",
    RungName.SERVED: "the same, replayed for the requests that succeeded only",
    RungName.CONCURRENCY: "the same, at the times at which they were sent and got their first tokens",
    RungName.CAPACITY: "the same, in a cache of the size that the server reports, evicting as vLLM does",
}

TARGET_OF_OTHER_PASS = "informational: the target speaks of the other pass"

REMAINDERS = {
    Remainder.NONE: "nothing is left to explain",
    Remainder.NOT_SIMULATED: "what happens inside the server: its own order, routing, capacity that it does not report",
    Remainder.UNEXPLAINED: "unexplained",
}

MEASURED_BY = {
    MeasuredBy.USAGE: "cached tokens of every answer",
    MeasuredBy.COUNTERS: "cache counters of the server",
}

UNMEASURED = {
    Doubt.NOT_SENT: "no request of the pass was sent",
    Doubt.NO_SUCCESS: "no request of the pass succeeded",
}
UNPROVEN_HITS = "neither answers nor counters prove the hits"

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
    return NOT_REPORTED if ratio is None else f"{ratio * 100:.{digits}f}{NBSP}%"


def points(value: float | None, digits: int = 2) -> str:
    """Signed percentage points, with a true minus sign.

    >>> points(-0.254).replace(NBSP, " ")
    '−0.25 pp'
    """
    if value is None:
        return NOT_REPORTED
    rounded = round(value, digits) + 0.0
    sign = "−" if rounded < 0 else "+" if rounded > 0 else "±"
    return f"{sign}{abs(rounded):.{digits}f}{NBSP}pp"


def difference(after: float | None, before: float | None) -> str:
    """Percentage points between two *printed* ratios, so that a reader who subtracts them gets the same.

    >>> difference(0.438659, 0.524740).replace(NBSP, " ")
    '−8.60 pp'
    """
    if after is None or before is None:
        return NOT_REPORTED
    return points(round(after * 100, 2) - round(before * 100, 2))


def engine(name: str | None, version: str | None, *, server: str | None) -> str:
    """An engine with its version; a program that only answers like it is named as what it is.

    >>> engine("vllm", "0.32.0", server="foreword 0.1.0")
    'foreword serve (answers like vllm 0.32.0)'
    """
    known = " ".join(part for part in (name, version) if part) or NOT_REPORTED
    if server is None:
        return known
    program = "foreword serve" if server.split()[:1] == ["foreword"] else server
    return f"{program} (answers like {known})"


def whole(value: float | None) -> str:
    """Whole number with thousands separators and a true minus sign."""
    return NOT_REPORTED if value is None else f"{value:,.0f}".replace("-", "−")


def number(value: float | None) -> str:
    """Number with three significant digits, and never fewer than its whole ones."""
    if value is None:
        return NOT_REPORTED
    digits = 3 if abs(value) < 1 else max(0, 3 - len(str(int(abs(value)))))
    return f"{value:,.{digits}f}"


TRAFFIC = ("read", "written", "promoted", "copied_down", "demoted", "evicted", "expired")

REPLAY_DEFINITIONS = (
    ("hit ratio", "hit tokens by input tokens; a partial last block counts in the input alone"),
    ("remote hits", "hits of blocks that the mask of the trace does not call local"),
    ("last 10 s", "hit tokens by input tokens of the reads in the ten seconds up to a moment"),
    ("read", "bytes of the blocks that hits took from a tier, the nearest one that held them"),
    (
        "written, promoted, copied down, demoted",
        "bytes that came in: new ones, copies for hits below, copies of what is often read above, victims from above",
    ),
    ("evicted, expired", "bytes that left a tier under pressure, or by the end of their life"),
    ("busy", "bytes read and bytes that came in, by the bandwidth: band_width_mbps times 10⁶ bytes a second"),
    ("utilisation", "busy seconds by the seconds of the trace; above 100 % the tier is too slow for this trace"),
    (
        "TTFT saved",
        "hit tokens by the speed of the prefill, less the seconds of reading them; no queueing, nothing overlaps",
    ),
)

DESIGNED = "designed"
MEASURED = "measured"
EQUAL = "predicted = measured"
PAIRS_EQUAL = "equal"
PAIRS_DIFFER = "different"

AXIS_REQUESTS_SENT = "requests, in send order"
AXIS_HIT_RATIO = "hit ratio, %"
AXIS_PREDICTED = "predicted hit tokens"
AXIS_MEASURED = "measured hit tokens"
AXIS_COMPUTED = "prompt tokens left to compute (requests)"
AXIS_TTFT = "TTFT, ms"
AXIS_HIT_SHARE = "share of the prompt from the cache (requests)"
AXIS_TTFT_SCALED = "TTFT, ms per 1,000 prompt tokens"
AXIS_SECONDS = "seconds since the start of the run"
AXIS_USAGE = "cache in use, %"
AXIS_PROMPT_TOKENS = "prompt tokens"
AXIS_REQUESTS = "requests"
AXIS_WATERMARK = "cached prefix, tokens"

CHART_CUMULATIVE = "Hit ratio over the run"
CAPTION_CUMULATIVE = "Hit tokens divided by prompt tokens of all requests up to this one."
CHART_PAIRS = "Predicted and measured hits"
CAPTION_PAIRS = "One dot for each pair of values."
CHART_TTFT = "TTFT by tokens left to compute"
CAPTION_TTFT = (
    "Requests by prompt tokens less cached ones, as measured: a hit helps by what it leaves out, in a long prompt as "
    "in a short one."
)
CAPTION_TTFT_PREDICTED = "Requests by prompt tokens less predicted hits; hits were not reported."
CHART_SHARE = "TTFT by hit share"
CAPTION_SHARE = (
    "Requests by the measured share of their prompt that came from the cache; per 1,000 prompt tokens, so that long "
    "and short prompts compare."
)
CAPTION_SHARE_PREDICTED = (
    "Requests by the predicted share of their prompt, per 1,000 prompt tokens; hits were not reported."
)
CHART_USAGE = "KV-cache usage"
CAPTION_USAGE = "Share in use by running requests, as the server reports it, sampled during the pass."
CHART_LENGTHS = "Prompt lengths"
CHART_WATERMARKS = "Watermarks"


def size(bytes_: float | None) -> str:
    """Bytes in the unit that suits them, by powers of 1,024.

    >>> size(3 * 2**29).split()
    ['1.50', 'GB']
    """
    if bytes_ is None:
        return NOT_REPORTED
    step = min(int(math.log2(bytes_) / 10), len(_SIZES) - 1) if bytes_ >= 1 else 0
    return f"{number(bytes_ / 1024**step) if step else whole(bytes_)}{NBSP}{_SIZES[step]}"


def more_rows(total: int) -> str:
    """Line below a table that was cut."""
    return f"The first {ROWS_SHOWN} of {whole(total)} rows; all of them are in prefix_cache_report.json."


def pairs_caption(shown: int, total: int) -> str:
    """Caption of the pair chart; says so when pairs were left out."""
    if shown == total:
        return f"{CAPTION_PAIRS} {whole(total)} pairs; dots on the line are requests that hit as predicted."
    return f"{CAPTION_PAIRS} {whole(shown)} of {whole(total)} pairs are drawn, differing ones first."


def lengths_caption(lengths: LengthSection) -> str:
    """Caption of the length histogram: the distribution in figures."""
    return (
        f"{whole(lengths.count)} prompts of {whole(lengths.minimum)} to {whole(lengths.maximum)} tokens, mean "
        f"{whole(lengths.mean)}, P50 {whole(lengths.p50)}, P90 {whole(lengths.p90)}, P99 {whole(lengths.p99)}."
    )


def watermark_caption(shown: int, total: int) -> str:
    """Caption of the watermark chart; says so when lanes were left out."""
    which = "each lane" if shown == total else f"the {shown} lanes with most requests, of {whole(total)}"
    return f"Longest cached prefix of {which}, in a serial cold pass as planned."


def partly(not_sent: int) -> str:
    """Remark on a total that speaks of a part of the data set only."""
    return f"informational: {whole(not_sent)} requests were not sent" if not_sent else ""


NO_REMAINDER = "Nothing was measured, so the ladder ends at its last replay."


def remainder(kind: Remainder, step: str, *, found: Sequence[str], left: Sequence[str]) -> str:
    """Sentence about the last step of a ladder, with the causes that were found and those that are left open."""
    likely = f" Likely cause: {', '.join(found)}." if found else ""
    causes = likely + f" Not ruled out: {', '.join(left)}." if left else ""
    match kind:
        case Remainder.NONE:
            return "The replay of this run gives exactly the total that was measured; nothing is left to explain."
        case Remainder.NOT_SIMULATED:
            return f"The last step of {step} is the effect of {REMAINDERS[kind]}.{likely}"
        case Remainder.UNEXPLAINED if found:
            return f"No replay of this release gives the last step of {step}.{causes}"
        case Remainder.UNEXPLAINED:
            return f"The last step of {step} is unexplained: no replay of this release gives it.{causes}"


def concurrency_bound(in_flight: int, floor: float) -> str:
    """Sentence about what concurrency alone can cost."""
    return (
        f"Up to {whole(in_flight)} requests were under way at once; on an unbounded cache that alone "
        f"can lower the hit ratio to {percent(floor)} at most."
    )


def signed(value: float) -> str:
    """Number with a true sign.

    >>> signed(-0.489)
    '−0.489'
    """
    sign = "−" if value < 0 else "+" if value > 0 else "±"
    return f"{sign}{number(abs(value))}"


def change(quotient: float) -> str:
    """Change that a quotient of two figures says, as signed percent.

    >>> change(0.915).replace(NBSP, " ")
    '−8.5 %'
    """
    rounded = round((quotient - 1) * 100, 1) + 0.0
    sign = "−" if rounded < 0 else "+" if rounded > 0 else "±"
    return f"{sign}{abs(rounded):.1f}{NBSP}%"


def moved(proof: RequestProof | None, kind: Remainder, *, in_flight: int | None) -> str:
    """Remark on requests that hit otherwise than predicted although the total is as predicted."""
    other = proof is not None and proof.equal < proof.compared
    if not other or kind is not Remainder.NONE or (in_flight or 1) < 2:  # noqa: PLR2004 - side by side
        return ""
    return "hits moved between requests in flight; their total is as predicted"


LENGTHS_AS_PLANNED = "prompt tokens counted as planned"
HITS_AS_PREDICTED = "hits as predicted"
