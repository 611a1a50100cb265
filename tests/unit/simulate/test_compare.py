"""Comparing documents leaf by leaf, and requests with a roll."""

from __future__ import annotations

import pytest

from foreword.simulate.compare import Roll, difference_problems, differences


@pytest.mark.parametrize(
    ("expected", "found", "paths"),
    [
        ({"a": 1}, {"a": 1, "more": 2}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["a.c"]),
        ({"a": 1}, {}, ["a"]),
        ({"a": None}, {}, []),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a[1]"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a"]),
        ({"g": [{"group_id": "A", "n": 1}]}, {"g": [{"group_id": "A", "n": 2}]}, ["g[A].n"]),
        ({"a": {"b": 1}}, {"a": 7}, ["a"]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 0.1}, {"a": 0.1 + 1e-18}, []),
        ({"a": 0.1}, {"a": 0.1 + 1e-15}, ["a"]),
    ],
)
def test_differences_are_named_by_their_path(expected: object, found: object, paths: list[str]) -> None:
    """Every leaf that is expected is looked at, exactly; what else is there is not."""
    assert [one.path for one in differences(expected, found)] == paths


def test_a_problem_says_what_is_and_what_should_be() -> None:
    """File, request, path, the value found and the value expected make up the line."""
    (problem,) = difference_problems({"a": {"b": "x"}}, {"a": {}}, file="f.json", request_id="r1")

    assert str(problem) == "f.json: request r1: a.b: says nothing, should be 'x'"


def roll(*called: str) -> list[tuple[str | None, str]]:
    """Requests and messages after these names were called on a roll of a to d."""
    found = Roll("data.jsonl", ["a", "b", "c", "d"])
    for name in called:
        found.call(name)
    return [(problem.request_id, problem.message) for problem in found.finish()]


def test_a_complete_roll_has_no_problem() -> None:
    """All, once, in order."""
    assert roll("a", "b", "c", "d") == []


def test_a_request_that_never_comes_is_missing() -> None:
    """The one that is left out is named, and the one that stands in its place."""
    assert roll("a", "c", "d") == [("c", "line 2: stands where b should"), ("b", "is missing")]


def test_a_request_that_comes_twice_is_named() -> None:
    """The second time is the problem, and those after it are in order."""
    assert roll("a", "b", "b", "c", "d") == [("b", "line 3: stands here a second time")]


def test_a_stranger_is_named() -> None:
    """A name that is not on the roll disturbs nobody else."""
    assert roll("a", "b", "x", "c", "d") == [("x", "line 3: is no request of this data set")]


def test_a_swap_names_both() -> None:
    """Both requests of a swap are out of place."""
    assert {name for name, _ in roll("a", "c", "b", "d")} >= {"b", "c"}
