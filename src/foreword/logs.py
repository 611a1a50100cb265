"""What the stages say of themselves while they work: seven kinds of log (RFC 3.4.3), and errors with their context.

Records are those of the standard library, named ``foreword.<kind>``; figures are extra fields. A prompt, key, header or
address is never part of one, and of a path only its last name.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING

from foreword.errors import ConfigError, ForewordError
from foreword.simulate.documents import length_report, theoretical_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.run.spec import RunOutcome
    from foreword.simulate.design import Design

logging.getLogger("foreword").addHandler(logging.NullHandler())
"""Without it the standard library would print warnings that nobody asked for."""


class Kind(StrEnum):
    """The kinds of log that the RFC names."""

    CONFIG = "config"
    LENGTHS = "lengths"
    PLANNING = "planning"
    COLLISIONS = "collisions"
    SIMULATION = "simulation"
    METRICS = "metrics"
    REPORT = "report"


def note(kind: Kind, event: str, **fields: object) -> None:
    """Log an event of a stage with its figures."""
    logging.getLogger(f"foreword.{kind}").info(event, extra=fields)


def warn(kind: Kind, event: str, **fields: object) -> None:
    """Log what a user should know of a stage."""
    logging.getLogger(f"foreword.{kind}").warning(event, extra=fields)


@contextmanager
def about(kind: Kind, dataset_id: str) -> Iterator[None]:
    """Give failures inside the stage and the data set that they belong to."""
    try:
        yield
    except ForewordError as failure:
        failure.stage = failure.stage or kind.value
        failure.dataset_id = failure.dataset_id or dataset_id
        raise


def note_failure(failure: ForewordError) -> None:
    """Log a failure with its context, under the stage in which it happened."""
    stage = failure.stage or ("config" if isinstance(failure, ConfigError) else "command")
    fields = {"error": type(failure).__name__, "exit_code": failure.exit_code, **failure.context(), "stage": stage}
    logging.getLogger(f"foreword.{stage}").error(failure.message, extra=fields)


def note_design(planned: Design) -> None:
    """Log what config, lengths, prefixes and predicted hits of a design came to."""
    config, name = planned.config, planned.config.dataset_id
    note(
        Kind.CONFIG,
        "config checked",
        dataset_id=name,
        seed=config.seed,
        requests=config.request_count,
        engine=config.engine.value,
        prompt_format=config.prompt_format.value,
        block_size=planned.facts.block_size,
    )
    if _heard(Kind.LENGTHS):
        lengths = length_report(planned.prompts.input_len, planned.lengths.edges, seed=config.seed)
        note(Kind.LENGTHS, "lengths drawn", dataset_id=name, **lengths)
    for warning in planned.warnings:
        warn(Kind.PLANNING, warning, dataset_id=name)
    groups = len(planned.groups.ids)
    note(Kind.PLANNING, "prefixes planned", dataset_id=name, strategy=planned.plan.strategy, groups=groups)
    if _heard(Kind.SIMULATION):
        note(Kind.SIMULATION, "hits predicted", dataset_id=name, **theoretical_result(planned))


def _heard(kind: Kind) -> bool:
    """Whether figures of this kind go anywhere; those of a large design take time to make."""
    return logging.getLogger(f"foreword.{kind}").isEnabledFor(logging.INFO)


def note_run(outcome: RunOutcome) -> None:
    """Log what each pass of a run measured; of failures their kinds, not what servers said."""
    for warning in outcome.warnings:
        warn(Kind.METRICS, warning, run=outcome.folder.name)
    for one in outcome.passes:
        figures = {key: value for key, value in asdict(one).items() if key not in {"name", "first_error"}}
        note(Kind.METRICS, "pass measured", run=outcome.folder.name, pass_name=one.name.value, **figures)
