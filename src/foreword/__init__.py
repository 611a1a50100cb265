"""Foreword plans, generates, runs and explains prefix-cache workloads for LLM serving.

Names load their modules on first use, so that ``import foreword`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from foreword._version import __version__

if TYPE_CHECKING:
    from foreword.config.dataset import DatasetConfig
    from foreword.config.server import ServerConfig
    from foreword.errors import ForewordError
    from foreword.flow import Making, generate, plan, report, run, validate
    from foreword.run.spec import RunSpec
    from foreword.store.configs import load_dataset_config

_HOMES = {
    "DatasetConfig": "foreword.config.dataset",
    "ForewordError": "foreword.errors",
    "Making": "foreword.flow",
    "RunSpec": "foreword.run.spec",
    "ServerConfig": "foreword.config.server",
    "generate": "foreword.flow",
    "load_dataset_config": "foreword.store.configs",
    "plan": "foreword.flow",
    "report": "foreword.flow",
    "run": "foreword.flow",
    "validate": "foreword.flow",
}

__all__ = [
    "DatasetConfig",
    "ForewordError",
    "Making",
    "RunSpec",
    "ServerConfig",
    "__version__",
    "generate",
    "load_dataset_config",
    "plan",
    "report",
    "run",
    "validate",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'foreword' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
