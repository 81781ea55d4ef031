"""Accuracy versus uncertainty: whether accurate rows are certain and inaccurate rows uncertain.

A row is certain at a threshold where its uncertainty is at most that, and uncertain above it. With e in [0, 1] the
error of a row, 1 − e of its weight counts as accurate and e as inaccurate.

Curves have 21 thresholds u_min + t(u_max − u_min), t = 0, 0.05 … 1, with the range of the rows that have weight, or
with fixed ends. Each share is a mean of terms of rows for given thresholds: that is what its interval rests on.
If all uncertainties are equal, every row is certain at each threshold and `avu_auc` is the accuracy. If their range is
not finite, the curves are undefined; without rows that have weight, everything is.

Reference: Krishnan & Tickoo (2020), "Improving model calibration with accuracy versus uncertainty optimization".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calibrant.kernels.ordering import order_of

STEPS = 20
LEVELS = np.arange(STEPS + 1) / STEPS
SLACK = 1e-9
"""Tolerance, in steps: a row on a threshold is certain despite rounding of shares such as 1 − 7/10."""


class Cells(NamedTuple):
    """Weight of accurate and inaccurate rows that are certain or uncertain, per threshold."""

    accurate_certain: np.ndarray
    accurate_uncertain: np.ndarray
    inaccurate_certain: np.ndarray
    inaccurate_uncertain: np.ndarray


class Curves(NamedTuple):
    """Over the 21 thresholds; p(accurate | certain) and p(uncertain | inaccurate) are NaN where undefined."""

    level: np.ndarray
    threshold: np.ndarray
    avu: np.ndarray
    p_accurate_certain: np.ndarray
    p_uncertain_inaccurate: np.ndarray


def avu(cells: Cells) -> np.ndarray:
    """(AC + IU)/(AC + AU + IC + IU): the share of rows that are accurate and certain, or inaccurate and uncertain."""
    ac, au, ic, iu = cells
    return _ratio(ac + iu, ac + au + ic + iu)


def p_accurate_certain(cells: Cells) -> np.ndarray:
    """AC/(AC + IC); NaN where no row is certain."""
    return _ratio(cells.accurate_certain, cells.accurate_certain + cells.inaccurate_certain)


def p_uncertain_inaccurate(cells: Cells) -> np.ndarray:
    """IU/(IC + IU); NaN where no row is inaccurate."""
    return _ratio(cells.inaccurate_uncertain, cells.inaccurate_certain + cells.inaccurate_uncertain)


def cells_at(
    thresholds: np.ndarray | float, uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None
) -> Cells:
    """The four cells at each threshold; without weights and soft errors they are counts."""
    rows = _sorted(uncertainty, error, weights)
    return _cells(np.searchsorted(rows.uncertainty, thresholds, side="right"), rows)


def default_threshold(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Midpoint of the mean uncertainties of accurate and of inaccurate rows; the mean of one if the other is empty."""
    rows = _sorted(uncertainty, error, weights)
    masses = np.array([rows.weight * (1.0 - rows.error), rows.weight * rows.error])
    means = _ratio((masses * rows.uncertainty).sum(1), masses.sum(1))
    known = means[~np.isnan(means)]
    return float(known.mean()) if known.size else float("nan")


def avu_curves(
    uncertainty: np.ndarray,
    error: np.ndarray,
    weights: np.ndarray | None = None,
    ends: tuple[float, float] | None = None,
) -> Curves:
    """AvU and both conditional shares over the 21 thresholds, between the extremes of the rows or the given ends."""
    rows = _sorted(uncertainty, error, weights)
    low, high = ends if ends and len(rows.weight) else _ends(rows)
    if not math.isfinite(high - low):
        return Curves(LEVELS.copy(), *np.full((4, STEPS + 1), np.nan))
    certain = np.searchsorted(_steps(rows.uncertainty, low, high), np.arange(STEPS + 1), side="right")
    cells = _cells(certain, rows)
    threshold = np.append(low + LEVELS[:-1] * (high - low), high)
    return Curves(LEVELS.copy(), threshold, avu(cells), p_accurate_certain(cells), p_uncertain_inaccurate(cells))


def avu_auc(
    uncertainty: np.ndarray,
    error: np.ndarray,
    weights: np.ndarray | None = None,
    ends: tuple[float, float] | None = None,
) -> float:
    """The area under AvU over t, by the trapezoidal rule."""
    curve = avu_curves(uncertainty, error, weights, ends).avu
    return float((curve.sum() - 0.5 * (curve[0] + curve[-1])) / STEPS)


class Terms(NamedTuple):
    """A share as the mean of terms of rows (N,), each of some mass: Σ mass·value / Σ mass."""

    value: np.ndarray
    mass: np.ndarray


def terms_at(
    threshold: float, uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None = None
) -> tuple[Terms, Terms, Terms]:
    """The terms of AvU, p(accurate | certain) and p(uncertain | inaccurate) at a threshold."""
    e, w = np.asarray(error, np.float64), _masses(error, weights)
    certain = (np.asarray(uncertainty) <= threshold).astype(np.float64)
    return Terms(_agreement(e, certain), w), Terms(1.0 - e, w * certain), Terms(1.0 - certain, w * e)


def area_terms(
    uncertainty: np.ndarray,
    error: np.ndarray,
    weights: np.ndarray | None = None,
    ends: tuple[float, float] | None = None,
) -> Terms:
    """The terms of `avu_auc`, given the lowest and the highest threshold."""
    low, high = ends or _ends(_sorted(uncertainty, error, weights))
    certain = _certain(np.asarray(uncertainty, np.float64), low, high)
    return Terms(_agreement(np.asarray(error, np.float64), certain), _masses(error, weights))


def _masses(error: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    return np.ones(len(error)) if weights is None else np.asarray(weights, np.float64)


class _Sorted(NamedTuple):
    """Rows that have weight, by rising uncertainty."""

    uncertainty: np.ndarray
    error: np.ndarray
    weight: np.ndarray


def _sorted(uncertainty: np.ndarray, error: np.ndarray, weights: np.ndarray | None) -> _Sorted:
    u, e = np.asarray(uncertainty, np.float64), np.asarray(error, np.float64)
    order, _ = order_of(u, e, weights)
    if weights is not None:
        order = order[weights[order] > 0.0]
        weight = weights[order].astype(np.float64)
    else:
        weight = np.ones(len(order))
    return _Sorted(u[order], e[order], weight)


def _ends(rows: _Sorted) -> tuple[float, float]:
    """Smallest and largest uncertainty."""
    return (float(rows.uncertainty[0]), float(rows.uncertainty[-1])) if len(rows.weight) else (np.nan, np.nan)


def _cells(ends: np.ndarray, rows: _Sorted) -> Cells:
    """The cells where the first ends[j] rows are certain."""
    right = np.append(0.0, (rows.weight * (1.0 - rows.error)).cumsum())
    wrong = np.append(0.0, (rows.weight * rows.error).cumsum())
    return Cells(right[ends], right[-1] - right[ends], wrong[ends], wrong[-1] - wrong[ends])


def _steps(uncertainty: np.ndarray, low: float, high: float) -> np.ndarray:
    """The first of the 21 thresholds at which a row is certain; NaN where the uncertainties have no finite range."""
    span = high - low
    if span == 0.0 or not math.isfinite(span):
        return np.full(len(uncertainty), 0.0 if span == 0.0 else np.nan)
    return np.clip(np.ceil((uncertainty - low) / span * STEPS - SLACK), 0.0, STEPS)


def _certain(uncertainty: np.ndarray, low: float, high: float) -> np.ndarray:
    """The share of t in [0, 1] over which a row is certain, by the trapezoidal rule."""
    step = _steps(uncertainty, low, high)
    return np.minimum(STEPS - step + 0.5, STEPS) / STEPS


def _agreement(wrong: np.ndarray, certain: np.ndarray) -> np.ndarray:
    """The share of a row that is accurate and certain, or inaccurate and uncertain."""
    return (1.0 - wrong) * certain + wrong * (1.0 - certain)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part/whole; NaN where the whole is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0.0, part / whole, np.nan)
