"""States of replays as files: what a later replay of a further trace goes on from.

A file names the config that made it by digest and in full, so that another config is refused with the first key in
which the two differ; a digest of the state itself tells damage.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import xxhash

from foreword._version import __version__
from foreword.errors import ConfigError, DataError
from foreword.simulate.summary import TraceFacts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from foreword.simulate.replay import Replay
    from foreword.trace.columns import TraceColumns

SCHEMA_VERSION = 1
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Before:
    """What earlier traces came to: their rows and the time of their last one."""

    facts: TraceFacts
    last_ns: int = 0

    def check_follows(self, trace: TraceColumns, name: str) -> None:
        """Raise ``DataError`` for a trace that begins before the last row of the earlier ones."""
        first_ns = int(trace.timestamp_ns.min())
        if first_ns < self.last_ns:
            message = f"{name}: begins at {first_ns} ns, before the end of the state at {self.last_ns} ns"
            raise DataError(message, field="timestamp_ns", advice="replay traces in the order of their times")

    def then(self, trace: TraceColumns, facts: TraceFacts) -> Before:
        """These traces and a further one."""
        refused = dict(self.facts.refused)
        for kind, count in facts.refused.items():
            refused[kind] = refused.get(kind, 0) + count
        rows, moved = self.facts.rows + facts.rows, self.facts.moved_rows + facts.moved_rows
        return Before(TraceFacts(rows, moved, refused), int(trace.timestamp_ns.max()))


NOTHING_BEFORE = Before(TraceFacts(0, 0, {}))


class _File(msgspec.Struct):
    """The members of a state file."""

    schema_version: int
    foreword: str
    config_digest: str
    rows: int
    moved_rows: int
    refused: dict[str, int]
    last_ns: int
    state_digest: str
    state: msgspec.Raw


def packed_state(replay: Replay, before: Before) -> bytes:
    """The file of a replay that may go on: its state, and what its traces came to so far."""
    state = msgspec.json.encode(replay.save())
    facts = before.facts
    file = _File(
        SCHEMA_VERSION,
        __version__,
        _digest(replay.meaning()),
        facts.rows,
        facts.moved_rows,
        dict(facts.refused),
        before.last_ns,
        xxhash.xxh3_128_hexdigest(state),
        msgspec.Raw(state),
    )
    return msgspec.json.encode(file)


def check_can_go_on(replay: Replay) -> None:
    """Raise ``ConfigError`` for a policy that has to know a trace to its end."""
    if replay.foresees:
        raise ConfigError(
            "eviction_policy_type: optimal knows the future of one trace only, so that its replay has no state to save",
            field="eviction_policy_type",
            advice="replay both traces as one file",
        )


def load_state(path: Path | None, replay: Replay) -> Before:
    """Make a new replay the one that was saved, if one was.

    Raises ``ConfigError`` where its config does not fit, ``DataError`` where the file is damaged.
    """
    if path is None:
        return NOTHING_BEFORE
    file = _read(path)
    state: dict[str, Any] = msgspec.json.decode(file.state)
    if file.config_digest != _digest(replay.meaning()):
        difference = next(_differences(state["config"], replay.meaning()), "it differs")
        raise ConfigError(
            f"{path}: the state is of another config: {difference}", field="state", advice="use the config that made it"
        )
    replay.load(state)
    return Before(TraceFacts(file.rows, file.moved_rows, file.refused), file.last_ns)


def _read(path: Path) -> _File:
    try:
        content = path.read_bytes()
    except OSError as failure:
        raise DataError(f"{path}: cannot be read: {failure.strerror or failure}", field="state") from None
    try:
        file = msgspec.json.decode(content, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError) as failure:
        raise DataError(f"{path}: is no saved state: {failure}", field="state") from None
    if file.schema_version != SCHEMA_VERSION:
        message = f"{path}: the state has schema_version {file.schema_version}, and only {SCHEMA_VERSION} is known"
        raise DataError(message, field="state", advice=f"use foreword {file.foreword}, which wrote it")
    if file.state_digest != xxhash.xxh3_128_hexdigest(bytes(file.state)):
        raise DataError(f"{path}: damaged: the state is not the one that was written", field="state")
    return file


def _digest(meaning: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def _differences(there: object, here: object, path: str = "") -> Iterator[str]:
    """Keys in which two configs differ, with both values."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name in dict.fromkeys([*there, *here]):
            yield from _differences(there.get(name), here.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for index, pair in enumerate(zip(there, here, strict=True)):
            yield from _differences(*pair, f"{path}.{index}")
    elif there != here:
        yield f"{path} is {_shown(there)} there and {_shown(here)} here"


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
