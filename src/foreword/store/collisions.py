"""What must be unique in a whole cache domain, looked up as parts of a data set come (RFC 3.3.14, 3.3.15; decision 9).

Where an engine matches blocks or chunks wherever they stand, each request is compared with all before it, in send
order: 8 bytes a block are kept. A request that repeats something is made otherwise, up to ``max_retries`` times; what
then still repeats is refused or kept as ``on_conflict`` says. The outcome does not depend on the number of processes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from foreword.errors import ConstructionError
from foreword.store.workshop import concatenated
from foreword.terms import MatchSemantics, request_id
from foreword.workload.collisions import SAMPLED_OF, repetition
from foreword.workload.registry import KeySet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from foreword.simulate.design import Design
    from foreword.store.making import Opening, Part
    from foreword.store.workshop import Made, Rows
    from foreword.terms import BoolArray, IntArray, UInt64Array
    from foreword.workload.registry import UnitRule

_WORDS = {
    MatchSemantics.INDEPENDENT_BLOCK: "blocks",
    MatchSemantics.CONTENT_DEFINED_CHUNK: "chunks",
}


class Supply(NamedTuple):
    """Private tokens that have to be unlike each other in one cache domain, and tokens of the text they come from."""

    needed_tokens: int
    text_tokens: int | None

    @property
    def enough(self) -> bool:
        """Whether each token of the text would have to be used once at most; random words never run out."""
        return self.text_tokens is None or self.needed_tokens <= self.text_tokens


def supply_of(design: Design, text_tokens: int) -> Supply:
    """What a design needs of its text, where an engine matches more than prefixes."""
    private = design.prompts.input_len - np.maximum(design.plan.prefix_len, design.prompts.head_len)
    needed = np.bincount(design.lanes.domain, weights=private).max()
    return Supply(int(needed), None if design.config.suffix.source == "random_tokens" else text_tokens)


def check_supply(design: Design, supply: Supply) -> str:
    """Refuse a text that is too small, or say so, as ``on_conflict`` asks; empty if it is not."""
    if supply.enough:
        return ""
    words = _WORDS[design.config.suffix.collision_detection.cache_match_semantics]
    what = f"{supply.needed_tokens:,} private tokens have to be unlike in {words}, the text has {supply.text_tokens:,}"
    if design.config.suffix.collision_detection.on_conflict == "error":
        raise ConstructionError(
            f"CORPUS_TOO_SMALL: {what}",
            stage="collisions",
            field="suffix.source",
            advice="use more text, fewer or shorter prompts, suffix.source: random_tokens, or on_conflict: warn",
        )
    return f"{what}: some of it must repeat"


class _Row(NamedTuple):
    """A request at its send position, with digests of what has to be unique."""

    position: int
    domain: int
    units: UInt64Array


@dataclass(slots=True)
class Uniqueness:
    """Keeps what each cache domain has seen; makes requests otherwise that repeat some of it."""

    design: Design
    again: Callable[[int, int], Made | None]
    supply: Supply
    warnings: tuple[str, ...] = ()
    masters: int = 0
    repaired: int = 0
    retries: int = 0
    kept: int = 0
    conflicts: int = 0
    checked: int = 0
    _seen: dict[int, KeySet] = field(default_factory=lambda: defaultdict(KeySet))

    @classmethod
    def over(cls, design: Design, first: Opening, *, again: Callable[[int, int], Made | None]) -> Uniqueness:
        """Of a design whose masters and warm-ups are made; a text that is too small is refused where it should be."""
        supply = supply_of(design, int(first.facts["content"]["text_tokens"]))
        note = check_supply(design, supply)
        found = cls(design, again, supply, (note,) if note else ())
        for domain, units in enumerate(first.warmup_units):
            found.masters += len(units) - len(np.unique(units))
            found._seen[domain].add(units)
        return found

    def document(self) -> dict[str, Any]:
        """What was found, for the manifest."""
        return {
            "units_checked": self.checked,
            "needed_tokens": self.supply.needed_tokens,
            "text_tokens": self.supply.text_tokens,
            "made_otherwise": self.repaired,
            "made_otherwise_retries": self.retries,
            "kept_with_conflicts": self.kept,
            "conflicts": self.conflicts,
            "master_conflicts": self.masters,
        }

    def resume(self, known: Iterable[Rows]) -> None:
        """Take in rows that stand already."""
        position = 0
        for rows in known:
            for row in self._rows(rows, position):
                self._seen[row.domain].add(row.units)
            position += len(rows.unit_counts)
            self.checked += len(rows.units)
            self.repaired, self.retries = self.repaired + rows.remade[0], self.retries + rows.remade[1]
            self.kept, self.conflicts = self.kept + rows.remade[2], self.conflicts + rows.remade[3]

    def through(self, parts: Iterable[Part], *, start: int) -> Iterator[Part]:
        """The parts, in order, from this send position on, each without what repeats."""
        position = start
        for part in parts:
            yield self._part(part, position)
            position += part.rows

    def _rows(self, rows: Rows, start: int) -> Iterator[_Row]:
        ends = np.cumsum(rows.unit_counts).tolist()
        first = 0
        for place, end in enumerate(ends):
            index = int(self.design.order[start + place])
            yield _Row(start + place, int(self.design.lanes.domain[index]), rows.units[first:end])
            first = end

    def _part(self, part: Part, start: int) -> Part:
        before = self._tally()
        changed: dict[int, Made] = {}
        marks: dict[int, int] = {}
        units = []
        for row in self._rows(part.summary, start):
            found = self._settled(row)
            if found.made is not None:
                changed[row.position - start] = found.made
            if found.conflicts:
                marks[row.position - start] = found.conflicts
            units.append(row.units if found.made is None else found.made.units)
            self._seen[row.domain].add(units[-1])
        self.checked += sum(map(len, units))
        if changed or marks:
            _rewrite(part.data, {place: made.data for place, made in changed.items()})
            _rewrite(part.metadata, {place: made.metadata for place, made in changed.items()}, marks)
        first = part.summary.first_private.copy()
        for place, made in changed.items():
            first[place] = np.uint64(made.first_private).astype(np.int64)
        remade = tuple(now - then for now, then in zip(self._tally(), before, strict=True))
        summary = part.summary._replace(
            first_private=first,
            units=concatenated(units),
            unit_counts=np.array([len(each) for each in units], dtype=np.int64),
            remade=remade,
        )
        return part._replace(summary=summary)

    def _tally(self) -> tuple[int, int, int, int]:
        return self.repaired, self.retries, self.kept, self.conflicts

    def _settled(self, row: _Row) -> _Settled:
        """The request as it is, made otherwise, or with what it repeats."""
        conflicts = int(self._repeats(row.domain, row.units).sum())
        if not conflicts:
            return _Settled(None, 0)
        asked = self.design.config.suffix.collision_detection
        for retry in range(1, asked.max_retries + 1):
            self.retries += 1
            made = self.again(row.position, retry)
            if made is not None and not self._repeats(row.domain, made.units).any():
                self.repaired += 1
                return _Settled(made, 0)
        if asked.on_conflict == "error":
            raise self._refusal(row, conflicts)
        self.kept += 1
        self.conflicts += conflicts
        return _Settled(None, conflicts)

    def _repeats(self, domain: int, units: UInt64Array) -> BoolArray:
        return repeats(units, self._seen[domain])

    def _refusal(self, row: _Row, conflicts: int) -> ConstructionError:
        asked = self.design.config.suffix.collision_detection
        index = int(self.design.order[row.position])
        what = _WORDS[asked.cache_match_semantics]
        return ConstructionError(
            f"request {request_id(index)}: {conflicts} of {len(row.units)} private {what} stand in a prompt before it "
            f"too, also after {asked.max_retries} retries",
            stage="collisions",
            request_id=request_id(index),
            group=self.design.groups.ids[int(self.design.groups.of_request[index])],
            retry=asked.max_retries,
            field="suffix.collision_detection",
            advice="use more text, fewer or shorter prompts, suffix.source: random_tokens, or on_conflict: warn",
        )


def check_first_blocks(design: Design, first: Opening, *, summary: Rows) -> dict[str, Any]:
    """No first private block may equal a shared block or another private one with the same parent (decision 7).

    It is mandatory for chained keys, whatever ``on_conflict`` says: that is for prompts that could not be proved.
    Repeated windows further inside are a diagnosis only: chained keys cannot hit there (RFC 3.3.14).
    """
    asked = design.config.suffix.collision_detection
    private = np.concatenate((summary.first_private, first.warmup_private))
    checked = asked.enabled and asked.first_non_shared_block_unique
    known = np.concatenate((private, first.shared)) if checked else private[:0]
    twice = _repeated(known, among=summary.first_private)
    windows = repetition([summary.windows])
    if len(twice):
        names = [request_id(int(design.order[position])) for position in twice[:2]]
        raise ConstructionError(
            f"{len(twice)} requests start their private part like another one, first {' and '.join(names)}",
            request_id=names[0],
            stage="collisions",
            advice="use more groups, a larger block_size, or prompts with a longer private part",
        )
    return {
        "cache_match_semantics": asked.cache_match_semantics.value,
        "on_conflict": asked.on_conflict,
        "first_blocks_checked": len(private) if checked else 0,
        "first_block_conflicts": len(twice),
        "window_blocks": asked.window_blocks,
        "windows_sampled": windows.windows,
        "windows_sampled_of": SAMPLED_OF,
        "windows_repeated": windows.repeated,
        "masters_common_prefix_tokens": first.facts["masters_common_prefix_tokens"],
        "repaired": summary.proof.repaired,
        "retries": summary.retries,
        "kept_unproved": len(summary.conflicts),
    }


def _repeated(keys: IntArray, *, among: IntArray) -> IntArray:
    """Places of ``among`` whose key occurs more than once."""
    values, counts = np.unique(keys, return_counts=True)
    return np.flatnonzero(np.isin(among, values[counts > 1]))


class _Settled(NamedTuple):
    made: Made | None
    conflicts: int


def repeats(units: UInt64Array, seen: KeySet) -> BoolArray:
    """Which digests of a prompt were seen before it, or occur earlier in itself."""
    twice = np.ones(len(units), dtype=np.bool_)
    twice[np.unique(units, return_index=True)[1]] = False
    return seen.contains(units) | twice


def _rewrite(path: Path, lines: dict[int, bytes], marks: dict[int, int] | None = None) -> None:
    """Replace lines of a part, and mark those of requests that were kept although they repeat something."""
    found = path.read_bytes().splitlines(keepends=True)
    for place, line in lines.items():
        found[place] = line
    for place, conflicts in (marks or {}).items():
        row = msgspec.json.decode(found[place])
        row |= {"collision_status": "conflict", "collision_conflicts": conflicts}
        found[place] = msgspec.json.encode(row) + b"\n"
    path.write_bytes(b"".join(found))


@dataclass(slots=True)
class Recount:
    """Counts again, on the prompts as they stand, what each request repeats of those before it."""

    rule: UnitRule
    _seen: dict[int, KeySet] = field(default_factory=lambda: defaultdict(KeySet))

    def warm_up(self, token_ids: IntArray, *, domain: int) -> None:
        """Take in a warm-up prompt, master and tail."""
        self._seen[domain].add(self.rule.units(token_ids, 0)[1])

    def conflicts(self, token_ids: IntArray, *, shared: int, domain: int) -> int:
        """Blocks or chunks behind the shared prefix that the cache domain has already; then they count as seen."""
        units = self.rule.units(token_ids, shared)[1]
        found = repeats(units, self._seen[domain])
        self._seen[domain].add(units)
        return int(found.sum())
