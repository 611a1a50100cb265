"""One pass of a run, seen by a reporter: the plan, the results, the server, and what a replay of them predicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.rules import HitRule
from foreword.collect.ladder import (
    Requests,
    Rung,
    RungName,
    ServerModel,
    concurrency_floor,
    make_rung,
    max_in_flight,
    predicted_hits,
)
from foreword.report.document import MeasuredBy
from foreword.report.happened import rungs_of_times
from foreword.report.records import ABSENT, PassArrays, PassCounters, PlanArrays, RunRecord, lane_key, pass_arrays
from foreword.terms import Pass

if TYPE_CHECKING:
    from foreword.terms import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Measured:
    """Measured hits of a pass."""

    hit_tokens: int
    input_tokens: int
    by: MeasuredBy


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one pass.

    ``predicted`` is the last replay: engine rule, reported block size, tokens the server added, and only the
    requests that succeeded. ``planned_server`` has the block size and the head of the plan.
    """

    record: RunRecord
    plan: PlanArrays
    results: PassArrays
    counters: PassCounters
    requests: Requests
    served: BoolArray
    planned_server: ServerModel
    server: ServerModel
    predicted: IntArray
    measured: Measured | None
    zeros_left_out: int

    @property
    def pass_name(self) -> Pass:
        """The pass."""
        return self.results.pass_name

    @property
    def warmable(self) -> int:
        """How many lanes are warmed before this pass: none before a cold one."""
        return len(self.served) - len(self.results.ok)

    @property
    def warm(self) -> BoolArray:
        """Which of these lanes were warm when the pass began."""
        return self.served[: self.warmable]

    @property
    def input_tokens(self) -> IntArray:
        """Prompt tokens of each request: the server's count, or the planned one where it gave none."""
        counted = self.results.prompt_tokens
        return np.where(counted != ABSENT, counted, self.plan.input_len + self.server.added_tokens)

    @property
    def hits_reported(self) -> BoolArray:
        """Requests whose cached tokens the server reported."""
        return np.not_equal(self.results.cached_tokens, ABSENT)


def gather(record: RunRecord, plan: PlanArrays, *, pass_name: Pass) -> Evidence:
    """Evidence of a pass."""
    rows = [row for row in record.results if row.pass_ is pass_name]
    counters = record.metrics.of(pass_name) if record.metrics else PassCounters(pass_name=pass_name)
    results = pass_arrays(plan, rows, pass_name=pass_name)
    left_out = _left_out(results, counters)
    results = replace(results, cached_tokens=np.where(left_out, 0, results.cached_tokens))
    requests, warm_served = _requests(record, plan, results)
    planned = server_model(record)
    reported = record.metrics.block_size_reported if record.metrics else None
    server = replace(planned, block_size=reported or planned.block_size, added_tokens=_added_tokens(plan, results))
    served = np.concatenate([warm_served, results.ok])
    predicted = predicted_hits(requests, server, served=served)[len(warm_served) :]
    return Evidence(
        record=record,
        plan=plan,
        results=results,
        counters=counters,
        requests=requests,
        served=served,
        planned_server=planned,
        server=server,
        predicted=predicted,
        measured=_measured(results, counters),
        zeros_left_out=int(left_out.sum()),
    )


def rungs(evidence: Evidence, target: float) -> list[Rung | None]:
    """Rungs of the ladder from the target to the measurement."""
    plan, planned = evidence.plan, evidence.planned_server
    designed = make_rung(
        RungName.DESIGNED, int(plan.hits_of(evidence.pass_name).sum()), input_tokens=int(plan.input_len.sum())
    )
    found: list[Rung | None] = [Rung(RungName.TARGET, Fraction(repr(target))), designed]
    all_warm = np.ones(evidence.warmable, dtype=np.bool_)
    found.append(_replayed(RungName.ENGINE_RULE, evidence, planned, warm=all_warm))
    sized = replace(planned, block_size=evidence.server.block_size)
    if sized != planned:
        found.append(_replayed(RungName.BLOCK_SIZE, evidence, sized, warm=all_warm))
    if evidence.server != sized:
        found.append(_replayed(RungName.ADDED_TOKENS, evidence, evidence.server, warm=all_warm))
    if not evidence.warm.all():
        found.append(_replayed(RungName.WARM, evidence, evidence.server, warm=evidence.warm))
    if not evidence.results.recorded.all():
        found.append(_sent_rung(evidence))
    found.append(_served_rung(evidence))
    found += rungs_of_times(evidence)
    if evidence.measured is not None:
        found.append(
            make_rung(RungName.MEASURED, evidence.measured.hit_tokens, input_tokens=evidence.measured.input_tokens)
        )
    return found


def in_flight(evidence: Evidence) -> int | None:
    """Most requests under way at once, from the stamps; ``None`` when a request has none."""
    results = evidence.results
    known = results.recorded & (results.sent_ns != ABSENT) & (results.done_ns != ABSENT)
    if not known.any():
        return None
    return max_in_flight(results.sent_ns[known], results.done_ns[known])


def floor_ratio(evidence: Evidence, k: int) -> Fraction | None:
    """Least hit ratio that at most ``k`` requests in flight can leave, on an unbounded cache."""
    warm = evidence.warmable
    sent = np.where(evidence.results.sent_ns == ABSENT, np.iinfo(np.int64).max, evidence.results.sent_ns)
    order = np.concatenate([np.arange(warm), warm + np.argsort(sent, kind="stable")])
    requests = Requests(
        input_len=evidence.requests.input_len[order],
        prefix_len=evidence.requests.prefix_len[order],
        lane=evidence.requests.lane[order],
        domain=evidence.requests.domain[order],
        counted=evidence.requests.counted[order],
    )
    served = evidence.served[order]
    hits = concurrency_floor(requests, evidence.server, served=served, in_flight=k)
    counted = served & requests.counted
    total = int(evidence.input_tokens[evidence.results.ok].sum())
    return Fraction(int(hits[counted].sum()), total) if total else None


def _replayed(name: RungName, evidence: Evidence, server: ServerModel, *, warm: BoolArray) -> Rung | None:
    """Rung of the whole plan on a server, every request served and the ``warm`` lanes warm."""
    everything = np.concatenate([warm, np.ones(len(evidence.results.ok), dtype=np.bool_)])
    hits = predicted_hits(evidence.requests, server, served=everything)
    counted = evidence.requests.counted
    tokens = evidence.requests.input_len[counted] + server.added_tokens
    return make_rung(name, int(hits[counted].sum()), input_tokens=int(tokens.sum()))


def design_of_served(evidence: Evidence) -> Rung | None:
    """The design, replayed for the requests that succeeded (X23): planned lengths, on the planned server, all warm."""
    served = np.concatenate([np.ones(evidence.warmable, dtype=np.bool_), evidence.results.ok])
    hits = predicted_hits(evidence.requests, evidence.planned_server, served=served)
    counted = served & evidence.requests.counted
    return make_rung(
        RungName.SERVED, int(hits[counted].sum()), input_tokens=int(evidence.requests.input_len[counted].sum())
    )


def _sent_rung(evidence: Evidence) -> Rung | None:
    """Rung of the requests that were sent, as if each had succeeded."""
    sent = evidence.results.recorded
    served = np.concatenate([evidence.warm, sent])
    hits = predicted_hits(evidence.requests, evidence.server, served=served)[evidence.warmable :]
    return make_rung(RungName.SENT, int(hits[sent].sum()), input_tokens=int(evidence.input_tokens[sent].sum()))


def _served_rung(evidence: Evidence) -> Rung | None:
    """Rung of the requests that succeeded."""
    ok = evidence.results.ok
    return make_rung(
        RungName.SERVED, int(evidence.predicted[ok].sum()), input_tokens=int(evidence.input_tokens[ok].sum())
    )


def _measured(results: PassArrays, counters: PassCounters) -> Measured | None:
    """Hits by usage if every success reported them, else by counters."""
    ok = results.ok
    if not ok.any():
        return None
    cached, prompt = results.cached_tokens[ok], results.prompt_tokens[ok]
    if (cached != ABSENT).all() and (prompt != ABSENT).all():
        return Measured(int(cached.sum()), int(prompt.sum()), MeasuredBy.USAGE)
    if counters.in_tokens and counters.hits_delta is not None and counters.queries_delta:
        return Measured(round(counters.hits_delta), round(counters.queries_delta), MeasuredBy.COUNTERS)
    return None


def _left_out(results: PassArrays, counters: PassCounters) -> BoolArray:
    """Successes whose cached tokens are absent and, by the counters, zero (some engines leave a zero out)."""
    ok = results.ok
    absent = ok & (results.cached_tokens == ABSENT)
    told = ok & ~absent
    counted = counters.in_tokens and counters.hits_delta is not None and not counters.missing
    if not (counted and absent.any() and told.any() and (results.prompt_tokens[ok] != ABSENT).all()):
        return np.zeros(len(ok), dtype=np.bool_)
    same_hits = int(results.cached_tokens[told].sum()) == round(counters.hits_delta or 0)
    same_window = int(results.prompt_tokens[ok].sum()) == round(counters.queries_delta or 0)
    return absent if same_hits and same_window else np.zeros(len(ok), dtype=np.bool_)


def server_model(record: RunRecord) -> ServerModel:
    """The server that ran, as far as its engine is known, with the block size and the head of the plan."""
    manifest = record.manifest
    detected = record.metrics.engine if record.metrics else None
    rule = (detected and detected.hit_rule) or manifest.engine.hit_rule or HitRule.CAP_THEN_FLOOR
    return ServerModel(rule=rule, block_size=manifest.block_size, head_len=manifest.frame.head_len)


def _added_tokens(plan: PlanArrays, results: PassArrays) -> int:
    """Tokens that the server counted on top of the plan, if it is the same number for every request."""
    counted = results.prompt_tokens != ABSENT
    extra = np.unique(results.prompt_tokens[counted] - plan.input_len[counted])
    return int(extra[0]) if len(extra) == 1 and extra[0] > 0 else 0


def _requests(record: RunRecord, plan: PlanArrays, results: PassArrays) -> tuple[Requests, BoolArray]:
    """Requests of a pass with the warm-up of its lanes in front, and which of the lanes were warm."""
    lanes, domains = _warm_lanes(plan) if results.pass_name is Pass.HOT else (_none(), _none())
    tops = np.zeros(len(plan.lane_names), dtype=np.int64)
    np.maximum.at(tops, plan.lane, plan.prefix_len)
    warm_prefix = tops[lanes]
    requests = Requests(
        input_len=np.concatenate([warm_prefix + plan.input_len.max(), plan.input_len]),
        prefix_len=np.concatenate([warm_prefix, plan.prefix_len]),
        lane=np.concatenate([lanes, plan.lane]),
        domain=np.concatenate([domains, plan.domain]),
        counted=np.concatenate([np.zeros(len(lanes), np.bool_), np.ones(len(plan.lane), np.bool_)]),
    )
    if any(row.pass_ is Pass.WARMUP for row in record.results):
        return requests, _warm_served(record, plan, lanes)
    return requests, ~np.isin(lanes, _cold_lanes(plan, results))


def _cold_lanes(plan: PlanArrays, results: PassArrays) -> IntArray:
    """Lanes whose first request with a shared prefix hit nothing, so that nobody had warmed them."""
    sharing = np.flatnonzero((plan.hits_of(Pass.HOT) > 0) & results.ok)
    lanes, first = np.unique(plan.lane[sharing], return_index=True)
    cold: IntArray = lanes[results.cached_tokens[sharing[first]] == 0]
    return cold


def _warm_lanes(plan: PlanArrays) -> tuple[IntArray, IntArray]:
    """Every lane and its domain."""
    lanes, first = np.unique(plan.lane, return_index=True)
    return lanes.astype(np.int64), plan.domain[first]


def _warm_served(record: RunRecord, plan: PlanArrays, lanes: IntArray) -> BoolArray:
    """Which lanes the warm-up pass of the run has warmed."""
    rows = [row for row in record.results if row.pass_ is Pass.WARMUP]
    done = {lane_key(row.prefix_group_id, row.planned_dp_id) for row in rows if row.ok}
    _, first = np.unique(plan.lane, return_index=True)
    keys = [lane_key(plan.group_ids[plan.group[at]], plan.domain_ids[plan.domain[at]]) for at in first]
    return np.array([keys[lane] in done for lane in lanes], dtype=np.bool_)


def _none() -> IntArray:
    return np.empty(0, dtype=np.int64)
