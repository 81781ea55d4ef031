"""Smooth ECE and the density error against their definitions written out, and against relplot."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibration.runs import Runs
from calibrant.calibration.smooth import kde_tce, smooth_ece, smooth_ece_at

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True, database=None)
ERRORS = [smooth_ece, kde_tce]


def runs_of(p, y, w=None):
    runs = Runs.of(np.asarray(p, float), np.asarray(y, float), w)
    return runs.p, runs.w, runs.wy


def risky(n, seed=0, power=1.5, shape=(2.0, 1.0)):
    """Rows of a model that is too sure."""
    rng = np.random.default_rng(seed)
    p = rng.beta(*shape, n)
    return p, (rng.random(n) < p**power) * 1.0, rng.exponential(size=n)


def by_reflected_kernel(p, y, w, sigma, mesh=20_001):
    """∫|r_σ| by trapezoids, the kernel being a sum over mirror images."""
    t = np.linspace(0, 1, mesh)
    smooth = np.zeros(mesh)
    for residual, at in zip(w * (y - p) / w.sum(), p, strict=True):
        for image in range(-3, 4):
            for centre in (at + 2 * image, -at + 2 * image):
                smooth += residual * np.exp(-0.5 * ((t - centre) / sigma) ** 2)
    return np.trapezoid(np.abs(smooth), t) / (sigma * np.sqrt(2 * np.pi))


@pytest.mark.parametrize("sigma", [0.004, 0.03, 0.4])
def test_smooth_ece_at_a_bandwidth(sigma):
    p, y, w = risky(40)
    p[:3], y[:3] = [0.0, 1.0, 1.0], [1, 0, 1]
    assert smooth_ece_at(*runs_of(p, y, w), sigma) == pytest.approx(by_reflected_kernel(p, y, w, sigma), abs=1e-4)
    fine = smooth_ece_at(*runs_of(p, y, w), sigma, grid=1 << 16)
    assert fine == pytest.approx(by_reflected_kernel(p, y, w, sigma), abs=2e-6)


@pytest.mark.parametrize("power", [1.0, 1.5, 4.0])
def test_smooth_ece_is_where_value_and_bandwidth_meet(power):
    runs = runs_of(*risky(800, seed=3, power=power))
    value = smooth_ece(*runs)
    assert smooth_ece_at(*runs, value) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("n", "power"), [(300, 1.0), (300, 3.0), (5000, 1.5)])
def test_smooth_ece_is_that_of_relplot_but_for_its_mesh(n, power):
    relplot = pytest.importorskip("relplot")
    p, y, _ = risky(n, seed=4, power=power)
    assert smooth_ece(*runs_of(p, y)) == pytest.approx(relplot.smECE(p, y), abs=2e-3)
    for sigma in (0.02, 0.1):  # it cuts the kernel off at ±½, which shows above
        assert smooth_ece_at(*runs_of(p, y), sigma) == pytest.approx(relplot.smECE_sigma(p, y, sigma), abs=1e-3)


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0, 1, 9]))
def test_smooth_ece_lies_between_the_mean_gap_and_the_mean_absolute_one(seed, n, digits):
    p, y, w = risky(n, seed)
    p = np.round(p, digits)
    gaps = w * (y - p) / w.sum()
    runs = runs_of(p, y, w)
    assert abs(gaps.sum()) - 1e-6 <= smooth_ece(*runs) <= np.abs(gaps).sum() + 1e-6
    falling = [smooth_ece_at(*runs, sigma) for sigma in (0.0, 0.01, 0.1, 1.0)]
    assert all(b <= a + 1e-9 for a, b in pairwise(falling))


def by_direct_densities(p, y, w, order, rows):
    """Sums of kernels at every point of the grid, for hits and for all."""
    hit = w * y
    centre = np.average(p, weights=hit)
    half = 3 * np.sqrt(np.average((p - centre) ** 2, weights=hit)) * (2 * rows) ** -0.2
    z = np.linspace(-0.6, 1.6, 2**14)
    z = z[(z > 0) & (z < 1)]
    f = np.zeros((2, len(z)))
    for at, mass, hits in zip(p, w, hit, strict=True):
        for image in (at, -at if at < 0.5 else 2 - at):
            kernel = 35 / 32 * np.maximum(1 - ((z - image) / half) ** 2, 0) ** 3 / half
            f += np.outer([mass, hits], kernel) / w.sum()
    accuracy = np.minimum(np.divide(f[1], f[0], out=np.zeros(len(z)), where=f[0] > 1e-6), 1.0)
    return (np.trapezoid(np.abs(z - accuracy) ** order * f[0], z) / np.trapezoid(f[0], z)) ** (1 / order)


@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("shape", [(2.0, 1.0), (0.4, 0.4), (8.0, 0.5)])
def test_density_error_by_direct_sums(order, shape):
    p, y, w = risky(200, seed=5, shape=shape)
    expected = by_direct_densities(p, y, w, order, 200)
    assert kde_tce(*runs_of(p, y, w), order=order, rows=200) == pytest.approx(expected, abs=2e-5)
    assert kde_tce(*runs_of(p, y, w), order=order, rows=200, grid=2**11) == pytest.approx(expected, abs=2e-3)


def test_density_error_of_few_rows_reaches_over_the_edges():
    """Two hits far apart: the kernel is wider than the interval, and must not come back on the other side."""
    p, y = np.array([0.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.0])
    assert kde_tce(*runs_of(p, y)) == pytest.approx(by_direct_densities(p, y, np.ones(3), 2.0, 3), abs=1e-4)


def test_density_error_is_small_for_a_right_model_and_ordered_in_the_power():
    p, y, _ = risky(20_000, seed=6, power=1.0)
    first, second = (kde_tce(*runs_of(p, y), order=order) for order in (1.0, 2.0))
    assert first <= second < 0.03


@pytest.mark.parametrize(
    ("p", "y"),
    [([0.2, 0.7, 0.7], [0, 0, 0]), ([0.2, 0.7, 0.7], [0, 1, 0]), ([0.4], [1]), ([0.0, 1.0, 1.0], [0, 1, 1])],
)
def test_density_error_without_a_bandwidth_is_that_of_runs(p, y):
    p, w, wy = runs_of(p, y)
    expected = np.sqrt((w * (p - wy / w) ** 2).sum() / w.sum())
    assert kde_tce(p, w, wy) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("error", ERRORS)
def test_many_outcomes_at_once(error):
    rng = np.random.default_rng(7)
    p, w = np.unique(np.round(rng.random(400), 2)), np.ones(1)
    w = np.resize(rng.exponential(size=9), len(p))
    wy = w * (rng.random((6, len(p))) < p)
    wy[0], wy[1], wy[2] = 0.0, w, w * p
    together = error(p, w, wy, grid=512)
    assert together.shape == (6,)
    assert together == pytest.approx([error(p, w, row, grid=512) for row in wy], abs=1e-12)
    assert np.isfinite(together).all()


@pytest.mark.parametrize("error", ERRORS)
def test_order_and_splitting_of_rows_do_not_show(error):
    p, y, w = risky(300, seed=8)
    order = np.random.default_rng(9).permutation(600) % 300
    split = error(*runs_of(p[order], y[order], w[order] / 2))
    assert split == pytest.approx(error(*runs_of(p, y, w)), abs=1e-9)


@pytest.mark.parametrize(("p", "y", "value"), [([0.3], [1], 0.7), ([1.0], [0], 1.0), ([0.0, 1.0], [0, 1], 0.0)])
@pytest.mark.parametrize("error", ERRORS)
def test_few_rows(error, p, y, value):
    assert error(*runs_of(p, y)) == pytest.approx(value, abs=1e-9)


def test_no_gap_in_any_run():
    p, w = np.array([0.25, 0.5, 1.0]), np.array([4.0, 2.0, 3.0])
    assert smooth_ece(p, w, w * p) == 0.0
