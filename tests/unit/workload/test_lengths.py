"""Lengths: quotas, laws against their exact probabilities, and determinism."""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from foreword.config.lengths import (
    EmpiricalLength,
    ExplicitLength,
    FixedLength,
    HistogramLength,
    LengthBin,
    TruncatedNormalLength,
)
from foreword.errors import ConfigError
from foreword.terms import IntArray, draw_key
from foreword.workload.lengths import _normal_weights, bin_counts, equal_edges, quotas, sample_lengths

KEY = draw_key("input_length", 42, "progressive_single_prefix_50")
EXAMPLE_2 = TruncatedNormalLength(mode="truncated_normal", min=1024, max=8192, mean=4096, std=1024)


def _histogram(*bins: tuple[int, int, float]) -> HistogramLength:
    return HistogramLength(
        mode="histogram", bins=tuple(LengthBin(range=(low, high), weight=weight) for low, high, weight in bins)
    )


def _mass(x: int, mean: float, std: float) -> float:
    """Probability that the normal law rounds to ``x``."""
    return (math.erf((x + 0.5 - mean) / (std * math.sqrt(2))) - math.erf((x - 0.5 - mean) / (std * math.sqrt(2)))) / 2


@pytest.mark.parametrize(
    ("weights", "n", "shares"),
    [
        ([1, 1, 1], 10, [4, 3, 3]),  # ten prompts over three prefixes are ten, not nine
        ([0.5, 0.3, 0.2], 1000, [500, 300, 200]),
        ([3, 5, 2], 1000, [300, 500, 200]),
        ([0.1] * 10, 3, [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
        ([1, 0, 1], 3, [2, 0, 1]),
        ([0, 0, 7], 5, [0, 0, 5]),
        ([1, 2], 1, [0, 1]),
        ([1], 0, [0]),
        ([1e-300, 1e300], 10, [0, 10]),
        ([0.7, 0.2, 0.1], 10, [7, 2, 1]),  # exact decimals: no tenth is lost to binary rounding
    ],
)
def test_quotas_go_to_the_largest_remainders_then_to_the_first(weights: list[float], n: int, shares: list[int]) -> None:
    """Every request is placed exactly once."""
    assert quotas(weights, n).tolist() == shares


@pytest.mark.parametrize("n", range(1, 40))
def test_quotas_are_within_one_of_the_exact_share(n: int) -> None:
    """No share is off by a whole request, and the count is always right."""
    weights = [Fraction(1, 7), Fraction(5, 3), Fraction(2)]
    counts = quotas([float(weight) for weight in weights], n).tolist()

    assert sum(counts) == n
    assert all(abs(count - n * weight / sum(weights)) < 1.01 for count, weight in zip(counts, weights, strict=True))


@pytest.mark.parametrize(
    ("low", "high", "mean", "std"),
    [(1024, 8192, 4096.0, 1024.0), (1, 60, 30.0, 0.8), (10, 40, 11.5, 3.25), (100, 300, 100.0, 90.0), (5, 9, 7.3, 0.2)],
)
def test_the_normal_law_has_its_exact_probabilities(low: int, high: int, mean: float, std: float) -> None:
    """The integer weights of the table are the error function's masses, renormalised within the bounds."""
    law = TruncatedNormalLength(mode="truncated_normal", min=low, max=high, mean=mean, std=std)

    weights = _normal_weights(law, low, high)

    exact = np.asarray([_mass(x, mean, std) for x in range(low, high + 1)])
    assert 2**31 < int(weights.sum()) < 2**32
    assert np.abs(weights / weights.sum() - exact / exact.sum()).max() < 2e-5 / max(1.0, std)


@pytest.mark.parametrize("n", [20_000])
def test_drawn_lengths_follow_the_law(n: int) -> None:
    """Chi square over eight intervals of example 2's law stays below its 0.1 % bound."""
    drawn = sample_lengths(EXAMPLE_2, n, key=KEY).tokens
    edges = [1024, 2560, 3072, 3584, 4096, 4608, 5120, 5632, 8193]
    counts = np.histogram(drawn, bins=edges)[0]

    masses = [sum(_mass(x, 4096, 1024) for x in range(a, b)) for a, b in itertools.pairwise(edges)]
    expected = [n * mass / sum(masses) for mass in masses]
    assert drawn.min() >= 1024
    assert drawn.max() <= 8192
    assert sum((count - e) ** 2 / e for count, e in zip(counts, expected, strict=True)) < 24.3


def test_the_second_example_has_pinned_lengths() -> None:
    """Seed 42 gives these lengths in every version: data sets can be made again."""
    tokens = sample_lengths(EXAMPLE_2, 1000, key=KEY).tokens

    assert tokens[:5].tolist() == [4944, 4285, 3881, 4647, 4984]
    assert hashlib.sha256(tokens.astype("<i8").tobytes()).hexdigest()[:16] == "812aef155bf95e02"


def test_resampling_leaves_no_spike_at_the_bounds_and_clipping_does() -> None:
    """A bound one deviation from the mean holds a sixth of a clipped sample, and next to nothing of a resampled one."""
    law = {"mode": "truncated_normal", "min": 1000, "max": 2000, "mean": 1900, "std": 100}

    resampled = sample_lengths(TruncatedNormalLength(**law), 10_000, key=1).tokens
    clipped = sample_lengths(TruncatedNormalLength(**law, out_of_range="clip"), 10_000, key=1).tokens

    assert int((resampled == 2000).sum()) < 100
    assert abs(int((clipped == 2000).sum()) - 1594) < 150  # P(x >= 1999.5) = 0.1599
    assert max(resampled.max(), clipped.max()) == 2000


def test_lengths_outside_are_an_error_where_that_is_asked_for() -> None:
    """``out_of_range: error`` names the count and the range; a law that stays inside passes."""
    law = TruncatedNormalLength(mode="truncated_normal", min=90, max=110, mean=100, std=10, out_of_range="error")
    narrow = TruncatedNormalLength(mode="truncated_normal", min=90, max=110, mean=100, std=1, out_of_range="error")

    with pytest.raises(ConfigError, match=r"\d+ of 1000 lengths fall outside \[90, 110\]") as caught:
        sample_lengths(law, 1000, key=1)

    assert caught.value.field == "input_length.out_of_range"
    assert set(sample_lengths(narrow, 1000, key=1).tokens.tolist()) <= set(range(90, 111))


@pytest.mark.parametrize("std", [0, 1e-12, 1e-9, 5e-324, 1e-3, 0.05])
@pytest.mark.parametrize("mean", [100, 100.5, 100.25])
def test_a_very_narrow_law_is_the_rounded_mean(std: float, mean: float) -> None:
    """However small the deviation, lengths are drawn at once and lie beside the mean."""
    law = TruncatedNormalLength(mode="truncated_normal", min=10, max=200, mean=mean, std=std)

    assert set(sample_lengths(law, 50, key=3).tokens.tolist()) <= {100, 101}


def test_a_flat_law_is_uniform_within_its_bounds() -> None:
    """A deviation far above the range leaves all lengths about equally likely."""
    law = TruncatedNormalLength(mode="truncated_normal", min=1, max=10, mean=5, std=1e6)

    counts = np.bincount(sample_lengths(law, 10_000, key=3).tokens, minlength=11)[1:]
    assert sum((int(count) - 1000) ** 2 / 1000 for count in counts) < 27.9


def test_fixed_and_explicit_lengths_are_what_was_written() -> None:
    """One value for all, or the list in generation order."""
    assert sample_lengths(FixedLength(mode="fixed", value=7), 3, key=1).tokens.tolist() == [7, 7, 7]
    listed = ExplicitLength(mode="explicit", values=(9, 3, 5))
    assert sample_lengths(listed, 3, key=1).tokens.tolist() == [9, 3, 5]


def test_a_list_of_another_length_is_refused() -> None:
    """One length for each request, or an error that offers the empirical mode."""
    with pytest.raises(ConfigError, match="2 lengths are given for 3 requests"):
        sample_lengths(ExplicitLength(mode="explicit", values=(9, 3)), 3, key=1)


def test_a_file_that_was_not_read_is_an_error() -> None:
    """Pure code does not open files; a law with a path only is refused."""
    with pytest.raises(ConfigError, match="not read"):
        sample_lengths(EmpiricalLength(mode="empirical", path="x.csv"), 3, key=1)


def test_empirical_lengths_are_drawn_from_the_sample_by_frequency() -> None:
    """Values come from the list, those given twice about twice as often."""
    law = EmpiricalLength(mode="empirical", values=(100, 200, 200))

    counts = np.bincount(sample_lengths(law, 9000, key=5).tokens)

    assert counts[100] + counts[200] == 9000
    assert abs(int(counts[200]) - 6000) < 150


def test_bins_are_filled_by_quota_and_half_open() -> None:
    """Weights 3:5:2 give 300, 500 and 200 lengths; an edge belongs to the bin that it starts, the end to the last."""
    law = _histogram((1024, 2048, 3), (2048, 4096, 5), (4096, 8192, 2))

    sample = sample_lengths(law, 1000, key=7)

    counts = [entry["requests"] for entry in bin_counts(sample.tokens, sample.edges)]
    assert sample.edges == (1024, 2048, 4096, 8192)
    assert counts == [300, 500, 200]


def test_the_last_bin_holds_its_end_and_the_others_do_not() -> None:
    """Bins of one value: [5, 6) gives 5 alone, the last [6, 7] gives 6 and 7."""
    tokens = sample_lengths(_histogram((5, 6, 1), (6, 7, 1)), 400, key=1).tokens

    assert int((tokens == 5).sum()) == 200
    assert set(tokens.tolist()) == {5, 6, 7}


def test_bins_are_spread_over_the_requests() -> None:
    """Which request gets which bin is a keyed shuffle, not the order of the bins."""
    tokens = sample_lengths(_histogram((10, 20, 1), (100, 200, 1)), 1000, key=7).tokens

    assert 200 < int((tokens[:500] < 50).sum()) < 300


def test_a_bin_that_starts_below_the_shortest_prompt_is_raised_and_noted() -> None:
    """RFC 2.3 starts a bin at 0: its lengths start at the shortest possible prompt, and a note says so."""
    sample = sample_lengths(_histogram((0, 1000, 2), (1000, 2000, 3)), 500, key=1, minimum=12)

    assert sample.tokens.min() >= 12
    assert any("12" in note for note in sample.notes)


def test_a_bin_below_the_shortest_prompt_is_an_error_if_it_holds_requests() -> None:
    """An empty-weight bin does no harm; a used one cannot be filled."""
    with pytest.raises(ConfigError, match="shortest possible prompt has 12"):
        sample_lengths(_histogram((1, 5, 1), (100, 200, 1)), 10, key=1, minimum=12)

    unused = sample_lengths(_histogram((1, 5, 0), (100, 200, 1)), 10, key=1, minimum=12)
    assert unused.tokens.min() >= 100


def test_a_prompt_shorter_than_template_and_one_token_names_its_request() -> None:
    """Length 1 where a BOS is added is an error that names the request, not an empty prompt."""
    with pytest.raises(ConfigError, match=r"r0000001 has 1 tokens?, but the shortest possible prompt has 2"):
        sample_lengths(ExplicitLength(mode="explicit", values=(2, 1)), 2, key=1, minimum=2)


@pytest.mark.parametrize(
    ("tokens", "edges"),
    [([5, 5, 5], (5, 6)), ([1, 10], (*range(1, 11), 10)), ([0, 99], (*range(0, 100, 10), 99)), ([7, 8], (7, 8, 8))],
)
def test_laws_without_bins_are_reported_in_equal_widths(tokens: list[int], edges: tuple[int, ...]) -> None:
    """Ten bins over what occurs, one where all lengths are equal."""
    values = np.asarray(tokens, dtype=np.int64)

    assert equal_edges(values) == edges
    assert sum(entry["requests"] for entry in bin_counts(values, equal_edges(values))) == len(tokens)


def _law_of(number: int) -> IntArray:
    return sample_lengths(EXAMPLE_2, 50, key=number).tokens


def test_another_key_gives_other_lengths_and_the_same_key_the_same() -> None:
    """A sample is a function of law, count and key."""
    assert _law_of(1).tolist() == _law_of(1).tolist() != _law_of(2).tolist()


def test_more_requests_keep_the_lengths_of_the_first() -> None:
    """A longer data set of the same seed starts with the shorter one's lengths."""
    assert sample_lengths(EXAMPLE_2, 80, key=1).tokens[:50].tolist() == _law_of(1).tolist()
