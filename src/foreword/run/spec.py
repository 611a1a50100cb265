"""What a run is asked to do, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from foreword.terms import ExecutionMode, Pass

if TYPE_CHECKING:
    from foreword.collect.records import RequestRow


class Isolation(StrEnum):
    """How a pass is kept apart from what the server has cached before."""

    NONE = "none"
    SALT = "salt"
    RESET = "reset"
    NONCE = "nonce"


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run over a data set. ``None`` leaves a choice to the data set's manifest or to the server.

    The key is kept out of ``repr`` and is never written anywhere.
    """

    dataset: Path
    urls: tuple[str, ...] = field(repr=False)
    metrics_urls: tuple[str, ...] = field(default=(), repr=False)
    api_key: str | None = field(default=None, repr=False)
    concurrency: int | None = None
    mode: ExecutionMode | None = None
    model: str | None = None
    salt: str | None = field(default=None, repr=False)
    isolation: Isolation | None = None
    output: Path | None = None
    outputs: Path = Path("outputs")
    timeout_s: float = 120.0
    max_requests: int | None = None


PASSES: dict[ExecutionMode, tuple[Pass, ...]] = {
    ExecutionMode.COLD: (Pass.COLD,),
    ExecutionMode.PROGRESSIVE_PREFIX_FILL: (Pass.COLD,),
    ExecutionMode.WARMUP: (Pass.WARMUP, Pass.HOT),
    ExecutionMode.HOT: (Pass.HOT,),
    ExecutionMode.COMPARE: (Pass.COLD, Pass.WARMUP, Pass.HOT),
}


SERVER_GONE = "server_gone"


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """One pass in figures; ratios are token-weighted, ``None`` where nothing was reported.

    ``designed_hit_ratio`` is that of the requests that were sent. ``usage_hit_ratio`` needs every answer to report
    cached tokens; answers that leave them out are counted in ``unreported``.
    """

    name: Pass
    requests: int
    ok: int
    failed: int
    unreported: int
    designed_hit_ratio: float | None
    usage_hit_ratio: float | None
    counter_hit_ratio: float | None
    duration_s: float
    failures_by_kind: dict[str, int] = field(default_factory=dict)
    first_error: str | None = None

    @property
    def mostly_failed(self) -> bool:
        """Whether more than half of the requests that were sent failed."""
        return 2 * self.failed > self.requests


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A finished run: where it is and what it measured."""

    folder: Path
    state: str
    passes: tuple[PassOutcome, ...]
    warnings: tuple[str, ...]

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self.state == "interrupted"

    @property
    def server_failed(self) -> bool:
        """Whether most requests of a pass failed, or the run ended because the server was gone."""
        return self.state == SERVER_GONE or any(one.mostly_failed for one in self.passes)

    def document(self) -> dict[str, object]:
        """The outcome as ``--json`` prints it."""
        passes = [asdict(one) for one in self.passes]
        for one in passes:
            one["pass"] = one.pop("name")
        return {
            "run_dir": str(self.folder),
            "state": self.state,
            "passes": passes,
            "warnings": list(self.warnings),
        }


class Progress(Protocol):
    """What a run tells while it goes."""

    def start_pass(self, name: Pass, total: int | None) -> None:
        """Say that a pass begins; ``total`` requests if known."""

    def advance(self, row: RequestRow) -> None:
        """Say that a request has ended."""

    def warn(self, text: str) -> None:
        """Say something that the user should know."""


class Silent:
    """Progress for callers that want none."""

    def start_pass(self, name: Pass, total: int | None) -> None:
        """Do nothing."""

    def advance(self, row: RequestRow) -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Do nothing."""
