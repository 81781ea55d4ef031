"""The calibrated log-likelihood written plainly with SciPy: half by half, a root of the gradient by Brent's method."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp

from calibrant.predictions.classification import two_class_scores

BOUND = np.log(64.0)


def logs_of(predictions):
    """log p (N, C) of the average of members, in float64."""
    scores = predictions.scores
    if scores.shape[2] == 1:
        scores = two_class_scores(scores[..., 0], predictions.kind)
    scores = scores.astype(np.float64)
    if predictions.kind == "probs":
        with np.errstate(divide="ignore"):
            scores = np.log(scores)
    return logsumexp(log_softmax(scores, axis=2), axis=0) - np.log(len(scores))


def scored(logs, labels, beta):
    """log p and the Brier score (N,) of the labels at β."""
    scaled = log_softmax(beta * logs, axis=1)
    at = scaled[np.arange(len(labels)), labels]
    hot = np.eye(logs.shape[1])[labels]
    return at, ((np.exp(scaled) - hot) ** 2).sum(axis=1)


def slope(logs, labels, weights, beta):
    """d/dβ of the weighted mean of −log p(label); impossible labels do not count."""
    at = logs[np.arange(len(labels)), labels]
    counts = np.isfinite(at) & (weights > 0)
    if not counts.any():
        return 0.0
    finite = np.where(np.isfinite(logs), logs, 0.0)
    expected = (np.exp(log_softmax(beta * logs, axis=1)) * finite).sum(axis=1)
    return float(weights[counts] @ (expected - at)[counts] / weights[counts].sum())


def best(logs, labels, weights):
    """β of the largest likelihood between 1/64 and 64; 1 where nothing depends on it."""

    def by_log(x):
        return slope(logs, labels, weights, np.exp(x))

    low, high = by_log(-BOUND), by_log(BOUND)
    if low == high == 0.0:
        return 1.0
    if low >= 0.0 or high <= 0.0:
        return 1.0 / 64.0 if low >= 0.0 else 64.0
    return float(np.exp(brentq(by_log, -BOUND, BOUND, xtol=1e-14, rtol=1e-14)))


@dataclass
class Plain:
    rows: np.ndarray
    brier: np.ndarray
    temperatures: np.ndarray
    temperature: float


def calibrated(logs, labels, half, weights=None):
    """Every half of every repeat on its own."""
    labels = np.asarray(labels, np.int64)
    weights = np.ones(len(labels)) if weights is None else weights
    total, found = np.zeros((2, len(labels))), np.empty((len(half), 2))
    for r, side in enumerate(half):
        for h in (0, 1):
            fit, score = side == h, side != h
            beta = best(logs[fit], labels[fit], weights[fit])
            found[r, h] = 1.0 / beta
            total[:, score] += scored(logs[score], labels[score], beta)
    total /= len(half)
    return Plain(total[0], total[1], found, 1.0 / best(logs, labels, weights))
