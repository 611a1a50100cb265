"""Failures that a user can act on."""

from __future__ import annotations

import pytest

from foreword import errors
from foreword.errors import ConfigError, ForewordError


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("UsageError", 2),
        ("ConfigError", 2),
        ("TokenizerError", 2),
        ("ConstructionError", 3),
        ("ServerError", 4),
        ("DataError", 5),
        ("Interrupted", 130),
    ],
)
def test_each_failure_has_its_exit_code(kind: str, code: int) -> None:
    """Scripts tell failures apart by exit code."""
    error: type[ForewordError] = getattr(errors, kind)

    assert issubclass(error, ForewordError)
    assert error.exit_code == code


def test_a_message_ends_with_what_is_possible_instead() -> None:
    """The printed line is the message, then the advice in parentheses."""
    assert str(ConfigError("count is 0", advice="give at least 1")) == "count is 0 (give at least 1)"
    assert str(ConfigError("count is 0")) == "count is 0"


def test_the_context_holds_the_fields_that_are_set() -> None:
    """Logs carry stage, data set, request, group, retry, field and advice, but nothing that is unknown."""
    error = ConfigError("bad", stage="lengths", dataset_id="d", request_id="r1", group="g", retry=0, field="a.b")

    assert error.context() == {
        "stage": "lengths",
        "dataset_id": "d",
        "request_id": "r1",
        "group": "g",
        "retry": 0,
        "field": "a.b",
    }
    assert ConfigError("bad").context() == {}
