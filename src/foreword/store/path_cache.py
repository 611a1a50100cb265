"""Dense ids of a kept trace's blocks: those that were asked for last stand beside its columns."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from foreword.simulate.compiled import Interned, intern_all
from foreword.store.trace_cache import make_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.simulate.compiled import Wanted
    from foreword.terms import IntArray

_FOLDER = "paths"
_NAMES = "names.json"
_ARRAYS = ("ids", "keys", "parents")


@dataclass(frozen=True, slots=True)
class KeptPaths:
    """Ids beside the columns of a kept trace."""

    trace: Path

    def intern(self, keys: IntArray, wanted: Sequence[Wanted]) -> Interned:
        """What ``intern_all`` gives: as it was kept if the last one to ask wanted the same, else new, and kept.

        A folder that cannot be read or written is left alone.
        """
        digest = _digest(wanted)
        try:
            return _load(self.trace / _FOLDER, digest)
        except (OSError, ValueError, KeyError, TypeError):
            interned = intern_all(keys, wanted)
            _save(self.trace, interned, digest)
            return interned


def _digest(wanted: Sequence[Wanted]) -> str:
    """What was asked for; the trace apart."""
    digest = xxhash.xxh3_128()
    for spans, written in wanted:
        digest.update(f"{len(spans)} {written} ".encode())
        digest.update(spans.tobytes())
    return digest.hexdigest()


def _load(folder: Path, digest: str) -> Interned:
    """What was kept for this digest, mapped into memory; raises where there is nothing whole."""
    names = json.loads((folder / _NAMES).read_text("utf-8"))
    if names["digest"] != digest:
        raise ValueError(digest)
    # Mapped as arrays that may be written to, in memory alone: kernels are compiled for such.
    ids, keys, parents = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in _ARRAYS)
    ends = np.cumsum(names["blocks"])[:-1]
    return Interned(ids, list(zip(np.split(keys, ends), np.split(parents, ends), strict=True)))


def _save(trace: Path, interned: Interned, digest: str) -> None:
    """Keep ids, whole or not at all, in place of earlier ones."""
    keys, parents = (np.concatenate([path[part] for path in interned.paths]) for part in (0, 1))
    try:
        growing = Path(tempfile.mkdtemp(dir=trace.parent, prefix="new-"))
        for name, array in zip(_ARRAYS, (interned.ids, keys, parents), strict=True):
            np.save(growing / f"{name}.npy", array, allow_pickle=False)
        blocks = [len(path) for path, _ in interned.paths]
        (growing / _NAMES).write_text(json.dumps({"digest": digest, "blocks": blocks}), "utf-8")
        shutil.rmtree(trace / _FOLDER, ignore_errors=True)
        growing.rename(trace / _FOLDER)
        make_room(trace.parent, 0)
    except OSError:
        return
