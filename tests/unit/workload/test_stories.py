"""Built-in stories: right, different, and a function of their number."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from foreword.workload.stories import StoryLanguage, pool, story

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP = re.compile(r"(\d+) ?([-+*/×÷]) ?(\d+) ?= ?\$?(\d+)")
_APPLY: dict[str, Callable[[int, int], int | Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "×": lambda a, b: a * b,
    "/": Fraction,
    "÷": Fraction,
}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_step_of_every_story_is_right(language: StoryLanguage) -> None:
    """Each written equation holds, and there is at least one in nearly all stories."""
    texts = [story(index, 11, language=language) for index in range(3_000)]

    steps = [match for text in texts for match in _STEP.findall(text)]
    wrong = [step for step in steps if _APPLY[step[1]](int(step[0]), int(step[2])) != int(step[3])]

    assert not wrong
    assert len(steps) > len(texts)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_last_line_repeats_the_last_result(language: StoryLanguage) -> None:
    """A story ends with ``#### answer``, and the answer is what the last step gave."""
    for index in range(1_000):
        *_, before, last = story(index, 5, language=language).split("\n")
        steps = _STEP.findall(before)
        totals = [step[3] for step in steps] or re.findall(r"= \$?(\d+)", before)

        assert re.fullmatch(r"#### \d+", last)
        assert not totals or totals[-1] == last.removeprefix("#### ")


def test_a_story_depends_on_number_seed_and_language_alone() -> None:
    """The same arguments give the same text; each of them changes it."""
    one = story(17, 3, language="en")

    assert one == story(17, 3, language="en")
    assert len({one, story(18, 3, language="en"), story(17, 4, language="en"), story(17, 3, language="zh")}) == 4


def test_a_pool_has_different_stories_only() -> None:
    """Numbers whose story is there already are passed over, and the pool is a prefix of every larger one."""
    small, large = list(pool(500, 1, language="mixed")), list(islice(pool(5_000, 1, language="mixed"), 5_000))

    assert len({text for _, text in large}) == 5_000
    assert large[:500] == small


def test_mixed_pools_alternate_languages() -> None:
    """Even numbers are English, odd ones Chinese."""
    assert story(4, 9, language="mixed") == story(4, 9, language="en")
    assert story(5, 9, language="mixed") == story(5, 9, language="zh")


def test_lengths_leave_no_wide_gap() -> None:
    """Stories of nearly every length are there, so that some story fits nearly every remainder."""
    lengths = {len(text) for _, text in pool(4_096, 2, language="en")}

    missing = [length for length in range(120, 500) if length not in lengths]

    assert len(missing) < 20
