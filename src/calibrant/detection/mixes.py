"""Accuracy versus confidence on mixtures of in-distribution (inside) and OOD (outside) rows.

An OOD row has no correct class: every prediction for it counts as wrong.

References: Lakshminarayanan, Pritzel & Blundell (2017), "Simple and scalable predictive uncertainty estimation using
deep ensembles"; Ovadia et al. (2019), "Can you trust your model's uncertainty?", figure 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.detection.ordering import relative
from calibrant.errors import UsageError
from calibrant.kernels.ordering import order_of


class ConfidenceCurve(NamedTuple):
    """Of the rows with confidence ≥ threshold: accuracy (NaN where there are none), share of the weight, number."""

    threshold: np.ndarray
    accuracy: np.ndarray
    share: np.ndarray
    rows: np.ndarray


def accuracy_versus_confidence(
    confidence: np.ndarray, right: np.ndarray, thresholds: np.ndarray, weights: np.ndarray | None = None
) -> ConfidenceCurve:
    """Accuracy over rows with confidence ≥ each threshold; `right` in [0, 1] is 0 for OOD rows."""
    falling, right = -np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    thresholds = np.asarray(thresholds, np.float64)
    order, _ = order_of(falling, right, weights)
    w = relative(weights, len(order))[order]
    rows = np.searchsorted(falling[order], -thresholds, side="right")
    mass, hits = (np.append(0.0, x.cumsum())[rows] for x in (w, w * right[order]))
    counted = np.append(0, (w > 0.0).cumsum())[rows]
    total = w.cumsum()[-1:].sum()  # the last of the sums above, to the bit; 0 without rows
    with np.errstate(invalid="ignore", divide="ignore"):
        return ConfidenceCurve(thresholds, np.where(mass > 0.0, hits / mass, np.nan), mass / total, counted)


def mixed_accuracy_versus_confidence(
    confidence: np.ndarray,
    hit: np.ndarray,
    outside_confidence: np.ndarray,
    thresholds: np.ndarray,
    *,
    outside_share: float | None = None,
    weights: np.ndarray | None = None,
    outside_weights: np.ndarray | None = None,
) -> ConfidenceCurve:
    """The curve over in-distribution rows (confidence, hit) and OOD rows together.

    All rows of both (default), or reweighted so that OOD rows are `outside_share` of the mixture. The curve is
    undefined if a side with a positive share has no weight.
    """
    inside = np.ones(len(confidence)) if weights is None else np.asarray(weights, np.float64)
    outside = np.ones(len(outside_confidence)) if outside_weights is None else np.asarray(outside_weights, np.float64)
    if outside_share is not None:
        if not 0.0 <= outside_share <= 1.0:
            raise UsageError(
                "outside_share",
                expected="a share from 0 to 1",
                got=f"{outside_share}",
                hint="leave it out for all rows",
            )
        totals = float(np.sort(inside).sum()), float(np.sort(outside).sum())  # sorted: independent of the row order
        if (outside_share < 1.0 and not totals[0] > 0.0) or (outside_share > 0.0 and not totals[1] > 0.0):
            inside, outside = np.zeros(len(inside)), np.zeros(len(outside))
        else:
            inside = inside * ((1.0 - outside_share) / (totals[0] or 1.0))
            outside = outside * (outside_share / (totals[1] or 1.0))
    right = np.append(np.asarray(hit, np.float64), np.zeros(len(outside)))
    joined = np.append(confidence, outside_confidence)
    return accuracy_versus_confidence(joined, right, thresholds, np.append(inside, outside))
