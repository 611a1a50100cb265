"""Which requests share a prefix: the five ways of the RFC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foreword.config.dataset import PrefixConfig
from foreword.errors import ConfigError
from foreword.workload.groups import Groups, allocate


def _allocated(n: int, key: int = 1, **prefix: Any) -> Groups:  # noqa: ANN401 - config values
    return allocate(PrefixConfig.model_validate(prefix), n, key=key)


def _many(*groups: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"mode": "multi_prefix", "groups": list(groups), **more}


def test_one_prefix_means_one_group() -> None:
    """Without groups every request belongs to the default one."""
    groups = _allocated(4)

    assert groups.ids == ("default",)
    assert groups.of_request.tolist() == [0, 0, 0, 0]


def test_ten_requests_over_three_groups_are_ten() -> None:
    """The remainder goes to the first groups; no request is lost."""
    groups = _allocated(10, mode="multi_prefix", group_count=3)

    assert groups.ids == ("group_0", "group_1", "group_2")
    assert groups.sizes.tolist() == [4, 3, 3]


def test_numbered_groups_sort_as_they_count() -> None:
    """Numbers have as many digits as the last one."""
    ids = _allocated(11, mode="multi_prefix", group_count=11).ids

    assert ids[0] == "group_00"
    assert list(ids) == sorted(ids)


@pytest.mark.parametrize("share", ["request_count", "request_weight"])
def test_counts_and_weights_give_500_300_200(share: str) -> None:
    """RFC 2.2: counts are kept, and weights of the same ratio give the same sizes."""
    values = (500, 300, 200) if share == "request_count" else (0.5, 0.3, 0.2)
    groups = _allocated(1000, **_many(*({"id": id_, share: value} for id_, value in zip("abc", values, strict=True))))

    assert groups.sizes.tolist() == [500, 300, 200]


def test_an_explicit_list_places_each_request() -> None:
    """Names in generation order; groups that are not listed appear in the order of their first request."""
    listed = _allocated(4, **_many({"id": "a"}, {"id": "b"}, assignment=["b", "a", "b", "b"]))
    unlisted = _allocated(3, assignment=["y", "x", "y"])

    assert listed.of_request.tolist() == [1, 0, 1, 1]
    assert unlisted.ids == ("y", "x")
    assert unlisted.of_request.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("assignment", "words"),
    [(["c", "a"], "c is no group"), (["a"], "1 entries for 2 requests"), ("groups.csv", "not read")],
)
def test_an_explicit_list_that_does_not_fit_is_refused(assignment: list[str] | str, words: str) -> None:
    """Unknown names, another count and an unread file are errors at prefix.assignment."""
    with pytest.raises(ConfigError, match=words) as caught:
        _allocated(2, **_many({"id": "a"}, {"id": "b"}, assignment=assignment))

    assert caught.value.field == "prefix.assignment"


def test_groups_without_requests_are_listed() -> None:
    """A weight of zero, or more groups than requests, leaves some empty."""
    groups = _allocated(2, **_many({"id": "a", "request_weight": 1}, {"id": "b", "request_weight": 0}))

    assert groups.empty == ("b",)
    assert _allocated(2, mode="multi_prefix", group_count=4).empty == ("group_2", "group_3")


def test_membership_is_a_keyed_shuffle() -> None:
    """The same key gives the same members, another key others; neither follows the order of the groups."""
    first, again, other = (_allocated(1000, key, mode="multi_prefix", group_count=2) for key in (1, 1, 2))

    assert first.of_request.tolist() == again.of_request.tolist() != other.of_request.tolist()
    assert 200 < int(np.bincount(first.of_request[:500])[0]) < 300
