"""Checks a data-set folder.

The manifest's config is planned again, and every number of the files is compared with that plan; every prompt is
encoded again and its blocks are replayed; and where tokenizer and corpus are at hand, every prompt is composed again.
A data set of another version is held to its own metadata instead: watermarks and hits follow from lengths and lanes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from foreword._version import __version__
from foreword.config.dataset import ROOT, DatasetConfig
from foreword.engines.registry import PROFILES
from foreword.errors import ForewordError
from foreword.simulate.compare import Roll, difference_problems
from foreword.simulate.conflicts import with_conflicts
from foreword.simulate.design import Design, Facts, design
from foreword.simulate.documents import manifest_document, request_rows, validation_document
from foreword.simulate.validate import (
    Layout,
    Problem,
    Replay,
    check_groups,
    check_metadata,
    check_totals,
    fingerprint,
)
from foreword.simulate.verdict import percent
from foreword.store.collisions import Recount
from foreword.store.configs import NO_FILE, with_sources
from foreword.store.encoding import Encoder
from foreword.store.frames import with_stated_frame
from foreword.store.reading import digest_problems, read_columns, read_data, read_manifest, read_rows, read_warmup
from foreword.store.rows import DATA, MANIFEST, METADATA, REPORT, WARMUP, DataRow, WarmupRow, read_document
from foreword.store.workshop import WARMUP_OUTPUT_TOKENS, Order, Workshop, open_workshop, unit_rule
from foreword.terms import IntArray, request_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_CHUNK = 256
_MOST_RETRIES = 10_000
_STATUS_COUNTS = {
    "repaired": ("repaired", "made_otherwise"),
    "conflict": ("kept_unproved", "kept_with_conflicts"),
}
_NOT_MADE = "is not what this seed, tokenizer and corpus give"


class _Prompt(NamedTuple):
    """A prompt that was composed again, and the samples in its suffix."""

    text: str | None
    token_ids: list[int] | None
    samples: list[str]
    retries: int


@dataclass(slots=True)
class Check:
    """What a check of one data set found; ``recomposed`` counts prompts that were made again and compared."""

    dataset_id: str
    problems: list[Problem] = field(default_factory=list)
    checked: int = 0
    wrong: int = 0
    recomposed: int = 0
    cold_hit_tokens: int = 0
    hot_hit_tokens: int = 0
    input_tokens: int = 0
    not_recomposed_because: str = ""

    @property
    def exit_code(self) -> int:
        """5 for a damaged data set, else 0."""
        return 5 if self.problems else 0

    def document(self) -> dict[str, Any]:
        """Everything as plain values, every problem included."""
        return {
            "dataset_id": self.dataset_id,
            "valid": not self.problems,
            "reencode": {"level": "full", "checked": self.checked, "wrong": self.wrong},
            "replay": {
                "input_tokens": self.input_tokens,
                "cold_hit_tokens": self.cold_hit_tokens,
                "hot_hit_tokens": self.hot_hit_tokens,
            },
            "recomposed": self.recomposed,
            "not_recomposed_because": self.not_recomposed_because or None,
            "problems": [asdict(problem) for problem in self.problems],
        }

    def summary(self) -> str:
        """A few lines for people."""
        verdict = f"DAMAGED: {len(self.problems):,} problems" if self.problems else "VALID"
        total = self.input_tokens or 1
        replayed = ", ".join(
            f"{name} {percent(hits / total)} ({hits:,} tokens)"
            for name, hits in (("cold", self.cold_hit_tokens), ("hot", self.hot_hit_tokens))
        )
        again = f"not composed again: {self.not_recomposed_because}"
        if not self.not_recomposed_because:
            again = f"{self.recomposed:,} prompts composed again from seed, tokenizer and corpus"
        return (
            f"{verdict}  {self.dataset_id}\n"
            f"  re-encoded        {self.checked:,} prompts in full, {self.wrong:,} wrong\n"
            f"  replayed          {replayed}\n"
            f"  reproduced        {again}"
        )


class _Content(NamedTuple):
    """What the metadata says of how a prompt was made."""

    samples: object
    retries: int
    conflicts: object


@dataclass(frozen=True, slots=True)
class _Truth:
    """What each request should be, in send order; ``max_tokens`` are known to a plan only."""

    names: Sequence[str]
    group: Sequence[str]
    dp: IntArray
    input_len: IntArray
    prefix_len: IntArray
    cold_hit: IntArray
    hot_hit: IntArray
    max_tokens: IntArray | None
    fingerprints: Sequence[str]
    content: Sequence[_Content] = ()
    recount: Recount | None = None

    @classmethod
    def of_design(cls, planned: Design, fingerprints: Sequence[str], *, content: Sequence[_Content]) -> _Truth:
        order = planned.order
        groups = planned.groups.of_request[order].tolist()
        rule = unit_rule(planned.config, planned.facts.block_size)
        return cls(
            names=[request_id(index) for index in order.tolist()],
            group=[planned.groups.ids[group] for group in groups],
            dp=planned.lanes.dp[order],
            input_len=planned.prompts.input_len[order],
            prefix_len=planned.plan.prefix_len[order],
            cold_hit=planned.prediction.cold_hit,
            hot_hit=planned.prediction.hot_hit,
            max_tokens=planned.output_len[order],
            fingerprints=fingerprints,
            content=content,
            recount=None if rule is None else Recount(rule),
        )

    def lanes(self, *, local: bool) -> dict[tuple[str, int], int]:
        """Longest shared prefix of each group and cache domain."""
        longest: dict[tuple[str, int], int] = {}
        domains = (self.dp if local else np.zeros_like(self.dp)).tolist()
        for group, domain, shared in zip(self.group, domains, self.prefix_len.tolist(), strict=True):
            longest[group, domain] = max(longest.get((group, domain), 0), shared)
        return longest


def check_dataset(
    dataset: Path, *, tokenizer: str | None, corpus: Path | None, progress: Callable[[int, int], None]
) -> Check:
    """Prove Laws 4 and 5 on the files alone and compare every stated number with its own computation.

    Raises ``DataError`` for files that cannot be read, ``TokenizerError`` where the tokenizer is not at hand.
    """
    manifest, layout = read_manifest(dataset)
    check = Check(str(manifest.get("dataset_id")))
    check.problems += digest_problems(dataset, manifest)
    encoder = Encoder.of(manifest, tokenizer)
    check.problems += encoder.problems(manifest, tokenizer)
    planned = _replan(check, manifest, layout, encoder)
    truth = _held_to_plan(check, dataset, manifest, planned) if planned else _held_to_itself(check, dataset, manifest)
    check.input_tokens = int(truth.input_len.sum())
    maker = _maker(check, manifest, planned, (tokenizer, corpus)) if planned else None
    replay = Replay(layout)
    _check_warmup(check, encoder, replay, truth, (read_warmup(dataset), maker))
    _check_prompts(check, encoder, replay, truth, (dataset, maker, progress))
    check.checked, check.wrong = replay.checked, replay.wrong
    check.cold_hit_tokens, check.hot_hit_tokens = replay.cold_hit_tokens, replay.hot_hit_tokens
    return check


def _replan(check: Check, manifest: dict[str, Any], layout: Layout, encoder: Encoder) -> Design | None:
    """The design of the manifest's config, where this version made the data set."""
    made_by = manifest.get("generator_version")
    if made_by != f"foreword {__version__}":
        check.not_recomposed_because = f"it was made by {made_by}, this is foreword {__version__}"
        return None
    try:
        config = DatasetConfig.parse(manifest.get("config") or {}, root=ROOT)
        size = config.block_size if isinstance(config.block_size, int) else layout.block_size
        frame, branches = encoder.frame, (manifest.get("planning") or {}).get("branches")
        facts = Facts(size, PROFILES[config.engine].hit_rule, frame.head_len, frame.tail_len, branches)
        return design(config, facts)
    except ForewordError as failure:
        check.problems.append(Problem(MANIFEST, "config", failure.message))
        check.not_recomposed_because = "its config is damaged"
        return None


def _held_to_plan(check: Check, dataset: Path, manifest: dict[str, Any], planned: Design) -> _Truth:
    """Compare both documents and every row of the metadata with the plan."""
    planned = with_conflicts(planned, manifest.get("collisions") or {})
    count, report = len(planned.order), read_document(dataset, REPORT)
    proven = {"laws": {"prefix_shared": count, "length_exact": count}, "reencode": {"wrong": 0}}
    check.problems += difference_problems(manifest_document(planned, proven), manifest, file=MANIFEST)
    stated = validation_document(planned, {part: manifest.get(part) for part in ("laws", "reencode", "collisions")})
    del stated["warnings"]
    check.problems += difference_problems(stated, report, file=REPORT)
    order = planned.order.tolist()
    roll = Roll(METADATA, [request_id(index) for index in order])
    fingerprints, content = [""] * len(order), [_Content(None, 0, None)] * len(order)
    collisions = manifest.get("collisions") or {}
    allowed = {name for name, counts in _STATUS_COUNTS.items() if any(collisions.get(count) for count in counts)}
    for row in read_rows(dataset):
        name = str(row.get("request_id"))
        place = roll.call(name)
        if place is None:
            continue
        fingerprints[place] = str(row.get("prompt_fingerprint"))
        content[place] = _content_of(row)
        expected = next(request_rows(planned, place, stop=place + 1))
        if row.get("collision_status") in allowed:
            expected["collision_status"] = row["collision_status"]
        roll.problems += difference_problems(expected, row, file=METADATA, request_id=name)
    check.problems += roll.finish()
    return _Truth.of_design(planned, fingerprints, content=content)


def _content_of(row: dict[str, Any]) -> _Content:
    retries = row.get("collision_retries")
    asked = retries if isinstance(retries, int) and 0 <= retries <= _MOST_RETRIES else 0
    return _Content(row.get("suffix_sample_ids"), asked, row.get("collision_conflicts"))


def _held_to_itself(check: Check, dataset: Path, manifest: dict[str, Any]) -> _Truth:
    """Check that watermarks, hits, classes and totals follow from the metadata's own lengths and lanes (Law 4)."""
    _, layout = read_manifest(dataset)
    columns = read_columns(dataset, group_ids=[str(row.get("group_id")) for row in manifest.get("groups", [])])
    metadata = columns.metadata
    if columns.classes:
        report = read_document(dataset, REPORT)
        check.problems += check_metadata(metadata, layout, written=columns.written, classes=columns.classes)
        check.problems += check_totals(metadata, layout, result=manifest["theoretical_result"], file=MANIFEST)
        check.problems += check_totals(metadata, layout, result=report, file=REPORT)
        check.problems += check_groups(metadata, manifest.get("groups", []), file=MANIFEST)
    else:
        check.problems.append(Problem(METADATA, "rows", "has none"))
    return _Truth(
        names=metadata.request_ids,
        group=[metadata.group_ids[group] for group in metadata.group.tolist()],
        dp=metadata.dp,
        input_len=metadata.input_len,
        prefix_len=metadata.prefix_len,
        cold_hit=columns.written["expected_hit_len_cold"],
        hot_hit=columns.written["expected_hit_len_hot"],
        max_tokens=None,
        fingerprints=columns.fingerprints,
    )


def _maker(
    check: Check, manifest: dict[str, Any], planned: Design, sources: tuple[str | None, Path | None]
) -> Workshop | None:
    """A workshop that makes the data set again, where tokenizer and corpus are at hand and are the stated ones."""
    tokenizer, corpus = sources
    try:
        config = with_sources(planned.config, tokenizer=tokenizer, corpus=corpus)
        config = with_stated_frame(config, manifest.get("template"))
        workshop = open_workshop(Order(config, planned.facts, "none"))
    except ForewordError as failure:
        check.not_recomposed_because = failure.message
        return None
    if workshop.tokenizer.sha256 != (manifest.get("tokenizer") or {}).get("sha256"):
        check.not_recomposed_because = "the tokenizer at hand is another one"
        return None
    if workshop.facts["corpus"] != manifest.get("corpus"):
        if not {config.suffix.source, config.prefix.source} <= {*NO_FILE, None}:
            check.not_recomposed_because = "the corpus at hand is another one"
            return None
        check.problems += difference_problems({"corpus": workshop.facts["corpus"]}, manifest, file=MANIFEST)
    known = {part: workshop.facts[part] for part in ("content", "masters")}
    known["tokenizer"] = {**workshop.facts["tokenizer"]}
    del known["tokenizer"]["name"]
    check.problems += difference_problems(known, manifest, file=MANIFEST)
    return workshop


def _check_warmup(
    check: Check,
    encoder: Encoder,
    replay: Replay,
    truth: _Truth,
    given: tuple[Sequence[WarmupRow], Workshop | None],
) -> None:
    """Replay the warm-up, and see that each lane has one request that covers its longest prefix."""
    rows, maker = given
    local = replay.layout.local
    needed = truth.lanes(local=local)
    for row, ids in zip(rows, encoder.encode(rows), strict=True):
        lane = (row.prefix_group_id, row.planned_dp_id if local else 0)
        for name, said, true in (
            ("input_len", row.input_len, None if ids is None else len(ids)),
            ("planned_prefix_len", row.planned_prefix_len, needed.pop(lane, None)),
            ("max_tokens", row.max_tokens, WARMUP_OUTPUT_TOKENS),
        ):
            if said != true:
                check.problems.append(Problem(WARMUP, name, f"says {said}, should be {true}", row.request_id))
        if ids is not None:
            replay.warm_up(ids, dp=row.planned_dp_id)
            if truth.recount is not None:
                truth.recount.warm_up(ids, domain=lane[1])
    for (group, domain), shared in needed.items():
        message = f"no request warms group {group} on rank {domain} to its {shared} shared tokens"
        check.problems.append(Problem(WARMUP, "rows", message))
    if maker is not None:
        again = msgspec.json.Decoder(WarmupRow).decode_lines(maker.warmup_lines()[0])
        for row, made in zip(rows, again, strict=False):
            if row != made:
                check.problems.append(Problem(WARMUP, "prompt", _NOT_MADE, row.request_id))


def _check_prompts(
    check: Check,
    encoder: Encoder,
    replay: Replay,
    truth: _Truth,
    work: tuple[Path, Workshop | None, Callable[[int, int], None]],
) -> None:
    """Encode, replay and compose again every row of the data."""
    dataset, maker, progress = work
    roll, done = Roll(DATA, truth.names), 0
    for rows in read_data(dataset, chunk=_CHUNK):
        places = [roll.call(row.request_id) for row in rows]
        known = [place for place in places if place is not None]
        made = {} if maker is None else _made(maker, known, truth)
        check.recomposed += len(made)
        for row, place, ids in zip(rows, places, encoder.encode(rows), strict=True):
            if place is not None:
                roll.problems += _row_problems(row, place, ids, replay, truth)
                roll.problems += _content_problems(row, place, ids, truth, made.get(place))
                roll.problems += _collision_problems(row, place, ids, truth, local=replay.layout.local)
        done += len(rows)
        progress(done, len(truth.names))
    check.problems += roll.finish()


def _row_problems(row: DataRow, place: int, ids: IntArray | None, replay: Replay, truth: _Truth) -> list[Problem]:
    """What one row says, and what its prompt does in a cache."""
    found = []
    if row.prefix_group_id != truth.group[place]:
        found.append(("prefix_group_id", f"says {row.prefix_group_id}, should be {truth.group[place]}"))
    if truth.max_tokens is not None and row.max_tokens != truth.max_tokens[place]:
        found.append(("max_tokens", f"says {row.max_tokens}, should be {truth.max_tokens[place]}"))
    if ids is None:
        found.append(("prompt", "is missing, or holds ids that the tokenizer lacks"))
    else:
        found += replay.check(
            ids,
            input_len=int(truth.input_len[place]),
            dp=int(truth.dp[place]),
            expected=(int(truth.cold_hit[place]), int(truth.hot_hit[place])),
        )
    return [Problem(DATA, name, message, row.request_id) for name, message in found]


def _content_problems(
    row: DataRow, place: int, ids: IntArray | None, truth: _Truth, made: _Prompt | None
) -> list[Problem]:
    """Whether the prompt is the one that was generated: by composing it again, else by its fingerprint."""
    if made is not None and made[:2] != (row.prompt, row.prompt_token_ids):
        return [Problem(DATA, "prompt", _NOT_MADE, row.request_id)]
    if made is not None and truth.content[place].samples != made.samples:
        return [Problem(METADATA, "suffix_sample_ids", "are not those of the prompt", row.request_id)]
    if made is not None and truth.content[place].retries != made.retries:
        return [Problem(METADATA, "collision_retries", f"should be {made.retries}", row.request_id)]
    if ids is None or fingerprint(ids) == truth.fingerprints[place]:
        return []
    if made is not None:
        return [Problem(METADATA, "prompt_fingerprint", "is not that of the prompt", row.request_id)]
    return [Problem(DATA, "prompt", "is not the one whose prompt_fingerprint the metadata has", row.request_id)]


def _collision_problems(row: DataRow, place: int, ids: IntArray | None, truth: _Truth, *, local: bool) -> list[Problem]:
    """Whether the prompt repeats of those before it just what the metadata says, where it must not repeat any."""
    if truth.recount is None or ids is None:
        return []
    domain = int(truth.dp[place]) if local else 0
    found = truth.recount.conflicts(ids, shared=int(truth.prefix_len[place]), domain=domain)
    said = truth.content[place].conflicts
    message = f"says {said}, but the prompt repeats {found} of those before it"
    return [] if said == found else [Problem(METADATA, "collision_conflicts", message, row.request_id)]


def _made(maker: Workshop, places: Sequence[int], truth: _Truth) -> dict[int, _Prompt]:
    """Prompts at these places of the send order, composed again; those that were made otherwise, in that way."""
    otherwise = [place for place in places if maker.rule is not None and truth.content[place].retries]
    again = {place: maker.again(place, truth.content[place].retries) for place in otherwise}
    plain = [place for place in places if place not in again]
    parts = [part for stretch in _stretches(plain) for part in maker.rows(*stretch)]
    data = b"".join([*(part.data for part in parts), *(made.data for made in again.values() if made)])
    metadata = b"".join([*(part.metadata for part in parts), *(made.metadata for made in again.values() if made)])
    rows = msgspec.json.Decoder(DataRow).decode_lines(data)
    facts = msgspec.json.Decoder().decode_lines(metadata)
    return {
        place: _Prompt(row.prompt, row.prompt_token_ids, fact["suffix_sample_ids"], fact["collision_retries"])
        for place, row, fact in zip([*plain, *(p for p, made in again.items() if made)], rows, facts, strict=True)
    }


def _stretches(places: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive places as half-open stretches, in the same order."""
    stretches: list[tuple[int, int]] = []
    for place in places:
        if stretches and stretches[-1][1] == place:
            stretches[-1] = (stretches[-1][0], place + 1)
        else:
            stretches.append((place, place + 1))
    return stretches
