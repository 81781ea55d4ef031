"""Cox line, Spiegelhalter's z, O/E, ICI and Hosmer–Lemeshow against scikit-learn, SciPy and plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibration.binning import assign
from calibrant.calibration.runs import Runs
from calibrant.calibration.validators import (
    cox,
    hosmer_lemeshow,
    ici,
    intercept_at_slope_one,
    observed_expected,
    spiegelhalter_z,
)

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def runs_of(p, y, w=None):
    runs = Runs.of(np.asarray(p, float), np.asarray(y, float), w)
    return runs.p, runs.w, runs.wy


def risky(n, seed=0, power=1.5, shape=(2.0, 1.0)):
    """Rows of a model that is too sure."""
    rng = np.random.default_rng(seed)
    p = rng.beta(*shape, n)
    return p, (rng.random(n) < p**power) * 1.0, rng.exponential(size=n)


def logit(p, clip=1e-7):
    p = np.clip(p, clip, 1 - clip)
    return np.log(p / (1 - p))


def expit(eta):
    return 0.5 * (1 + np.tanh(eta / 2))


def fisher(x, w, eta):
    v = w * expit(eta) * expit(-eta)
    return np.array([[v.sum(), (v * x).sum()], [(v * x).sum(), (v * x * x).sum()]])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(2.0, 1.0), (0.1, 0.1), (20.0, 0.5)])
def test_cox_is_the_logistic_regression_of_scikit_learn(weighted, shape):
    linear_model = pytest.importorskip("sklearn.linear_model")
    p, y, w = risky(500, seed=1, shape=shape)
    w = w if weighted else np.ones(500)
    fit = cox(*runs_of(p, y, w))
    theirs = linear_model.LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    theirs.fit(logit(p)[:, None], y, sample_weight=w)
    assert fit.intercept == pytest.approx(theirs.intercept_[0], rel=1e-6, abs=1e-6)
    assert fit.slope == pytest.approx(theirs.coef_[0, 0], rel=1e-6, abs=1e-6)
    information = fisher(logit(p), w, fit.intercept + fit.slope * logit(p))
    assert np.linalg.inv(fit.covariance) == pytest.approx(information, rel=1e-6)
    assert fit.information == pytest.approx(fisher(logit(p), w, logit(p)), rel=1e-9)


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([0, 1, 6]), st.sampled_from([1e-3, 1.0, 1e4]))
def test_cox_solves_the_score_equations_or_says_that_it_cannot(seed, n, digits, unit):
    p, y, w = risky(n, seed, power=0.7)
    p, w = np.round(p, digits), w * unit
    fit = cox(*runs_of(p, y, w))
    if not np.isfinite(fit.slope):
        x = logit(p)
        hits, misses = x[y == 1], x[y == 0]
        apart = len(hits) == 0 or len(misses) == 0 or misses.max() <= hits.min() or hits.max() <= misses.min()
        assert apart
        assert np.isnan(fit.covariance).all()
        return
    residual = w * (y - expit(fit.intercept + fit.slope * logit(p))) / w.sum()
    assert residual.sum() == pytest.approx(0.0, abs=1e-9)
    assert (residual * logit(p)).sum() == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("p", "y", "intercept", "slope"),
    [
        ([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1], np.nan, np.inf),
        ([0.1, 0.2, 0.6, 0.9], [1, 1, 0, 0], np.nan, -np.inf),
        ([0.1, 0.4, 0.4, 0.9], [0, 0, 1, 1], np.nan, np.inf),
        ([0.1, 0.9], [1, 1], np.inf, np.nan),
        ([0.1, 0.9], [0, 0], -np.inf, np.nan),
        ([0.3, 0.3], [0, 1], np.nan, np.nan),
        ([0.3], [1], np.inf, np.nan),
        ([0.0, 1e-9, 1e-8], [0, 1, 0], np.nan, np.nan),
    ],
)
def test_cox_without_a_finite_fit(p, y, intercept, slope):
    fit = cox(*runs_of(p, y))
    assert [fit.intercept, fit.slope] == pytest.approx([intercept, slope], nan_ok=True)
    assert np.isnan(fit.covariance).all()
    assert np.isfinite(fit.information).all()


def test_cox_of_certain_predictions_that_fail():
    """p of exactly 0 and 1 on the wrong side pull the slope, but Newton steps do not run away."""
    p = np.array([0.0] * 50 + [0.5, 0.5] + [1.0] * 50)
    y = np.array([0.0] * 49 + [1, 0, 1, 0] + [1.0] * 49)
    fit = cox(*runs_of(p, y))
    assert fit.slope == pytest.approx(logit(0.98) / logit(1.0), rel=1e-6)
    assert fit.intercept == pytest.approx(0.0, abs=1e-9)


def test_cox_of_many_outcomes_at_once():
    rng = np.random.default_rng(2)
    p, w = np.sort(rng.random(80)), rng.exponential(size=80)
    wy = w * (rng.random((9, 80)) < p)
    wy[0], wy[1], wy[2] = 0.0, w, w * (p > 0.5)
    together = cox(p, w, wy)
    assert together.covariance.shape == (9, 2, 2)
    for r in range(9):
        alone = cox(p, w, wy[r])
        for one, many in zip(alone[:3], together[:3], strict=True):
            assert many[r] == pytest.approx(one, rel=1e-9, nan_ok=True)
        assert alone.information == pytest.approx(together.information)


def test_intercept_at_slope_one():
    optimize = pytest.importorskip("scipy.optimize")
    for seed, shape in enumerate([(2.0, 1.0), (0.05, 0.05), (30.0, 0.3)]):
        p, y, w = risky(300, seed, power=3.0, shape=shape)
        x = logit(p)
        root = optimize.brentq(lambda a: (w * (y - expit(a + x))).sum(), -30, 30, xtol=1e-14)  # noqa: B023
        value, variance = intercept_at_slope_one(*runs_of(p, y, w))
        assert value == pytest.approx(root, abs=1e-9)
        assert variance == pytest.approx(1 / fisher(x, w, root + x)[0, 0], rel=1e-9)


def test_intercept_at_slope_one_at_its_limits_and_in_many():
    p, w = np.array([0.0, 0.3, 1.0]), np.ones(3)
    wy = np.array([[0.0, 0, 0], [1, 1, 1], [1, 0, 0], [0.2, 0.1, 0.9]])
    values, variances = intercept_at_slope_one(p, w, wy)
    assert values[:2].tolist() == [-np.inf, np.inf]
    assert variances[:2].tolist() == [np.inf, np.inf]
    assert np.isfinite(values[2:]).all()
    assert [intercept_at_slope_one(p, w, row)[0] for row in wy] == pytest.approx(values)


def test_spiegelhalter_z():
    p, y, w = risky(200, seed=3)
    p = np.round(p, 2)
    score = sum(w[i] * (y[i] - p[i]) * (1 - 2 * p[i]) for i in range(200))
    variance = sum(w[i] ** 2 * (1 - 2 * p[i]) ** 2 * p[i] * (1 - p[i]) for i in range(200))
    values, mass, hits = runs_of(p, y, w)
    _, squares, _ = runs_of(p, y, w**2)
    z = spiegelhalter_z(values, mass, squares, hits)
    assert z == pytest.approx(score / np.sqrt(variance))
    assert spiegelhalter_z(values, mass, squares, np.stack([hits, hits])) == pytest.approx([z, z])
    certain = runs_of([0.0, 0.5, 1.0], [1, 1, 0])
    assert np.isnan(spiegelhalter_z(certain[0], certain[1], certain[1], certain[2]))
    assert np.isnan(spiegelhalter_z(certain[0], certain[1], certain[1], np.ones((2, 3)))).tolist() == [True, True]


def test_spiegelhalter_z_is_standard_normal_of_a_right_model():
    rng = np.random.default_rng(4)
    p, w = np.sort(rng.random(500)), np.ones(500)
    z = spiegelhalter_z(p, w, w, (rng.random((2000, 500)) < p) * 1.0)
    assert abs(z.mean()) < 0.08
    assert z.std() == pytest.approx(1.0, abs=0.06)


def test_observed_expected():
    p, w = np.array([0.2, 0.8]), np.array([5.0, 10.0])
    assert observed_expected(p, w, np.array([1.0, 8.0])) == pytest.approx(1.0)
    assert observed_expected(p, w, np.array([[0.0, 0.0], [5.0, 10.0]])) == pytest.approx([0.0, 15 / 9])
    assert observed_expected(np.zeros(1), np.ones(1), np.ones(1)) == np.inf
    assert np.isnan(observed_expected(np.zeros(1), np.ones(1), np.zeros(1)))


@pytest.mark.parametrize("groups", [1, 3, 10])
@pytest.mark.parametrize("digits", [1, 6])
def test_hosmer_lemeshow(groups, digits):
    p, y, _ = risky(157, seed=5)
    p = np.clip(np.round(p, digits), 0.05, 0.95)
    group, _ = assign(p, groups, "mass")
    expected = 0.0
    for g in np.unique(group):
        mine = group == g
        e, n = p[mine].sum(), mine.sum()
        expected += (y[mine].sum() - e) ** 2 / (e * (1 - e / n))
    runs = runs_of(p, y)
    assert hosmer_lemeshow(*runs, groups) == pytest.approx(expected)
    twice = np.stack([runs[2], 0 * runs[2]])
    assert hosmer_lemeshow(runs[0], runs[1], twice, groups)[0] == pytest.approx(expected)


def test_hosmer_lemeshow_of_certain_groups():
    p, w = np.array([0.0, 1.0]), np.ones(2)
    assert hosmer_lemeshow(p, w, np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]]), 2).tolist() == [0.0, np.inf, np.inf]
    assert hosmer_lemeshow(np.ones(1), np.full(1, 3.0), np.full(1, 3.0)) == 0.0


def loess_by_least_squares(p, y, w, span, degree):
    """Row by row, on all rows, by least squares."""
    fit = np.empty(len(p))
    for i, at in enumerate(p):
        apart = np.abs(p - at)
        order = np.argsort(apart, kind="stable")
        reach = apart[order][np.cumsum(w[order]) >= span * w.sum() * (1 - 1e-9)][0]
        local = np.sqrt(w * np.maximum(1 - (apart / reach) ** 3, 0) ** 3)
        design = np.vander(p - at, degree + 1, increasing=True)
        fit[i] = np.linalg.lstsq(design * local[:, None], y * local, rcond=None)[0][0]
    return np.clip(fit, 0, 1)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("span", [0.3, 0.75, 1.0])
def test_ici_by_least_squares(degree, span):
    p, y, w = risky(120, seed=6)
    p = np.round(p, 3)
    gap = np.abs(loess_by_least_squares(p, y, w, span, degree) - p)
    runs = runs_of(p, y, w)
    assert ici(*runs, span, degree) == pytest.approx(np.average(gap, weights=w), abs=1e-8)
    assert ici(*runs, span, degree, "max") == pytest.approx(gap.max(), abs=1e-8)
    for summary, level in (("median", 0.5), ("p90", 0.9)):
        order = np.argsort(gap)
        expected = gap[order][np.cumsum(w[order]) >= level * w.sum()][0]
        assert ici(*runs, span, degree, summary) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("degree", [1, 2])
def test_loess_leaves_its_own_polynomials_alone(degree):
    """An outcome that is a polynomial of p is its own smooth: the index is its mean distance from p."""
    p, w = np.linspace(0.1, 0.9, 60), np.linspace(1, 2, 60)
    outcome = 0.2 + 0.5 * p if degree == 1 else 0.1 + 0.2 * p + 0.5 * p**2
    assert ici(p, w, w * outcome, degree=degree) == pytest.approx(np.average(np.abs(outcome - p), weights=w), abs=1e-12)


@pytest.mark.parametrize("summary", ["mean", "median", "p90", "max"])
@pytest.mark.parametrize("p", [[0.3], [0.0, 1.0], [0.1, 0.5, 0.6], [0.1, 0.1 + 1e-15, 0.1 + 2e-15, 0.9]])
def test_ici_of_few_values(p, summary):
    p = np.array(p)
    for y in (0.0, 1.0):
        value = ici(p, np.ones(len(p)), np.full(len(p), y), summary=summary)
        assert np.min(np.abs(p - y)) - 1e-12 <= value <= np.max(np.abs(p - y)) + 1e-12


def test_ici_of_joined_runs_is_near_that_of_all():
    p, y, w = risky(1800, seed=7)
    runs = runs_of(p, y, w)
    for degree in (1, 2):
        assert ici(*runs, degree=degree) == pytest.approx(ici(*runs, degree=degree, cells=10_000), abs=5e-5)


def test_ici_of_many_outcomes_at_once():
    rng = np.random.default_rng(8)
    p, w = np.sort(rng.random(1500)), rng.exponential(size=1500)
    wy = w * (rng.random((5, 1500)) < p)
    for summary in ("mean", "median", "p90", "max"):
        together = ici(p, w, wy, summary=summary, cells=200)
        assert together == pytest.approx([ici(p, w, row, summary=summary, cells=200) for row in wy], abs=1e-12)


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.integers(1, 50), st.sampled_from([1, 9]))
def test_order_and_splitting_of_rows_do_not_show(seed, n, digits):
    p, y, w = risky(n, seed)
    p = np.round(p, digits)
    order = np.random.default_rng(seed).permutation(2 * n) % n
    whole, split = runs_of(p, y, w), runs_of(p[order], y[order], w[order] / 2)
    for statistic in (observed_expected, hosmer_lemeshow, ici):
        assert statistic(*split) == pytest.approx(statistic(*whole), rel=1e-6, abs=1e-9, nan_ok=True)
    assert cox(*split).slope == pytest.approx(cox(*whole).slope, rel=1e-5, nan_ok=True)
