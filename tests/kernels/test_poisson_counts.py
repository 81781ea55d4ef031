"""The Poisson(1) counts of every bootstrap: against the law itself, computed with integers and by SciPy."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from calibrant.kernels.loops import resampling as loops
from calibrant.kernels.philox import key_of, words
from calibrant.kernels.resampling import PAIRED, poisson_sums

UNITS, REPLICATES = 4000, 50


def _exact_words():
    """⌊2³² Σ_{j ≤ k} e⁻¹/j!⌋, with 1/e as the alternating series to 1/60!."""
    inverse_of_e = sum(Fraction((-1) ** j, math.factorial(j)) for j in range(61))
    cdf = [inverse_of_e * sum(Fraction(1, math.factorial(j)) for j in range(k + 1)) for k in range(11)]
    return [math.floor(share * 2**32) for share in cdf]


def _counts():
    """The counts (replicates, units) that multiply each unit in a paired bootstrap."""
    parts = []
    for first in range(0, UNITS, 500):

        def fill(start, stop, block, first=first):
            for unit in range(max(start, first), min(stop, first + 500)):
                block[unit - start, unit - first] = 1.0

        parts.append(poisson_sums(fill, UNITS, 500, replicates=REPLICATES, seed=4, threads=1))
    return np.concatenate(parts, axis=1)


def test_the_table_is_the_distribution_function_of_poisson_of_mean_one():
    assert loops.POISSON_WORDS.tolist() == _exact_words()


@pytest.mark.parametrize("k", range(11))
def test_a_word_at_a_step_of_the_distribution_function_counts_one_more(k):
    at = np.array([_exact_words()[k] - 1, _exact_words()[k]], np.uint32)
    counts = np.empty(2, np.uint32)
    loops._poisson(at, counts)
    assert counts.tolist() == [k, k + 1]


def test_counts_of_paired_sums_are_the_quantiles_of_their_words():
    counts = _counts()
    for replicate in range(REPLICATES):
        shares = (words(4, PAIRED, replicate, UNITS) + 0.5) / 2**32
        assert (counts[replicate] == stats.poisson.ppf(shares, 1.0)).all()
    assert counts.mean() == pytest.approx(1.0, abs=4 / math.sqrt(counts.size))
    assert counts.var() == pytest.approx(1.0, abs=4 * math.sqrt(3 / counts.size))


def test_counts_of_rankings_are_the_quantiles_of_their_words():
    lanes, scratch, counts = loops.scratch_of(UNITS)
    loops.poisson_counts(*key_of(9), np.uint32(3), 7, lanes, scratch, counts)
    assert (counts == stats.poisson.ppf((words(9, 3, 7, UNITS) + 0.5) / 2**32, 1.0)).all()
