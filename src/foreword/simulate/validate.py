"""Proof of a data set from its files alone: Law 4 on the metadata, Law 5 on the re-encoded prompts.

Nothing that generation claimed is taken for granted: watermarks, classes and totals are computed again from lengths
and planned prefixes, and hits come from replaying the blocks of the prompts as they stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from foreword.cache.blocks import block_keys, root_key
from foreword.cache.reference import UnboundedCache
from foreword.cache.rules import HitRule, usable_hit_tokens
from foreword.simulate.predict import CLASSES, Prediction, predict
from foreword.workload.plan import Prompts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from foreword.terms import IntArray


@dataclass(frozen=True, slots=True)
class Problem:
    """One number that does not hold: where, what is written and what is true."""

    file: str
    field: str
    message: str
    request_id: str | None = None

    def __str__(self) -> str:
        """One line for people."""
        where = f"{self.file}: request {self.request_id}" if self.request_id else self.file
        return f"{where}: {self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Facts of the manifest that the proof stands on."""

    block_size: int
    rule: HitRule
    head_len: int
    tail_len: int
    minimum_non_shared: int
    local: bool
    designed_cold: bool


@dataclass(frozen=True, slots=True)
class Metadata:
    """Columns of the request metadata in send order; ``group`` indexes ``group_ids``."""

    request_ids: Sequence[str]
    group_ids: tuple[str, ...]
    group: IntArray
    dp: IntArray
    input_len: IntArray
    prefix_len: IntArray

    def prompts(self, layout: Layout) -> Prompts:
        """The same in the planner's terms; array order is send order."""
        domain = self.dp if layout.local else np.zeros_like(self.dp)
        return Prompts(
            input_len=self.input_len,
            group=self.group,
            lane=domain * len(self.group_ids) + self.group,
            domain=domain,
            block_size=layout.block_size,
            minimum_non_shared=layout.minimum_non_shared,
            head_len=layout.head_len,
            tail_len=layout.tail_len,
        )


def expected_columns(metadata: Metadata, layout: Layout) -> tuple[dict[str, IntArray], Prediction]:
    """Every derived column of the metadata, from lengths, prefixes and lanes alone (Law 4)."""
    prompts = metadata.prompts(layout)
    order = np.arange(len(metadata.input_len))
    found = predict(prompts, metadata.prefix_len, order=order, rule=layout.rule)
    marks = found.cold if layout.designed_cold else found.hot
    own = metadata.input_len - np.maximum(metadata.prefix_len, layout.head_len) - layout.tail_len
    divergence = np.minimum(own, layout.block_size)
    columns = {
        "order_index": order,
        "cached_watermark_before": marks.before,
        "expected_hit_len": found.cold_hit if layout.designed_cold else found.hot_hit,
        "cached_watermark_after": marks.after,
        "new_cached_len": np.maximum(metadata.prefix_len - marks.before, 0),
        "divergence_len": divergence,
        "suffix_len": own - divergence,
        "expected_hit_len_cold": found.cold_hit,
        "expected_hit_len_hot": found.hot_hit,
    }
    return columns, found


def check_metadata(
    metadata: Metadata, layout: Layout, *, written: Mapping[str, IntArray], classes: Sequence[str]
) -> Iterator[Problem]:
    """Compare what the metadata says of every request with what its lengths and lanes imply."""
    yield from _prefix_problems(metadata, layout)
    columns, found = expected_columns(metadata, layout)
    for name, expected in columns.items():
        for index in np.flatnonzero(written[name] != expected).tolist():
            message = f"says {int(written[name][index])}, but lengths and lanes give {int(expected[index])}"
            yield _problem(metadata, index, name, message)
    for index, (said, kind) in enumerate(zip(classes, found.request_class, strict=True)):
        if said != CLASSES[int(kind)].value:
            yield _problem(metadata, index, "request_class", f"says {said!r}, but is {CLASSES[int(kind)].value!r}")


def _prefix_problems(metadata: Metadata, layout: Layout) -> Iterator[Problem]:
    prompts = metadata.prompts(layout)
    shared, limit = metadata.prefix_len, prompts.max_prefix_len
    for index in np.flatnonzero(shared % layout.block_size != 0).tolist():
        message = f"{int(shared[index])} is no multiple of the block size"
        yield _problem(metadata, index, "planned_prefix_len", message)
    for index in np.flatnonzero((shared > limit) | (shared < prompts.trunk_len)).tolist():
        message = f"{int(shared[index])} lies outside [{prompts.trunk_len}, {int(limit[index])}]"
        yield _problem(metadata, index, "planned_prefix_len", message)


def _problem(metadata: Metadata, index: int, name: str, message: str) -> Problem:
    return Problem("request_metadata.jsonl", name, message, metadata.request_ids[index])


def check_totals(metadata: Metadata, layout: Layout, *, result: Mapping[str, Any], file: str) -> Iterator[Problem]:
    """Compare the totals and ratios that a document states with those of the metadata."""
    _, found = expected_columns(metadata, layout)
    total = int(metadata.input_len.sum())
    cold, hot = int(found.cold_hit.sum()), int(found.hot_hit.sum())
    designed = cold if layout.designed_cold else hot
    expected: dict[str, tuple[object, float]] = {
        "input_tokens": (result.get("input_tokens"), total),
        "designed_hit_tokens": (result.get("designed_hit_tokens"), designed),
        "designed_hit_ratio": (result.get("designed_hit_ratio"), designed / total),
        "cold.hit_tokens": (_inner(result, "cold"), cold),
        "hot.hit_tokens": (_inner(result, "hot"), hot),
    }
    for name, (said, true) in expected.items():
        if said != true:
            yield Problem(file, name, f"says {said}, but the requests give {true}")


def _inner(result: Mapping[str, Any], name: str) -> object:
    part = result.get(name)
    return part.get("hit_tokens") if isinstance(part, dict) else None


def check_groups(metadata: Metadata, rows: Sequence[Mapping[str, Any]], *, file: str) -> Iterator[Problem]:
    """Compare request counts, tokens and master lengths of each group with the metadata."""
    stated = {row.get("group_id"): row for row in rows}
    for index, group_id in enumerate(metadata.group_ids):
        mine = metadata.group == index
        true = {
            "request_count": int(mine.sum()),
            "input_tokens": int(metadata.input_len[mine].sum()),
            "master_prefix_len": int(metadata.prefix_len[mine].max(initial=0)),
        }
        row = stated.get(group_id, {})
        for name, value in true.items():
            said = row.get(name)
            if said != value:
                yield Problem(file, f"groups[{group_id}].{name}", f"says {said}, but the requests give {value}")


def fingerprint(token_ids: IntArray) -> str:
    """Digest of a prompt as the engine sees it, for rows of the metadata."""
    return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(token_ids, dtype="<i4").tobytes())


@dataclass(slots=True)
class Replay:
    """Replays prompts through unbounded caches, one a domain, once cold and once after the warm-up (Law 5)."""

    layout: Layout
    checked: int = 0
    wrong: int = 0
    cold_hit_tokens: int = 0
    hot_hit_tokens: int = 0
    _cold: dict[int, UnboundedCache] = field(default_factory=dict)
    _hot: dict[int, UnboundedCache] = field(default_factory=dict)

    def warm_up(self, token_ids: IntArray, *, dp: int) -> None:
        """Serve a warm-up prompt; it counts in no ratio."""
        self._serve(self._hot, token_ids, dp)

    def check(
        self, token_ids: IntArray, *, input_len: int, dp: int, expected: tuple[int, int]
    ) -> list[tuple[str, str]]:
        """Serve one prompt; returns fields and messages for what does not hold, lengths before hits.

        ``expected`` are the hit tokens stated for the cold and the hot pass.
        """
        self.checked += 1
        problems = []
        if len(token_ids) != input_len:
            problems.append(("input_len", f"says {input_len}, but the prompt encodes to {len(token_ids)} tokens"))
        hits = self._serve(self._cold, token_ids, dp), self._serve(self._hot, token_ids, dp)
        self.cold_hit_tokens += hits[0]
        self.hot_hit_tokens += hits[1]
        names = ("expected_hit_len_cold", "expected_hit_len_hot")
        for name, said, true in zip(names, expected, hits, strict=True):
            if said != true:
                problems.append((name, f"says {said}, but replaying the prompts' blocks hits {true}"))
        self.wrong += bool(problems)
        return problems

    def _serve(self, caches: dict[int, UnboundedCache], token_ids: IntArray, dp: int) -> int:
        domain = dp if self.layout.local else 0
        cache = caches.setdefault(domain, UnboundedCache())
        keys = block_keys(token_ids, self.layout.block_size, parent=root_key())
        shared = cache.read_and_write(keys) * self.layout.block_size
        return usable_hit_tokens(
            self.layout.rule,
            prompt_tokens=len(token_ids),
            shared_tokens=shared,
            block_size=self.layout.block_size,
        )
