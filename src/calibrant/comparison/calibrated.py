"""The calibrated log-likelihood (CLL): log-likelihood at the best temperature, fitted on rows that are not scored.

Temperature acts on log p of the averaged prediction: p_T ∝ p^(1/T). With the temperature of the *same* rows
(Ashukha et al. 2020) it is fitted on one half and scores the other, both ways, in every repeat of `splits`; a row's
CLL is the mean over repeats, and the CLL of a model is the mean over rows, which is the average of all halves where
they are of one size. With the temperature of *clean* rows (Ovadia et al. 2019) one temperature, fitted on other
rows, scores all. A label of probability 0 keeps it at every temperature: its CLL is −∞, and fits leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.comparison.splits import Splits
from calibrant.kernels.temperature_sums import TemperatureSums
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import ClassRows, as_classes
from calibrant.recalibration.one_temperature import best_inverse

SAME, CLEAN = "same", "clean"


@dataclass(frozen=True)
class Calibrated:
    """The rows of one model at temperatures that were fitted on other rows."""

    log_likelihood: np.ndarray
    """(N,) log p_T(label), the mean over repeats."""
    brier: np.ndarray
    """(N,) Brier score at the same temperatures, the mean over repeats."""
    temperatures: np.ndarray
    """(R, 2): [r, h] was fitted on half h of repeat r and scores the other half; (1, 1) of clean rows."""
    temperature: float
    """Fitted on all rows: for information, nothing is scored by it; of clean rows the one that scores."""


def calibrated(predictions: Classification | Judged, splits: Splits, threads: int | None = None) -> Calibrated:
    """Test-time cross-validation of one model, the average of its members."""
    rows = ClassRows(as_classes(predictions).average())
    logs, labels = rows.logs, rows.labels
    loglik, brier = np.zeros(rows.n), np.zeros(rows.n)
    found = np.empty((splits.repeats, 2))
    for r, half in enumerate(splits.half):
        for h in (0, 1):
            fit, score = half == h, half != h
            found[r, h] = _fitted(logs[fit], labels[fit], rows.shares[fit], threads)
            scored = _scored(logs[score], labels[score], found[r, h])
            loglik[score] += scored[0] / splits.repeats
            brier[score] += scored[1] / splits.repeats
    return Calibrated(loglik, brier, found, _fitted(logs, labels, rows.shares, threads))


def calibrated_by(
    predictions: Classification | Judged, clean: Classification | Judged, threads: int | None = None
) -> Calibrated:
    """All rows at the temperature that is best for other, clean rows."""
    fit, rows = (ClassRows(as_classes(item).average()) for item in (clean, predictions))
    temperature = _fitted(fit.logs, fit.labels, fit.shares, threads)
    loglik, brier = _scored(rows.logs, rows.labels, temperature)
    return Calibrated(loglik, brier, np.array([[temperature]]), temperature)


def _fitted(logs: np.ndarray, labels: np.ndarray, shares: np.ndarray, threads: int | None) -> float:
    weights = np.ascontiguousarray(shares / shares.sum())
    sums = TemperatureSums(np.ascontiguousarray(logs), np.ascontiguousarray(labels), weights, threads)
    return 1.0 / best_inverse(sums, sums.at(1.0)).beta


def _scored(logs: np.ndarray, labels: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import log_softmax

    scaled = log_softmax(logs / temperature, axis=-1)
    at = scaled[np.arange(len(labels)), labels]
    probs = np.exp(scaled)
    return at, (probs**2).sum(axis=1) - 2.0 * np.exp(at) + 1.0
