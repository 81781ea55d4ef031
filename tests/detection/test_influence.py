"""Influence of rows on rankings and areas: numerical derivatives by weights, DeLong's variance, and resampling."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from calibrant.detection.influence import area_terms, ranking_terms
from calibrant.detection.selective import aurc, e_aurc

STEP = 1e-5


def in_input_order(values, order):
    out = np.empty(len(order))
    out[order] = values
    return out


def derivatives(f, w):
    """w_i·∂f/∂w_i by central differences."""
    out = np.zeros(len(w))
    for i in np.flatnonzero(w):
        up, down = w.copy(), w.copy()
        up[i], down[i] = w[i] * (1 + STEP), w[i] * (1 - STEP)
        out[i] = (f(up) - f(down)) / (2 * STEP)
    return out


# -------------------------------------------------------------------------------------------- rankings
@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize("weighted", [False, True])
def test_terms_of_rankings_are_derivatives_of_those_of_sklearn(decimals, weighted):
    rng = np.random.default_rng(decimals)
    positive = rng.random(80) < 0.3
    score = np.round(rng.standard_normal(80) + positive, decimals)
    w = np.where(rng.random(80) < 0.1, 0.0, rng.exponential(size=80)) if weighted else np.ones(80)
    found = ranking_terms(score, positive, w if weighted else None)
    for terms, value in ((found.auc, roc_auc_score), (found.precision, average_precision_score)):
        expected = derivatives(lambda w, value=value: value(positive, score, sample_weight=w), w)
        assert in_input_order(terms, found.order) == pytest.approx(expected, abs=1e-8)
        assert terms.sum() == pytest.approx(0, abs=1e-12)


def test_squared_terms_of_auc_add_up_to_the_variance_of_delong():
    """Variances of the placement values of both sides, here with the divisors of both."""
    rng = np.random.default_rng(3)
    positive = rng.random(300) < 0.2
    score = np.round(rng.standard_normal(300) + positive, 1)
    above = score[positive][:, None] - score[~positive]
    placed = (above > 0) + 0.5 * (above == 0)
    expected = placed.mean(axis=1).var() / positive.sum() + placed.mean(axis=0).var() / (~positive).sum()
    assert (ranking_terms(score, positive).auc ** 2).sum() == pytest.approx(expected, rel=1e-12)


def test_squared_terms_of_average_precision_add_up_to_the_variance_of_resampled_values():
    rng = np.random.default_rng(4)
    positive = rng.random(1500) < 0.2
    score = np.round(rng.standard_normal(1500) + positive, 2)
    counts = rng.multinomial(1500, np.full(1500, 1 / 1500), size=500)
    drawn = [average_precision_score(positive, score, sample_weight=w) for w in counts]
    error = np.sqrt((ranking_terms(score, positive).precision ** 2).sum())
    assert error == pytest.approx(np.std(drawn), rel=0.1)  # the standard error of the latter is 3 %


def test_only_the_order_of_scores_matters():
    positive = np.array([True, False, True, False, False, True, False])
    score = np.array([3.0, 3.0, 2.0, 1.0, 0.0, 0.0, -1.0])
    infinite = np.array([np.inf, np.inf, 9.0, 0.5, -7.0, -7.0, -np.inf])
    for one, two in zip(ranking_terms(score, positive), ranking_terms(infinite, positive), strict=True):
        np.testing.assert_array_equal(one, two)


def test_equal_scores_tell_nothing_of_auc_but_the_share_of_positives():
    """Average precision is then the share of positives, whose terms are (y − share)/n."""
    positive = np.arange(10) < 3
    found = ranking_terms(np.zeros(10), positive)
    assert (found.auc == 0).all()
    assert in_input_order(found.precision, found.order) == pytest.approx((positive - 0.3) / 10, abs=1e-15)


# -------------------------------------------------------------------------------------------- areas
def risk_area(u, e, w):
    """Σ w_i R_i/Σ w over rows by rising u, R the mean error so far: tied rows in every order, each with their mean."""
    values = []
    e = np.array([np.average(e[u == x], weights=w[u == x]) for x in u])
    for p in permutations(range(len(u))):
        if all(u[a] <= u[b] for a, b in pairwise(p)):
            order = list(p)
            risk = (w[order] * e[order]).cumsum() / w[order].cumsum()
            values.append((w[order] * risk).sum() / w.sum())
    return float(np.mean(values))


@pytest.mark.parametrize("case", ["distinct and weighted", "tied", "tied, shares of errors"])
def test_terms_of_areas_are_derivatives(case):
    rng = np.random.default_rng(5)
    u = np.array([0, 1, 1, 1, 2, 3, 3]) if "tied" in case else rng.permutation(7)
    e = np.array([0, 1, 0, 0, 1, 0, 1]) if case == "tied" else rng.random(7)
    w = rng.exponential(size=7) if "weighted" in case else np.ones(7)
    found = area_terms(u.astype(float), e.astype(float), w)
    expected = derivatives(lambda w: risk_area(u, e, w), w)
    best = derivatives(lambda w: risk_area(e, e, w), w)
    assert in_input_order(found.aurc, found.order) == pytest.approx(expected, abs=1e-9)
    assert in_input_order(found.e_aurc, found.order) == pytest.approx(expected - best, abs=1e-9)
    if "tied" in case:
        values = risk_area(u, e, w), risk_area(u, e, w) - risk_area(e, e, w)
        assert values == pytest.approx((aurc(u, e), e_aurc(u, e)), abs=1e-12)


@pytest.mark.parametrize("decimals", [1, 12])
@pytest.mark.parametrize("weighted", [False, True])
def test_squared_terms_of_areas_add_up_to_the_variance_of_resampled_values(decimals, weighted):
    rng = np.random.default_rng(6)
    u = np.round(rng.random(800), decimals)
    e = (rng.random(800) < 0.3 * u).astype(float)
    w = rng.exponential(size=800) if weighted else np.ones(800)
    drawn = []
    for _ in range(400):
        rows = np.repeat(np.arange(800), rng.poisson(1.0, 800))
        drawn.append((aurc(u[rows], e[rows], w[rows]), e_aurc(u[rows], e[rows], w[rows])))
    found = area_terms(u, e, w if weighted else None)
    errors = [np.sqrt((terms**2).sum()) for terms in (found.aurc, found.e_aurc)]
    assert errors == pytest.approx(np.std(drawn, axis=0), rel=0.12)  # the standard error of the latter is 3.5 %


def test_floors_vanish_without_ties_and_are_those_of_wrong_rows_in_one_run():
    """Of one run of n rows each error adds 1/n to the area; two of them have the variance 2/n²."""
    e = (np.arange(1000) % 7 == 0) * 1.0
    assert area_terms(np.zeros(1000), e).floors[0] == pytest.approx(2.0, rel=1e-12)
    assert area_terms(np.arange(1000.0), e).floors[0] < 0.01


@pytest.mark.parametrize("weighted", [False, True])
def test_order_of_rows_changes_no_bit(weighted):
    rng = np.random.default_rng(7)
    u, e, w = np.round(rng.random(201), 1), (rng.random(201) < 0.3) * 1.0, np.round(rng.exponential(size=201), 1)
    w = w if weighted else None

    def terms(p):
        part = u[p], e[p], w[p] if weighted else None
        return *ranking_terms(part[0], part[1] == 1, part[2])[:2], *area_terms(*part)[:2]

    for one, two in zip(terms(np.arange(201)), terms(rng.permutation(201)), strict=True):
        np.testing.assert_array_equal(one, two)
