"""Traces that nobody would write, against both readers and both cores.

    python -m tests.fuzz.trace_rows --minutes 10 [--seed 1]

Each round makes a few dozen lines: good rows, rows with foreign values, torn and mutated bytes. The reader by line and
the scanner must give the same rows and the same errors, and both cores the same series; nothing else may be raised.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import time
from typing import TYPE_CHECKING, Any

from foreword.config.replay import ReplayConfig
from foreword.simulate.columns import columns
from foreword.simulate.cores import Core
from foreword.simulate.replay import Replay
from foreword.store.scanning import scan_file
from foreword.store.traces import LoadedTrace, TraceSource, replay_trace
from foreword.trace.columns import ColumnBuilder
from foreword.trace.schema import RowError
from foreword.trace.standard import parse_row
from tests.support.replaying import document, group, instance

if TYPE_CHECKING:
    from foreword.trace.columns import TraceColumns

NAMES = ("a", "b", "nobody", "")
FIELDS = (
    "type", "instance_id", "timestamp_ns", "keys", "input_len", "block_mask", "query_type", "trace_id", "sw_size",
    "location_spec_names", "ttl_us", "other",
)  # fmt: skip
ODD: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**40, 0.0, 1.5,
    1e400, "", "a", "get", "\u0000", "\U0001f600", "\ud800", [], [[]], [None], [True], [1, "x"], {}, {"keys": [1]},
)  # fmt: skip
CONFIG = ReplayConfig.from_document(
    document(group(tiers=[3, 6], instances=[instance("a"), instance("b", policy="ttl")], default_block_ttl_seconds=1))
)


def row(draws: random.Random) -> dict[str, Any]:
    """A good row."""
    keys = [draws.choice([1, 2, 3, -5, 2**63 - 1, 2**64 - 1]) for _ in range(draws.randrange(6))]
    return {
        "type": draws.choice(["get", "write", "request"]),
        "instance_id": draws.choice(NAMES[:3]),
        "timestamp_ns": draws.choice([draws.randint(1, 60), draws.randint(1, 2**40)]),
        "keys": keys,
        "input_len": 4 * len(keys) + draws.randrange(1, 5),
    }


def line(draws: random.Random) -> bytes:
    """A line: a good row, one with foreign members, or one whose bytes were changed."""
    members = row(draws)
    for _ in range(draws.choice([0, 0, 1, 1, 2])):
        members[draws.choice(FIELDS)] = draws.choice(ODD)
    if draws.random() < 0.1:
        members.pop(draws.choice(FIELDS[:5]), None)
    space = draws.choice([None, (",", ":"), (" ,\t", " :\r ")])
    text = bytearray(
        json.dumps(members, separators=space, ensure_ascii=draws.random() < 0.5).encode("utf-8", "replace")
    )
    for _ in range(draws.choice([0, 0, 0, 1, 2])):
        _damage(text, draws)
    return bytes(text)


def _damage(text: bytearray, draws: random.Random) -> None:
    at = draws.randrange(len(text) + 1)
    match draws.randrange(5):
        case 0:
            del text[at:]
        case 1:
            text[at:at] = bytes([draws.randrange(256)])
        case 2:
            text[at : at + draws.randrange(8)] = b""
        case 3:
            text[at:at] = text[draws.randrange(len(text) + 1) :][:9]
        case _:
            text[at:at] = draws.choice(
                [b"\\u0061", b"\\", b'"', b"[", b"}", b"1e5", b"-", b"\xef\xbb\xbf", b"\x00", b"\n"]
            )


def by_line(trace: bytes) -> tuple[TraceColumns, list[str]]:
    """Rows and errors of the reader by line."""
    builder, errors = ColumnBuilder(), []
    for number, data in enumerate(io.BytesIO(trace), start=1):
        found = parse_row(data.removeprefix(b"\xef\xbb\xbf") if number == 1 else data, number)
        if isinstance(found, RowError):
            errors.append(f"{found.line}: {found}")
        elif found is not None:
            builder.add(found)
    return builder.finished(), errors


def scanned(trace: bytes) -> tuple[TraceColumns, list[str]]:
    """Rows and errors of the scanner."""
    errors: list[str] = []
    found = scan_file(
        io.BytesIO(trace), refuse=lambda error: errors.append(f"{error.line}: {error}"), tell=lambda: None
    )
    return found, errors


def series_of(trace: TraceColumns, core: Core) -> tuple[list[list[Any]], dict[str, int], dict[str, int]]:
    """All columns of a replay, and what it skipped and refused."""
    replay, loaded = Replay(CONFIG), LoadedTrace(trace)
    source = TraceSource("fuzz", skip_errors=True, core=core)
    replay_trace(replay, loaded, source=source, progress=lambda _done, _total: None)
    table = [column.tolist() for at in replay.instances.values() for column in columns(at)]
    return table, dict(replay.skipped), dict(loaded.refused)


def check(draws: random.Random) -> None:
    """One round."""
    trace = b"\n".join(line(draws) for _ in range(draws.randrange(1, 40)))
    rows, errors = by_line(trace)
    others, other_errors = scanned(trace)
    assert errors == other_errors, (trace, errors, other_errors)
    assert list(rows.rows()) == list(others.rows()), trace
    if len(rows):
        assert series_of(rows, Core.REFERENCE) == series_of(others, Core.COMPILED), trace


def main() -> None:
    """Rounds until the time is over; a failure shows its trace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    end, rounds = time.monotonic() + 60 * options.minutes, 0
    while time.monotonic() < end:
        check(random.Random(f"{options.seed}/{rounds}"))  # noqa: S311 - traces, not secrets
        rounds += 1
    print(f"{rounds:,} rounds, nothing found")  # noqa: T201 - a program


if __name__ == "__main__":
    main()
