"""What a run notices about itself while rows come in: old cache content, a cold server, other token counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foreword.terms import ExecutionMode, Pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from foreword.collect.records import RequestRow
    from foreword.store.requests import SendRequest

_CHANCE_TOKENS = 8


@dataclass(slots=True)
class Watch:
    """Observations over one pass; ``findings`` words them.

    A lane is a group on a data-parallel rank. Its first request of a cold pass can hit nothing, and of a hot pass no
    more than was warmed: what it hits beyond that is content from before the run. It takes a block at least, or where
    single tokens match, more than prompts share by chance.
    """

    name: Pass
    mode: ExecutionMode
    block_size: int
    lanes: set[tuple[str, int]] = field(default_factory=set)
    first_ids: set[str] = field(default_factory=set)
    residual: tuple[str, int] | None = None
    beyond: tuple[str, int, int] | None = None
    cold_start: str | None = None
    miscounted: int = 0
    example: tuple[str, int, int] | None = None

    def sending(self, requests: Iterable[SendRequest]) -> Iterator[SendRequest]:
        """Pass requests on, noting which are the first of their lane."""
        for request in requests:
            lane = (request.prefix_group_id, request.planned_dp_id)
            if lane not in self.lanes:
                self.lanes.add(lane)
                self.first_ids.add(request.request_id)
            yield request

    def ended(self, row: RequestRow) -> None:
        """Look at one row."""
        if not row.ok:
            return
        if row.prompt_tokens is not None and row.prompt_tokens != row.input_len:
            self.miscounted += 1
            self.example = self.example or (row.request_id, row.prompt_tokens, row.input_len)
        if row.request_id in self.first_ids:
            self._first_of_lane(row)

    def _first_of_lane(self, row: RequestRow) -> None:
        hit = row.cached_tokens or 0
        least = self.block_size if self.block_size > 1 else _CHANCE_TOKENS
        if self.name is Pass.COLD and row.expected_hit_len == 0 and hit >= least:
            self.residual = self.residual or (row.request_id, hit)
        if self.name is Pass.HOT and row.expected_hit_len is not None and hit >= row.expected_hit_len + least:
            self.beyond = self.beyond or (row.request_id, hit, row.expected_hit_len)
        warm = self.name is Pass.HOT and self.mode is ExecutionMode.HOT
        if warm and row.expected_hit_len and row.cached_tokens == 0:
            self.cold_start = self.cold_start or row.request_id

    @property
    def not_warm(self) -> str | None:
        """That the server was not warm, as soon as the first request of a lane has shown it."""
        if self.cold_start is None:
            return None
        return (
            f"the server is not warm: request {self.cold_start} is the first of its lane in the hot pass and hit "
            f"nothing; --mode warmup warms it first"
        )

    def findings(self) -> list[str]:
        """One sentence for each thing noticed."""
        told: list[str] = []
        if self.residual:
            request_id, cached = self.residual
            told.append(
                f"residual cache: request {request_id} is the first of its lane in the cold pass, "
                f"but the server had {cached} tokens of it cached"
            )
        if self.beyond:
            request_id, cached, planned = self.beyond
            told.append(
                f"residual cache: request {request_id} hit {cached} tokens in the hot pass where {planned} are warmed: "
                f"the server has served this data set before"
            )
        if self.example:
            request_id, counted, planned = self.example
            told.append(
                f"the server counts other prompt lengths than planned for {self.miscounted} requests of the "
                f"{self.name} pass (request {request_id}: {counted} instead of {planned} tokens)"
            )
        return told
