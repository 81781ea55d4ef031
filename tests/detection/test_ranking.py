"""Scores of a ranking: strangers, plain loops, symmetries, and what resampling draws."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from torchmetrics.functional import classification as tm

from calibrant.detection.ranking import Scores, detection_replicates, detection_scores
from calibrant.kernels.loops.resampling import POISSON_WORDS
from calibrant.kernels.philox import words

CLOSE = 1e-12


def problem(n=400, seed=0, decimals=1, weighted=False):
    """Scores, tied to so many decimals, that are higher outside."""
    rng = np.random.default_rng(seed)
    outside = rng.random(n) < 0.4
    score = np.round(rng.normal(size=n) + outside, decimals)
    return score, outside, rng.exponential(size=n) if weighted else None


def by_thresholds(score, outside, w, level=0.95):
    """Every threshold tried in turn, every pair compared."""
    w = np.ones(len(score)) if w is None else w
    out, ins = w[outside].sum(), w[~outside].sum()
    above = score[outside][:, None] - score[~outside]
    auroc = (w[outside][:, None] * w[~outside] * ((above > 0) + 0.5 * (above == 0))).sum() / (out * ins)
    rates = [(0.0, 0.0)]
    for t in np.unique(score)[::-1]:
        said = score >= t
        rates.append((w[said & outside].sum() / out, w[said & ~outside].sum() / ins))
    accuracy = max((tpr + 1 - fpr) / 2 for tpr, fpr in rates)
    fpr95 = next(fpr for tpr, fpr in rates if tpr >= level - 1e-12)
    return auroc, accuracy, fpr95


small = st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=2, max_size=14).filter(
    lambda rows: {bool(o) for _, o, w in rows if w} == {False, True}
)


def arrays(rows):
    score, outside, w = map(np.array, zip(*rows, strict=True))
    return score.astype(float), outside.astype(bool), w.astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize("n", [7, 400, 3001])
def test_strangers_agree(n, decimals, weighted):
    score, outside, w = problem(n, n, decimals, weighted)
    got = detection_scores(score, outside, w)
    fpr, tpr, _ = roc_curve(outside, score, sample_weight=w, drop_intermediate=False)
    expected = Scores(
        roc_auc_score(outside, score, sample_weight=w),
        average_precision_score(outside, score, sample_weight=w),
        average_precision_score(~outside, -score, sample_weight=w),
        float(np.max((tpr + 1 - fpr) / 2)),
        float(fpr[tpr >= 0.95][0]),
        wasserstein_distance(
            score[~outside],
            score[outside],
            None if w is None else w[~outside],
            None if w is None else w[outside],
        ),
    )
    assert got == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 1.0])
def test_torchmetrics_agrees(level):
    score, outside, _ = problem(300, 5)
    preds, target = torch.tensor(1 / (1 + np.exp(-score))), torch.tensor(outside.astype(int))
    got = detection_scores(score, outside, level=level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        specificity, _ = tm.binary_specificity_at_sensitivity(preds, target, level - 1e-6)
        auroc, precision = tm.binary_auroc(preds, target), tm.binary_average_precision(preds, target)
    assert (got.auroc, got.aupr_out) == pytest.approx((float(auroc), float(precision)), abs=2e-6)
    assert got.fpr95 == pytest.approx(1 - float(specificity), abs=2e-6)


@given(small)
@settings(max_examples=150, deadline=None)
def test_plain_loops_agree(rows):
    score, outside, w = arrays(rows)
    got = detection_scores(score, outside, w)
    assert (got.auroc, got.detection_accuracy, got.fpr95) == pytest.approx(by_thresholds(score, outside, w), abs=CLOSE)


@given(small)
@settings(max_examples=100, deadline=None)
def test_integer_weights_are_repeated_rows(rows):
    score, outside, w = arrays(rows)
    k = w.astype(int)
    repeated = detection_scores(np.repeat(score, k), np.repeat(outside, k))
    assert detection_scores(score, outside, w) == pytest.approx(repeated, abs=CLOSE)
    assert detection_scores(score, outside, 1e-200 * w) == pytest.approx(repeated, abs=CLOSE)


@given(small)
@settings(max_examples=100, deadline=None)
def test_symmetries(rows):
    """Inside for outside with the score negated; any rising function of the score."""
    score, outside, _ = arrays(rows)
    if outside.all() or not outside.any():
        return
    a, b = detection_scores(score, outside), detection_scores(-score, ~outside)
    assert (a.auroc, a.aupr_in, a.aupr_out) == pytest.approx((b.auroc, b.aupr_out, b.aupr_in), abs=CLOSE)
    assert (a.detection_accuracy, a.wasserstein) == pytest.approx((b.detection_accuracy, b.wasserstein), abs=CLOSE)
    assert detection_scores(np.exp(score) - 7, outside)[:5] == a[:5]
    assert detection_scores(3 * score, outside).wasserstein == pytest.approx(3 * a.wasserstein, abs=CLOSE)
    assert detection_scores(-score, outside).auroc == pytest.approx(1 - a.auroc, abs=CLOSE)


@pytest.mark.parametrize("decimals", [0, 2])
@pytest.mark.parametrize("with_units", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_order_of_rows_and_threads_change_no_bit(decimals, with_units, weighted):
    score, outside, w = problem(301, 2, decimals, weighted)
    if weighted:
        w = np.round(w, 1)  # so that rows differ in their unit alone
    units = np.arange(301) // 7 if with_units else None
    whole = detection_scores(score, outside, w)
    drawn = detection_replicates(score, outside, w, units, replicates=9, seed=3)
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(301)
        one, number = None if w is None else w[p], None if units is None else units[p]
        assert detection_scores(score[p], outside[p], one) == whole
        again = detection_replicates(score[p], outside[p], one, number, replicates=9, seed=3, threads=1 + seed)
        np.testing.assert_array_equal(again, drawn)


def test_many_threads_change_no_bit():
    score, outside, _ = problem(6000, 1)
    one, two = (
        detection_replicates(score, outside, None, None, replicates=200, seed=1, threads=threads) for threads in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("with_units", [False, True])
def test_replicates_are_scores_of_poisson_weights(with_units, weighted):
    """A word belongs to a row by its place in the order by falling score, outside and weight, or to a unit."""
    score, outside, w = problem(157, 4, 1, weighted)
    w = np.ones(157) if w is None else w
    order = np.lexsort((w, outside, -score))
    units = np.arange(157) % 40 if with_units else None
    got = detection_replicates(score, outside, w if weighted else None, units, replicates=6, seed=11)
    for r in range(6):
        drawn = words(11, 5, r, 40 if with_units else 157)
        counts = (drawn[:, None] >= POISSON_WORDS).sum(1)
        weights = w[order] * (counts[units[order]] if with_units else counts)
        assert got[r] == pytest.approx(detection_scores(score[order], outside[order], weights), abs=CLOSE)


def test_spread_of_replicates_is_that_of_the_auroc():
    score, outside, _ = problem(2000, 8, 9)
    drawn = detection_replicates(score, outside, None, None, replicates=400, seed=0)[:, 0]
    auc = detection_scores(score, outside).auroc
    others = np.array([detection_scores(*problem(2000, 100 + s, 9)[:2]).auroc for s in range(200)])
    assert drawn.mean() == pytest.approx(auc, abs=0.002)
    assert drawn.std() == pytest.approx(others.std(), rel=0.25)


def test_a_share_that_equals_the_level_is_enough_whatever_the_unit_of_weights():
    score, outside = np.arange(40.0), np.repeat([True, False, True], [1, 20, 19])
    for w in (None, np.full(40, 0.1), np.full(40, 1 / 3)):
        assert detection_scores(score, outside, w).fpr95 == 0.0
        assert detection_scores(score, outside, w, level=0.96).fpr95 == 1.0
        assert detection_scores(score, outside, w, level=1.0).fpr95 == 1.0


@pytest.mark.parametrize(
    ("score", "outside", "expected"),
    [
        ([0, 1], [0, 1], (1, 1, 1, 1, 0, 1)),
        ([1, 0], [0, 1], (0, 0.5, 0.5, 0.5, 1, 1)),
        ([2, 2], [0, 1], (0.5, 0.5, 0.5, 0.5, 1, 0)),
        ([2, 2, 2, 2], [0, 1, 1, 1], (0.5, 0.75, 0.25, 0.5, 1, 0)),
        ([0, math.inf], [0, 1], (1, 1, 1, 1, 0, math.inf)),
        ([-math.inf, math.inf], [0, 1], (1, 1, 1, 1, 0, math.inf)),
        ([math.inf, math.inf, 0, 1], [0, 1, 0, 1], (0.625, 7 / 12, 0.75, 0.75, 0.5, 0.5)),
    ],
)
def test_by_hand(score, outside, expected):
    got = detection_scores(np.array(score, float), np.array(outside, bool))
    assert got == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize("outside", [[], [True], [False], [True, True, True], [False, False]])
def test_one_side_alone_is_undefined(outside):
    score, outside = np.arange(float(len(outside))), np.array(outside, bool)
    assert all(math.isnan(x) for x in detection_scores(score, outside))
    assert np.isnan(detection_replicates(score, outside, None, None, replicates=3, seed=0)).all()
    both, weightless = np.append(score, 7.0), np.append(outside, not outside.all())
    assert all(math.isnan(x) for x in detection_scores(both, weightless, np.append(np.ones(len(score)), 0.0)))
    assert all(math.isnan(x) for x in detection_scores(both, weightless, np.zeros(len(both))))
