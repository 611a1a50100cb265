"""Columns of large traces, kept between runs as plain arrays under the digest of the file's bytes.

They stand in ``$FOREWORD_CACHE_DIR``, else ``$XDG_CACHE_HOME/foreword`` or ``~/.cache/foreword``. A cache that cannot
be read or written is left alone: it only saves time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from foreword.trace.columns import ROW_COLUMNS, TraceColumns

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 1
MOST_BYTES = 8 << 30
"""Room of all kept traces together; the ones used longest ago make way."""

_NAMES = "names.json"
_PIECE_BYTES = 4 << 20


def cache_folder() -> Path:
    """Where kept traces stand."""
    given = os.environ.get("FOREWORD_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(given) if given else (Path(home) if home else Path("~/.cache").expanduser()) / "foreword"


@dataclass(frozen=True, slots=True)
class TraceCache:
    """The place of one trace in the cache."""

    folder: Path

    @classmethod
    def of(cls, trace: Path) -> TraceCache:
        """The place of the trace with these bytes."""
        digest = xxhash.xxh3_128()
        with trace.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
        return cls(cache_folder() / "traces" / f"{digest.hexdigest()}-{FORMAT}")

    def load(self) -> TraceColumns | None:
        """What was kept, mapped into memory; ``None`` if there is nothing whole."""
        try:
            names = json.loads((self.folder / _NAMES).read_text("utf-8"))
            arrays = {name: np.load(self.folder / f"{name}.npy", mmap_mode="r") for name in (*ROW_COLUMNS, "keys")}
            os.utime(self.folder)
            masks = tuple(bytes.fromhex(mask) for mask in names["masks"])
            return TraceColumns(instances=tuple(names["instances"]), masks=masks, **arrays)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, columns: TraceColumns) -> None:
        """Keep the columns, whole or not at all."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            growing = Path(tempfile.mkdtemp(dir=self.folder.parent, prefix="new-"))
            for name in (*ROW_COLUMNS, "keys"):
                np.save(growing / f"{name}.npy", getattr(columns, name), allow_pickle=False)
            names = {"instances": columns.instances, "masks": [mask.hex() for mask in columns.masks]}
            (growing / _NAMES).write_text(json.dumps(names), "utf-8")
            make_room(self.folder.parent, _size_bytes([growing]))
            growing.rename(self.folder)
        except OSError:
            return


def make_room(folder: Path, needed_bytes: int) -> None:
    """Remove what was used longest ago, and what a killed process left, until the new one fits."""
    kept = sorted((path for path in folder.iterdir() if not path.name.startswith("new-")), key=_used)
    while kept and _size_bytes(kept) + needed_bytes > MOST_BYTES:
        shutil.rmtree(kept.pop(0), ignore_errors=True)


def _used(path: Path) -> float:
    return path.stat().st_mtime


def _size_bytes(folders: Iterable[Path]) -> int:
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*"))
