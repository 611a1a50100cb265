"""A run folder opened whole, as tests look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foreword.store.runs import open_run, read_document, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreword.collect.records import RequestRow
    from foreword.store.runs import RunFolder


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was written; rows are streamed by ``rows``."""

    folder: RunFolder
    run: dict[str, Any]
    performance: dict[str, Any]
    prefix_cache: dict[str, Any]

    def rows(self) -> Iterator[RequestRow]:
        """Rows of all passes in completion order."""
        return read_rows(self.folder.requests)


def load_run(root: Path) -> StoredRun:
    """Open a run folder with all its summaries."""
    folder = open_run(root)
    return StoredRun(
        folder=folder,
        run=read_document(folder.run),
        performance=read_document(folder.performance),
        prefix_cache=read_document(folder.prefix_cache),
    )
