"""Length laws: how many tokens each prompt, or each answer, has (RFC 3.3.1)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from foreword.config.base import ConfigModel

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 2**31 - 1
Count = Annotated[int, Field(strict=True, ge=1, le=MOST)]
Natural = Annotated[int, Field(strict=True, ge=0, le=MOST)]
OutOfRange = Literal["resample", "clip", "error"]


class FixedLength(ConfigModel):
    """Every length is ``value``."""

    mode: Literal["fixed"]
    value: Count


class ExplicitLength(ConfigModel):
    """One length for each request, in generation order: a list, or a column of a file."""

    mode: Literal["explicit"]
    values: tuple[Count, ...] | None = None
    path: str | None = None
    column: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _check_one_source(self.values, self.path)
        return self


class TruncatedNormalLength(ConfigModel):
    """A normal law, rounded to integers and kept within ``[min, max]``."""

    mode: Literal["truncated_normal"]
    min: Count
    max: Count
    mean: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
    std: Annotated[float, Field(strict=True, ge=0, le=MOST)]
    out_of_range: OutOfRange = "resample"

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            message = f"min {self.min} is above max {self.max}"
            raise ValueError(message)
        if not self.min <= self.mean <= self.max:
            message = f"mean {self.mean:g} lies outside [{self.min}, {self.max}]; move the mean or the bounds"
            raise ValueError(message)
        return self


class LengthBin(ConfigModel):
    """Integers of ``[lo, hi)``; the last bin of a histogram also holds its ``hi``."""

    range: tuple[Natural, Natural]
    weight: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.range[0] >= self.range[1]:
            message = f"range {list(self.range)} is empty; the first edge must be below the second"
            raise ValueError(message)
        return self


class HistogramLength(ConfigModel):
    """Bins with weights; the counts of the bins are quotas by largest remainder."""

    mode: Literal["histogram"]
    bins: Annotated[tuple[LengthBin, ...], Field(min_length=1)]
    out_of_range: OutOfRange = "resample"

    @model_validator(mode="after")
    def _weighted(self) -> Self:
        if sum(bin_.weight for bin_ in self.bins) <= 0:
            message = "the weights of the bins sum to 0; give at least one bin a weight"
            raise ValueError(message)
        edges = sorted(bin_.range for bin_ in self.bins)
        if any(low[1] > high[0] for low, high in itertools.pairwise(edges)):
            message = "bins overlap; let each start where the one before it ends"
            raise ValueError(message)
        return self


class EmpiricalLength(ConfigModel):
    """Lengths drawn from a sample: a list, or a column of a file."""

    mode: Literal["empirical"]
    values: tuple[Count, ...] | None = None
    path: str | None = None
    column: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _check_one_source(self.values, self.path)
        return self


def _check_one_source(values: Sequence[int] | None, path: str | None) -> None:
    if (values is None) == (path is None):
        message = "give either values or path"
        raise ValueError(message)
    if values is not None and len(values) == 0:
        message = "values is empty"
        raise ValueError(message)


LengthLaw = Annotated[
    FixedLength | ExplicitLength | TruncatedNormalLength | HistogramLength | EmpiricalLength,
    Field(discriminator="mode"),
]
