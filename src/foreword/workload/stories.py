"""Seeded word problems: text that needs no file, with arithmetic that is right.

A story is a pure function of its number, a seed and a language. Question, worked steps and ``#### answer`` follow the
form of grade-school data sets, so that the text reads and tokenises like theirs. The pool of stories is a range of
numbers; nothing is stored (design: content, 9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from foreword.terms import draw_key
from foreword.workload.story_parts import CHINESE, ENGLISH, Language, Steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

StoryLanguage = Literal["en", "zh", "mixed"]

_LARGEST_TOTAL = 5_000
_DIVISORS = (2, 3, 4, 5, 6, 8)
_REFILL_BELOW = 1 << 64


class _Digits:
    """Independent small numbers out of one key; 128 random bits at a time."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._bits = 0

    def below(self, limit: int) -> int:
        """Draw a number in ``[0, limit)``; the bias is under 2**-50."""
        if self._bits < _REFILL_BELOW:
            self._bits = self._refill()
        self._bits, digit = divmod(self._bits, limit)
        return digit

    def between(self, low: int, high: int) -> int:
        """Draw a number in ``[low, high]``."""
        return low + self.below(high - low + 1)

    def pick(self, options: Sequence[str]) -> str:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def _refill(self) -> int:
        high = self._key = _mix(self._key)
        low = self._key = _mix(self._key)
        return (1 << 127) | (high << 64) | low


def _mix(x: int) -> int:
    """Next value of a splitmix64 stream."""
    x = (x + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)


def story(index: int, seed: int, *, language: StoryLanguage = "en") -> str:
    """The story with this number; ``mixed`` alternates English and Chinese.

    >>> story(3, 7) == story(3, 7) != story(4, 7)
    True
    """
    match language:
        case "en":
            words = ENGLISH
        case "zh":
            words = CHINESE
        case "mixed":
            words = ENGLISH if index % 2 == 0 else CHINESE
    digits = _Digits(draw_key("story", seed, index))
    cast = _cast(digits, words)
    if digits.below(4) == 0:
        return _scene(digits, words, cast)
    return _chain(digits, words, cast)


def pool(count: int, seed: int, *, language: StoryLanguage = "en") -> Iterator[tuple[int, str]]:
    """The first ``count`` different stories with their numbers, in order of number."""
    seen: set[str] = set()
    index = 0
    while len(seen) < count:
        text = story(index, seed, language=language)
        if text not in seen:
            seen.add(text)
            yield index, text
        index += 1


def _cast(digits: _Digits, words: Language) -> dict[str, str | int]:
    first = digits.below(len(words.people))
    second = (first + 1 + digits.below(len(words.people) - 1)) % len(words.people)
    return {
        "a": words.people[first],
        "b": words.people[second],
        "item": digits.pick(words.items),
        "place": digits.pick(words.places),
        "day": digits.pick(words.days),
    }


def _scene(digits: _Digits, words: Language, cast: dict[str, str | int]) -> str:
    """One problem of a fixed form with three numbers."""
    x, y, z = digits.between(3, 24), digits.between(2, 60), digits.between(2, 90)
    big = (x * y + z) // 50 * 50 + 50 * digits.between(1, 4)
    numbers = {
        "x": x,
        "y": y,
        "z": z,
        "xy": x * y,
        "xyz": x * y + z,
        "sum": x + y,
        "twice": 2 * (x + y),
        "xz": x + z,
        "both": 2 * x + z,
        "total": (2 * x + z) * y,
        "big": big,
        "change": big - x * y,
        "left": big - x * y - z,
    }
    return digits.pick(words.scenes).format(**cast, **numbers)


def _chain(digits: _Digits, words: Language, cast: dict[str, str | int]) -> str:
    """One to five steps on a running total, with up to two sentences of colour."""
    total = digits.between(12, 240)
    told = [digits.pick(words.openings).format(**cast, n=total)]
    worked: list[str] = []
    for _ in range(1 + digits.below(5)):
        steps, number, result = _step(digits, words, total)
        facts = {**cast, "n": number, "t": total, "r": result}
        if digits.below(5) == 0:
            told.append(digits.pick(words.colour).format(**cast))
        told.append(digits.pick(steps.told).format(**facts))
        worked.append(digits.pick(steps.worked).format(**facts))
        total = result
    told.append(digits.pick(words.questions).format(**cast))
    return "\n".join([words.gap.join(told), *worked, f"#### {total}"])


def _step(digits: _Digits, words: Language, total: int) -> tuple[Steps, int, int]:
    """A step that keeps the total a positive whole number: (wording, number brought in, new total)."""
    kind, number = digits.below(4), digits.between(2, 9)
    divisors = [d for d in _DIVISORS if total % d == 0 and total // d > 1]
    if kind == 0 and total * number <= _LARGEST_TOTAL:
        return words.times, number, total * number
    if kind == 1 and divisors:
        divisor = divisors[digits.below(len(divisors))]
        return words.share, divisor, total // divisor
    if kind == 2 and total > 2:  # noqa: PLR2004 - one must be left after taking at least one
        number = digits.between(1, min(total - 1, 90))
        return words.take, number, total - number
    number = digits.between(1, 150)
    return words.add, number, total + number
