"""Intervals where few rows decide: they cover where resampling does not, or are marked approximate."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import calibrant as cal
from calibrant.detection.influence import area_terms, ranking_terms
from calibrant.detection.selective import e_aurc, selective_areas
from calibrant.intervals import NONE, Variance, delong, logit_interval, rate_at_quantile, score_interval
from calibrant.kernels.resampling import ranking_scores

MANY = 600
WITHIN = 3 * math.sqrt(0.95 * 0.05 / MANY)


def share_of(intervals, truth):
    return np.mean([found.low <= truth <= found.high for found in intervals if found is not NONE])


# -------------------------------------------------------------------------------------------- coverage
@pytest.mark.parametrize("apart", [0.5, 1.5, 2.5])
def test_rankings_of_eleven_positives_are_covered(apart):
    """A percentile bootstrap covers 0.88 to 0.94 of these average precisions, DeLong's interval 0.81 to 0.94."""
    t = np.linspace(-9, 9 + apart, 100_001)
    found, false = 0.011 * norm.sf(t - apart), 0.989 * norm.sf(t)
    truth = np.trapezoid(found / (found + false) * norm.pdf(t - apart), t)
    rng, aucs, averages = np.random.default_rng(1), [], []
    for _ in range(MANY):
        positive = rng.random(1000) < 0.011
        m = positive.sum()
        if m < 2:
            continue
        score = rng.standard_normal(1000) + apart * positive
        auc, average = ranking_scores(score, positive, None)
        variance = Variance.of(ranking_terms(score, positive).precision, None, average * (1 - average) / m**2)
        aucs.append(delong(score, positive, auc, 0.95))
        averages.append(logit_interval(average, variance, 0.95))
    assert share_of(aucs, norm.cdf(apart / math.sqrt(2))) > 0.95 - WITHIN
    assert share_of(averages, truth) > 0.95 - WITHIN


@pytest.mark.parametrize(("n", "tied", "sure", "most"), [(1000, 0.0, 0.0, 0.022), (600, 0.7, 0.005, 0.6)])
def test_areas_of_few_errors_are_covered(n, tied, sure, most):
    """A share `tied` is equally certain; of the others, errors rise to `most`. Resampling covers 0.90 and 0.85."""
    x = (np.arange(100_000) + 0.5) / 100_000
    chance = np.where(x < tied, sure, most * (x - tied) / (1 - tied))
    so_far = chance.cumsum() / np.arange(1, len(x) + 1)
    total = so_far[-1]
    truths = so_far.mean(), so_far.mean() - total - (1 - total) * math.log1p(-total)
    rng, areas, excesses = np.random.default_rng(2), [], []
    for _ in range(MANY):
        x = rng.random(n)
        e = (rng.random(n) < np.where(x < tied, sure, most * (x - tied) / (1 - tied))) * 1.0
        u = np.where(x < tied, 0.0, x)
        if e.sum() < 2:
            continue
        values, terms = selective_areas(u, e), area_terms(u, e)
        for k, out in enumerate((areas, excesses)):
            floor = terms.floors[k] / n**2
            out.append(score_interval(values[k], Variance.of(terms[k], None, floor), floor, 0.95))
    assert share_of(areas, truths[0]) > 0.95 - WITHIN
    assert share_of(excesses, truths[1]) > 0.95 - WITHIN


@pytest.mark.parametrize("outside", [40, 100, 1000])
def test_false_positive_rates_of_few_ood_rows_are_covered(outside):
    """Resampling covers 0.88 with 40 OOD rows."""
    rng, found = np.random.default_rng(3), []
    for _ in range(MANY):
        inside, ood = np.sort(rng.standard_normal(500)), np.sort(1.5 + rng.standard_normal(outside))
        value = float((inside >= ood[outside - math.ceil(0.95 * outside - 1e-9)]).mean())
        found.append(rate_at_quantile(inside, ood, 0.95, value, 0.95))
    assert share_of(found, norm.sf(1.5 - norm.ppf(0.95))) > 0.95 - WITHIN


# -------------------------------------------------------------------------------------------- edges
def judged(errors, uncertainty, **columns):
    return cal.Judged.from_confidence(1 - np.asarray(uncertainty), 1 - np.asarray(errors), **columns)


def test_one_error_and_no_error_have_no_interval():
    for errors in ([0] * 9 + [1], [0] * 10):
        found = cal.evaluate(judged(errors, np.linspace(0, 0.5, 10)), "aurc,e_aurc,aac,misclassification_aupr")
        assert {e.method for e in found.results[0].metrics.values()} == {"none"}


def test_a_perfect_order_of_errors_has_no_interval_of_its_excess():
    """All terms are 0: that the order was perfect says little of the next rows."""
    u, e = np.linspace(0, 0.5, 50), np.arange(50) >= 45
    assert e_aurc(u, e.astype(float)) == 0
    found = cal.evaluate(judged(e, u), "aurc,e_aurc,misclassification_auroc")
    assert [found[name].method for name in ("aurc", "e_aurc", "misclassification_auroc")] == [
        "influence-score", "none", "none",
    ]  # fmt: skip


def test_rows_of_weight_zero_do_not_count_and_units_of_weights_do_not_matter():
    rng = np.random.default_rng(4)
    u, e, w = np.round(rng.random(80) / 2, 2), rng.random(80) < 0.2, rng.integers(0, 3, 80).astype(float)
    metrics = "aurc,e_aurc,aac,misclassification_auroc,misclassification_aupr"
    whole = cal.evaluate(judged(e, u, weights=w), metrics)
    part = cal.evaluate(judged(e[w > 0], u[w > 0], weights=1000 * w[w > 0]), metrics)
    for name in metrics.split(","):
        one, two = whole[name], part[name]
        assert (one.value, one.low, one.high) == pytest.approx((two.value, two.low, two.high), rel=1e-9)
        assert one.low < one.value < one.high


def test_repeated_rows_of_one_unit_have_the_interval_of_one_row():
    """Up to the half steps by which areas over rows differ from those over mass."""
    rng = np.random.default_rng(5)
    u, e = rng.random(300) / 2, rng.random(300) < 0.2
    metrics = "aac,misclassification_aupr"
    one = cal.evaluate(judged(e, u), metrics)
    four = cal.evaluate(
        judged(np.repeat(e, 4), np.repeat(u, 4), columns={"unit": np.repeat(np.arange(300), 4)}), metrics, units="unit"
    )
    for name in metrics.split(","):
        ends = one[name].low, one[name].high
        assert (four[name].low, four[name].high) == pytest.approx(ends, rel=4e-3)


def test_intervals_do_not_depend_on_seed_or_order():
    rng = np.random.default_rng(6)
    p, y = np.round(expit(rng.standard_normal(200)), 1), rng.random(200) < 0.3
    w, unit = rng.exponential(size=200), np.arange(200) // 3
    order = rng.permutation(200)
    made = [
        cal.Classification.from_probs(p[k], y[k].astype(int), weights=w[k], columns={"unit": unit[k]})
        for k in (np.arange(200), order)
    ]
    metrics = "roc_auc,average_precision,aurc,e_aurc"
    whole, again = (cal.evaluate(x, metrics, units="unit", seed=seed).results[0].metrics for seed, x in enumerate(made))
    assert whole == again


# -------------------------------------------------------------------------------------------- marks
@pytest.mark.parametrize(("negatives", "marked"), [(19, True), (20, False)])
def test_average_precision_of_few_negatives_is_marked(negatives, marked):
    rng = np.random.default_rng(7)
    y = np.arange(200) >= negatives
    predictions = cal.Classification.from_probs(expit(rng.standard_normal(200) + y), y.astype(int))
    found = cal.evaluate(predictions, "average_precision,roc_auc")
    assert found["average_precision"].method.endswith("-approximate") == marked
    assert found["roc_auc"].method == "delong-logit"


@pytest.mark.parametrize(("rows", "marked"), [(99, True), (100, False)])
def test_a_resampled_false_positive_rate_of_few_rows_is_marked(rows, marked):
    rng = np.random.default_rng(8)
    inside, outside = rng.standard_normal(300), 1.5 + rng.standard_normal(rows)
    scores = cal.Detection.from_scores(inside, outside, weights=np.ones(300 + rows))
    found = cal.evaluate(scores, "fpr95", resamples=100)["fpr95"]
    assert found.method == "poisson-bootstrap" + "-approximate" * marked
