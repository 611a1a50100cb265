"""Checks a data-set folder: digests, metadata, every prompt re-encoded and replayed, and composed again if possible."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from foreword.config.dataset import ROOT, DatasetConfig
from foreword.errors import ForewordError, TokenizerError
from foreword.simulate.design import Facts
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
from foreword.store.configs import with_sources
from foreword.store.dataset import DATA, MANIFEST, METADATA, REPORT, WARMUP
from foreword.store.reading import (
    Columns,
    DataRow,
    WarmupRow,
    digest_problems,
    read_columns,
    read_data,
    read_document,
    read_manifest,
    read_warmup,
    row_problems,
)
from foreword.store.tokenizers import LoadedTokenizer, frame_for, load_tokenizer
from foreword.store.workshop import Order, Workshop, open_workshop
from foreword.terms import IntArray, PromptFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_CHUNK = 256
_ANY_ID = 2**31


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


def check_dataset(
    dataset: Path, *, tokenizer: str | None, corpus: Path | None, progress: Callable[[int, int], None]
) -> Check:
    """Prove Laws 4 and 5 on the files alone and compare every stated number with its own computation."""
    manifest, layout = read_manifest(dataset)
    check = Check(str(manifest.get("dataset_id")))
    check.problems += digest_problems(dataset, manifest)
    columns = read_columns(dataset, group_ids=[str(row.get("group_id")) for row in manifest.get("groups", [])])
    _check_documents(check, dataset, manifest, layout, columns)
    encoder = _Encoder.of(manifest, layout, tokenizer, check)
    replay = Replay(layout)
    _check_warmup(check, encoder, replay, columns, read_warmup(dataset))
    maker = _maker(check, manifest, layout, (tokenizer, corpus))
    done, total = 0, len(columns.classes)
    for rows in read_data(dataset, chunk=_CHUNK):
        _check_chunk(check, encoder, replay, columns, (rows, done, maker))
        done += len(rows)
        progress(done, total)
    if done != total:
        check.problems.append(Problem(DATA, "rows", f"has {done} requests, the metadata has {total}"))
    check.checked, check.wrong = replay.checked, replay.wrong
    check.cold_hit_tokens, check.hot_hit_tokens = replay.cold_hit_tokens, replay.hot_hit_tokens
    return check


def _check_documents(check: Check, dataset: Path, manifest: dict[str, Any], layout: Layout, columns: Columns) -> None:
    metadata = columns.metadata
    check.input_tokens = int(metadata.input_len.sum())
    if manifest.get("request_count") != len(columns.classes):
        message = f"says {manifest.get('request_count')}, the metadata has {len(columns.classes)} rows"
        check.problems.append(Problem(MANIFEST, "request_count", message))
    if not columns.classes:
        check.problems.append(Problem(METADATA, "rows", "has none"))
        return
    check.problems += check_metadata(metadata, layout, written=columns.written, classes=columns.classes)
    report = read_document(dataset, REPORT)
    check.problems += check_totals(metadata, layout, manifest["theoretical_result"], file=MANIFEST)
    check.problems += check_totals(metadata, layout, report, file=REPORT)
    check.problems += check_groups(metadata, manifest.get("groups", []), file=MANIFEST)
    check.problems += check_groups(metadata, report.get("groups", []), file=REPORT)
    for index, ratio in enumerate(columns.ratios):
        true = int(columns.written["expected_hit_len"][index]) / int(metadata.input_len[index])
        if ratio != true:
            message = f"says {ratio}, its tokens give {true}"
            check.problems.append(Problem(METADATA, "expected_hit_ratio", message, metadata.request_ids[index]))


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Turns rows into token ids as the engine sees them."""

    tokenizer: LoadedTokenizer | None
    head: IntArray
    tail: IntArray
    vocab_size: int

    @classmethod
    def of(cls, manifest: dict[str, Any], layout: Layout, given: str | None, check: Check) -> _Encoder:
        kind = PromptFormat(manifest.get("prompt_format", PromptFormat.COMPLETIONS_TEXT))
        stated = manifest.get("tokenizer", {})
        if kind is PromptFormat.COMPLETIONS_IDS:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(None, nothing, nothing, int(stated.get("vocab_size") or 0))
        tokenizer = _tokenizer(given or str(manifest.get("config", {}).get("tokenizer", "builtin")))
        if tokenizer.sha256 != stated.get("sha256"):
            check.problems.append(Problem(MANIFEST, "tokenizer.sha256", f"is not that of {tokenizer.name}"))
        frame = frame_for(tokenizer, kind)
        if (len(frame.head_ids), len(frame.tail_ids)) != (layout.head_len, layout.tail_len):
            check.problems.append(Problem(MANIFEST, "frame", f"is not what {tokenizer.name} puts around a prompt"))
        head, tail = (np.asarray(ids, dtype=np.int64) for ids in (frame.head_ids, frame.tail_ids))
        return cls(tokenizer, head, tail, tokenizer.vocab_size)

    def encode(self, rows: Sequence[DataRow]) -> list[IntArray | None]:
        """Ids of each row, or ``None`` where it holds no prompt of the data set's kind."""
        if self.tokenizer is None:
            return [None if row.prompt_token_ids is None else self._own(row.prompt_token_ids) for row in rows]
        encoded = self.tokenizer.encode_batch([row.prompt or "" for row in rows])
        return [
            None if row.prompt is None else np.concatenate((self.head, np.asarray(ids, dtype=np.int64), self.tail))
            for row, ids in zip(rows, encoded, strict=True)
        ]

    def _own(self, ids: list[int]) -> IntArray | None:
        found = np.asarray(ids, dtype=np.int64)
        limit = self.vocab_size or _ANY_ID
        inside = len(found) > 0 and int(found.min()) >= 0 and int(found.max()) < limit
        return found if inside else None


def _tokenizer(spec: str) -> LoadedTokenizer:
    try:
        return load_tokenizer(spec)
    except TokenizerError as failure:
        raise TokenizerError(failure.message, advice="name the tokenizer's file with --tokenizer") from None


def _check_warmup(check: Check, encoder: _Encoder, replay: Replay, columns: Columns, rows: Sequence[WarmupRow]) -> None:
    """Replay the warm-up, and see that it covers every lane's longest prefix."""
    metadata, covered = columns.metadata, {}
    for row, ids in zip(rows, encoder.encode(rows), strict=True):
        if ids is None or len(ids) != row.input_len:
            found = "no such tokens" if ids is None else f"{len(ids)} tokens"
            message = f"says {row.input_len}, but the prompt has {found}"
            check.problems.append(Problem(WARMUP, "input_len", message, row.request_id))
        else:
            replay.warm_up(ids, dp=row.planned_dp_id)
        covered[row.prefix_group_id, row.planned_dp_id if replay.layout.local else 0] = row.planned_prefix_len
    domain = metadata.dp if replay.layout.local else np.zeros_like(metadata.dp)
    needed: dict[tuple[str, int], int] = {}
    for group, rank, shared in zip(metadata.group.tolist(), domain.tolist(), metadata.prefix_len.tolist(), strict=True):
        lane = (metadata.group_ids[group], rank)
        needed[lane] = max(needed.get(lane, 0), shared)
    for lane, shared in needed.items():
        if covered.get(lane) != shared:
            message = (
                f"covers {covered.get(lane)} tokens of group {lane[0]} on rank {lane[1]}, its requests share {shared}"
            )
            check.problems.append(Problem(WARMUP, "planned_prefix_len", message))


def _check_chunk(
    check: Check,
    encoder: _Encoder,
    replay: Replay,
    columns: Columns,
    work: tuple[Sequence[DataRow], int, Workshop | None],
) -> None:
    rows, start, maker = work
    metadata, written = columns.metadata, columns.written
    check.problems += row_problems(rows, columns, start)
    rows = rows[: len(columns.classes) - start]
    for index, (row, ids) in enumerate(zip(rows, encoder.encode(rows), strict=True), start=start):
        if ids is None:
            check.problems.append(
                Problem(DATA, "prompt", "is missing, or holds ids that the tokenizer lacks", row.request_id)
            )
            continue
        expected = int(written["expected_hit_len_cold"][index]), int(written["expected_hit_len_hot"][index])
        found = replay.check(
            ids, input_len=int(metadata.input_len[index]), dp=int(metadata.dp[index]), expected=expected
        )
        check.problems += [Problem(DATA, name, message, row.request_id) for name, message in found]
        said = columns.fingerprints[index]
        if said and not found and said != fingerprint(ids):
            message = "is not the one whose fingerprint the metadata has"
            check.problems.append(Problem(DATA, "prompt", message, row.request_id))
    if maker is not None and len(rows):
        _recompose(check, maker, rows, start)


def _recompose(check: Check, maker: Workshop, rows: Sequence[DataRow], start: int) -> None:
    """Make the same requests again and compare them line by line."""
    stop = min(start + len(rows), len(maker.design.order))
    again = [line for part in maker.rows(start, stop) for line in part.data.splitlines()]
    for row, line in zip(rows, again, strict=False):
        check.recomposed += 1
        if msgspec.json.decode(line, type=DataRow) != row:
            message = "is not what this seed, tokenizer and corpus give"
            check.problems.append(Problem(DATA, "prompt", message, row.request_id))


def _maker(
    check: Check, manifest: dict[str, Any], layout: Layout, sources: tuple[str | None, Path | None]
) -> Workshop | None:
    """A workshop that makes the data set again, where tokenizer and corpus are at hand and are the stated ones."""
    tokenizer, corpus = sources
    try:
        config = DatasetConfig.parse(manifest.get("config") or {}, root=ROOT)
        facts = Facts(layout.block_size, layout.rule, layout.head_len, layout.tail_len)
        config = with_sources(config, tokenizer=tokenizer, corpus=corpus)
        workshop = open_workshop(Order(config, facts, "none"))
    except ForewordError as failure:
        check.not_recomposed_because = failure.message
        return None
    for part in ("tokenizer", "corpus"):
        if workshop.facts[part] != manifest.get(part):
            check.not_recomposed_because = f"the {part} at hand is another one"
            return None
    return workshop
