"""One column of a table that a config names: JSONL, CSV, Parquet, or a plain list with one value a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from foreword.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def read_column(path: Path, column: str | None, *, known: tuple[str, ...], field: str) -> list[object]:
    """Values of ``column``, or of the first column whose name is known, in file order.

    Compressed files (``.gz``, ``.zst``) are read as they are. Raises ``ConfigError`` naming the ``field``.
    """
    try:
        table = _read_table(path)
    except FileNotFoundError:
        raise ConfigError(f"{field}: there is no file {path.name}", field=field) from None
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError, ValueError) as failure:
        reason = str(failure).splitlines()[0]
        raise ConfigError(f"{field}: {path.name} cannot be read as a table: {reason}", field=field) from None
    if table.height == 0:
        raise ConfigError(f"{field}: {path.name} has no rows", field=field)
    name = column or next((name for name in known if name in table.columns), None)
    if name is None and table.width == 1:
        name = table.columns[0]
    if name not in table.columns:
        wanted = f"column {column}" if column else f"no column named {' or '.join(known)}"
        advice = f"its columns: {', '.join(table.columns[:8])}"
        raise ConfigError(f"{field}: {path.name} has {'no ' if column else ''}{wanted}", field=field, advice=advice)
    return table[name].to_list()


def _read_table(path: Path) -> pl.DataFrame:
    kinds = [suffix.lower() for suffix in path.suffixes]
    if ".jsonl" in kinds or ".ndjson" in kinds:
        return pl.scan_ndjson(path).collect() if path.stat().st_size else pl.DataFrame()
    if ".parquet" in kinds:
        return pl.read_parquet(path)
    if ".csv" in kinds:
        return pl.read_csv(path) if path.stat().st_size else pl.DataFrame()
    lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    values: list[object] = [int(line) if line.lstrip("-").isdigit() else line for line in lines]
    return pl.DataFrame({"value": pl.Series(values, strict=False)}) if values else pl.DataFrame()
