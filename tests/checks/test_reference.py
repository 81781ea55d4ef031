"""The brute-force reference itself: statistics against the metrics, replicates against what is known of them."""

import numpy as np
import pytest
from checks import reference
from scipy.integrate import quad
from scipy.stats import norm

import calibrant as cal

CLASSES = ["accuracy", "ece", "nll", "brier"]
NUMBERS = {
    "calibration_error": "calibration_error",
    "picp": "picp",
    "mse": "mse",
    "nll": "gaussian_nll",
    "crps": "crps",
}


def rng():
    return np.random.default_rng(5)


def logits(members=3, n=60, classes=4):
    return 2 * rng().standard_normal((members, n, classes))


def gaussians(members=3, n=40):
    r = rng()
    return r.standard_normal((members, n)), np.exp(0.3 * r.standard_normal((members, n))), 1.5 * r.standard_normal(n)


@pytest.mark.parametrize("name", CLASSES)
def test_statistics_of_classes_are_the_metrics(name):
    z = logits()
    y = rng().integers(0, 4, 60)
    measured = cal.measure(cal.Classification.from_logits(z, y), [name])[name]
    assert getattr(reference, name)(y.tolist(), reference.averaged(z)) == pytest.approx(measured, rel=1e-10)


@pytest.mark.parametrize("name", CLASSES)
def test_statistics_of_judged_answers_are_the_metrics(name):
    confidence, right = rng().random(80), rng().integers(0, 2, 80)
    measured = cal.measure(cal.Judged.from_confidence(confidence, right), [name])[name]
    assert getattr(reference, f"judged_{name}")(right.tolist(), confidence) == pytest.approx(measured, rel=1e-10)


@pytest.mark.parametrize("name", NUMBERS)
def test_statistics_of_gaussians_are_the_metrics(name):
    mean, std, y = gaussians()
    measured = cal.measure(cal.Regression.from_gaussian(mean, std, y), [name])[name]
    assert getattr(reference, NUMBERS[name])(y, (mean, std)) == pytest.approx(measured, rel=1e-9)


def test_crps_is_the_integral_of_squared_differences():
    mean, std, y = gaussians(3, 2)

    def integrated(i):
        def cdf(x):
            return norm.cdf(x, mean[:, i], std[:, i]).mean()

        return quad(lambda x: cdf(x) ** 2, -30, y[i])[0] + quad(lambda x: (1 - cdf(x)) ** 2, y[i], 30)[0]

    assert reference.crps(y, (mean, std)) == pytest.approx((integrated(0) + integrated(1)) / 2, rel=1e-7)


def test_statistics_of_labels():
    p, y = [[0.6, 0.4], [0.5, 0.5], [0.1, 0.9], [0.2, 0.8]], [0, 1, 1, 1]
    assert reference.class_frequency(1)(y, p) == 0.75
    assert reference.confusion(1, 0)(y, p) == 0.25  # the tie is said to be class 0
    assert reference.entropy(y, p) == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    values = rng().standard_normal(31)
    for level in (0.0, 0.05, 0.5, 0.87, 1.0):
        assert reference.quantile(level)(values, None) == pytest.approx(np.quantile(values, level), abs=1e-14)
    assert reference.sharpness(values) == pytest.approx(np.subtract(*np.quantile(values, [0.95, 0.05])), abs=1e-14)
    assert reference.smallest(values, None) == values.min()
    assert reference.largest(values, None) == values.max()


def test_p_values_by_hand():
    values = [1, 2, 2, 2, 5, 6, 7, 8]
    assert reference.p_value(2, values) == 0.125
    assert reference.mid_p(2, values) == 0.125 + 0.5 * 0.375
    assert reference.two_sided(2, values) == 2 * 0.3125
    assert reference.two_sided(9, values) == 0.0


def test_one_member_draws_all_rows_or_one_each():
    """Two members that are sure of different classes: whole sets agree in one reading, about half in the other."""
    z = np.zeros((2, 50, 2))
    z[0, :, 0] = z[1, :, 1] = 60.0
    share = reference.class_frequency(1)
    whole = reference.replicates_classification(z, share, 40, reference.BAYESIAN, rng())
    assert set(whole) == {0.0, 1.0}
    each = reference.replicates_classification(z, share, 40, reference.INDEPENDENT, rng())
    assert 0.2 < min(each) <= max(each) < 0.8


@pytest.mark.parametrize("reading", [reference.BAYESIAN, reference.INDEPENDENT])
def test_replicates_have_the_mean_and_the_spread_of_their_law(reading):
    """Within five standard errors: the mean is that of the average, the variance has the members' in it or not."""
    r, draws = rng(), 1500
    confidence = r.random((4, 20))
    values = reference.replicates_judged(confidence, reference.judged_accuracy, draws, reading, r)
    p = confidence.mean(axis=0)
    within = (confidence * (1 - confidence)).sum(axis=1).mean() / 400 + confidence.mean(axis=1).var()
    variance = within if reading == reference.BAYESIAN else (p * (1 - p)).sum() / 400
    assert np.mean(values) == pytest.approx(p.mean(), abs=5 * np.sqrt(variance / draws))
    assert np.var(values) == pytest.approx(variance, rel=5 * np.sqrt(2 / draws))
    mean, std, _ = gaussians(4, 20)
    values = reference.replicates_gaussian(mean, std, reference.mean, draws, reading, r)
    within = (std**2).sum(axis=1).mean() / 400 + mean.mean(axis=1).var()
    variance = within if reading == reference.BAYESIAN else ((std**2).mean(axis=0) + mean.var(axis=0)).sum() / 400
    assert np.mean(values) == pytest.approx(mean.mean(), abs=5 * np.sqrt(variance / draws))
    assert np.var(values) == pytest.approx(variance, rel=5 * np.sqrt(2 / draws))
