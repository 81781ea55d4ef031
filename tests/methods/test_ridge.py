"""Bayesian ridge regression against scikit-learn, and its members against its exact prediction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

torch = pytest.importorskip("torch")
sklearn = pytest.importorskip("sklearn.linear_model")
from training.cases import SMALL, images, rows_of, table  # noqa: E402

from calibrant.errors import CalibrantError, ShapeError, UsageError  # noqa: E402
from calibrant.methods import BayesianRidge, Cell, FixedGaussian, Task, fit_together  # noqa: E402


def linear(n=60, noise=2.0, seed=0, **known):
    """Correlated columns in different units, and a linear function of them."""
    x = rows_of(n, 4, seed=seed)
    x[:, 3] = 0.7 * x[:, 0] + 0.3 * x[:, 3]
    x = x * [1.0, 30.0, 0.01, 2.0] + [0.0, 100.0, 5.0, -3.0]
    y = 2.0 * x[:, 0] - 0.1 * x[:, 1] + 50.0 + noise * rows_of(n, seed=seed + 1)
    return Task.regression(torch.from_numpy(x), y, **known)


@pytest.fixture(scope="module")
def pair():
    task = linear()
    made = BayesianRidge().fit(task)
    x, y = task.x.numpy(), task.y.numpy()
    z, u = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    known = dict.fromkeys(("alpha_1", "alpha_2", "lambda_1", "lambda_2"), 0.0)
    return task, made, sklearn.BayesianRidge(max_iter=2000, tol=1e-12, **known).fit(z, u)


def test_weights_noise_and_covariance_are_those_of_scikit_learn(pair):
    _, made, other = pair
    np.testing.assert_allclose(made.mean[:-1], other.coef_, rtol=1e-5, atol=1e-7)
    assert made.likelihood.noise == pytest.approx(other.alpha_**-0.5, rel=1e-5)
    covariance = (made.root @ made.root.T).numpy()
    np.testing.assert_allclose(covariance[:-1, :-1], other.sigma_, rtol=1e-4, atol=1e-9)
    assert covariance[-1, -1] == pytest.approx(made.likelihood.noise**2 / 60)
    assert not covariance[-1, :-1].any()


def test_members_have_the_law_of_the_exact_prediction(pair):
    """Means of members, with the noise of each, are draws whose mixture is the exact prediction."""
    task, made, _ = pair
    x = task.x[:5] * torch.tensor([3.0, 1.0, 1.0, 1.0])
    exact, members = made.marginal(x), made.predict(x, 1500)
    noise = members.std[0, 0]
    np.testing.assert_allclose(members.std, noise, rtol=1e-12)
    spread = np.sqrt(exact.std[0] ** 2 - noise**2)
    for row in range(5):
        assert kstest(members.mean[:, row], "norm", (exact.mean[0, row], spread[row])).pvalue > 1e-4
    assert spread[x[:, 0].abs().argmax()] > 1.2 * spread.min()


def test_the_exact_prediction_covers():
    """Of rows that were not seen, 90% lie in the central 90%."""
    train, test = linear(1000), linear(4000, seed=7)
    exact = BayesianRidge().fit(train).marginal(test.x)
    inside = np.abs(test.y.numpy() - exact.mean[0]) < 1.6449 * exact.std[0]
    assert abs(inside.mean() - 0.9) < 0.025


def test_other_units_are_other_units_of_the_prediction():
    task = linear()
    other = Task.regression(task.x * 7.0 - 3.0, 1000.0 * task.y + 5.0)
    one, two = BayesianRidge().fit(task).predict(task.x, 4), BayesianRidge().fit(other).predict(other.x, 4)
    np.testing.assert_allclose(two.mean, 1000.0 * one.mean + 5.0, rtol=1e-6)
    np.testing.assert_allclose(two.std, 1000.0 * one.std, rtol=1e-6)


def test_only_training_rows_count():
    task = linear()
    rows = np.arange(5, 50)
    alone = Task.regression(task.x[rows], task.y[rows])
    one, two = BayesianRidge().fit(task.with_rows(rows)), BayesianRidge().fit(alone)
    np.testing.assert_allclose(one.predict(task.x, 3).mean, two.predict(task.x, 3).mean, rtol=1e-12)


@pytest.mark.parametrize(
    "case", ["a constant column", "a column twice", "fewer rows than columns", "no noise", "one row"]
)
def test_degenerate_tables(case):
    task = linear(noise=0.0) if case == "no noise" else linear()
    x, y = task.x.clone(), task.y
    if case == "a constant column":
        x[:, 2] = 5.0
    elif case == "a column twice":
        x[:, 2] = x[:, 1]
    elif case == "fewer rows than columns":
        x, y = x[:3], y[:3]
    elif case == "one row":
        x, y = x[:1], y[:1]
    made = BayesianRidge().fit(Task.regression(x, y))
    found = made.predict(x, 3)
    assert np.isfinite(found.mean).all()
    assert (found.std > 0.0).all()
    if case == "no noise":
        np.testing.assert_allclose(made.marginal(x).mean[0], y, rtol=1e-4)


def test_known_noise_is_refused_or_kept():
    """A task may say how large its noise is (FixedGaussian): the method estimates its own, in y's units."""
    made = BayesianRidge().fit(linear(likelihood=FixedGaussian(0.3)))
    assert made.likelihood.noise == pytest.approx(BayesianRidge().fit(linear()).likelihood.noise)


@pytest.mark.parametrize(
    ("fit", "kind"),
    [
        (lambda: BayesianRidge().fit(table()), UsageError),
        (lambda: BayesianRidge().fit(linear(), SMALL), UsageError),
        (lambda: BayesianRidge().fit(linear(), sede=3), UsageError),
        (lambda: BayesianRidge().fit(Task.regression(images().x, np.arange(24.0))), ShapeError),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(fit, kind):
    with pytest.raises(CalibrantError) as caught:
        fit()
    assert isinstance(caught.value, kind)
    assert str(caught.value).isprintable()


def test_it_can_stand_among_other_cells():
    task = linear()
    (made,) = fit_together([Cell(BayesianRidge(), task, None, 3)])
    np.testing.assert_array_equal(
        made.predict(task.x, 2).mean, BayesianRidge().fit(task, seed=3).predict(task.x, 2).mean
    )
