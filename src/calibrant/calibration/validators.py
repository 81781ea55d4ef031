"""Validation of risk models: Cox's recalibration line, Spiegelhalter's z, O/E, ICI, Hosmer–Lemeshow.

All act on runs (p, w, wy) of equal predictions; wy may be (K,) or, for many outcomes, (R, K).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calibrant.calibration.binning import equal_mass_edges
from calibrant.calibration.runs import first_of_cells
from calibrant.calibration.smooth import blocks

CLIP = 1e-7
"""Probabilities are clipped this far from 0 and 1 before their logit is computed."""
MOST_STEPS = 100
CONVERGED = 1e-15
"""Newton's decrement, per unit of weight, at which the last step is as good as the answer."""
MOST_CELLS = 1024


State = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Lines, and the log-likelihood, its gradient and the information there."""


class Cox(NamedTuple):
    """A fitted recalibration line logit P(y = 1) = intercept + slope·logit p."""

    intercept: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray
    """Inverse Fisher information at the fit (…, 2, 2), intercept first: right if rows are independent and w counts."""
    information: np.ndarray
    """Fisher information (2, 2) at intercept 0 and slope 1, where the predictions are right."""


def cox(p: np.ndarray, w: np.ndarray, wy: np.ndarray, clip: float = CLIP) -> Cox:
    """Weighted logistic regression of y on logit p by maximum likelihood (Cox 1958).

    Outcomes that a threshold on p separates have no finite fit: slope ±∞, intercept NaN. Only hits or only misses:
    intercept ±∞, slope NaN. A single distinct p after clipping: both NaN. The covariance is then NaN.
    """
    x, total = _logit(p, clip), float(w.sum())
    outcomes = np.atleast_2d(wy)
    intercept, slope = _limits(x, w, outcomes)
    covariance = np.full((len(outcomes), 2, 2), np.nan)
    finite = np.flatnonzero(slope == 0.0)
    for part in blocks(len(finite), len(p)):
        rows = finite[part]
        line, information = _fit(x, w / total, outcomes[rows] / total)
        intercept[rows], slope[rows] = line.T
        covariance[rows] = _inverse(information * total)
    _, _, at_one = _likelihood(np.array([[0.0, 1.0]]), x, w, w[None])
    if wy.ndim == 1:
        return Cox(intercept[0], slope[0], covariance[0], at_one[0])
    return Cox(intercept, slope, covariance, at_one[0])


def _logit(p: np.ndarray, clip: float) -> np.ndarray:
    p = np.clip(p, clip, 1.0 - clip)
    return np.log(p) - np.log1p(-p)


def _limits(x: np.ndarray, w: np.ndarray, outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intercept and slope where the likelihood has no maximum; zeros where it has one."""
    intercept, slope = np.zeros(len(outcomes)), np.zeros(len(outcomes))
    for r, wy in enumerate(outcomes):
        hits, misses = x[wy > 0], x[wy < w]
        if hits.size == 0 or misses.size == 0:
            intercept[r], slope[r] = np.inf if hits.size else -np.inf, np.nan
        elif x[0] == x[-1]:
            intercept[r] = slope[r] = np.nan
        elif misses[-1] <= hits[0] or hits[-1] <= misses[0]:
            intercept[r], slope[r] = np.nan, np.inf if misses[-1] <= hits[0] else -np.inf
    return intercept, slope


def _likelihood(
    line: np.ndarray, x: np.ndarray, w: np.ndarray, outcomes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihood (R,), its gradient (R, 2) and Fisher information (R, 2, 2) at lines (R, 2)."""
    eta = line[:, :1] + line[:, 1:] * x
    small = np.exp(-np.abs(eta))
    value = np.einsum("rk,rk->r", outcomes, eta) - np.einsum("k,rk->r", w, np.maximum(eta, 0.0) + np.log1p(small))
    mean = np.where(eta >= 0, 1.0, small) / (1.0 + small)
    residual, spread = outcomes - w * mean, w * small / (1.0 + small) ** 2
    gradient = np.stack([residual.sum(axis=-1), np.einsum("rk,k->r", residual, x)], axis=-1)
    s0, s1, s2 = spread.sum(axis=-1), np.einsum("rk,k->r", spread, x), np.einsum("rk,k->r", spread, x * x)
    return value, gradient, np.stack([s0, s1, s1, s2], axis=-1).reshape(-1, 2, 2)


def _inverse(information: np.ndarray) -> np.ndarray:
    """Inverses (R, 2, 2), NaN where singular."""
    (a, b), (_, d) = np.moveaxis(information, 0, -1)
    determinant = a * d - b * b
    scale = np.divide(1.0, determinant, out=np.full_like(a, np.nan), where=determinant > 0)
    return np.stack([d * scale, -b * scale, -b * scale, a * scale], axis=-1).reshape(-1, 2, 2)


def _fit(x: np.ndarray, w: np.ndarray, outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines (R, 2) of maximum likelihood, by Newton steps that are halved where they go too far; information there.

    About the mean of x, where the two parameters are nearly independent, from slope 0: at slope 1, predictions near 0
    and 1 leave almost no curvature to step by. Σw = 1.
    """
    centre = float((w * x).sum())
    x = x - centre

    def at(line: np.ndarray, rows: np.ndarray) -> State:
        return line, *_likelihood(line, x, w, outcomes[rows])

    moving = np.arange(len(outcomes))
    mean = np.clip(outcomes.sum(axis=-1), 1e-300, 1.0 - 1e-16)  # all but a weight that rounding loses may be hits
    state = at(np.stack([np.log(mean) - np.log1p(-mean), np.zeros_like(mean)], axis=-1), moving)
    for _ in range(MOST_STEPS):
        line, _, gradient, information = state
        step = np.einsum("rij,rj->ri", _inverse(information[moving]), gradient[moving])
        decrement = np.einsum("ri,ri->r", step, gradient[moving])
        _climb(state, moving, step, at)
        moving = moving[~(decrement <= CONVERGED)]
        if moving.size == 0:
            break
    line[moving], information[moving] = np.nan, np.nan  # the likelihood was flat to the last digit
    line[:, 0] -= line[:, 1] * centre
    shift = np.array([[1.0, 0.0], [centre, 1.0]])  # information of the intercept at x = 0
    return line, np.einsum("ij,rjk,lk->ril", shift, information, shift)


def _climb(state: State, rows: np.ndarray, step: np.ndarray, at: Callable[[np.ndarray, np.ndarray], State]) -> None:
    """Take the step in these rows of the state, halved where the likelihood gains less than half of what it should.

    Any gain at all would not do: a step too far may end where the likelihood is flat.
    """
    for _ in range(MOST_STEPS):
        trial = at(state[0][rows] + step, rows)
        value = state[1][rows] + 0.25 * np.einsum("ri,ri->r", step, state[2][rows])
        good = trial[1] >= value - 1e-13 * (1.0 + np.abs(value))
        for old, new in zip(state, trial, strict=True):
            old[rows[good]] = new[good]
        rows, step = rows[~good], step[~good] / 2
        if rows.size == 0 or not np.isfinite(step).any():
            return


def intercept_at_slope_one(
    p: np.ndarray, w: np.ndarray, wy: np.ndarray, clip: float = CLIP
) -> tuple[np.ndarray, np.ndarray]:
    """Calibration-in-the-large: the a of logit P(y = 1) = a + logit p by maximum likelihood, and its variance.

    Only hits or only misses: ±∞ with variance ∞.
    """
    x, total = _logit(p, clip), float(w.sum())
    hits, misses = np.atleast_2d(wy).sum(axis=-1), (w - np.atleast_2d(wy)).sum(axis=-1)
    mean = hits / (hits + misses)
    with np.errstate(divide="ignore"):
        middle = np.log(mean) - np.log1p(-mean)
    intercept, variance = middle.copy(), np.full_like(middle, np.inf)
    inner = np.flatnonzero(np.isfinite(middle))
    for part in blocks(len(inner), len(p)):
        rows = inner[part]
        intercept[rows], information = _shift(x, w / total, mean[rows], middle[rows])
        variance[rows] = 1.0 / (information * total)
    return (intercept, variance) if wy.ndim == 2 else (intercept[0], variance[0])


def _shift(x: np.ndarray, w: np.ndarray, mean: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The a with Σ w expit(a + x) = mean, by Newton steps between bounds that close; Σw = 1. Information at a."""
    low, high = middle - x.max(), middle - x.min()
    a = np.clip(np.zeros_like(middle), low, high)
    for _ in range(MOST_STEPS):
        _, gradient, information = _likelihood(
            np.stack([a, np.ones_like(a)], axis=-1), x, w, np.zeros((len(a), len(x)))
        )
        excess, slope = mean + gradient[:, 0], information[:, 0, 0]
        low, high = np.where(excess >= 0, a, low), np.where(excess <= 0, a, high)
        step = np.divide(excess, slope, out=np.full_like(a, np.inf), where=slope > 0)
        new = a + step
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        done = np.abs(new - a) <= 1e-13 * (1.0 + np.abs(a))
        a = new
        if done.all():
            break
    return a, slope


def spiegelhalter_z(p: np.ndarray, w: np.ndarray, ww: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """Σ w(y − p)(1 − 2p)/(Σ w²(1 − 2p)²p(1 − p))^½ (Spiegelhalter 1986), standard normal if predictions are right.

    `ww` is Σw² of each run. NaN where every p is 0, ½ or 1: the denominator is then 0.
    """
    tilt = 1.0 - 2.0 * p
    variance = float((ww * tilt**2 * p * (1.0 - p)).sum())
    score = np.einsum("...k,k->...", wy - w * p, tilt)
    return score / np.sqrt(variance) if variance > 0 else np.full_like(score, np.nan)


def observed_expected(p: np.ndarray, w: np.ndarray, wy: np.ndarray) -> np.ndarray:
    """Σwy/Σwp: observed over expected hits. Without expected hits ∞, or NaN if none were observed either."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(wy.sum(axis=-1), (w * p).sum())


def hosmer_lemeshow(p: np.ndarray, w: np.ndarray, wy: np.ndarray, groups: int = 10) -> np.ndarray:
    """Σ_g (O_g − E_g)²/(E_g(1 − E_g/n_g)) over equal-mass groups (Hosmer & Lemeshow 1980); w counts rows.

    A group in which every p is 0 (or every p is 1) adds 0 if its outcomes agree, else ∞.
    """
    group = np.searchsorted(equal_mass_edges(p, groups, w), p, side="left")
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    n, expected = np.add.reduceat(w, first), np.add.reduceat(w * p, first)
    squares = (np.add.reduceat(wy, first, axis=-1) - expected) ** 2
    variance = expected * (1.0 - expected / n)
    certain = np.where(squares > 0, np.inf, 0.0)
    return np.divide(squares, variance, out=certain, where=variance > 0).sum(axis=-1)


def ici(
    p: np.ndarray,
    w: np.ndarray,
    wy: np.ndarray,
    span: float = 0.75,
    degree: int = 2,
    summary: str = "mean",
    cells: int = MOST_CELLS,
) -> np.ndarray:
    """Integrated calibration index (Austin & Steyerberg 2019): the weighted mean of |loess(p) − p| over rows.

    The loess at p is a local polynomial with tricube weights over the nearest `span` of the weight, clipped to [0, 1];
    where too few distinct p carry weight its degree is lowered. `summary`: mean, median (E50), p90 (E90) or max (Emax).
    More than `cells` runs are joined first into cells of equal weight.
    """
    if len(p) > cells:
        first = first_of_cells((w.cumsum() - w / 2) / w.sum(), cells)
        mass = np.add.reduceat(w, first)
        p, w, wy = np.add.reduceat(w * p, first) / mass, mass, np.add.reduceat(wy, first, axis=-1)
    smoother = _loess(p, w, span, degree)
    mean = wy / np.where(w > 0, w, 1.0)
    error = np.abs(np.clip(np.einsum("...k,jk->...j", mean, smoother), 0.0, 1.0) - p)
    if summary == "mean":
        return np.einsum("...k,k->...", error, w) / w.sum()
    if summary == "max":
        return error[..., w > 0].max(axis=-1)
    level = {"median": 0.5, "p90": 0.9}[summary]
    order = np.argsort(error, axis=-1, kind="stable")
    below = np.cumsum(w[order], axis=-1)
    place = np.argmax(below >= level * (1.0 - 1e-12) * w.sum(), axis=-1)  # the smallest with `level` of the weight
    return np.take_along_axis(np.take_along_axis(error, order, -1), place[..., None], -1)[..., 0][()]


def _loess(p: np.ndarray, w: np.ndarray, span: float, degree: int) -> np.ndarray:
    """Smoother (K, K) of local polynomials: row i times the outcomes is the fit at p[i].

    Gram–Schmidt makes the polynomials orthogonal under the local weights; one that is linearly dependent on the others
    is dropped, which lowers the degree.
    """
    apart = p - p[:, None]
    distance = np.abs(apart)
    order = np.argsort(distance, axis=-1, kind="stable")
    last = np.argmax(np.cumsum(w[order], axis=-1) >= span * (1.0 - 1e-12) * w.sum(), axis=-1)
    centre = np.arange(len(p))
    reach = distance[centre, order[centre, last]][:, None]  # the distance within which `span` of the weight lies
    u = np.divide(apart, reach, out=np.where(apart == 0.0, 0.0, 2.0), where=reach > 0)
    local = w * np.maximum(1.0 - np.abs(u) ** 3, 0.0) ** 3
    mass = local.sum(axis=-1, keepdims=True)
    basis: list[np.ndarray] = []
    out = np.zeros_like(local)
    for power in range(degree + 1):
        term = u**power
        for _ in range(2):  # once more, for what rounding left of the others
            for other in basis:
                term = term - (local * term * other).sum(axis=-1, keepdims=True) * other
        square = (local * term * term).sum(axis=-1, keepdims=True)
        independent = square > 1e-12 * mass
        term = np.where(independent, term, 0.0) / np.sqrt(np.where(independent, square, 1.0))
        basis.append(term)
        out += term[centre, centre, None] * local * term
    return out
