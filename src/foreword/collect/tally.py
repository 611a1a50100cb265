"""Designed and reported hits of one pass, summed over its rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreword.collect.records import RequestRow


@dataclass(slots=True)
class PassTally:
    """Token sums of a pass. Reported sums are over answers that report cached tokens; the others are counted."""

    requests: int = 0
    ok: int = 0
    unreported: int = 0
    planned_tokens: int = 0
    planned_hits: int = 0
    planned_unknown: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    failures_by_kind: Counter[str] = field(default_factory=Counter)
    first_error: str | None = None

    def add(self, row: RequestRow) -> None:
        """Count one request."""
        self.requests += 1
        self.planned_tokens += row.input_len
        if row.expected_hit_len is None:
            self.planned_unknown += 1
        else:
            self.planned_hits += row.expected_hit_len
        if not row.ok:
            self.failures_by_kind[row.error_kind or "other"] += 1
            self.first_error = self.first_error or row.error
            return
        self.ok += 1
        if row.cached_tokens is None or row.prompt_tokens is None:
            self.unreported += 1
            return
        self.prompt_tokens += row.prompt_tokens
        self.cached_tokens += row.cached_tokens

    @property
    def designed_hit_ratio(self) -> float | None:
        """Planned hits over planned tokens of the requests that were sent."""
        return None if self.planned_unknown or not self.planned_tokens else self.planned_hits / self.planned_tokens

    @property
    def usage_hit_ratio(self) -> float | None:
        """Cached over prompt tokens as reported; ``None`` unless every answer reports them (absent is not 0)."""
        return None if self.unreported or not self.prompt_tokens else self.cached_tokens / self.prompt_tokens
