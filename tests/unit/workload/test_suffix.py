"""Which samples stand in a suffix, and how many tokens they have."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.config.dataset import PrefixConfig, SuffixConfig
from foreword.errors import ConfigError, ConstructionError
from foreword.workload.joints import read_separator
from foreword.workload.suffix import NO_SAMPLE, Ending, Picking, SuffixPool, plan_endings, suffix_pool
from foreword.workload.units import Units, places_of, read_units
from tests.support.content import builtin_tokenizer, few_stories

if TYPE_CHECKING:
    from foreword.config.dataset import SuffixMode

COUNT = 60


def stories() -> Units:
    """Sixty stories as units."""
    separator = read_separator(builtin_tokenizer(), "\n\n")
    return read_units(builtin_tokenizer(), few_stories(count=COUNT).samples, separator=separator)


UNITS = stories()


def pool_of(mode: SuffixMode, named: tuple[int, ...] = (), *, repeat: bool = False) -> SuffixPool:
    """A pool over all stories."""
    picking = Picking(mode, tuple(UNITS.names[place] for place in named), repeat)
    pool = suffix_pool(UNITS, frozenset(), seed_key=5, picking=picking, named=named)
    assert pool is not None
    return pool


def endings(pool: SuffixPool, rooms: list[int]) -> list[Ending]:
    """Suffixes of requests 0, 1, 2, ..., whose samples may be cut anywhere."""
    return plan_endings(
        pool, np.arange(len(rooms)), rooms=np.array(rooms), retry=0, cut_of=lambda _unit, most: min(most, 1_000)
    )


def places(ending: Ending) -> list[int]:
    """All samples of a suffix."""
    return [*ending.units, *([] if ending.end == NO_SAMPLE else [ending.end])]


def tokens(ending: Ending) -> int:
    """Tokens of a suffix by its pieces."""
    return sum(len(UNITS.ids[place]) for place in ending.units) + ending.cut + ending.fillers


named_places = st.lists(st.integers(0, len(UNITS) - 1), min_size=1, max_size=8, unique=True).map(tuple)
rooms_of = st.lists(st.integers(5, 900), min_size=1, max_size=6)


@given(rooms_of)
def test_drawn_samples_fill_the_room_and_none_stands_twice(rooms: list[int]) -> None:
    """The default: samples in keyed order, exactly as many tokens as there is room for."""
    for room, ending in zip(rooms, endings(pool_of("concat"), rooms), strict=True):
        assert tokens(ending) == room
        assert len(set(places(ending))) == len(places(ending))


@given(named_places, rooms_of)
def test_named_samples_come_first_and_none_stands_twice(named: tuple[int, ...], rooms: list[int]) -> None:
    """named_then_random: the named samples in their order, as far as there is room, then others."""
    for room, ending in zip(rooms, endings(pool_of("named_then_random", named), rooms), strict=True):
        found = places(ending)
        whole = min(len(named), len(found))
        assert tuple(found[:whole]) == named[:whole]
        assert not set(found[whole:]) & set(named)
        assert len(set(found)) == len(found)
        assert tokens(ending) == room


@given(named_places, st.integers(5, 200))
def test_named_samples_alone_are_the_same_in_every_request(named: tuple[int, ...], room: int) -> None:
    """named: the same samples in the same order, cut where the room ends."""
    pool = pool_of("named", named, repeat=True)

    found = [places(ending) for ending in endings(pool, [room] * 3)]

    assert found[0] == found[1] == found[2]
    wanted = [named[step % len(named)] for step in range(len(found[0]))]
    assert found[0] == wanted


@given(named_places, st.integers(5, 400))
def test_a_cycle_begins_with_the_next_sample_for_each_request(named: tuple[int, ...], room: int) -> None:
    """cycle: request k begins with the k-th named sample and goes round."""
    for number, ending in enumerate(endings(pool_of("cycle", named, repeat=True), [room] * 9)):
        found = places(ending)
        assert found == [named[(number + step) % len(named)] for step in range(len(found))]
        assert tokens(ending) == room


def test_a_cycle_without_names_goes_round_the_whole_text() -> None:
    """Samples come in the order of the corpus."""
    found = [places(ending) for ending in endings(pool_of("cycle"), [200] * 3)]

    assert [row[0] for row in found] == [0, 1, 2]
    assert all(row == list(range(row[0], row[0] + len(row))) for row in found)


@pytest.mark.parametrize(("mode", "named"), [("named", (3, 4)), ("cycle", (3, 4)), ("concat", ())])
def test_too_few_samples_are_refused_rather_than_repeated(mode: SuffixMode, named: tuple[int, ...]) -> None:
    """Without repeat_samples a suffix that samples cannot fill is an error that says how much is missing."""
    with pytest.raises(ConstructionError, match=r"CORPUS_TOO_SMALL: the .*\d+.* tokens.* (needs|of) 90000"):
        endings(pool_of(mode, named), [90_000])


@pytest.mark.parametrize(("mode", "named"), [("named", (3, 4)), ("cycle", (3, 4)), ("concat", ())])
def test_samples_repeat_where_the_config_says_so(mode: SuffixMode, named: tuple[int, ...]) -> None:
    """With repeat_samples any room is filled."""
    (ending,) = endings(pool_of(mode, named, repeat=True), [9_000])

    assert tokens(ending) == 9_000
    assert len(set(places(ending))) < len(places(ending))


def test_a_sample_is_found_by_name_and_by_the_hash_of_its_text() -> None:
    """The beginning of the hash is enough where it is the only one."""
    corpus = few_stories(count=COUNT)
    digest = hashlib.sha256(corpus.samples[3].text.encode()).hexdigest()

    found = places_of(
        ["en:3", f"sha256:{digest[:12]}", f"sha256:{digest}"], corpus, units=UNITS, field="suffix.samples"
    )

    assert found == (UNITS.names.index("en:3"),) * 3


@pytest.mark.parametrize("name", ["en:60", "train:1", "sha256:00000000"])
def test_a_name_that_is_no_sample_is_refused_with_the_names_there_are(name: str) -> None:
    """The message has the first and the last name."""
    with pytest.raises(ConfigError, match=rf"suffix.samples: {name} is no sample .*en:0 to en:59"):
        places_of([name], few_stories(count=COUNT), units=UNITS, field="suffix.samples")


def test_a_picking_is_what_the_config_says() -> None:
    """Names, mode and repetition of the suffix, and the names of the masters."""
    suffix = SuffixConfig(mode="cycle", samples=("a", "b"), repeat_samples=True)

    assert Picking.of(suffix, PrefixConfig(samples=("c",))) == Picking(
        mode="cycle", names=("a", "b"), repeat=True, master_names=("c",)
    )
