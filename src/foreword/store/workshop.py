"""Where prompts are made: a design, its tokenizer, its corpora and a composer, in this process or in a worker."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from foreword.cache.blocks import block_keys, next_key, root_key
from foreword.cache.rules import HitRule
from foreword.errors import ConstructionError
from foreword.simulate.design import Design, Facts, content_key, design
from foreword.simulate.documents import request_rows
from foreword.simulate.validate import fingerprint
from foreword.store.corpora import load_corpus, stories_for
from foreword.store.tokenizers import LoadedTokenizer, frame_for, load_tokenizer
from foreword.terms import IntArray, PromptFormat, UInt64Array, draw_key
from foreword.workload.collisions import longest_common_prefix, sampled_windows
from foreword.workload.content import CHUNK, ContentOptions, ContentPlan, ProofLevel, prepare
from foreword.workload.suffix import Picking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.config.dataset import DatasetConfig, Source
    from foreword.workload.content import ComposedPrompt, Composer
    from foreword.workload.proof import ProofCounts
    from foreword.workload.units import Corpus

WARMUP_OUTPUT_TOKENS = 1


class Order(NamedTuple):
    """What to make: enough to open the same workshop in any process."""

    config: DatasetConfig
    facts: Facts
    proof: ProofLevel


class Rows(NamedTuple):
    """Lines of some requests, digests of first private blocks and of private windows, and the proof of the prompts."""

    data: bytes
    metadata: bytes
    first_private: IntArray
    windows: UInt64Array
    proof: ProofCounts
    retries: int
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Workshop:
    """An opened order. ``chains`` has the digests of each group's shared blocks, in order."""

    design: Design
    composer: Composer
    tokenizer: LoadedTokenizer
    head: IntArray
    tail: IntArray
    masters: tuple[IntArray, ...]
    chains: tuple[list[int], ...]
    facts: dict[str, Any]

    def rows(self, start: int, stop: int) -> Iterator[Rows]:
        """Lines of the requests at send positions ``[start, stop)``, a chunk at a time."""
        for first in range(start, stop, CHUNK):
            yield self._chunk(first, min(first + CHUNK, stop))

    def warmup_lines(self) -> tuple[bytes, IntArray]:
        """One line a lane: the master to the lane's longest prefix and a tail of its own; and their block digests."""
        lines, digests = [], []
        plan, lanes = self.design.plan, self.design.lanes
        for number, lane in enumerate(np.unique(lanes.lane).tolist()):
            members = np.flatnonzero(lanes.lane == lane)
            group = int(self.design.groups.of_request[members[0]])
            shared = int(plan.prefix_len[members].max())
            prompt = self.composer.warmup_prompt(self.design.groups.ids[group], shared, lane=lane)
            whole = self._whole(prompt)
            digests.append(self._first_private(whole, group, shared, f"w{number:05d}"))
            facts = {"planned_dp_id": int(lanes.dp[members[0]]), "input_len": len(whole), "planned_prefix_len": shared}
            line = self._line(f"w{number:05d}", prompt, WARMUP_OUTPUT_TOKENS, group)
            lines.append(line[:-2] + b"," + msgspec.json.encode(facts)[1:] + b"\n")
        return b"".join(lines), _digest_array(digests)

    def _chunk(self, start: int, stop: int) -> Rows:
        numbers = self.design.order[start:stop]
        chunk = self.composer.compose_chunk(numbers)
        data, metadata, digests, windows, conflicts = [], [], [], [], []
        for index, prompt, row in zip(
            numbers.tolist(), chunk.prompts, request_rows(self.design, start, stop=stop), strict=True
        ):
            group, shared = int(self.design.groups.of_request[index]), row["planned_prefix_len"]
            whole = self._whole(prompt)
            if len(whole) != row["input_len"]:
                raise _broken(row["request_id"], f"has {len(whole)} tokens instead of {row['input_len']}")
            digests.append(self._first_private(whole, group, shared, row["request_id"]))
            windows.append(self._windows(whole, shared))
            row["suffix_sample_ids"] = list(prompt.samples)
            row["collision_status"] = prompt.status
            row["prompt_fingerprint"] = fingerprint(whole)
            if prompt.status == "conflict":
                conflicts.append(row["request_id"])
            data.append(self._line(row["request_id"], prompt, int(self.design.output_len[index]), group))
            metadata.append(msgspec.json.encode(row))
        return Rows(
            b"".join(data),
            b"\n".join([*metadata, b""]),
            _digest_array(digests),
            np.concatenate(windows),
            chunk.proof,
            sum(prompt.retries for prompt in chunk.prompts),
            tuple(conflicts),
        )

    def _line(self, name: str, prompt: ComposedPrompt, max_tokens: int, group: int) -> bytes:
        if self.design.config.prompt_format is PromptFormat.COMPLETIONS_IDS:
            body = b'"prompt_token_ids":' + msgspec.json.encode(prompt.ids.tolist())
        else:
            body = b'"prompt":"' + prompt.escaped + b'"'
        rest = f',"max_tokens":{max_tokens},"prefix_group_id":"{self.design.groups.ids[group]}"}}\n'
        return b'{"request_id":"' + name.encode() + b'",' + body + rest.encode()

    def _whole(self, prompt: ComposedPrompt) -> IntArray:
        return np.concatenate((self.head, prompt.ids, self.tail))

    def _windows(self, whole: IntArray, shared: int) -> UInt64Array:
        """Digests of sampled windows of the private part, none where collisions are not looked for."""
        asked, size = self.design.config.suffix.collision_detection, self.design.facts.block_size
        return sampled_windows(
            whole, shared, block_size=size, window_blocks=asked.window_blocks if asked.enabled else 0
        )

    def _first_private(self, whole: IntArray, group: int, shared: int, name: str) -> int:
        """Digest of the first block that a prompt does not share, after checking that it shares what it should.

        A block that is not full is never cached and conflicts with none: its digest is the request's own.
        """
        if not np.array_equal(whole[:shared], self.masters[group][:shared]):
            raise _broken(name, f"does not start with {shared} tokens of its group's master")
        size = self.design.facts.block_size
        if len(whole) < shared + size:
            return draw_key("partial", name)
        parent = self.chains[group][shared // size - 1] if shared else root_key()
        return next_key(parent, whole[shared : shared + size])


def open_workshop(order: Order) -> Workshop:
    """Load tokenizer and corpora, plan, and prepare the composer; the same for the same order in any process."""
    config, facts = order.config, order.facts
    planned = design(config, facts)
    tokenizer = load_tokenizer(config.tokenizer)
    frame = frame_for(tokenizer, config.prompt_format)
    suffix, prefix = _corpora(planned)
    plan = ContentPlan(
        group=planned.groups.of_request,
        input_len=planned.prompts.input_len,
        prefix_len=planned.plan.prefix_len,
        group_ids=planned.groups.ids,
        block_size=facts.block_size,
        minimum_non_shared=planned.prompts.minimum_non_shared,
        frame=frame,
        seed_key=content_key(config),
        as_ids=config.prompt_format is PromptFormat.COMPLETIONS_IDS,
        token_granular=facts.rule is HitRule.CAP_ONLY,
        every_cut=config.seed_scope == "content",
    )
    collisions = config.suffix.collision_detection
    options = ContentOptions(
        separator=config.suffix.separator,
        picking=Picking.of(config.suffix, config.prefix),
        proof=order.proof,
        max_retries=collisions.max_retries,
        on_conflict=collisions.on_conflict,
    )
    composer = prepare(tokenizer, suffix, plan=plan, options=options, prefix_corpus=prefix)
    _check_branches(order, composer)
    head, tail = (np.asarray(ids, dtype=np.int64) for ids in (frame.head_ids, frame.tail_ids))
    masters = tuple(
        np.concatenate((head, composer.masters[id_].ids))[: group.master_prefix_len]
        for id_, group in zip(planned.groups.ids, planned.by_group, strict=True)
    )
    chains = tuple(block_keys(master, facts.block_size, parent=root_key()) for master in masters)
    described = _facts(tokenizer, suffix, prefix, composer)
    return Workshop(planned, composer, tokenizer, head, tail, masters, chains, described)


def _check_branches(order: Order, composer: Composer) -> None:
    """Where single tokens are matched, refuse more requests that part at one place than there are words to do so."""
    single = order.facts.block_size == 1 or order.facts.rule is HitRule.CAP_ONLY
    extra = composer.diagnostics["requests_beyond_first_token"]
    asked = order.config.suffix.collision_detection
    if single and extra and asked.enabled and asked.first_non_shared_block_unique:
        raise ConstructionError(
            f"{extra} requests part at the same place as more others than this tokenizer has words to part with",
            stage="content",
            field="block_size",
            advice="use more groups, prompts of different lengths, fewer requests, or a block_size above 1",
        )


def _corpora(planned: Design) -> tuple[Corpus, Corpus | None]:
    """Samples of the suffix, and of the masters where they have a source of their own."""
    suffix, prefix = planned.config.suffix, planned.config.prefix
    samples = _corpus(planned, suffix.source, suffix.path)
    return samples, None if prefix.source is None else _corpus(planned, prefix.source, prefix.path or suffix.path)


def _corpus(planned: Design, source: Source, path: str | None) -> Corpus:
    config, lengths = planned.config, planned.prompts.input_len
    shared = sum(group.master_prefix_len for group in planned.by_group)
    stories = stories_for(longest=int(lengths.max()), shared=shared, total=int(lengths.sum()))
    key = draw_key("corpus", config.seed)
    return load_corpus(source, path=path, language=config.suffix.language, seed=key, stories=stories)


def _facts(tokenizer: LoadedTokenizer, suffix: Corpus, prefix: Corpus | None, composer: Composer) -> dict[str, Any]:
    """What the manifest says of where the text comes from."""
    corpora = {"suffix": suffix, "prefix": prefix or suffix}
    return {
        "tokenizer": {
            "name": tokenizer.name,
            "sha256": tokenizer.sha256,
            "kind": tokenizer.kind,
            "vocab_size": tokenizer.vocab_size,
        },
        "corpus": {use: {"source": corpus.source, "sha256": corpus.sha256} for use, corpus in corpora.items()},
        "content": dict(composer.diagnostics),
        "proof_level": composer.proof_level,
        "masters": _master_facts(composer),
        "masters_common_prefix_tokens": longest_common_prefix([master.ids for master in composer.masters.values()]),
    }


def _master_facts(composer: Composer) -> list[dict[str, Any]]:
    """What each master is, without its text."""
    samples = composer.master_samples
    return [
        {"group_id": group, "sha256_of_ids": _sha256(master.ids), "sample_ids": list(samples[group])}
        for group, master in composer.masters.items()
    ]


def _sha256(ids: IntArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(ids, dtype="<i4").tobytes()).hexdigest()


def _digest_array(digests: list[int]) -> IntArray:
    return np.asarray(digests, dtype=np.uint64).view(np.int64)


def _broken(name: str, what: str) -> ConstructionError:
    return ConstructionError(f"request {name} {what}", request_id=name, stage="content", advice="please report this")
