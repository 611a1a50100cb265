"""Prompts of exactly L tokens that share exactly P tokens with their group, and nothing more.

Text is put together from pieces whose ids are known, never decoded from ids (design: content). ``prepare`` reads words,
samples and joints and builds the masters; a ``Composer`` then is a pure function from request numbers to prompts, the
same bytes for any chunking and in any process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from foreword.errors import ConstructionError
from foreword.terms import draw_key
from foreword.workload.divergence import ROOT, Children, Spelling, ranks
from foreword.workload.draws import drawn_table, keyed
from foreword.workload.masters import Layout
from foreword.workload.materials import Draft
from foreword.workload.preparation import Need, Text, gather
from foreword.workload.proof import ProofCounts, Prover
from foreword.workload.suffix import ANY_SAMPLE, NO_SAMPLE, SHORTEST_TEXT, Ending, Picking, plan_endings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from foreword.terms import BoolArray, IntArray
    from foreword.workload.masters import Master
    from foreword.workload.materials import Materials
    from foreword.workload.suffix import SuffixPool
    from foreword.workload.tokens import EncodeBatch, Frame, TokenizerProtocol
    from foreword.workload.units import Corpus

CHUNK = 256
"""Prompts composed at a time: enough to vectorise, few enough to keep memory flat."""

_MARKER_FROM = 3
_MARKER_WORDS = 3

ProofLevel = Literal["none", "window", "full"]
OnConflict = Literal["error", "warn", "accept_with_warning"]


@dataclass(frozen=True, slots=True, eq=False)
class ContentPlan:
    """What to compose: one element a request, in generation order; a request's number is its place.

    ``input_len`` and ``prefix_len`` are engine-space tokens; ``prefix_len`` is a multiple of ``block_size`` and at
    least the aligned head. ``token_granular`` is for engines that reuse single tokens whatever the block size. Masters
    can be cut where some request leaves them, or at every block with ``every_cut``: then they are the same for plans
    that differ in their prefix lengths alone.
    """

    group: IntArray
    input_len: IntArray
    prefix_len: IntArray
    group_ids: tuple[str, ...]
    block_size: int
    minimum_non_shared: int
    frame: Frame
    seed_key: int
    as_ids: bool = False
    token_granular: bool = False
    every_cut: bool = False

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.group)


@dataclass(frozen=True, slots=True)
class ContentOptions:
    """How to compose: separator, choice of samples, proof and what to do when a prompt cannot be proved.

    At least ``full_least`` prompts and a ``full_share`` of all, chosen by hash, are encoded again in full; by
    ``second``, if given, whose ids are known to be the tokenizer's, and by the tokenizer where that finds others.
    """

    separator: str = "\n\n"
    picking: Picking = ANY_SAMPLE
    proof: ProofLevel = "window"
    full_share: float = 0.01
    full_least: int = 200
    max_retries: int = 8
    on_conflict: OnConflict = "error"
    second: EncodeBatch | None = None


class ComposedPrompt(NamedTuple):
    """One prompt: JSON-escaped text without quotes (empty for prompts of ids), and content ids.

    ``status`` is ``unique``, ``repaired`` (after ``retries``) or ``conflict`` (kept although it could not be proved);
    ``samples`` names what stands behind the divergence words, the last of it perhaps cut.
    """

    escaped: bytes
    ids: IntArray
    retries: int = 0
    status: str = "unique"
    samples: tuple[str, ...] = ()


class Chunk(NamedTuple):
    """Prompts and the proof they went through."""

    prompts: list[ComposedPrompt]
    proof: ProofCounts


@dataclass(frozen=True, slots=True, eq=False)
class _Jobs:
    """Prompts to compose, one element each; ``rank`` is the place among those with the same parent block."""

    number: IntArray
    rank: IntArray
    group: IntArray
    input_len: IntArray
    prefix_len: IntArray


def prepare(
    tokenizer: TokenizerProtocol,
    corpus: Corpus,
    *,
    plan: ContentPlan,
    options: ContentOptions | None = None,
    prefix_corpus: Corpus | None = None,
) -> Composer:
    """Read words, samples and joints, and build the masters.

    Masters take their samples from ``prefix_corpus``, or from ``corpus`` too. Raises TokenizerError or
    ConstructionError, whose messages begin with a code, where exact prompts are impossible.
    """
    options = options or ContentOptions()
    need = _need(plan)
    text = Text(corpus, prefix_corpus or corpus, options.separator, options.picking)
    materials = gather(tokenizer, text, need=need)
    return Composer(plan, options, materials)


def _need(plan: ContentPlan) -> Need:
    head = plan.frame.head_len
    shared = np.zeros(len(plan.group_ids), np.int64)
    np.maximum.at(shared, plan.group, np.maximum(plan.prefix_len - head, 0))
    private = plan.input_len - np.maximum(plan.prefix_len, head)
    layout = Layout(head, plan.block_size, plan.seed_key)
    return Need(
        shared_tokens=shared,
        cuts=(layout.boundaries(),) * len(shared) if plan.every_cut else _cuts(plan),
        longest_private=int(private.max(initial=0)),
        longest_content=int((plan.input_len - head - plan.frame.tail_len).max(initial=0)),
        requests=len(plan),
        requests_at_root=int((plan.prefix_len <= head).sum()),
        layout=layout,
        as_ids=plan.as_ids,
        frame=plan.frame,
        by_first_token=plan.token_granular or min(plan.block_size, plan.minimum_non_shared - plan.frame.tail_len) <= 1,
    )


def _cuts(plan: ContentPlan) -> tuple[list[int], ...]:
    """Content tokens after which requests of each group leave its master, ascending."""
    lengths = np.maximum(plan.prefix_len - plan.frame.head_len, 0)
    span = int(lengths.max(initial=0)) + 1
    keys = np.unique(plan.group.astype(np.int64) * span + lengths)
    groups = np.searchsorted(keys, np.arange(1, len(plan.group_ids)) * span)
    parts = (part % span for part in np.split(keys, groups))
    return tuple(part[part > 0].tolist() for part in parts)


class Composer:
    """Turns request numbers into prompts; made by ``prepare``."""

    def __init__(self, plan: ContentPlan, options: ContentOptions, materials: Materials) -> None:
        self._plan = plan
        self._options = options
        self._materials = materials
        self._spelling = Spelling(
            len(materials.words), len(materials.starts), plan.token_granular or plan.block_size == 1, plan.seed_key
        )
        self._rank = ranks(self._parents(plan.group, plan.prefix_len))
        self._place_of = {int(token): place for place, token in enumerate(materials.words.ids)}
        self._full = self._chosen_for_full()
        self._prover = Prover(materials, plan.frame, second=options.second)
        open_tail = plan.frame.open_tail(materials.tokenizer.pieces().reserved)
        self._closing_words = int(open_tail and not plan.as_ids)

    @property
    def masters(self) -> Mapping[str, Master]:
        """Master prefix of each group, in content tokens."""
        return dict(zip(self._plan.group_ids, self._materials.masters, strict=True))

    @property
    def master_samples(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the samples in each group's master, in order, each once."""
        names = self._materials.prefix_names
        return {
            group: tuple(dict.fromkeys(names[place] for _, place in master.samples))
            for group, master in self.masters.items()
        }

    @property
    def proof_level(self) -> Literal["none", "window", "full", "ids"]:
        """Level that is really used: ``full`` where joints are not proved by rule, ``ids`` where nothing is encoded."""
        if self._plan.as_ids:
            return "ids"
        by_rule = self._materials.proved_by_rule or self._options.proof != "window"
        return self._options.proof if by_rule else "full"

    @property
    def diagnostics(self) -> dict[str, object]:
        """Counts of what preparing met: words, samples, joints, masters; and what a user should know."""
        extra = self._beyond_first_token()
        warnings = [*self._materials.warnings]
        if extra:
            warnings.append(f"{extra} requests must share their first private token with another: expect extra hits")
        return {**self._materials.diagnostics, "requests_beyond_first_token": extra, "warnings": warnings}

    def compose(self, numbers: Sequence[int] | IntArray) -> list[ComposedPrompt]:
        """The prompts of these requests, proved as the options say."""
        return self.compose_chunk(numbers).prompts

    def compose_chunk(self, numbers: Sequence[int] | IntArray) -> Chunk:
        """The prompts of these requests, with counts of the proof."""
        wanted = np.asarray(numbers, dtype=np.int64)
        parts = [self._chunk(self._jobs(wanted[i : i + CHUNK])) for i in range(0, len(wanted), CHUNK)]
        prompts = [prompt for part in parts for prompt in part.prompts]
        return Chunk(prompts, sum((part.proof for part in parts), ProofCounts()))

    def warmup_prompt(self, group: str, prefix_len: int, *, lane: int) -> ComposedPrompt:
        """The master to ``prefix_len`` with a private tail that no request and no other warm-up has."""
        plan = self._plan
        place = plan.group_ids.index(group)
        where, to = np.array([place]), np.array([prefix_len])
        parent = self._parents(where, to)[0]
        siblings = int((self._parents(plan.group, plan.prefix_len) == parent).sum())
        later = lane if parent != ROOT else lane * len(plan.group_ids) + place
        number = len(plan) + lane * len(plan.group_ids) + place
        length = self.warmup_len(prefix_len)
        jobs = _Jobs(np.array([number]), np.array([siblings + later]), where, np.array([length]), to)
        return self._chunk(jobs).prompts[0]

    def warmup_len(self, prefix_len: int) -> int:
        """Engine-space tokens of a warm-up prompt: a block after the prefix where some request is that long."""
        plan = self._plan
        shortest = prefix_len + max(plan.minimum_non_shared, plan.frame.tail_len + 1)
        shortest = max(shortest, plan.frame.head_len + plan.frame.tail_len + 1)
        return max(shortest, min(prefix_len + plan.block_size + plan.frame.tail_len, int(plan.input_len.max())))

    def variant(self, number: int, retry: int) -> ComposedPrompt | None:
        """A request's prompt made otherwise and proved in full, or ``None`` where it cannot be proved.

        With other divergence words, from the second retry on also other samples, from the third on also a marker
        before them (RFC 3.3.15).
        """
        return self._variant(self._jobs(np.array([number], dtype=np.int64)), retry)

    def _variant(self, job: _Jobs, retry: int) -> ComposedPrompt | None:
        drafts = self._drafts(job, retry=retry)
        prompt = self._prompt(drafts[0])
        level: ProofLevel = "none" if self._plan.as_ids else "full"
        wrong, _ = self._prover.check(drafts, prompts_of([prompt]), full=np.ones(1, bool), level=level)
        return None if wrong else prompt._replace(retries=retry, status="repaired")

    def _jobs(self, numbers: IntArray) -> _Jobs:
        plan = self._plan
        return _Jobs(
            numbers, self._rank[numbers], plan.group[numbers], plan.input_len[numbers], plan.prefix_len[numbers]
        )

    def _parents(self, group: IntArray, prefix_len: IntArray) -> IntArray:
        """A number for the parent block of each first private block; ROOT where no content token is shared."""
        keys = prefix_len * len(self._plan.group_ids) + group
        return np.where(prefix_len <= self._plan.frame.head_len, ROOT, keys)

    def _beyond_first_token(self) -> int:
        """Requests whose first private token a sibling must share where only that token counts."""
        root = self._plan.prefix_len <= self._plan.frame.head_len
        narrow = (self._free(self._plan.prefix_len, self._plan.input_len) == 1) | self._spelling.by_rank
        limits = np.where(root, self._spelling.siblings(at_root=True), self._spelling.siblings(at_root=False))
        return int(((self._rank >= limits) & narrow).sum())

    def _free(self, prefix_len: IntArray, input_len: IntArray) -> IntArray:
        """Content tokens of the first private block."""
        frame, size = self._plan.frame, self._plan.block_size
        begin = np.maximum(prefix_len, frame.head_len)
        block_end = np.maximum(prefix_len, frame.head_len // size * size) + size
        free: IntArray = np.minimum(block_end, input_len - frame.tail_len) - begin
        return free

    def _chosen_for_full(self) -> BoolArray:
        """Requests that are encoded again in full whatever the level."""
        count = len(self._plan)
        wanted = min(count, max(self._options.full_least, round(self._options.full_share * count)))
        chosen = np.zeros(count + 1, dtype=bool)
        if self._options.proof != "none" and not self._plan.as_ids:
            order = np.argsort(keyed(draw_key("full proof", self._plan.seed_key), np.arange(count)), kind="stable")
            chosen[order[:wanted]] = True
        return chosen

    def _chunk(self, jobs: _Jobs) -> Chunk:
        """Compose, prove, and compose again with other words and samples what could not be proved."""
        drafts = self._drafts(jobs, retry=0)
        prompts = [self._prompt(draft) for draft in drafts]
        full = self._full[np.minimum(jobs.number, len(self._plan))]
        level = "none" if self.proof_level == "ids" else self.proof_level
        wrong, counts = self._prover.check(drafts, prompts_of(prompts), full=full, level=level)
        for row in wrong:
            prompts[row] = self._repaired(_row(jobs, row))
        repaired = sum(prompt.status == "repaired" for prompt in prompts)
        return Chunk(prompts, counts + ProofCounts(repaired=repaired, kept=len(wrong) - repaired))

    def _repaired(self, job: _Jobs) -> ComposedPrompt:
        """The prompt made otherwise, each attempt proved in full."""
        for retry in range(1, self._options.max_retries + 1):
            made = self._variant(job, retry)
            if made is not None:
                return made
        if self._options.on_conflict == "error":
            raise ConstructionError(
                f"JOINT_NOT_PROVED: request {int(job.number[0])} does not encode to its planned ids after "
                f"{self._options.max_retries} retries",
                advice="use another separator or corpus, or prompt_format: completions_ids",
                stage="content",
                retry=self._options.max_retries,
                group=self._plan.group_ids[int(job.group[0])],
            )
        prompt = self._prompt(self._drafts(job, retry=0)[0])
        seen = np.array(self._prover.encoded(prompt.escaped), dtype=np.int64)
        return prompt._replace(ids=seen, retries=self._options.max_retries, status="conflict")

    def _drafts(self, jobs: _Jobs, *, retry: int) -> list[Draft]:
        """What each prompt is made of: places of words and samples, not their text."""
        frame = self._plan.frame
        shared = np.maximum(jobs.prefix_len - frame.head_len, 0)
        private = jobs.input_len - frame.head_len - frame.tail_len - shared
        free = self._free(jobs.prefix_len, jobs.input_len)
        spelled = self._spelled(jobs, shared, free, retry)
        markers = self._markers(jobs.number, private - free, retry)
        rooms = private - free - np.array([self._marker_tokens if marker else 0 for marker in markers])
        endings = self._endings(jobs, shared, rooms, retry)
        fillers = self._fillers(jobs.number, endings, retry)
        rows = zip(jobs.group.tolist(), shared.tolist(), spelled, endings, fillers, markers, strict=True)
        return [Draft(*row) for row in rows]

    @property
    def _marker_tokens(self) -> int:
        return len(self._materials.separator_ids) + len(self._materials.marker_ids) + _MARKER_WORDS

    def _markers(self, numbers: IntArray, rooms: IntArray, retry: int) -> list[tuple[int, ...]]:
        """Words of a short line before the samples, from the third retry on, where there is room for both."""
        least = self._marker_tokens + len(self._materials.separator_ids) + SHORTEST_TEXT
        if retry < _MARKER_FROM:
            return [()] * len(numbers)
        table = drawn_table(
            draw_key("marker", self._plan.seed_key, retry),
            numbers,
            columns=_MARKER_WORDS,
            limit=len(self._materials.words),
        )
        return [tuple(row) if room >= least else () for row, room in zip(table.tolist(), rooms.tolist(), strict=True)]

    def _endings(self, jobs: _Jobs, shared: IntArray, rooms: IntArray, retry: int) -> list[Ending]:
        """Samples where a separator and some text fit, else words; other samples from the second retry on.

        Before a tail that is text itself a word is the last, which keeps its id there.
        """
        materials, last = self._materials, self._closing_words
        separator = len(materials.separator_ids) + last
        endings = [Ending([], NO_SAMPLE, 0, room) for room in rooms.tolist()]
        rows = np.flatnonzero(rooms >= separator + SHORTEST_TEXT).tolist() if len(materials.units) else []
        by_pool: dict[int, tuple[SuffixPool, list[int]]] = {}
        for row in rows:
            pool = materials.pool_of(int(jobs.group[row]), int(shared[row]))
            by_pool.setdefault(id(pool), (pool, []))[1].append(row)
        for pool, own in by_pool.values():
            found = plan_endings(
                pool,
                jobs.number[own],
                rooms=rooms[own] - separator,
                retry=max(0, retry - 1),
                cut_of=materials.longest_cut,
            )
            for row, ending in zip(own, found, strict=True):
                if ending.end != NO_SAMPLE:
                    endings[row] = ending._replace(fillers=ending.fillers + last)
        return endings

    def _spelled(self, jobs: _Jobs, shared: IntArray, free: IntArray, retry: int) -> list[list[int]]:
        """Places of the divergence words of each prompt."""
        beyond = 2 * len(self._plan) * retry
        forbidden = [
            self._next_word(group, cut) for group, cut in zip(jobs.group.tolist(), shared.tolist(), strict=True)
        ]
        children = Children(
            number=jobs.number + beyond,
            rank=jobs.rank + beyond,
            at_root=shared == 0,
            forbidden=np.array(forbidden, dtype=np.int64),
            free=free,
        )
        table = self._spelling.places(children, int(free.max(initial=0)))
        return [row[:count] for row, count in zip(table.tolist(), free.tolist(), strict=True)]

    def _next_word(self, group: int, cut: int) -> int:
        """Place of the word that the master has after the cut; ROOT where that is no word of ours."""
        master = self._materials.masters[group]
        return self._place_of.get(int(master.ids[cut]), ROOT) if 0 < cut < len(master) else ROOT

    def _fillers(self, numbers: IntArray, endings: Sequence[Ending], retry: int) -> list[list[int]]:
        """Places of the words that fill each prompt up."""
        most = max((ending.fillers for ending in endings), default=0)
        if not most:
            return [[] for _ in endings]
        key = draw_key("filler", self._plan.seed_key, retry)
        table = drawn_table(key, numbers, columns=most, limit=len(self._materials.words))
        return [row[: ending.fillers].tolist() for row, ending in zip(table, endings, strict=True)]

    def _prompt(self, draft: Draft) -> ComposedPrompt:
        """Join the pieces of a draft."""
        texts, ids = self._materials.pieces_of(draft)
        return ComposedPrompt(b"".join(texts), np.concatenate(ids), samples=self._materials.samples_of(draft))


def prompts_of(prompts: Sequence[ComposedPrompt]) -> list[tuple[bytes, IntArray]]:
    """Text and ids of prompts, as the prover takes them."""
    return [(prompt.escaped, prompt.ids) for prompt in prompts]


def _row(jobs: _Jobs, row: int) -> _Jobs:
    keep = slice(row, row + 1)
    return _Jobs(jobs.number[keep], jobs.rank[keep], jobs.group[keep], jobs.input_len[keep], jobs.prefix_len[keep])
