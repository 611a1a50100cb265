"""How the cache's kernels are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")

_UNCOUNTED: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_PART: dict[str, Any] = {**_UNCOUNTED, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def entry(function: _F) -> _F:
    """Compile what Python calls. It makes no array, so that references to arrays need not be counted."""
    compiled: _F = njit(**_UNCOUNTED)(function)
    return compiled


def kernel(function: _F) -> _F:
    """Compile what other compiled code calls: it becomes part of its caller, and handing it arrays is free."""
    compiled: _F = njit(**_PART)(function)
    return compiled
