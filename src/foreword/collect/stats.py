"""Exact quantiles of finite samples, by linear interpolation between order statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

QUANTILES: Mapping[str, float] = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def summary(values: npt.NDArray[np.float64]) -> dict[str, float | int | None]:
    """Count, mean, quantiles and extremes; ``None`` where there is no value at all.

    >>> summary(np.array([1.0, 2.0, 3.0]))["p50"]
    2.0
    """
    if not len(values):
        return {"count": 0} | dict.fromkeys(("mean", *QUANTILES, "min", "max"))
    ordered = np.sort(values)
    quantiles = np.quantile(ordered, list(QUANTILES.values()))
    return {
        "count": len(ordered),
        "mean": float(ordered.mean()),
        **{name: float(value) for name, value in zip(QUANTILES, quantiles, strict=True)},
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
    }


def failure_adjusted(values: npt.NDArray[np.float64], failures: int) -> dict[str, float | None]:
    """Quantiles over all requests when each failure counts as slower than every success.

    ``None`` says that the quantile falls among the failures.

    >>> failure_adjusted(np.array([1.0, 2.0, 3.0]), failures=7)["p50"] is None
    True
    """
    ordered, total = np.sort(values), len(values) + failures
    adjusted: dict[str, float | None] = {}
    for name, quantile in QUANTILES.items():
        position = quantile * (total - 1)
        low, high = int(np.floor(position)), int(np.ceil(position))
        inside = total > 0 and high < len(ordered)
        adjusted[name] = float(np.interp(position, [low, high], ordered[[low, high]])) if inside else None
    return adjusted
