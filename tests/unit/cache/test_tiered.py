"""The compiled cache as a piece of memory."""

from __future__ import annotations

import sys

import numpy as np

from foreword.cache import tables, tiered
from foreword.config.replay import ReplayConfig
from foreword.simulate.replay import Replay
from foreword.simulate.world import make_world
from foreword.trace.columns import columns_from
from tests.support.replaying import document, requests


def test_kernels_leave_the_arrays_to_their_owner() -> None:
    """References are not counted in the kernels: after many runs each array has those that it had, and its values."""
    replay, trace = Replay(ReplayConfig.from_document(document())), columns_from(requests("ab", "ac"))
    events = np.zeros((1, 8), np.int64)
    events[0, [tables.MOMENT, tables.STOP, tables.WRITES]] = (1, 2, 1)
    paths = [(np.array([1, 2]), np.array([-1, 0], np.int32))]
    world = make_world(replay, trace, events=events, times=np.array([0, 7]), paths=paths)
    outcomes, ids, none = np.zeros((1, 8), np.int64), np.array([0, 1], np.int32), np.zeros(0, np.uint8)
    ends = np.zeros(1, np.int64)
    tiered.run(world, None, events, ids, (none, ends), outcomes, 0, 1)
    counted = [sys.getrefcount(array) for array in (*world, events, ids, outcomes)]
    values = [array.copy() for array in world]

    for _ in range(1000):
        tiered.run(world, None, events, ids, (none, ends), outcomes, 0, 1)

    assert [sys.getrefcount(array) for array in (*world, events, ids, outcomes)] == counted
    assert all((was == now).all() for was, now in zip(values, world, strict=True))
    assert outcomes[0, tables.ALL_CACHED] == 2
