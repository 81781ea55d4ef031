"""Temperatures of all halves from few expansions: gradients vanish, and expanded scores are the exact ones."""

import numpy as np
import pytest
from comparison import reference
from comparison.reference import logs_of

import calibrant as cal
from calibrant.comparison import split_temperatures as halves
from calibrant.comparison.cross_validation import expanded
from calibrant.comparison.split_temperatures import best_inverses, halves_of, splits_of


def fitted(predictions, splits):
    """β of every half, and the scores by expansions."""
    rows = expanded(predictions, None)
    shares = np.full(rows.n, 1.0 / rows.n)
    scores = np.empty(rows.n)
    beta = best_inverses(rows, halves_of(rows, splits, shares), scores=scores)
    return rows, beta, scores


def assert_right(predictions, splits):
    rows, beta, scores = fitted(predictions, splits)
    logs, labels = logs_of(predictions), predictions.labels
    exact = np.zeros(rows.n)
    for r, side in enumerate(splits.half):
        for h in (0, 1):
            fit = side == h
            slope = reference.slope(logs[fit], labels[fit], np.ones(fit.sum()), beta[r, h])
            assert abs(slope) * max(1.0, beta[r, h]) <= 1.01e-8 or beta[r, h] in (64.0, 1 / 64)
            exact[~fit] += reference.scored(logs[~fit], labels[~fit], beta[r, h])[0] / splits.repeats
    np.testing.assert_allclose(scores, exact, rtol=1e-9, atol=2e-9)
    return rows.passes


@pytest.mark.parametrize(("n", "classes"), [(12, 3), (60, 10), (500, 10), (3000, 100)])
def test_gradients_vanish_and_scores_are_exact(simulated, n, classes):
    z, y = simulated(1, n, classes)
    passes = assert_right(cal.Classification.from_logits(z, y), splits_of(n))
    assert passes < (12 if n >= 500 else 60)


@pytest.mark.parametrize(("tolerance", "few"), [(1e-300, 50), (1e-13, 1)])
def test_rows_that_expansions_do_not_reach(simulated, monkeypatch, tolerance, few):
    """Expanded anew where they are many, looked at in full where they are few: scored all the same."""
    z, y = simulated(1, 80, 6)
    monkeypatch.setattr(halves, "ROW_TOLERANCE", tolerance)
    monkeypatch.setattr(halves, "FEW", few)
    assert_right(cal.Classification.from_logits(z, y), splits_of(80))


@pytest.mark.parametrize("scale", [1e-3, 0.02, 30.0, 1e4])
def test_temperatures_far_from_one(simulated, scale):
    z, y = simulated(1, 300, 5)
    _, beta, _ = fitted(cal.Classification.from_logits(scale * z, y), splits_of(300))
    _, plain, _ = fitted(cal.Classification.from_logits(z, y), splits_of(300))
    np.testing.assert_allclose(beta[:-1], np.clip(plain[:-1] / scale, 1 / 64, 64), rtol=1e-7)


def test_rows_of_very_different_widths(simulated):
    """Half of the rows are a hundred times as sure as the others: what is far does not spoil what is near."""
    z, y = simulated(1, 200, 5)
    z[:, ::2] *= 100.0
    assert_right(cal.Classification.from_logits(z, y), splits_of(200))


def test_too_few_passes_are_made_up_for_in_full(simulated, monkeypatch):
    """What no expansion was allowed to reach is scored exactly, at the temperature that is known by then."""
    z, y = simulated(1, 90, 4)
    p, splits = cal.Classification.from_logits(z, y), splits_of(90)
    monkeypatch.setattr(halves, "MOST_PASSES", 0)
    _, beta, scores = fitted(p, splits)
    logs, exact = logs_of(p), np.zeros(90)
    for r, side in enumerate(splits.half):
        for h in (0, 1):
            exact[side != h] += reference.scored(logs, y, beta[r, h])[0][side != h] / 5
    np.testing.assert_allclose(scores, exact, atol=1e-8)
