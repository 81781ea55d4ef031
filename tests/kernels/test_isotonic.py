"""The rising fit: SciPy's, for one outcome and for many."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from calibrant.kernels.isotonic import rising_fit


@pytest.mark.parametrize("size", [1, 2, 7, 200])
def test_the_fit_is_that_of_scipy(size):
    rng = np.random.default_rng(size)
    w = rng.integers(1, 9, size).astype(float)
    hits = rng.binomial(w.astype(int), np.linspace(0.2, 0.8, size), size=(50, size)).astype(float)
    expected = [isotonic_regression(row / w, weights=w).x for row in hits]
    assert rising_fit(w, hits) == pytest.approx(np.array(expected), abs=1e-12)
    assert rising_fit(w, hits[0]) == pytest.approx(expected[0], abs=1e-12)


def test_threads_do_not_matter_and_the_outcomes_stay_as_they_are():
    rng = np.random.default_rng(0)
    w, hits = rng.random(3000) + 0.1, rng.random((400, 3000))
    before = hits.copy()
    assert (rising_fit(w, hits, threads=1) == rising_fit(w, hits, threads=3)).all()
    assert (hits == before).all()
