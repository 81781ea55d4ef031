"""Beta calibration: curves as others fit them, signs, one class against the rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_softmax

import calibrant as cal
from calibrant.errors import CalibrantWarning
from calibrant.recalibration import recalibrator
from calibrant.recalibration.methods.beta import BetaMap, log_rest

TWO = np.log(2.0)


def rows(a, b, c, n=3000, seed=0):
    """P(class 1) and labels for which the curve of a, b and c is right."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 0.9, n)
    return p, (rng.random(n) < expit(a * np.log(p) - b * np.log1p(-p) + c)).astype(int)


def of(p, y, **known):
    return cal.Classification.from_probs(p, y, **known)


def numbers(made):
    found = made.parameters()[0]
    return [float(found[key][0]) for key in "abc"]


# ------------------------------------------------------------------------------------------- strangers
@pytest.mark.parametrize(
    ("form", "truth"), [("abm", (0.6, 1.7, 0.4)), ("am", (0.7, 0.7, 0.4)), ("ab", (0.6, 1.7, -1.1 * TWO))]
)
def test_curves_are_those_of_betacal(form, truth):
    betacal = pytest.importorskip("betacal")
    p, y = rows(*truth)
    made = recalibrator(f"beta(form={form})").fit(of(p, y))
    other = betacal.BetaCalibration(form).fit(p, y)
    a, b, m = other.calibrator_.map_
    np.testing.assert_allclose(numbers(made)[:2], [a, b], atol=2e-3)
    assert a * np.log(m) - b * np.log1p(-m) + numbers(made)[2] == pytest.approx(0.0, abs=3e-3)
    ours = np.exp(made.transform(of(p, y)).scores[0, :, 1])
    np.testing.assert_allclose(ours, other.predict(p), atol=5e-4)
    losses = [-np.mean(np.where(y == 1, np.log(q), np.log1p(-q))) for q in (ours, other.predict(p))]
    assert losses[0] <= losses[1] + 1e-12  # theirs is stopped, or penalised, a little before the optimum
    assert made.n_parameters == len(form)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "truth", [(0.6, 1.7, 0.4), (-0.4, 1.5, 0.0), (1.5, -0.4, 0.0), (-0.5, -0.2, 0.0), (-1.0, 0.1, 0.5)]
)
def test_slopes_not_below_zero_are_the_best_of_those(truth, seed):
    """SciPy's bounded optimiser finds no better curve, and the same one."""
    p, y = rows(*truth, n=600, seed=seed)

    def loss(theta):
        logits = theta[0] * np.log(p) - theta[1] * np.log1p(-p) + theta[2]
        return np.logaddexp(0.0, np.where(y, -logits, logits)).mean()

    best = minimize(loss, [1.0, 1.0, 0.0], bounds=[(0, None), (0, None), (None, None)], tol=1e-13)
    negative = min(truth[:2]) < 0
    if negative:
        with pytest.warns(CalibrantWarning, match="a decreasing curve would fit better"):
            made = recalibrator("beta").fit(of(p, y))
    else:
        made = recalibrator("beta").fit(of(p, y))
    assert loss(numbers(made)) <= best.fun + 1e-9
    np.testing.assert_allclose(numbers(made), best.x, atol=5e-3)
    assert made.report.after == pytest.approx(loss(numbers(made)), abs=1e-12)
    assert made.injective is (max(numbers(made)[:2]) > 0)


def test_two_classes_are_vector_scaling_where_slopes_are_positive():
    p, y = rows(0.6, 1.7, 0.4)
    one, other = (recalibrator(name).fit(of(p, y)).transform(of(p, y)).scores for name in ("beta", "vector"))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_one_half_stays_where_m_is_one_half():
    p, y = rows(0.6, 1.7, -1.1 * TWO)
    made = recalibrator("beta(form=ab)").fit(of(p, y))
    a, b, c = numbers(made)
    assert c == pytest.approx((a - b) * TWO, abs=1e-12)
    np.testing.assert_allclose(made.maps[0].apply(np.full((1, 2), -TWO)), -TWO, atol=1e-12)


@pytest.mark.parametrize(("form", "constant"), [("am", None), ("ab", 0.5)])
def test_forms_of_two_parameters_do_not_fall_either(form, constant):
    """Predictions turned round leave a constant: the rate of class 1, or 1/2 where 1/2 is kept."""
    p, y = rows(-1.0, -1.0, 0.5)
    with pytest.warns(CalibrantWarning, match="a decreasing curve would fit better"):
        made = recalibrator(f"beta(form={form})").fit(of(p, y))
    after = np.exp(made.transform(of(p, y)).scores[0, :, 1])
    np.testing.assert_allclose(after, y.mean() if constant is None else constant, atol=1e-6)


# ------------------------------------------------------------------------------------------ more classes
def test_each_class_has_the_curve_that_it_has_alone():
    rng = np.random.default_rng(1)
    z = 2.0 * rng.standard_normal((1500, 3))
    y = (z / 1.8 + [0.3, 0.0, -0.4] + rng.gumbel(size=z.shape)).argmax(axis=1)
    made = recalibrator("beta").fit(cal.Classification.from_logits(z, y))
    p = np.exp(log_softmax(z, axis=1))
    curves = []
    for k in range(3):
        alone = recalibrator("beta").fit(of(p[:, k], (y == k).astype(int)))
        np.testing.assert_allclose([made.parameters()[0][key][k] for key in "abc"], numbers(alone), atol=1e-5)
        curves.append(np.exp(alone.transform(of(p[:, k], None)).scores[0, :, 1]))
    rowwise = np.stack(curves, axis=1)
    expected = rowwise / rowwise.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(made.transform(cal.Classification.from_logits(z)).scores[0]), expected, atol=1e-6)
    assert made.n_parameters == 9


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 6), st.integers(0, 10_000))
def test_rising_curves_have_an_inverse(classes, seed):
    """Every p_k falls as the sum that divided its row falls, so that one sum alone gives p that sum to one."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(0.2, 2.0, classes), rng.uniform(0.2, 2.0, classes), rng.normal(size=classes)
    made, p = BetaMap(a, b, c, "abm"), rng.dirichlet(np.ones(classes))
    assert made.injective
    image = np.exp(made.apply(np.log(p)[None])[0])

    def back(log_total, k):
        wanted = image[k] * np.exp(log_total)
        if wanted >= 1.0:
            return 1.0
        logit = np.log(wanted) - np.log1p(-wanted)
        u = brentq(
            lambda u: -a[k] * np.logaddexp(0, -u) + b[k] * np.logaddexp(0, u) + c[k] - logit, -1e4, 1e4, xtol=1e-12
        )
        return expit(u)

    total = brentq(lambda t: sum(back(t, k) for k in range(classes)) - 1.0, -12.0, 5.0, xtol=1e-13)
    np.testing.assert_allclose([back(total, k) for k in range(classes)], p, atol=1e-6)


def test_a_flat_curve_is_not_injective():
    made = BetaMap(np.array([0.0]), np.array([0.0]), np.array([0.4]), "abm")
    assert not made.injective
    logs = np.log([[0.3, 0.7], [0.9, 0.1]])
    np.testing.assert_array_equal(made.apply(logs)[0], made.apply(logs)[1])


def test_what_is_left_of_one_keeps_its_digits():
    """ln(1 − p) where p is one but for 1e-30, which double precision cannot tell from one."""
    logs = np.array([[0.0, np.log(1e-30), np.log(3e-30)], [np.log(0.2), np.log(0.3), np.log(0.5)]])
    np.testing.assert_allclose(log_rest(logs)[0], [np.log(4e-30), 0.0, 0.0], atol=1e-25)
    np.testing.assert_allclose(log_rest(logs)[1], np.log([0.8, 0.7, 0.5]), rtol=1e-13)
    tie = np.log([[0.5, 0.5 - 1e-16, 1e-16]])
    np.testing.assert_allclose(log_rest(tie)[0, :2], -TWO, rtol=1e-12)


def test_what_keeps_the_order():
    assert BetaMap(np.array([0.5]), np.array([0.5]), np.array([0.0]), "abm").keeps_order
    assert not BetaMap(np.array([0.5]), np.array([0.5]), np.array([0.1]), "abm").keeps_order
    same = BetaMap(np.full(3, 0.5), np.full(3, 0.7), np.full(3, -0.2), "abm")
    assert same.keeps_order
    p = np.random.default_rng(0).dirichlet(np.ones(3), 50)
    np.testing.assert_array_equal(same.apply(np.log(p)).argsort(axis=1), p.argsort(axis=1))


def test_maps_that_cannot_be_are_refused():
    one = np.ones(1)
    for wrong in ((-one, one, one, "abm"), (one, one, np.inf * one, "ab"), (one, one, one, "abc")):
        with pytest.raises(ValueError, match="a, b and c"):
            BetaMap(*wrong)


@pytest.mark.parametrize("seed", range(5))
def test_where_one_half_is_kept_the_predicted_class_is(seed):
    p, y = rows(0.6, 1.7, -1.1 * TWO, seed=seed)
    made = recalibrator("beta(form=ab)").fit(of(p, y))
    assert made.accuracy_preserving
    near = 0.5 + np.arange(-50, 51) * 2.0**-53
    logs = np.log(np.stack([1.0 - near, near], axis=1))
    np.testing.assert_array_equal(made.maps[0].apply(logs).argmax(axis=1), logs.argmax(axis=1))
