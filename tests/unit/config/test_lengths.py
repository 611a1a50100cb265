"""Length laws as they are written: illegal ranges, weights and sources are refused at their path."""

from __future__ import annotations

import math
from typing import Any

import pytest

from foreword.config.base import ConfigModel
from foreword.config.lengths import LengthLaw  # noqa: TC001 - pydantic reads it at run time
from foreword.errors import ConfigError

NAN, INF = math.nan, math.inf


class Sized(ConfigModel):
    """A model with a law, as a data set has it."""

    input_length: LengthLaw


def _parse(**law: object) -> Sized:
    return Sized.parse({"input_length": law}, root="set")


def _refused(law: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        _parse(**law)
    return caught.value


def _normal(**changes: object) -> dict[str, Any]:
    return {"mode": "truncated_normal", "min": 10, "max": 200, "mean": 100, "std": 10, **changes}


def _bins(*bins: dict[str, Any]) -> dict[str, Any]:
    return {"mode": "histogram", "bins": list(bins)}


def _bin(low: Any, high: Any, weight: Any = 1) -> dict[str, Any]:  # noqa: ANN401 - any YAML value may stand there
    return {"range": [low, high], "weight": weight}


@pytest.mark.parametrize(
    "law",
    [
        {"mode": "fixed", "value": 1},
        {"mode": "explicit", "values": [3, 1]},
        {"mode": "explicit", "path": "lengths.csv", "column": "tokens"},
        {"mode": "empirical", "values": [3]},
        _normal(std=0),
        _normal(mean=10),
        _normal(mean=200, out_of_range="clip"),
        _bins(_bin(0, 1000, 2), _bin(1000, 2000, 3)),
        _bins(_bin(1000, 2000), _bin(10, 20)),
        _bins(_bin(1, 2, 0), _bin(2, 3, 0.5)),
    ],
)
def test_every_law_of_the_rfc_is_read(law: dict[str, Any]) -> None:
    """Five modes; bins may start at 0, share edges, stand in any order and leave gaps."""
    assert _parse(**law).input_length.mode == law["mode"]


@pytest.mark.parametrize(
    ("law", "path", "words"),
    [
        (_normal(min=300), "", "min 300 is above max 200"),
        (_normal(mean=9), "", "mean 9 lies outside [10, 200]"),
        (_normal(mean=201), "", "mean 201 lies outside [10, 200]"),
        (_normal(mean=0), ".mean", "greater than 0"),
        (_normal(min=0), ".min", "at least|greater than or equal to 1"),
        (_normal(out_of_range="drop"), ".out_of_range", "'resample', 'clip' or 'error'"),
        (_bins(_bin(100, 10)), ".bins.0", "is empty"),
        (_bins(_bin(10, 10)), ".bins.0", "is empty"),
        (_bins(_bin(10, 100), _bin(50, 200)), "", "bins overlap"),
        (_bins(_bin(10, 100, 0), _bin(100, 200, 0)), "", "sum to 0"),
        (_bins(_bin(10, 100, -1)), ".bins.0.weight", "greater than or equal to 0"),
        (_bins(_bin(-5, 100)), ".bins.0.range.0", "greater than or equal to 0"),
        (_bins(), ".bins", "at least 1"),
        (_bins({"range": [1, 2, 3], "weight": 1}), ".bins.0.range", "at most 2"),
        (_bins({"range": "1-2", "weight": 1}), ".bins.0.range", "tuple"),
        (_bins({"range": [1, 2]}), ".bins.0.weight", "required"),
        ({"mode": "explicit"}, "", "either values or path"),
        ({"mode": "explicit", "values": [1], "path": "x"}, "", "either values or path"),
        ({"mode": "explicit", "values": []}, "", "values is empty"),
        ({"mode": "empirical", "values": []}, "", "values is empty"),
        ({"mode": "explicit", "values": [1, 0]}, ".values.1", "greater than or equal to 1"),
        ({"mode": "explicit", "values": [True]}, ".values.0", "integer"),
        ({"mode": "fixed"}, ".value", "required"),
        ({"value": 5}, ".mode", "required"),
        ({"mode": "normal"}, ".mode", "'normal'"),
    ],
)
def test_an_illegal_law_is_refused_with_its_reason(law: dict[str, Any], path: str, words: str) -> None:
    """Ranges, means, weights and sources are checked; the message names the path and what is wrong."""
    refused = _refused(law)

    assert refused.field == f"set.input_length{path}"
    assert any(word in refused.message for word in words.split("|"))


@pytest.mark.parametrize("value", [0, -1, True, "100", 1.5, 100.0, NAN, INF, None, [1], 10**19, 2**60])
def test_a_length_is_a_plain_integer_of_sensible_size(value: object) -> None:
    """Booleans, strings, floats and astronomical integers are no lengths."""
    assert _refused({"mode": "fixed", "value": value}).field == "set.input_length.value"


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize("value", [NAN, INF, -1, True, "100", None])
def test_the_parameters_of_the_normal_law_are_finite_numbers(name: str, value: object) -> None:
    """NaN, infinities, booleans and strings are refused before anything is drawn."""
    assert "set.input_length" in _refused(_normal(**{name: value})).message


@pytest.mark.parametrize("weight", [NAN, INF, -0.5, True, "1", None])
def test_the_weight_of_a_bin_is_a_finite_number(weight: object) -> None:
    """NaN, infinities, booleans and strings are refused."""
    assert _refused(_bins(_bin(1, 2, weight))).field == "set.input_length.bins.0.weight"


@pytest.mark.parametrize("law", [None, [1], "4096", 5.0])
def test_a_law_is_a_mapping(law: object) -> None:
    """What is neither a mapping nor a plain integer is refused at the key."""
    with pytest.raises(ConfigError, match=r"^set\.input_length: "):
        Sized.parse({"input_length": law}, root="set")
