"""Composed prompts: exact, unique, and the hits that the plan says (Laws 5 and 7)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foreword.workload.content import ContentOptions, ContentPlan, prepare
from foreword.workload.tokens import Frame
from tests.support.content import (
    as_seen,
    builtin_tokenizer,
    few_stories,
    planned_hits,
    problems,
    random_words,
    served_hits,
    spread_plan,
    text_of,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from foreword.workload.content import Composer
    from foreword.workload.stories import StoryLanguage
    from foreword.workload.units import Corpus

_SOURCES: dict[str, Callable[[], Corpus]] = {
    "en": few_stories,
    "zh": lambda: few_stories("zh"),
    "mixed": lambda: few_stories("mixed"),
    "words": random_words,
}
_FRAMES = st.builds(
    lambda head, tail: Frame(tuple(range(head)), tuple(range(tail))), st.integers(0, 40), st.integers(0, 5)
)


@st.composite
def plans(draw: st.DrawFn) -> ContentPlan:
    """Plans with any head, tail, block size and smallest private part."""
    low = draw(st.integers(1, 200))
    return spread_plan(
        40,
        block_size=draw(st.sampled_from([1, 2, 3, 7, 16, 32, 128])),
        frame=draw(_FRAMES),
        lengths=(low, low + draw(st.integers(0, 300))),
        groups=draw(st.integers(1, 6)),
        minimum=draw(st.sampled_from([1, 5, 16, 40])),
        seed=draw(st.integers(0, 2**32)),
        as_ids=draw(st.booleans()),
        token_granular=draw(st.booleans()),
    )


def _warmups(composer: Composer, plan: ContentPlan, lanes: int) -> list[list[int]]:
    longest = {group: int(plan.prefix_len[plan.group == group].max()) for group in set(plan.group.tolist())}
    return [
        as_seen(composer.warmup_prompt(plan.group_ids[group], prefix, lane=lane), plan.frame)
        for group, prefix in longest.items()
        for lane in range(lanes)
    ]


@settings(max_examples=40)
@given(plans(), st.sampled_from(sorted(_SOURCES)))
def test_prompts_are_exact_and_give_the_planned_hits(plan: ContentPlan, source: str) -> None:
    """Encoded again, every prompt has its length and prefix; served in turn, it hits what the theory says."""
    composer = prepare(builtin_tokenizer(), _SOURCES[source](), plan=plan)
    prompts = composer.compose(range(len(plan)))
    seen = [as_seen(prompt, plan.frame) for prompt in prompts]

    assert [len(ids) for ids in seen] == plan.input_len.tolist()
    assert plan.as_ids or problems(builtin_tokenizer(), composer, plan, prompts) == []
    assert served_hits(seen, plan.block_size) == planned_hits(plan)


@settings(max_examples=30)
@given(plans(), st.sampled_from(sorted(_SOURCES)))
def test_warm_ups_warm_every_prefix_and_equal_no_request(plan: ContentPlan, source: str) -> None:
    """After the warm-up each request hits its whole prefix, and no two prompts of all are equal."""
    composer = prepare(builtin_tokenizer(), _SOURCES[source](), plan=plan, options=ContentOptions(proof="none"))
    seen = [as_seen(prompt, plan.frame) for prompt in composer.compose(range(len(plan)))]
    warm = _warmups(composer, plan, lanes=2)

    hits = served_hits([*warm, *seen], plan.block_size)[len(warm) :]

    assert hits == plan.prefix_len.tolist()
    assert len({tuple(ids) for ids in [*warm, *seen]}) == len(warm) + len(seen)


def _common(left: list[int], right: list[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


@settings(max_examples=25)
@given(plans(), st.sampled_from(sorted(_SOURCES)))
def test_token_granular_prompts_share_not_a_token_more_than_planned(plan: ContentPlan, source: str) -> None:
    """Any two requests part exactly where the shorter of their prefixes ends."""
    granular = replace(plan, token_granular=True)
    composer = prepare(builtin_tokenizer(), _SOURCES[source](), plan=granular, options=ContentOptions(proof="none"))
    seen = [as_seen(prompt, plan.frame) for prompt in composer.compose(range(len(plan)))]

    for one, other in combinations(range(len(plan)), 2):
        same = plan.group[one] == plan.group[other]
        planned = min(plan.prefix_len[one], plan.prefix_len[other]) if same else 0
        assert _common(seen[one], seen[other]) == max(planned, plan.frame.head_len)


@settings(max_examples=8)
@given(plans(), st.integers(1, 13), st.randoms(use_true_random=False))
def test_any_chunking_and_order_gives_the_same_prompts(plan: ContentPlan, size: int, chance: random.Random) -> None:
    """A prompt depends on its number alone, also in a composer that was built anew."""
    options = ContentOptions(proof="none")
    whole = prepare(builtin_tokenizer(), few_stories(), plan=plan, options=options).compose(range(len(plan)))
    anew = prepare(builtin_tokenizer(), few_stories(), plan=plan, options=options)
    numbers = list(range(len(plan)))
    chance.shuffle(numbers)

    for start in range(0, len(plan), size):
        chunk = numbers[start : start + size]
        for number, prompt in zip(chunk, anew.compose(chunk), strict=True):
            assert prompt.escaped == whole[number].escaped
            assert prompt.ids.tolist() == whole[number].ids.tolist()


@settings(max_examples=12)
@given(plans(), st.sampled_from(["en", "zh", "mixed"]))
def test_windows_and_the_full_proof_agree(plan: ContentPlan, source: str) -> None:
    """Both levels find every prompt of a recognised tokenizer right."""
    plan = replace(plan, as_ids=False)
    composer = prepare(
        builtin_tokenizer(), _SOURCES[source](), plan=plan, options=ContentOptions(full_least=0, full_share=0)
    )
    by_window = composer.compose_chunk(range(len(plan)))
    full = prepare(builtin_tokenizer(), _SOURCES[source](), plan=plan, options=ContentOptions(proof="full"))
    by_full = full.compose_chunk(range(len(plan)))

    assert by_window.proof.wrong == by_full.proof.wrong == 0
    assert by_window.proof.windows >= len(plan)
    assert (by_window.proof.full, by_full.proof.full) == (0, len(plan))
    assert [prompt.escaped for prompt in by_window.prompts] == [prompt.escaped for prompt in by_full.prompts]


def test_a_prompt_does_not_repeat_a_sample() -> None:
    """No story stands twice in a prompt, master included."""
    plan = replace(
        spread_plan(20, block_size=16, lengths=(2_000, 2_000), groups=2), prefix_len=np.full(20, 960, np.int64)
    )
    composer = prepare(builtin_tokenizer(), few_stories(), plan=plan)

    for prompt in composer.compose(range(20)):
        stories = [part for part in text_of(prompt).split("\n\n") if "####" in part]
        assert len(stories) == len(set(stories))
        assert len(stories) > 10


@pytest.mark.parametrize("source", ["en", "zh"])
def test_most_prompts_end_with_a_whole_story(source: StoryLanguage) -> None:
    """The last sample is chosen by its length, so that few prompts are filled up with words."""
    plan = spread_plan(200, block_size=16, lengths=(700, 900))
    composer = prepare(builtin_tokenizer(), few_stories(source, 2_000), plan=plan)

    ends = [text_of(prompt).rsplit("\n", 1)[-1] for prompt in composer.compose(range(200))]
    whole = [
        end
        for end, prefix, length in zip(ends, plan.prefix_len, plan.input_len, strict=True)
        if length - prefix > 200 and end.startswith("#### ") and end[5:].isdigit()
    ]
    enough = int((plan.input_len - plan.prefix_len > 200).sum())

    assert len(whole) >= 0.9 * enough
