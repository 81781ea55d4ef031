"""Calibrated log-likelihood of k members, for every k: of the members as they come, or of random draws of them.

A draw is a random order of all members; its first k are the draw of k. Word j of member m for draw d is the Philox word
of (seed, MEMBER_ORDERS, d, m). Members are added one by one to the sums of their probabilities in float64, and the
temperatures of k − 1 members say where to look for those of k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from calibrant.comparison.calibrated import SAME, labels_of, member_scores, refuse_faulty
from calibrant.comparison.halves import Halves, best_inverses, halves_of
from calibrant.comparison.records import CllCurve
from calibrant.comparison.splits import Splits
from calibrant.kernels.expansions import RowExpansions
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import MEMBER_ORDERS
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import as_classes
from calibrant.recalibration.one_temperature import BOUND
from calibrant.recalibration.shares import shares_of


@dataclass(frozen=True)
class CurveRows:
    """What D orders of members give for the first k = 1 … K of each."""

    values: np.ndarray
    """(D, K) CLL."""
    rows: np.ndarray
    """(K, N) CLL of each row, the mean over draws."""
    interaction: np.ndarray
    """(K,) the variance of a mean over rows (or units) of CLL less its mean over draws, averaged over draws and divided
    by 1 − 1/D: what the choice of members adds to the variance of the mean by rows alone. 0 of one draw."""
    log_likelihood: np.ndarray
    """(D, K) before temperature."""
    temperature: np.ndarray
    """(D, K) fitted on all rows."""

    def curve(
        self, predictions: Classification | Judged, *, repeats: int, seed: int, fitted_on: str = SAME
    ) -> CllCurve:
        """Means and standard deviations over draws, by the number of members."""
        draws, most = self.values.shape
        with np.errstate(invalid="ignore"):
            std = self.values.std(axis=0, ddof=1) if draws > 1 else np.full(most, np.nan)
        return CllCurve(
            name=predictions.name,
            k=tuple(range(1, most + 1)),
            mean=tuple(self.values.mean(axis=0).tolist()),
            std=tuple(std.tolist()),
            log_likelihood=tuple(self.log_likelihood.mean(axis=0).tolist()),
            temperature=tuple(self.temperature.mean(axis=0).tolist()),
            draws=draws,
            n=predictions.n,
            repeats=int(repeats),
            seed=int(seed),
            fitted_on=fitted_on,
        )


def member_orders(members: int, draws: int, seed: int) -> np.ndarray:
    """(D, M) orders of the members; of one draw, as they come."""
    if draws == 1:
        return np.arange(members)[None]
    return np.stack([np.argsort(words(seed, MEMBER_ORDERS, d, members), kind="stable") for d in range(draws)])


def curve_rows(
    predictions: Classification | Judged,
    splits: Splits,
    orders: np.ndarray,
    threads: int | None = None,
    units: np.ndarray | None = None,
) -> CurveRows:
    """CLL of the first k members of each order (D, K); weights of rows count in every mean.

    units: the number (N,) of the unit of each row, for `interaction` alone.
    """
    known = as_classes(predictions)
    rows = RowExpansions(labels_of(known), known.classes, threads)
    halves = halves_of(rows, splits, shares_of(known))
    return _collected(known, orders, lambda order: _cross_validated(known, rows, halves, order), units)


def curve_rows_by(
    predictions: Classification | Judged,
    clean: Classification | Judged,
    orders: np.ndarray,
    threads: int | None = None,
) -> CurveRows:
    """The same at the temperature that is best for the same members on other, clean rows."""
    known, other = as_classes(predictions), as_classes(clean)
    rows, fit = (RowExpansions(labels_of(item), item.classes, threads) for item in (known, other))
    whole = halves_of(fit, Splits(np.zeros((0, fit.n), np.uint8), 0), shares_of(other))
    return _collected(known, orders, lambda order: _by_clean(known, other, rows, fit, whole, order))


# ------------------------------------------------------------------------------------------ one order
Step = tuple[np.ndarray, np.ndarray, float]
"""Of k members: CLL (N,), log p(label) before temperature (N,), and the temperature of all rows."""


def _cross_validated(
    predictions: Classification, rows: RowExpansions, halves: Halves, order: np.ndarray
) -> Iterator[Step]:
    rows.clear()
    scores = np.empty(rows.n)
    guess: np.ndarray | None = None
    last: np.ndarray | None = None
    for k, m in enumerate(order, 1):
        rows.add(member_scores(predictions, int(m)), predictions.kind, _start(guess))
        refuse_faulty(rows, predictions)
        before, impossible = rows.raw() - np.log(k), rows.impossible
        beta = best_inverses(rows, halves, guess=guess, scores=scores)
        yield np.where(impossible, -np.inf, scores), before, float(1.0 / beta[-1, 0])
        guess, last = _guess(beta, last), beta


def _guess(beta: np.ndarray, last: np.ndarray | None) -> np.ndarray:
    """What k + 1 members want, if they differ from k half as much as k do from k − 1."""
    drift = 1.0 if last is None else np.clip(np.sqrt(beta / last), 0.9, 1.1)
    return np.clip(beta * drift, 1.0 / BOUND, BOUND)


def _start(guess: np.ndarray | None) -> float:
    """The least of them: above it expansions reach farthest."""
    return 1.0 if guess is None else float(np.nanmin(guess))


def _by_clean(
    predictions: Classification,
    clean: Classification,
    rows: RowExpansions,
    fit: RowExpansions,
    whole: Halves,
    order: np.ndarray,
) -> Iterator[Step]:
    rows.clear()
    fit.clear()
    guess: np.ndarray | None = None
    last: np.ndarray | None = None
    for m in order:
        rows.add(member_scores(predictions, int(m)), predictions.kind)
        fit.add(member_scores(clean, int(m)), clean.kind, _start(guess))
        refuse_faulty(rows, predictions)
        refuse_faulty(fit, clean)
        beta = best_inverses(fit, whole, guess=guess)
        best = float(beta[-1, 0])
        yield rows.exact(np.full(rows.n, best))[0], rows.exact(np.ones(rows.n))[0], 1.0 / best
        guess, last = _guess(beta, last), beta


# --------------------------------------------------------------------------------------- many of them
def _collected(
    predictions: Classification,
    orders: np.ndarray,
    steps: Callable[[np.ndarray], Iterator[Step]],
    units: np.ndarray | None = None,
) -> CurveRows:
    """Means over draws, and the spread of units about them by Welford's recurrence: no draw is kept."""
    (draws, most), n = orders.shape, predictions.n
    share = shares_of(predictions)
    mass = _unit_sums(np.ones(n), share, units)
    values, before, temperature, along = (np.empty((draws, most)) for _ in range(4))
    mean, centre = np.zeros((most, n)), np.zeros((most, len(mass) if draws > 1 else 0))
    spread = np.zeros_like(centre)
    for d, order in enumerate(orders):
        for k, (scores, plain, found) in enumerate(steps(order)):
            values[d, k], before[d, k], temperature[d, k] = mean_of(scores, share), mean_of(plain, share), found
            if draws == 1:
                mean[k] = scores
                continue
            with np.errstate(invalid="ignore"):
                sums = _unit_sums(scores, share, units)
                apart = sums - centre[k]
                centre[k] += apart / (d + 1)
                spread[k] += apart * (sums - centre[k])
                along[d, k] = mass @ sums
                mean[k] = np.where(np.isfinite(scores), mean[k] + (scores - mean[k]) / (d + 1), -np.inf)
    return CurveRows(values, mean, _interaction(values, along, spread, mass), before, temperature)


def _unit_sums(rows: np.ndarray, share: np.ndarray, units: np.ndarray | None) -> np.ndarray:
    """Σ share · rows of every unit, or of every row where none depend; rows of no weight do not count."""
    with np.errstate(invalid="ignore"):
        weighted = np.where(share > 0, share * rows, 0.0)
    return weighted if units is None else np.bincount(units, weights=weighted)


def _interaction(values: np.ndarray, along: np.ndarray, spread: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The mean over draws of Σ_u (s_u − m_u v)²: s_u the sum of a unit less its mean over draws, v = Σ s_u."""
    draws, most = values.shape
    if draws == 1:
        return np.zeros(most)
    with np.errstate(invalid="ignore"):
        v, a = values - values.mean(axis=0), along - along.mean(axis=0)
        noise = spread.sum(axis=1) / draws - 2.0 * (v * a).mean(axis=0) + (v * v).mean(axis=0) * (mass @ mass)
    return np.maximum(noise, 0.0) / (1.0 - 1.0 / draws)


def mean_of(rows: np.ndarray, share: np.ndarray) -> float:
    """Σ share · rows; rows of no weight do not count, whatever they hold."""
    if share.all():
        return float(share @ rows)
    return float(share[share > 0] @ rows[share > 0])
