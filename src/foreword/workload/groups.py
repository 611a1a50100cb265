"""Prefix groups: which requests share a master prefix (RFC 3.3.2; decision 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from foreword.config.dataset import DEFAULT_GROUP
from foreword.errors import ConfigError
from foreword.terms import IntArray, permutation
from foreword.workload.lengths import quotas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.config.dataset import PrefixConfig


@dataclass(frozen=True, slots=True)
class Groups:
    """Names, each request's group as an index into them, and traffic weights for interleaving."""

    ids: tuple[str, ...]
    of_request: IntArray
    weights: tuple[float, ...]

    @property
    def sizes(self) -> IntArray:
        """Requests of each group."""
        return np.bincount(self.of_request, minlength=len(self.ids)).astype(np.int64)

    @property
    def empty(self) -> tuple[str, ...]:
        """Groups that got no request."""
        return tuple(id_ for id_, size in zip(self.ids, self.sizes, strict=True) if size == 0)


def allocate(prefix: PrefixConfig, n: int, *, key: int) -> Groups:
    """Give each of ``n`` requests a group: one, equal shares, counts, weights or an explicit list.

    An assignment that names a file must have been read into a list before.
    """
    ids = prefix.group_ids
    if prefix.assignment is not None:
        return _explicit(ids, prefix.assignment, n)
    shares = _shares(prefix, len(ids))
    members = np.repeat(np.arange(len(ids)), quotas(shares, n))
    return Groups(ids, members[permutation(key, n)].astype(np.int64), tuple(float(share) for share in shares))


def sum_by(index: IntArray, values: IntArray, *, count: int) -> IntArray:
    """Exact sums of values by an index below ``count``."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, index, values)
    return sums


def _shares(prefix: PrefixConfig, count: int) -> Sequence[float]:
    weights = [group.request_weight for group in prefix.groups if group.request_weight is not None]
    counts = [group.request_count for group in prefix.groups if group.request_count is not None]
    return weights or counts or [1] * count


def _explicit(ids: tuple[str, ...], names: Sequence[str] | str, n: int) -> Groups:
    if isinstance(names, str) or len(names) != n:
        found = "a file that was not read" if isinstance(names, str) else f"{len(names)} entries"
        raise ConfigError(f"prefix.assignment: {found} for {n} requests", field="prefix.assignment")
    known = tuple(dict.fromkeys(names)) if ids == (DEFAULT_GROUP,) else ids
    index = {id_: i for i, id_ in enumerate(known)}
    unknown = next((name for name in names if name not in index), None)
    if unknown is not None:
        message = f"prefix.assignment: {unknown} is no group of prefix.groups"
        raise ConfigError(message, field="prefix.assignment", advice=f"known: {', '.join(known[:8])}")
    of_request = np.fromiter((index[name] for name in names), dtype=np.int64, count=n)
    return Groups(known, of_request, (1.0,) * len(known))
