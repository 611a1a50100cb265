"""Between the facade's objects and the arrays that the stages work on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from foreword.errors import ConfigError
from foreword.terms import CacheScope, IntArray
from foreword.workload.groups import Groups
from foreword.workload.plan import Prompts, check_prompts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foreword.rfc.types import PrefixGroupPlan, RequestPlan


@dataclass(frozen=True, slots=True)
class Ends:
    """Tokens that the engine puts around the content of every prompt."""

    head_len: int = 0
    tail_len: int = 0


@dataclass(frozen=True, slots=True)
class Members:
    """All requests of all groups in generation order, and their groups."""

    requests: tuple[RequestPlan, ...]
    groups: Groups

    @classmethod
    def of(cls, groups: Mapping[str, PrefixGroupPlan]) -> Members:
        """Collect the requests of groups; generation order is that of their names."""
        if not any(plan.requests for plan in groups.values()):
            raise ConfigError("no group has requests", field="groups", advice="allocate requests to groups first")
        pairs = [(request, index) for index, plan in enumerate(groups.values()) for request in plan.requests]
        pairs.sort(key=lambda pair: pair[0].request_id)
        of_request = np.fromiter((index for _, index in pairs), dtype=np.int64, count=len(pairs))
        weights = tuple(plan.weight for plan in groups.values())
        return cls(tuple(request for request, _ in pairs), Groups(tuple(groups), of_request, weights))

    def column(self, name: str) -> IntArray:
        """One integer field of every request."""
        return np.fromiter((getattr(each, name) for each in self.requests), dtype=np.int64, count=len(self.requests))

    @property
    def send_order(self) -> IntArray:
        """Requests in the order of their ``order_index``."""
        return np.argsort(self.column("order_index"), kind="stable")

    def prompts(self, block_size: int, minimum_non_shared_length: int, *, cache_scope: str, ends: Ends) -> Prompts:
        """What the planner may share. Raises ``ConfigError`` for the first prompt that is too short."""
        rank, group = self.column("planned_dp_id"), self.groups.of_request
        domain = rank if CacheScope(cache_scope) is CacheScope.DP_LOCAL else np.zeros_like(rank)
        prompts = Prompts(
            input_len=self.column("input_len"),
            group=group,
            lane=domain * len(self.groups.ids) + group,
            domain=domain,
            block_size=block_size,
            minimum_non_shared=minimum_non_shared_length,
            head_len=ends.head_len,
            tail_len=ends.tail_len,
        )
        check_prompts(prompts)
        return prompts

    def regrouped(
        self, groups: Mapping[str, PrefixGroupPlan], requests: Iterable[RequestPlan]
    ) -> dict[str, PrefixGroupPlan]:
        """The groups with other versions of these requests, in the order that each group has them in."""
        changed = {request.request_id: request for request in requests}
        return {
            name: replace(plan, requests=tuple(changed[request.request_id] for request in plan.requests))
            for name, plan in groups.items()
        }
