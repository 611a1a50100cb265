"""What it means for a verdict that some requests share more than they should (RFC 3.3.15; X22)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from foreword.terms import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from foreword.simulate.design import Design


def with_conflicts(design: Design, collisions: Mapping[str, Any]) -> Design:
    """The design with a warning for requests that were kept as they are; ``warn`` lowers a PASS, too.

    ``accept_with_warning`` leaves the status alone.
    """
    kept = int(collisions.get("kept_unproved") or 0) + int(collisions.get("kept_with_conflicts") or 0)
    masters = int(collisions.get("master_conflicts") or 0)
    if not kept and not masters:
        return design
    what = f"{kept} of {len(design.order)} requests were kept although they could not be set apart"
    what = f"{what}; {masters} blocks or chunks stand in the masters of two groups" if masters else what
    found = replace(design, warnings=(*design.warnings, what))
    lowered = design.config.suffix.collision_detection.on_conflict == "warn" and design.verdict.status is Status.PASS
    if not lowered:
        return found
    verdict = replace(design.verdict, status=Status.PASS_WITH_WARNING, message=f"{design.verdict.message}; {what}")
    return replace(found, verdict=verdict)
