"""Plans, prompts and replays for the tests of content."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from foreword.cache.blocks import block_keys, root_key
from foreword.store.corpora import load_corpus
from foreword.store.tokenizers import LoadedTokenizer, load_tokenizer
from foreword.workload.content import ComposedPrompt, ContentPlan
from foreword.workload.tokens import Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.workload.content import Composer
    from foreword.workload.stories import StoryLanguage
    from foreword.workload.units import Corpus


@cache
def builtin_tokenizer() -> LoadedTokenizer:
    """The built-in tokenizer, loaded once."""
    return load_tokenizer("builtin")


@cache
def few_stories(language: StoryLanguage = "en", count: int = 400) -> Corpus:
    """A small built-in corpus, so that preparing is quick."""
    return load_corpus("builtin", language=language, stories=count)


def random_words() -> Corpus:
    """The source without samples."""
    return load_corpus("random_tokens")


def spread_plan(  # noqa: PLR0913 - each number is a case to vary
    count: int,
    *,
    block_size: int,
    frame: Frame | None = None,
    lengths: tuple[int, int] = (64, 464),
    groups: int = 4,
    minimum: int = 1,
    seed: int = 1,
    as_ids: bool = False,
    token_granular: bool = False,
) -> ContentPlan:
    """A plan with any allowed prefix length, drawn by seed."""
    frame = frame or Frame()
    rng = np.random.default_rng(seed)
    tail = frame.tail_len
    input_len = np.maximum(rng.integers(*lengths, count, endpoint=True), frame.head_len + tail + 1)
    trunk = frame.head_len // block_size * block_size
    most = np.maximum((input_len - max(minimum, tail + 1)) // block_size * block_size, trunk)
    steps = (most - trunk) // block_size
    prefix_len = trunk + rng.integers(0, steps, endpoint=True) * block_size
    return ContentPlan(
        rng.integers(0, groups, count),
        input_len,
        prefix_len,
        tuple(f"group-{place}" for place in range(groups)),
        block_size,
        minimum,
        frame,
        seed,
        as_ids,
        token_granular,
    )


def text_of(prompt: ComposedPrompt) -> str:
    """The prompt as a server reads it."""
    return str(json.loads(b'"' + prompt.escaped + b'"'))


def as_seen(prompt: ComposedPrompt, frame: Frame) -> list[int]:
    """Ids that the engine has, head and tail included."""
    return [*frame.head_ids, *prompt.ids.tolist(), *frame.tail_ids]


def problems(
    tokenizer: LoadedTokenizer, composer: Composer, plan: ContentPlan, prompts: Sequence[ComposedPrompt]
) -> list[str]:
    """What is wrong with the prompts, by encoding each again as written."""
    found = []
    encoded = tokenizer.encode_batch([text_of(prompt) for prompt in prompts])
    for number, (prompt, ids) in enumerate(zip(prompts, encoded, strict=True)):
        shared = max(int(plan.prefix_len[number]) - plan.frame.head_len, 0)
        master = composer.masters[plan.group_ids[plan.group[number]]]
        text = text_of(prompt)
        if ids != prompt.ids.tolist():
            found.append(f"{number}: other ids")
        if len(ids) + plan.frame.head_len + plan.frame.tail_len != plan.input_len[number]:
            found.append(f"{number}: {len(ids)} content tokens")
        if ids[:shared] != master.ids[:shared].tolist():
            found.append(f"{number}: other prefix")
        if text != text.strip() or "\ufffd" in text:
            found.append(f"{number}: blank or broken end")
    return found


def served_hits(prompts: Sequence[Sequence[int]], block_size: int) -> list[int]:
    """Tokens that each prompt finds when all are served in turn by a cache that forgets nothing."""
    known: set[int] = set()
    hits = []
    for ids in prompts:
        keys = block_keys(ids, block_size, parent=root_key())
        usable = keys[: (len(ids) - 1) // block_size]
        found = next((place for place, key in enumerate(usable) if key not in known), len(usable))
        hits.append(found * block_size)
        known.update(keys)
    return hits


def planned_hits(plan: ContentPlan) -> list[int]:
    """Hits of the serial theory: the group's watermark, and the trunk that all requests share."""
    trunk = plan.frame.head_len // plan.block_size * plan.block_size
    marks = np.zeros(len(plan.group_ids), np.int64)
    hits = []
    for number, (group, prefix) in enumerate(zip(plan.group.tolist(), plan.prefix_len.tolist(), strict=True)):
        hits.append(min(prefix, max(int(marks[group]), trunk if number else 0)))
        marks[group] = max(int(marks[group]), prefix)
    return hits
