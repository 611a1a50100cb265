"""Where prompts are made: a design, its tokenizer, its corpora and a composer, in this process or in a worker."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from foreword.cache.blocks import block_keys, root_key
from foreword.cache.rules import HitRule
from foreword.errors import ConstructionError
from foreword.simulate.design import Design, Facts, content_key, design
from foreword.simulate.documents import request_rows
from foreword.simulate.validate import fingerprint
from foreword.store.corpora import load_corpus, stories_for
from foreword.store.frames import framing_for
from foreword.store.second_engine import ProofEngine, second_engine
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer
from foreword.terms import IntArray, PromptFormat, UInt64Array, draw_key, request_id
from foreword.workload.collisions import longest_common_prefix, sampled_windows
from foreword.workload.content import CHUNK, ContentOptions, ContentPlan, ProofLevel, prepare
from foreword.workload.registry import Chunking, UnitRule, first_private_key
from foreword.workload.suffix import Picking

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from foreword.config.dataset import DatasetConfig, Source
    from foreword.workload.content import ComposedPrompt, Composer
    from foreword.workload.proof import ProofCounts
    from foreword.workload.tokens import EncodeBatch
    from foreword.workload.units import Corpus

WARMUP_OUTPUT_TOKENS = 1
NOTHING_REMADE = (0, 0, 0, 0)


class Order(NamedTuple):
    """What to make: enough to open the same workshop in any process."""

    config: DatasetConfig
    facts: Facts
    proof: ProofLevel
    proof_engine: ProofEngine = "tokenizers"


class Rows(NamedTuple):
    """Lines of some requests, digests of first private blocks and of private windows, and the proof of the prompts.

    ``units`` are digests of what else has to be unique, where an engine matches more than prefixes; so many a request
    as ``unit_counts`` says. ``remade`` are requests that were made otherwise because they repeated some, the retries
    that this took, requests that were kept all the same, and what they repeat.
    """

    data: bytes
    metadata: bytes
    first_private: IntArray
    windows: UInt64Array
    proof: ProofCounts
    retries: int
    conflicts: tuple[str, ...]
    units: UInt64Array
    unit_counts: IntArray
    remade: tuple[int, ...] = NOTHING_REMADE


class Made(NamedTuple):
    """One request: its lines, and what is known of its prompt."""

    data: bytes
    metadata: bytes
    first_private: int
    windows: UInt64Array
    units: UInt64Array
    prompt: ComposedPrompt


@dataclass(frozen=True, slots=True, eq=False)
class Workshop:
    """An opened order. ``chains`` has the digests of each group's shared blocks, in order.

    ``rule`` finds what has to be unique beside first private blocks, if anything.
    """

    design: Design
    composer: Composer
    tokenizer: LoadedTokenizer
    head: IntArray
    tail: IntArray
    masters: tuple[IntArray, ...]
    chains: tuple[list[int], ...]
    rule: UnitRule | None
    facts: dict[str, Any]

    def rows(self, start: int, stop: int) -> Iterator[Rows]:
        """Lines of the requests at send positions ``[start, stop)``, a chunk at a time."""
        for first in range(start, stop, CHUNK):
            yield self._chunk(first, min(first + CHUNK, stop))

    def again(self, position: int, retry: int) -> Made | None:
        """The request at a send position, made otherwise; ``None`` where such a prompt cannot be proved."""
        prompt = self.composer.variant(int(self.design.order[position]), retry)
        return None if prompt is None else self._made(position, prompt)

    def warmup_lines(self) -> tuple[bytes, IntArray, list[UInt64Array]]:
        """One line a lane: the master to the lane's longest prefix and a tail of its own; and their digests.

        Of the first private blocks, and of what else has to be unique: masters and tails, by cache domain.
        """
        lines, digests = [], []
        units: list[list[UInt64Array]] = [[] for _ in range(self.design.route.dp_size)]
        plan, lanes = self.design.plan, self.design.lanes
        for number, lane in enumerate(np.unique(lanes.lane).tolist()):
            members = np.flatnonzero(lanes.lane == lane)
            group = int(self.design.groups.of_request[members[0]])
            shared = int(plan.prefix_len[members].max())
            prompt = self.composer.warmup_prompt(self.design.groups.ids[group], shared, lane=lane)
            whole = self._whole(prompt)
            digests.append(self._first_private(whole, group, shared, f"w{number:05d}"))
            units[int(lanes.domain[members[0]])].append(self._units(whole, 0))
            facts = {"planned_dp_id": int(lanes.dp[members[0]]), "input_len": len(whole), "planned_prefix_len": shared}
            line = self._line(f"w{number:05d}", prompt, WARMUP_OUTPUT_TOKENS, group)
            lines.append(line[:-2] + b"," + msgspec.json.encode(facts)[1:] + b"\n")
        return b"".join(lines), _digest_array(digests), [concatenated(each) for each in units]

    def _chunk(self, start: int, stop: int) -> Rows:
        chunk = self.composer.compose_chunk(self.design.order[start:stop])
        made = [self._made(start + place, prompt) for place, prompt in enumerate(chunk.prompts)]
        order = self.design.order[start:stop].tolist()
        kept = [request_id(index) for index, one in zip(order, made, strict=True) if one.prompt.status == "conflict"]
        return Rows(
            data=b"".join(one.data for one in made),
            metadata=b"".join(one.metadata for one in made),
            first_private=_digest_array([one.first_private for one in made]),
            windows=concatenated([one.windows for one in made]),
            proof=chunk.proof,
            retries=sum(prompt.retries for prompt in chunk.prompts),
            conflicts=tuple(kept),
            units=concatenated([one.units for one in made]),
            unit_counts=np.array([len(one.units) for one in made], dtype=np.int64),
        )

    def _made(self, position: int, prompt: ComposedPrompt) -> Made:
        """The lines of one request, after checking that its prompt has its length and its prefix."""
        row = next(request_rows(self.design, position, stop=position + 1))
        index, shared = int(self.design.order[position]), row["planned_prefix_len"]
        group, whole = int(self.design.groups.of_request[index]), self._whole(prompt)
        if len(whole) != row["input_len"]:
            raise _broken(row["request_id"], f"has {len(whole)} tokens instead of {row['input_len']}")
        units = self._units(whole, shared)
        row["suffix_sample_ids"] = list(prompt.samples)
        row["collision_status"] = prompt.status
        row["collision_retries"] = prompt.retries
        row["collision_conflicts"] = 0
        row["prompt_fingerprint"] = fingerprint(whole)
        return Made(
            data=self._line(row["request_id"], prompt, int(self.design.output_len[index]), group),
            metadata=msgspec.json.encode(row) + b"\n",
            first_private=self._first_private(whole, group, shared, row["request_id"]),
            windows=self._windows(whole, shared),
            units=units,
            prompt=prompt,
        )

    def _units(self, whole: IntArray, shared: int) -> UInt64Array:
        return np.zeros(0, np.uint64) if self.rule is None else self.rule.units(whole, shared)[1]

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
        """Digests of sampled windows of the private part; none where collisions are not looked for, or all are."""
        asked, size = self.design.config.suffix.collision_detection, self.design.facts.block_size
        wanted = asked.enabled and self.rule is None
        return sampled_windows(whole, shared, block_size=size, window_blocks=asked.window_blocks if wanted else 0)

    def _first_private(self, whole: IntArray, group: int, shared: int, name: str) -> int:
        """Digest of the first block that a prompt does not share, after checking that it shares what it should.

        A block that is not full is never cached and conflicts with none: its digest is the request's own.
        """
        if not np.array_equal(whole[:shared], self.masters[group][:shared]):
            raise _broken(name, f"does not start with {shared} tokens of its group's master")
        size = self.design.facts.block_size
        parent = self.chains[group][shared // size - 1] if shared else root_key()
        key = first_private_key(whole, shared, block_size=size, parent=parent)
        return draw_key("partial", name) if key is None else key


def open_workshop(order: Order) -> Workshop:
    """Load tokenizer and corpora, plan, and prepare the composer; the same for the same order in any process."""
    config, facts = order.config, order.facts
    planned = design(config, facts)
    tokenizer = load_tokenizer(config.tokenizer)
    framing = framing_for(tokenizer, config)
    frame = framing.frame
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
    options = _content_options(order, _second(order, tokenizer, suffix, prefix))
    composer = prepare(tokenizer, suffix, plan=plan, options=options, prefix_corpus=prefix)
    _check_branches(order, composer)
    head, tail = (np.asarray(ids, dtype=np.int64) for ids in (frame.head_ids, frame.tail_ids))
    masters = tuple(
        np.concatenate((head, composer.masters[id_].ids))[: group.master_prefix_len]
        for id_, group in zip(planned.groups.ids, planned.by_group, strict=True)
    )
    chains = tuple(block_keys(master, facts.block_size, parent=root_key()) for master in masters)
    described = {**_facts(tokenizer, suffix, prefix, composer), "template": framing.document}
    rule = unit_rule(config, facts.block_size)
    return Workshop(planned, composer, tokenizer, head, tail, masters, chains, rule, described)


def _content_options(order: Order, second: EncodeBatch | None) -> ContentOptions:
    config, collisions = order.config, order.config.suffix.collision_detection
    return ContentOptions(
        separator=config.suffix.separator,
        picking=Picking.of(config.suffix, config.prefix),
        proof=order.proof,
        max_retries=collisions.max_retries,
        on_conflict=collisions.on_conflict,
        second=second,
    )


def _second(order: Order, tokenizer: LoadedTokenizer, *corpora: Corpus | None) -> EncodeBatch | None:
    """The second engine, where one is asked for, once it has encoded all samples as the first does."""
    if order.proof_engine == "tokenizers":
        return None
    engine = second_engine(tokenizer)
    engine.check(sample.text for corpus in corpora if corpus for sample in corpus.samples)
    return engine.encode_batch


def unit_rule(config: DatasetConfig, block_size: int) -> UnitRule | None:
    """What has to be unique behind the shared prefix beside its first block; ``None`` for chained prefixes."""
    asked = config.suffix.collision_detection
    if not config.suffix.matched_anywhere:
        return None
    return UnitRule(asked.cache_match_semantics, block_size, Chunking.of(asked.chunks))


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
    stories = stories_for(
        longest=int(lengths.max()),
        shared=shared,
        total=int(lengths.sum()),
        apart=config.suffix.matched_anywhere,
    )
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


def concatenated(digests: Sequence[UInt64Array]) -> UInt64Array:
    """Digests of several prompts, one after the other."""
    return np.concatenate([np.zeros(0, np.uint64), *digests])


def _digest_array(digests: list[int]) -> IntArray:
    return np.asarray(digests, dtype=np.uint64).view(np.int64)


def _broken(name: str, what: str) -> ConstructionError:
    return ConstructionError(f"request {name} {what}", request_id=name, stage="content", advice="please report this")
