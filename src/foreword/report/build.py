"""From a run folder, read, to the report document."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from foreword.collect.ladder import Remainder, RungName, classify_remainder, climb
from foreword.report import accounting, breakdown, series, text
from foreword.report.causes import Remaining, cause_checks
from foreword.report.document import (
    FactsSection,
    Finding,
    LadderSection,
    PassSection,
    ReportDocument,
    RequestCounts,
    RungSection,
)
from foreword.report.evidence import floor_ratio, gather, in_flight, rungs, server_model
from foreword.report.notices import notices
from foreword.report.performance import comparison, performance
from foreword.report.records import plan_arrays
from foreword.report.verdict import designed_pass, headline, target_is_informational
from foreword.report.wording import CAUSES
from foreword.terms import Pass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from foreword.collect.ladder import Ladder
    from foreword.report.document import CauseCheck, TokenProof
    from foreword.report.evidence import Evidence
    from foreword.report.records import Manifest, RunRecord


def examine(record: RunRecord) -> tuple[Evidence, ...]:
    """Evidence of every pass that ran, and of the designed pass even if it did not."""
    plan = plan_arrays(record.plan, [group.group_id for group in record.manifest.groups])
    ran = {row.pass_ for row in record.results} | {designed_pass(record.run.mode, record.manifest.semantics)}
    return tuple(gather(record, plan, pass_name=one) for one in (Pass.COLD, Pass.HOT) if one in ran)


def build_document(record: RunRecord, evidence: Sequence[Evidence]) -> ReportDocument:
    """The report of a run, from what ``examine`` found in it."""
    designed = designed_pass(record.run.mode, record.manifest.semantics)
    target = record.manifest.theoretical_result.target_hit_ratio
    ladders = [climb(rungs(one, target)) for one in evidence]
    sections = tuple(_pass_section(one, ladder, designed) for one, ladder in zip(evidence, ladders, strict=True))
    main = _main_pass(evidence, designed)
    return ReportDocument(
        headline=headline(evidence[main], sections[main], ladder=ladders[main], designed=designed),
        facts=_facts(record),
        notices=notices(record, evidence, sections=sections),
        passes=sections,
        comparison=comparison(sections),
        lengths=series.lengths(evidence[main].plan),
        watermarks=series.watermarks(evidence[main].plan),
    )


def _main_pass(evidence: Sequence[Evidence], designed: Pass) -> int:
    """Position of the designed pass, or of another one that ran when no request of the designed one was sent."""
    at = next(at for at, one in enumerate(evidence) if one.pass_name is designed)
    if evidence[at].results.recorded.any():
        return at
    return next((other for other, one in enumerate(evidence) if one.results.ok.any()), at)


def _pass_section(evidence: Evidence, ladder: Ladder, designed: Pass) -> PassSection:
    proofs = accounting.token_proofs(evidence)
    computed, predicted = series.ttft_by_computed(evidence)
    return PassSection(
        pass_name=evidence.pass_name,
        designed=evidence.pass_name is designed,
        requests=_counts(evidence),
        ladder=_ladder_section(evidence, ladder, proofs),
        token_proofs=proofs,
        length_proof=accounting.length_proof(evidence),
        hit_proof=accounting.hit_proof(evidence),
        groups=breakdown.by_group(evidence),
        classes=breakdown.by_class(evidence),
        lanes=breakdown.by_lane(evidence),
        domains=breakdown.by_domain(evidence),
        endpoints=breakdown.endpoints(evidence),
        performance=performance(evidence.record.performance.get(evidence.pass_name)),
        kv_usage=series.kv_usage(evidence),
        cumulative=series.cumulative(evidence),
        pairs=series.pairs(evidence),
        ttft_by_computed=computed,
        ttft_by_share=series.ttft_by_share(evidence),
        computed_is_predicted=predicted,
    )


def _counts(evidence: Evidence) -> RequestCounts:
    results = evidence.results
    recorded, ok = int(results.recorded.sum()), int(results.ok.sum())
    return RequestCounts(
        planned=len(results.ok),
        asked=min(len(results.ok), evidence.record.run.max_requests or len(results.ok)),
        succeeded=ok,
        failed=recorded - ok,
        not_sent=len(results.ok) - recorded,
        failures_by_kind=results.failures_by_kind,
        first_error=results.first_error,
    )


def _ladder_section(evidence: Evidence, ladder: Ladder, proofs: tuple[TokenProof, ...]) -> LadderSection:
    k = in_flight(evidence)
    several = max(len(evidence.plan.domain_ids), len(evidence.record.run.urls)) > 1
    floor = floor_ratio(evidence, k) if k is not None and k > 1 and not several else None
    remainder = classify_remainder(ladder, concurrent=several or (k or 1) > 1, floor_ratio=floor)
    loses = floor is None or floor < ladder.rungs[-2].ratio
    remaining = Remaining(gain=(ladder.remainder or 0) > 0 and not ladder.evicts, in_flight=k, order_matters=loses)
    checks = () if remainder is Remainder.NONE else cause_checks(evidence, proofs, step=remaining)
    return LadderSection(
        rungs=_rung_sections(evidence, ladder, measured_note=_measured_note(evidence, remainder, checks=checks)),
        not_sent=int((~evidence.results.recorded).sum()),
        remainder=remainder,
        max_in_flight=k,
        concurrency_floor_ratio=None if floor is None else float(floor),
        checks=checks,
    )


def _rung_sections(evidence: Evidence, ladder: Ladder, *, measured_note: str) -> tuple[RungSection, ...]:
    changes: list[Fraction | None] = [None, *(after.ratio - before.ratio for before, after in pairwise(ladder.rungs))]
    notes = text.RUNG_NOTES | {RungName.MEASURED: measured_note}
    if target_is_informational(evidence.pass_name, evidence.record.manifest.semantics):
        notes[RungName.TARGET] = text.TARGET_OF_OTHER_PASS
    return tuple(
        RungSection(
            name=rung.name,
            ratio=float(rung.ratio),
            hit_tokens=rung.hit_tokens,
            input_tokens=rung.input_tokens,
            step_points=None if change is None else float(change * 100),
            note=notes[rung.name],
        )
        for rung, change in zip(ladder.rungs, changes, strict=True)
    )


def _measured_note(evidence: Evidence, remainder: Remainder, *, checks: Sequence[CauseCheck]) -> str:
    if evidence.measured is None:
        return text.NOT_REPORTED
    likely = ", ".join(CAUSES[check.cause] for check in checks if check.finding is Finding.FOUND)
    step = f"not replayed; likely {likely}" if likely else text.REMAINDERS[remainder]
    return f"{text.MEASURED_BY[evidence.measured.by]}; the step: {step}"


def _prompt_facts(manifest: Manifest) -> dict[str, Any]:
    """What was sent, with which tokens, and what the server puts around it."""
    return {
        "prompt_format": manifest.prompt_format,
        "head_tokens": manifest.frame.head_len,
        "tail_tokens": manifest.frame.tail_len,
        "template": manifest.template.source if manifest.template else None,
        "tokenizer": _basename(manifest.tokenizer.name),
        "tokenizer_sha256": manifest.tokenizer.sha256,
    }


def _facts(record: RunRecord) -> FactsSection:
    manifest, run, metrics = record.manifest, record.run, record.metrics
    detected = metrics.engine if metrics else None
    capacities = metrics.cache_capacity_tokens if metrics else ()
    return FactsSection(
        run=record.name,
        state=run.state,
        started_utc=run.started_utc,
        foreword_version=run.foreword_version,
        generator_version=manifest.generator_version,
        dataset_id=manifest.dataset_id,
        seed=manifest.seed,
        mode=run.mode,
        semantics=manifest.semantics,
        isolation=run.isolation.applied,
        salt_probe=run.isolation.salt_probe,
        concurrency=_text(run.concurrency),
        model=run.model,
        **_prompt_facts(manifest),
        engine_planned=manifest.engine.name,
        engine_detected=detected.name if detected else None,
        engine_version=detected.version if detected else None,
        server=detected.server if detected else None,
        hit_rule=server_model(record).rule,
        block_size_planned=manifest.block_size,
        block_size_reported=metrics.block_size_reported if metrics else None,
        cache_capacity_tokens=sum(capacities) or None,
        caches=len(capacities),
        cache_scope=manifest.routing.cache_scope,
        dp_size=manifest.routing.dp_size,
        endpoints=len(run.urls),
        reencode_level=manifest.reencode.level,
        reencode_checked=manifest.reencode.checked,
        reencode_checked_full=manifest.reencode.checked_full,
        reencode_wrong=manifest.reencode.wrong,
        group_count=len({row.prefix_group_id for row in record.plan}),
        request_count=len(record.plan),
    )


def _basename(name: str | None) -> str | None:
    """Last part of a path, so that no folder of the machine is in a report; hub names stay whole."""
    return name.rpartition("/")[2] if name and name.startswith(("/", "~", ".")) else name


def _text(value: object) -> str | None:
    return None if value is None else str(value)
