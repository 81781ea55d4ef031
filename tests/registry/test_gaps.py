"""Gaps with a direction: against formulas written another way, exact laws, and simulation."""

import numpy as np
import pytest
from evaluations import evaluate_with
from scipy.integrate import quad
from scipy.special import logsumexp, softmax
from scipy.stats import kstest, norm

import calibrant as cal


def classes(n=600, count=4, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, count))
    labels = (softmax(z, axis=1).cumsum(1) < rng.random((n, 1))).sum(1)
    return scale * z, labels


def estimate(predictions, metric, **options):
    return evaluate_with(predictions, metric, curves=False, **options).results[0].metrics[metric]


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_entropy_gap_is_the_derivative_of_the_likelihood_by_the_inverse_temperature(kind):
    z, labels = classes(scale=1.7)
    log_p = z - logsumexp(z, axis=1, keepdims=True)
    values = {"logits": z, "log_probs": log_p, "probs": np.exp(log_p)}[kind]
    predictions = getattr(cal.Classification, f"from_{kind}")(values, labels)

    def mean_log_likelihood(beta):
        scaled = beta * z
        return (scaled[np.arange(len(z)), labels] - logsumexp(scaled, axis=1)).mean()

    slope = (mean_log_likelihood(1 + 1e-5) - mean_log_likelihood(1 - 1e-5)) / 2e-5
    assert estimate(predictions, "entropy_gap").value == pytest.approx(-slope, abs=1e-8)


def test_entropy_gap_of_members_is_that_of_their_average():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(5, 300, 3))
    labels = rng.integers(0, 3, 300)
    average = softmax(z, axis=2).mean(0)
    members, alone = cal.Classification.from_logits(z, labels), cal.Classification.from_probs(average, labels)
    for name in ("value", "p_value", "null_low", "null_high"):
        one, other = (getattr(estimate(p, "entropy_gap"), name) for p in (members, alone))
        assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("metric", ["mean_gap", "entropy_gap"])
def test_p_values_of_calibrated_classifiers_are_uniform(metric):
    rng = np.random.default_rng(2)
    p = softmax(3.0 * rng.normal(size=(150, 3)), axis=1)
    found = []
    for _ in range(400):
        labels = (p.cumsum(1) < rng.random((150, 1))).sum(1).clip(max=2)
        found.append(estimate(cal.Classification.from_probs(p, labels), metric).p_value)
    assert np.mean(np.array(found) < 0.05) < 0.085
    if metric == "entropy_gap":  # the other takes few values, and its p-values are a little too large
        assert kstest(found, "uniform").pvalue > 1e-3


def test_mean_gap_is_confidence_minus_accuracy_or_a_probability_minus_its_rate():
    z, labels = classes()
    p = softmax(z, axis=1)
    predictions = cal.Classification.from_probs(p, labels)
    assert estimate(predictions, "mean_gap").value == pytest.approx(p.max(1).mean() - (p.argmax(1) == labels).mean())
    assert estimate(predictions, "mean_gap(of=2)").value == pytest.approx(p[:, 2].mean() - (labels == 2).mean())


def test_units_and_soft_labels_are_tested_by_students_t():
    z, labels = classes()
    p = softmax(z, axis=1)
    unit = np.repeat(np.arange(60), 10)
    by_unit = cal.Classification.from_probs(p, labels, columns={"unit": unit})
    gap = p.max(1) - (p.argmax(1) == labels)
    sums = gap.reshape(60, 10).sum(1)
    t = sums.mean() / (sums.std(ddof=1) / np.sqrt(60))
    found = estimate(by_unit, "mean_gap", units="unit")
    from scipy.stats import t as student

    assert found.p_value == pytest.approx(2 * student.sf(abs(t), 59), rel=1e-6)
    assert np.isnan(found.null_high)
    soft = cal.Classification.from_probs(p, label_probs=p).with_soft_labels()
    assert np.isnan(estimate(soft, "mean_gap").null_high)


def gaussian(n=500, width=1.0, seed=0):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=n)
    return cal.Regression.from_gaussian(m, np.full(n, width), m + rng.normal(size=n))


def test_coverage_gap_is_the_mean_coverage_error_over_all_levels():
    predictions = gaussian(40, width=0.6)
    z = np.abs(predictions.y - predictions.mean[0]) / 0.6

    def gap(level):
        return (z <= norm.ppf(0.5 + level / 2)).mean() - level

    levels = np.sort(2 * norm.cdf(z) - 1)
    expected = sum(quad(gap, a, b)[0] for a, b in zip([0.0, *levels], [*levels, 1.0], strict=True))
    assert estimate(predictions, "coverage_gap").value == pytest.approx(expected, abs=1e-7)


def test_coverage_gap_of_quantiles_is_the_mean_over_their_pairs():
    rng = np.random.default_rng(3)
    y = rng.normal(size=400)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    q = np.tile(0.8 * norm.ppf(levels), (400, 1))
    predictions = cal.Regression.from_quantiles(q, levels, y)
    covered = [((q[:, a] <= y) & (y <= q[:, b])).mean() for a, b in ((0, 4), (1, 3))]
    assert estimate(predictions, "coverage_gap").value == pytest.approx(np.mean(covered) - 0.7)
    unpaired = cal.Regression.from_quantiles(q[:, :2], levels[:2], y)
    with pytest.raises(cal.CalibrantError, match="in pairs"):
        cal.evaluate(unpaired, "coverage_gap")


def quantiles(n, rng):
    m, levels = rng.normal(size=n), np.array([0.1, 0.3, 0.7, 0.9])
    return cal.Regression.from_quantiles(m[:, None] + norm.ppf(levels), levels, m + rng.normal(size=n))


def samples(n, rng):
    m = rng.normal(size=n)
    return cal.Regression.from_samples(m + rng.normal(size=(7, n)), m + rng.normal(size=n))


@pytest.mark.parametrize(("make", "metric"), [(quantiles, "coverage_gap"), (samples, "coverage_gap"), (samples, "pit")])
def test_calibrated_quantiles_and_samples_have_uniform_p_values(make, metric):
    rng = np.random.default_rng(4)
    found = np.array([estimate(make(200, rng), metric).p_value for _ in range(400)])
    assert kstest(found, "uniform").pvalue > 1e-3
