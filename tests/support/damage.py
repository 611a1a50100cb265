"""Ways to damage a data set whose digests can then be made to fit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from tests.support.datasets import (
    DATA,
    METADATA,
    encoder,
    read_document,
    read_rows,
    token_ids,
    write_document,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done to a data set, and a problem to be named: file, field, and the request that ``do`` returns."""

    name: str
    do: Callable[[Path], str | None]
    file: str
    field: str


def edit(dataset: Path, file: str, position: int, **values: Any) -> str:  # noqa: ANN401 - any JSON value
    """Set fields of one row; returns the request's name as it was."""
    rows = read_rows(dataset / file)
    name: str = rows[position]["request_id"]
    rows[position].update(values)
    write_rows(dataset / file, rows)
    return name


def shift(file: str, field: str, by: float, position: int = 21) -> Callable[[Path], str]:
    """Add to a number of one row."""
    return lambda dataset: edit(dataset, file, position, **{field: read_rows(dataset / file)[position][field] + by})


def put(file: str, position: int, **values: Any) -> Callable[[Path], str]:  # noqa: ANN401 - any JSON value
    """Set fields of one row."""
    return lambda dataset: edit(dataset, file, position, **values)


def rows_of(file: str, change: Callable[[list[Row]], list[Row]], position: int | None) -> Callable[[Path], str | None]:
    """Change the rows of a file as a whole; the request is the one that stands at ``position`` before."""

    def do(dataset: Path) -> str | None:
        rows = read_rows(dataset / file)
        write_rows(dataset / file, change(list(rows)))
        return None if position is None else rows[position]["request_id"]

    return do


def swapped(*swapped_files: str) -> Callable[[Path], str]:
    """Exchange two requests of one group; the request is the one that comes too early."""

    def do(dataset: Path) -> str:
        metadata = read_rows(dataset / METADATA)
        early = 6
        same = [i for i, row in enumerate(metadata) if row["prefix_group_id"] == metadata[early]["prefix_group_id"]]
        late = next(position for position in same if position > early)
        for file in swapped_files:
            rows = read_rows(dataset / file)
            rows[early], rows[late] = rows[late], rows[early]
            write_rows(dataset / file, rows)
        name: str = metadata[late]["request_id"]
        return name

    return do


def stated(file: str, path: str, value: Any) -> Callable[[Path], None]:  # noqa: ANN401 - any JSON value
    """Set a value of the manifest or of the report; a part of the path may be an index."""

    def do(dataset: Path) -> None:
        document = read_document(dataset / file)
        *above, last = path.split(".")
        node: Any = document
        for key in above:
            node = node[int(key) if key.isdigit() else key]
        assert node[last] != value, "this is no damage"
        node[last] = value
        write_document(dataset / file, document)

    return do


def with_token_changed(prompt: str, index: int) -> str:
    """The prompt with another token at one place, and all others as they were."""
    encoded = encoder().encode(prompt)
    start, stop = encoded.offsets[index]
    for other in (" table", " river", " seven", "7", "3", "x", " ", ".", "\n"):
        changed = prompt[:start] + other + prompt[stop:]
        ids = encoder().encode(changed).ids
        differ = [a != b for a, b in zip(ids, encoded.ids, strict=False)]
        if len(ids) == len(encoded.ids) and sum(differ) == 1 and differ[index]:
            return changed
    return with_token_changed(prompt, index + 1)


def token(where: Callable[[Row], int], *, fingerprint: bool) -> Callable[[Path], str]:
    """Change one token of a prompt that hits two blocks or more, and perhaps its fingerprint with it."""

    def do(dataset: Path) -> str:
        position, facts = next(
            (index, row)
            for index, row in enumerate(read_rows(dataset / METADATA))
            if row["expected_hit_len_cold"] >= 32 and row["suffix_len"] > 32
        )
        prompt = with_token_changed(read_rows(dataset / DATA)[position]["prompt"], where(facts))
        if fingerprint:
            ids = np.asarray(token_ids([{"prompt": prompt}])[0], dtype="<i4")
            edit(dataset, METADATA, position, prompt_fingerprint=xxhash.xxh3_64_hexdigest(ids.tobytes()))
        return edit(dataset, DATA, position, prompt=prompt)

    return do


def in_shared_part(row: Row) -> int:
    """A place in the last but one block that the request shares."""
    place: int = row["planned_prefix_len"] - 21
    return place


def in_divergence(row: Row) -> int:
    """A place in the first block of its own."""
    place: int = row["planned_prefix_len"] + 4
    return place


def in_suffix(row: Row) -> int:
    """A place near the end."""
    place: int = row["input_len"] - 12
    return place


def other_tokenizer(path: Path) -> Path:
    """The shipped tokenizer with the ids of two frequent words exchanged: same lengths, other ids."""
    definition = json.loads((files("foreword") / "data" / "tokenizer.json").read_bytes())
    vocabulary = definition["model"]["vocab"]
    one, other = "Ġthe", "Ġof"
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    path.write_text(json.dumps(definition, ensure_ascii=False), encoding="utf-8")
    return path
