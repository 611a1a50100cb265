"""What a trace is made of: rows, and why a line is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from foreword.errors import DataError

if TYPE_CHECKING:
    from array import array

    from foreword.cache.masks import BlockMask

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
BOM = b"\xef\xbb\xbf"
"""A mark of byte order, which may stand before the first line."""

PREFIX_MATCH = "prefix_match"
"""The one ``query_type`` that is replayed."""


class RowKind(StrEnum):
    """What a row does; a request reads now and writes the same keys a delay later."""

    GET = "get"
    WRITE = "write"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One row; ``keys`` are signed 64-bit, ``line`` is its place in the file, counted from 1.

    A write has ``input_len`` 0; what a kind of row does not have is at its default.
    """

    kind: RowKind
    instance_id: str
    timestamp_ns: int
    keys: array[int]
    input_len: int = 0
    block_mask: BlockMask = 0
    ttl_us: int = 0
    query_type: str = PREFIX_MATCH
    trace_id: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class RowError:
    """Why a line is refused: the field, a reason that is the same for all such lines, and what stood there."""

    line: int
    field: str
    reason: str
    found: str = ""

    @property
    def kind(self) -> str:
        """What counts of skipped rows go by."""
        return f"{self.field}: {self.reason}"

    def at(self, line: int) -> RowError:
        """The same error of another line."""
        return replace(self, line=line)

    def __str__(self) -> str:
        return f"{self.kind}, got {self.found}" if self.found else self.kind


class RowRefused(DataError):
    """A row that turned out wrong when it was to be executed."""

    def __init__(self, error: RowError) -> None:
        super().__init__(str(error), field=error.field)
        self.error = error
