"""Intervals of means, shares and rankings: the formulas, and that they cover."""

import math

import numpy as np
import pytest
from scipy import special, stats

import calibrant as cal
from calibrant import intervals

ROWS, CLASSES, SIMULATIONS = 200, 3, 400


# ----------------------------------------------------------------------------------------- formulas
@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (0, 20), (7, 20), (20, 20), (123, 200), (9_999, 10_000)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_accuracy_has_wilsons_interval(right, n, level):
    judged = cal.Judged.from_confidence(np.full(n, 0.5), np.arange(n) < right)
    estimate = cal.evaluate(judged, "accuracy", level=level)["accuracy"]
    expected = stats.binomtest(right, n).proportion_ci(level, method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (estimate.method, estimate.level) == ("wilson", level)


def test_accuracy_with_weights_has_wilsons_interval_of_the_effective_number():
    rng = np.random.default_rng(0)
    w, right = rng.exponential(size=80), rng.random(80) < 0.7
    estimate = cal.evaluate(cal.Judged.from_confidence(np.full(80, 0.5), right, weights=w), "accuracy")["accuracy"]
    n, share, z = w.sum() ** 2 / (w**2).sum(), np.average(right, weights=w), stats.norm.ppf(0.975)
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert (estimate.low, estimate.high) == pytest.approx((centre - half, centre + half), abs=1e-12)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_a_symmetric_mean_has_students_interval(level):
    p = np.r_[np.linspace(0.2, 0.8, 41)]
    entropy = special.entr(p) + special.entr(1 - p)
    mirrored = np.r_[entropy, 2 * entropy.mean() - entropy]  # no skewness
    found = intervals.studentised(mirrored.mean(), stats.sem(mirrored), 0.0, len(mirrored), level)
    expected = stats.t.interval(level, len(mirrored) - 1, mirrored.mean(), stats.sem(mirrored))
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("skewness", [-3.0, -0.5, 1e-6, 0.5, 3.0])
def test_halls_correction_inverts_his_transformation(skewness):
    """At each end h(T) = T + aT² + a²T³/3 + a/2 is the quantile of Student's t, with T = (mean − end)/error."""
    n, mean, error = 50, 2.0, 0.1
    found = intervals.studentised(mean, error, skewness, n, 0.95)
    a, t = skewness / (3 * math.sqrt(n)), stats.t.ppf(0.975, n - 1)
    ends = [(mean - end) / error for end in (found.low, found.high)]
    assert [x + a * x**2 + a**2 * x**3 / 3 + a / 2 for x in ends] == pytest.approx([t, -t], abs=1e-7)
    assert found.low < mean < found.high


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_error_and_skewness_are_those_of_scipy(weighted):
    """Of an unweighted mean; with weights, of the terms w·(s − mean)."""
    rng = np.random.default_rng(1)
    p = rng.beta(2, 2, size=300)
    right = rng.random(300) < p
    w = rng.exponential(size=300) if weighted else np.ones(300)
    s = -np.log(np.where(right, p, 1 - p))
    mean = np.average(s, weights=w)
    r = w * (s - mean)
    error = math.sqrt((r**2).sum() * 300 / 299) / w.sum()
    skewness = (r**3).mean() / (r**2).mean() ** 1.5
    if not weighted:
        assert (error, skewness) == pytest.approx((stats.sem(s), stats.skew(s)))
    expected = intervals.studentised(mean, error, skewness, 300, 0.95)
    judged = cal.Judged.from_confidence(p, right, weights=w if weighted else None)
    estimate = cal.evaluate(judged, "nll")["nll"]
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("decimals", [1, 12])
def test_delong_is_brute_force_over_pairs(decimals):
    """Variance of the placement values, each the share of the other class that a row is placed above.

    To each side is added one placement value whose squared deviation is that of a coin with this AUC.
    """
    rng = np.random.default_rng(2)
    score = np.round(rng.beta(2, 2, size=150), decimals)
    y = (rng.random(150) < score).astype(int)
    inside, outside = score[y == 1], score[y == 0]
    above = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    auc = above.mean()

    def of_side(placed):
        n = len(placed)
        return (((placed - auc) ** 2).sum() / (n - 1) + auc * (1 - auc) / n) / (n + 1)

    variance = of_side(above.mean(1)) + of_side(above.mean(0))
    half = stats.norm.ppf(0.975) * math.sqrt(variance) / (auc * (1 - auc))
    estimate = cal.evaluate(cal.Classification.from_probs(score, y), "roc_auc")["roc_auc"]
    ends = special.expit([special.logit(auc) - half, special.logit(auc) + half])
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((auc, *ends), abs=1e-9)


@pytest.mark.parametrize("spec", ["roc_auc", "average_precision"])
def test_ranking_interval_agrees_with_a_bootstrap(spec):
    """The ends on the logit scale against a multinomial bootstrap by scikit-learn: within 15% of the width."""
    from sklearn import metrics as sk

    rng = np.random.default_rng(3)
    score = rng.beta(2, 2, size=300)
    y = (rng.random(300) < score).astype(int)
    estimate = cal.evaluate(cal.Classification.from_probs(score, y, weights=np.ones(300)), spec)[spec]
    scorer = {"roc_auc": sk.roc_auc_score, "average_precision": sk.average_precision_score}[spec]
    drawn = [scorer(y, score, sample_weight=rng.multinomial(300, np.full(300, 1 / 300))) for _ in range(400)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.15 * (high - low))
    assert estimate.method == "influence-logit"


def test_degrees_are_those_of_the_variance_of_the_variance():
    """Of normal terms the variance is a χ²: 2·mean²/variance of it. Repeated terms are units of many rows."""
    rng = np.random.default_rng(4)
    terms = rng.standard_normal(100_000)
    found = intervals.Variance.of(terms)
    assert found.degrees == pytest.approx(100_000, rel=0.03)
    assert found.value == pytest.approx((terms**2).sum(), rel=1e-4)
    units = rng.permutation(np.repeat(np.arange(50), 4))
    by_unit = intervals.Variance.of(terms[:200], units)
    sums = np.array([terms[:200][units == k].sum() for k in range(50)])
    assert by_unit.value == pytest.approx((sums**2).sum() * 50 / 49)
    assert by_unit.degrees == pytest.approx(2 * by_unit.value**2 / (50 * (sums**2).var()))
    assert intervals.Variance.of(np.array([3.0, -3.0, 0.0, 0.0]), floor=1.0).value == pytest.approx(18 * 4 / 3 + 1)
    assert intervals.Variance.of(np.zeros(5)) is None


@pytest.mark.parametrize("count", [1, 4, 30])
def test_the_score_interval_of_a_sum_of_equal_terms_is_that_of_a_poisson_mean(count):
    """(count − θ)² = z²θ; with a floor also |value − θ| = t·√(floor + (variance − floor)·θ/value) at both ends."""
    z = stats.norm.ppf(0.975)
    found = intervals.score_interval(count, intervals.Variance(count, 1e9), 0.0, 0.95)
    expected = count + z**2 / 2 + np.array([-1, 1]) * z * math.sqrt(count + z**2 / 4)
    assert (found.low, found.high) == pytest.approx(tuple(expected), rel=1e-6)
    found = intervals.score_interval(count, intervals.Variance(count + 0.5, 7.0), 0.5, 0.95)
    for end in (found.low, found.high):
        assert abs(count - end) == pytest.approx(stats.t.ppf(0.975, 7) * math.sqrt(0.5 + end), rel=1e-9)


@pytest.mark.parametrize(("share", "m"), [(0.95, 73), (0.95, 100), (0.95, 1000), (0.5, 40), (0.8, 30)])
def test_order_statistics_bound_a_quantile_by_binomial_limits(share, m):
    """Fewer than j of m lie below the quantile of level 1 − share with the probability of a binomial count."""
    place = intervals._order_statistic(1 - share, m, 0.975)
    below, above = math.floor(place), math.floor(place) + 1
    assert stats.binom.sf(below - 1, m, 1 - share) >= 0.975 > stats.binom.sf(above - 1, m, 1 - share)


@pytest.mark.parametrize(("m", "bounded"), [(71, False), (72, True)])
def test_a_rate_is_bounded_above_where_others_can_lie_below_the_threshold(m, bounded):
    """0.95^m is the probability that none of m lies in the lowest 5%: it must be below 0.025."""
    assert (stats.binom.pmf(0, m, 0.05) < 0.025) == bounded
    scores, others = np.arange(100.0), np.linspace(50.0, 150.0, m)
    found = intervals.rate_at_quantile(scores, others, 0.95, 0.4, 0.95)
    assert (found.high < 1.0) == bounded
    assert 0.0 < found.low < 0.4 < found.high


def test_a_rate_at_an_infinite_threshold_has_the_wider_of_both_sides():
    """Others at ±∞ are not interpolated: the bound on the threshold is the value further out."""
    scores = np.linspace(0.0, 1.0, 200)
    found = intervals.rate_at_quantile(scores, np.r_[np.full(50, -np.inf), np.full(150, 0.5)], 0.5, 0.5, 0.95)
    assert found.low < 0.45
    lower = intervals.rate_at_quantile(scores, np.r_[np.full(9, -np.inf), np.full(191, 0.5)], 0.95, 0.5, 0.95)
    assert lower.high == 1.0


# ----------------------------------------------------------------------------------------- coverage
def draw(rng, n):
    """Calibrated by construction: logits N(0, 1.5²), labels drawn from their softmax."""
    p = special.softmax(1.5 * rng.normal(size=(n, CLASSES)), axis=1)
    return p, (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, CLASSES - 1)


@pytest.fixture(scope="module")
def truth():
    """Expected scores of the model; of a calibrated one they are its own expectations."""
    p, _ = draw(np.random.default_rng(10), 1_000_000)
    return {
        "nll": special.entr(p).sum(1).mean(),
        "brier": 1 - (p**2).sum(1).mean(),
        "accuracy": p.max(1).mean(),
    }


def covered(truth, make, units=None):
    """Share of simulations whose interval contains the truth, by metric."""
    inside = dict.fromkeys(truth, 0)
    for k in range(SIMULATIONS):
        result = cal.evaluate(make(np.random.default_rng([11, k])), list(truth), units=units)
        for spec, value in truth.items():
            inside[spec] += result[spec].low <= value <= result[spec].high
    return {spec: count / SIMULATIONS for spec, count in inside.items()}


def test_intervals_cover_independent_rows(truth):
    shares = covered(truth, lambda rng: cal.Classification.from_probs(*draw(rng, ROWS)))
    assert all(0.92 <= share <= 0.98 for share in shares.values()), shares


def test_intervals_cover_dependent_rows_with_units_only(truth):
    """Forty units of five rows that share what is drawn."""

    def made(rng):
        p, y = draw(rng, ROWS // 5)
        units = {"unit": np.repeat(np.arange(ROWS // 5), 5)}
        return cal.Classification.from_probs(np.repeat(p, 5, axis=0), np.repeat(y, 5), columns=units)

    by_unit, plain = covered(truth, made, units="unit"), covered(truth, made)
    assert all(share >= 0.90 for share in by_unit.values()), by_unit
    assert all(share < 0.85 for share in plain.values()), plain


def test_delong_covers():
    rng = np.random.default_rng(12)
    scores = rng.normal(size=(SIMULATIONS, 200))
    labels = rng.random((SIMULATIONS, 200)) < special.expit(1.5 * scores)
    big = rng.normal(size=400_000)
    y = rng.random(400_000) < special.expit(1.5 * big)
    ranks = stats.rankdata(big)
    auc = (ranks[y].mean() - (y.sum() + 1) / 2) / (~y).sum()
    inside = 0
    for z, right in zip(scores, labels, strict=True):
        estimate = cal.evaluate(cal.Classification.from_logits(z, right), "roc_auc")["roc_auc"]
        inside += estimate.low <= auc <= estimate.high
    assert 0.92 <= inside / SIMULATIONS <= 0.98
