"""Calibrated log-likelihood of k members, for every k: of the members as they come, or of random draws of them.

A draw is a random order of all members; its first k are the draw of k. Word j of member m for draw d is the Philox word
of (seed, MEMBER_ORDERS, d, m).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.comparison.calibrated import calibrated
from calibrant.comparison.splits import Splits
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import MEMBER_ORDERS
from calibrant.predictions import Classification, Judged


@dataclass(frozen=True)
class CurveRows:
    """What D orders of members give for the first k = 1 … K of each."""

    values: np.ndarray
    """(D, K) CLL."""
    rows: np.ndarray
    """(K, N) CLL of each row, the mean over draws."""
    interaction: np.ndarray
    """(K,) mean over draws of the variance over rows of (CLL of the row − its mean over draws), divided by N and by
    1 − 1/D: what the choice of members adds to the variance of the mean by rows alone. 0 of one draw."""
    log_likelihood: np.ndarray
    """(D, K) before temperature."""
    temperature: np.ndarray
    """(D, K) fitted on all rows."""


def member_orders(members: int, draws: int, seed: int) -> np.ndarray:
    """(D, M) orders of the members; of one draw, as they come."""
    if draws == 1:
        return np.arange(members)[None]
    return np.stack([np.argsort(words(seed, MEMBER_ORDERS, d, members), kind="stable") for d in range(draws)])


def curve_rows(
    predictions: Classification | Judged, splits: Splits, orders: np.ndarray, threads: int | None = None
) -> CurveRows:
    """CLL of the first k members of each order (D, K); weights of rows count in every mean."""
    draws, most = orders.shape
    share = np.full(predictions.n, 1.0 / predictions.n) if predictions.weights is None else predictions.weights
    share = share / share.sum()
    single = np.empty((draws, most, predictions.n))
    temperature, before = np.empty((draws, most)), np.empty((draws, most))
    for d, order in enumerate(orders):
        for k in range(1, most + 1):
            part = _of_members(predictions, order[:k])
            found = calibrated(part, splits, threads)
            single[d, k - 1], temperature[d, k - 1] = found.log_likelihood, found.temperature
            before[d, k - 1] = _log_likelihood(part) @ share
    mean = single.mean(axis=0)
    apart = single - mean
    noise = ((apart - (apart @ share)[..., None]) ** 2 @ share).mean(axis=0) / predictions.n
    interaction = noise / (1.0 - 1.0 / draws) if draws > 1 else np.zeros(most)
    return CurveRows(single @ share, mean, interaction, before, temperature)


def _of_members(predictions: Classification | Judged, chosen: np.ndarray) -> Classification | Judged:
    if isinstance(predictions, Judged):
        return replace(predictions, confidence=predictions.confidence[chosen])
    return replace(predictions, scores=predictions.scores[chosen], member_names=None)


def _log_likelihood(predictions: Classification | Judged) -> np.ndarray:
    from calibrant.recalibration.class_rows import ClassRows, as_classes

    rows = ClassRows(as_classes(predictions).average())
    return rows.at_label(rows.logs)
