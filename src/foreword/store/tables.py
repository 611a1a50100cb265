"""CSV text, the same for every table that is written."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A header and rows, quoted where needed, one line each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
