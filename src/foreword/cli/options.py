"""Flags that several commands share, and how they speak."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Json = Annotated[bool, Parameter(negative="", help="Print one JSON object instead of text.")]
Strict = Annotated[bool, Parameter(negative="", help="Exit with 1 where there are warnings.")]
Overrides = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", help="Override a config key: path.to.key=value; may be repeated."),
]


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON object on stdout."""
    print(json.dumps(document, ensure_ascii=False, indent=2))


def print_warnings(warnings: Iterable[str]) -> None:
    """Warnings on stderr, one line each."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
