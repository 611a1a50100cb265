"""Ids of a kept trace's blocks: the same as new ones, and new ones whenever something else is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from foreword.simulate.compiled import Wanted, intern_all
from foreword.store import path_cache
from foreword.store.path_cache import KeptPaths

if TYPE_CHECKING:
    from pathlib import Path

    from foreword.simulate.compiled import Interned

KEYS = np.array([5, 6, 7, 5, 6, 8, 9, 5, 9], np.int64)
PATHS = np.array([[0, 3], [3, 6], [6, 8], [7, 9]], np.int64)
TWO_INSTANCES = [Wanted(PATHS[:2], 2), Wanted(PATHS[2:], 1)]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The folder of a kept trace."""
    (tmp_path / "traces" / "kept").mkdir(parents=True)
    return tmp_path / "traces" / "kept"


def plain(interned: Interned) -> list[list[int]]:
    """All numbers of what was interned."""
    return [interned.ids.tolist(), *(part.tolist() for path in interned.paths for part in path)]


def no_new_ids(*_asked: object) -> Interned:
    """Stands in where ids have to come from the folder."""
    raise AssertionError


def test_what_was_kept_is_what_new_ids_would_be(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several instances, blocks that are only read, blocks of one key behind different ones."""
    new = plain(KeptPaths(trace).intern(KEYS, TWO_INSTANCES))
    monkeypatch.setattr(path_cache, "intern_all", no_new_ids)

    assert plain(KeptPaths(trace).intern(KEYS, TWO_INSTANCES)) == new == plain(intern_all(KEYS, TWO_INSTANCES))


@pytest.mark.parametrize(
    "other", [[Wanted(PATHS[:2], 1), Wanted(PATHS[2:], 1)], [Wanted(PATHS[::-1], 4)], [Wanted(PATHS, 4)]]
)
def test_other_wants_get_their_own_ids(other: list[Wanted], trace: Path) -> None:
    """Fewer writes, another order, another split between instances."""
    KeptPaths(trace).intern(KEYS, TWO_INSTANCES)

    assert plain(KeptPaths(trace).intern(KEYS, other)) == plain(intern_all(KEYS, other))


@pytest.mark.parametrize("damage", ["names.json", "ids.npy", "parents.npy"])
def test_damage_costs_time_only(damage: str, trace: Path) -> None:
    """Ids are made as if nothing had been kept, and kept again."""
    new = plain(KeptPaths(trace).intern(KEYS, TWO_INSTANCES))
    (trace / "paths" / damage).write_bytes(b"{")

    assert plain(KeptPaths(trace).intern(KEYS, TWO_INSTANCES)) == new
    assert (trace / "paths" / damage).stat().st_size > 1


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    """No folder, no error."""
    assert plain(KeptPaths(tmp_path / "none" / "trace").intern(KEYS, TWO_INSTANCES)) == plain(
        intern_all(KEYS, TWO_INSTANCES)
    )


def test_two_readers_of_kept_ids_do_not_meet(trace: Path) -> None:
    """What one replay does to its ids, another one does not see."""
    KeptPaths(trace).intern(KEYS, TWO_INSTANCES)
    KeptPaths(trace).intern(KEYS, TWO_INSTANCES).ids[:] = 77

    assert 77 not in KeptPaths(trace).intern(KEYS, TWO_INSTANCES).ids
