"""Comparing what files state with what a design implies, leaf by leaf, and requests with a roll of names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from foreword.simulate.validate import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Difference(NamedTuple):
    """A leaf that is not what it should be; ``path`` has dots, and names in brackets for members of lists."""

    path: str
    said: object
    true: object


def differences(expected: object, found: object, *, path: str = "") -> Iterator[Difference]:
    """Leaves of ``expected`` that ``found`` lacks or has otherwise; what else ``found`` holds is not looked at."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from differences(value, found.get(key), path=f"{path}.{key}" if path else str(key))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (value, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(value, other, path=f"{path}[{_name(value, index)}]")
    elif expected != found or isinstance(expected, bool) is not isinstance(found, bool):
        yield Difference(path, found, expected)


def difference_problems(expected: object, found: object, *, file: str, request_id: str | None = None) -> list[Problem]:
    """The same as problems of a file."""
    return [
        Problem(file, one.path or "document", f"says {_shown(one.said)}, should be {_shown(one.true)}", request_id)
        for one in differences(expected, found)
    ]


def _name(value: object, index: int) -> str:
    return str(value.get("group_id", index)) if isinstance(value, dict) else str(index)


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return f"{len(value)} entries"
    return "nothing" if value is None else repr(value) if isinstance(value, str) else str(value)


@dataclass(slots=True)
class Roll:
    """Calls the requests of a file by name: each once, in the order of the list."""

    file: str
    names: Sequence[str]
    problems: list[Problem] = field(default_factory=list)
    _place: Mapping[str, int] = field(init=False)
    _seen: set[int] = field(default_factory=set)
    _previous: int = -1
    _lines: int = 0

    def __post_init__(self) -> None:
        self._place = {name: place for place, name in enumerate(self.names)}

    def call(self, name: str) -> int | None:
        """Place of the request in the list, or ``None`` for one that is not in it or was called before."""
        self._lines += 1
        place = self._place.get(name)
        if place is None:
            self._note(name, f"line {self._lines}: is no request of this data set")
        elif place in self._seen:
            self._note(name, f"line {self._lines}: stands here a second time")
            place = None
        elif place != self._previous + 1:
            due = self.names[self._previous + 1] if self._previous + 1 < len(self.names) else "the end"
            self._note(name, f"line {self._lines}: stands where {due} should")
        if place is not None:
            self._previous = place
            self._seen.add(place)
        return place

    def finish(self) -> list[Problem]:
        """All problems, those of requests that never came included."""
        for place, name in enumerate(self.names):
            if place not in self._seen:
                self.problems.append(Problem(self.file, "request_id", "is missing", name))
        return self.problems

    def _note(self, name: str, message: str) -> None:
        self.problems.append(Problem(self.file, "request_id", message, name))
