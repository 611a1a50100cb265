"""Verdicts: the construction's own, and the run's by the guide ranges of RFC 3.3.21."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from foreword.collect.ladder import RungName
from foreword.report import text
from foreword.report.document import ConstructionVerdict, Headline, RunVerdict
from foreword.report.evidence import design_of_served
from foreword.terms import ExecutionMode, Pass, RuntimeVerdict, Semantics

if TYPE_CHECKING:
    from foreword.collect.ladder import Ladder, Rung
    from foreword.report.evidence import Evidence
    from foreword.report.records import Manifest, RunRecord


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


def headline(record: RunRecord, evidence: Evidence, *, ladder: Ladder) -> Headline:
    """The four numbers and their verdicts."""
    theory = record.manifest.theoretical_result
    by_name = {rung.name: rung for rung in ladder.rungs}
    designed, measured = by_name[RungName.DESIGNED], by_name.get(RungName.MEASURED)
    run = _run_verdict(record, evidence, designed, measured)
    construction = ConstructionVerdict(
        status=theory.validation_status,
        reason=theory.reason,
        deviation_points=theory.signed_deviation * 100,
        max_reachable_hit_ratio=theory.max_reachable_hit_ratio,
    )
    engine = by_name.get(RungName.ENGINE_RULE)
    return Headline(
        pass_name=evidence.pass_name,
        sentence=text.sentence(run, construction, measured=None if measured is None else float(measured.ratio)),
        target_hit_ratio=theory.target_hit_ratio,
        target_is_informational=target_is_informational(evidence.pass_name, record.manifest.semantics),
        designed_hit_ratio=float(designed.ratio),
        engine_rule_hit_ratio=None if engine is None else float(engine.ratio),
        measured_hit_ratio=None if measured is None else float(measured.ratio),
        measured_by=None if evidence.measured is None else evidence.measured.by,
        construction=construction,
        runtime=run,
    )


def _run_verdict(record: RunRecord, evidence: Evidence, designed: Rung, measured: Rung | None) -> RunVerdict:
    domains = max(len(evidence.plan.domain_ids), record.manifest.routing.dp_size, len(record.run.urls))
    points, case = guide(record.manifest, len(evidence.plan.group_ids), domains=domains)
    whole = bool(evidence.results.ok.all())
    design = designed if whole else design_of_served(evidence)
    deviation = None if measured is None or design is None else measured.ratio - design.ratio
    verdict = RuntimeVerdict.UNPROVEN
    if deviation is not None:
        within = abs(deviation) <= Fraction(points, 100)
        verdict = RuntimeVerdict.WITHIN_GUIDE if within else RuntimeVerdict.OUTSIDE_GUIDE
    return RunVerdict(
        verdict=verdict,
        deviation_points=None if deviation is None else float(deviation * 100),
        design_hit_ratio=None if design is None else float(design.ratio),
        design_replayed=not whole,
        guide_points=points,
        guide_case=case,
    )
