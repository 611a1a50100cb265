"""Verdicts: the construction's own, and the run's by the guide ranges of RFC 3.3.21."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from foreword.collect.ladder import RungName
from foreword.report import text
from foreword.report.causes import likely_causes
from foreword.report.document import ConstructionVerdict, Doubt, Headline, RunVerdict
from foreword.report.evidence import design_of_served
from foreword.report.summary import summary
from foreword.terms import ExecutionMode, Pass, RuntimeVerdict, Semantics

if TYPE_CHECKING:
    from foreword.collect.ladder import Ladder
    from foreword.report.document import PassSection, RequestCounts
    from foreword.report.evidence import Evidence
    from foreword.report.records import Manifest

ENOUGH_SUCCESSES = Fraction(9, 10)


def designed_pass(mode: str, semantics: str | None) -> Pass:
    """The pass whose hit ratio was designed (workload decisions, 1)."""
    if mode == ExecutionMode.COMPARE:
        return Pass.HOT if semantics == Semantics.STATIC_PREFIX_RATIO else Pass.COLD
    return Pass.HOT if mode in {ExecutionMode.WARMUP, ExecutionMode.HOT} else Pass.COLD


def target_is_informational(designed: Pass, semantics: str | None) -> bool:
    """Whether the target speaks of another pass than the designed one."""
    meant = Pass.HOT if semantics == Semantics.STATIC_PREFIX_RATIO else Pass.COLD
    return semantics is not None and designed is not meant


def guide(manifest: Manifest, groups: int, *, domains: int) -> tuple[int, str]:
    """Percentage points that the RFC's guide allows between design and run, and the case it names."""
    if groups > 1 and domains > 1:
        return 10, text.GUIDE_MANY_CACHES
    if manifest.execution_mode == ExecutionMode.PROGRESSIVE_PREFIX_FILL:
        return 5, text.GUIDE_PROGRESSIVE
    if groups > 1:
        return 5, text.GUIDE_MANY_PREFIXES
    return 5, text.GUIDE_SINGLE


def headline(evidence: Evidence, section: PassSection, *, ladder: Ladder, designed: Pass) -> Headline:
    """The four numbers of a pass and their verdicts."""
    manifest = evidence.record.manifest
    theory, by_name = manifest.theoretical_result, {rung.name: rung for rung in ladder.rungs}
    measured, engine = by_name.get(RungName.MEASURED), by_name.get(RungName.ENGINE_RULE)
    head = Headline(
        pass_name=evidence.pass_name,
        designed_pass=designed,
        sentence="",
        target_hit_ratio=theory.target_hit_ratio,
        target_is_informational=target_is_informational(evidence.pass_name, manifest.semantics),
        designed_hit_ratio=float(by_name[RungName.DESIGNED].ratio),
        engine_rule_hit_ratio=None if engine is None else float(engine.ratio),
        measured_hit_ratio=None if measured is None else float(measured.ratio),
        measured_by=None if evidence.measured is None else evidence.measured.by,
        construction=ConstructionVerdict(
            status=theory.validation_status,
            reason=theory.reason,
            deviation_points=theory.signed_deviation * 100,
            max_reachable_hit_ratio=theory.max_reachable_hit_ratio,
        ),
        runtime=_run_verdict(evidence, section.requests, ladder=ladder, designed=designed),
    )
    causes = likely_causes(evidence, section.ladder)
    return head.model_copy(update={"sentence": summary(head, section.requests, causes=causes)})


def _run_verdict(evidence: Evidence, counts: RequestCounts, *, ladder: Ladder, designed: Pass) -> RunVerdict:
    record, by_name = evidence.record, {rung.name: rung for rung in ladder.rungs}
    domains = max(len(evidence.plan.domain_ids), record.manifest.routing.dp_size, len(record.run.urls))
    points, case = guide(record.manifest, len(evidence.plan.group_ids), domains=domains)
    whole = counts.succeeded == counts.planned
    design = by_name[RungName.DESIGNED] if whole else design_of_served(evidence)
    measured = by_name.get(RungName.MEASURED)
    deviation = None if measured is None or design is None else measured.ratio - design.ratio
    outside = deviation is not None and abs(deviation) > Fraction(points, 100)
    reported = record.metrics.block_size_reported if record.metrics else None
    other_blocks = reported is not None and reported != record.manifest.block_size
    doubt = _doubt(counts, ran=evidence.pass_name is designed, measured=deviation is not None)
    if doubt is None and other_blocks and not outside:
        doubt = Doubt.BLOCK_SIZE
    verdict = RuntimeVerdict.OUTSIDE_GUIDE if outside else RuntimeVerdict.WITHIN_GUIDE
    return RunVerdict(
        verdict=verdict if doubt is None else RuntimeVerdict.UNPROVEN,
        doubt=doubt,
        deviation_points=None if deviation is None else float(deviation * 100),
        design_hit_ratio=None if design is None else float(design.ratio),
        design_replayed=not whole,
        guide_points=points,
        guide_case=case,
        block_size_planned=record.manifest.block_size,
        block_size_reported=reported,
    )


def _doubt(counts: RequestCounts, *, ran: bool, measured: bool) -> Doubt | None:
    """Why a pass proves nothing, whatever it measured."""
    if not ran or not counts.succeeded + counts.failed:
        return Doubt.NOT_SENT
    if not counts.succeeded:
        return Doubt.NO_SUCCESS
    if counts.succeeded < ENOUGH_SUCCESSES * counts.asked:
        return Doubt.FEW_SUCCEEDED
    return None if measured else Doubt.NOT_REPORTED
