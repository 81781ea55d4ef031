"""Isotonic recalibration of the levels of predicted distributions: R∘F instead of F.

u_i = F_i(y_i) is the level at which y_i came true, and R(u) the share of fitted rows at or below u. That share rises by
itself, so that the isotonic regression of it on u has nothing to pool: R is the distribution function of u, linear
between the fitted levels. Rows at one level count half at it (R(u_i) = (i − ½)/n without ties), so that R takes neither
0 nor 1 between its ends (0, 0) and (1, 1), rises strictly, and does not depend on the unit of weights.

Of all rising functions these middle ranks leave the least mean squared calibration error of the fitted rows,
∫ (p − share of R(u) ≤ p)² dp, which is the statistic of Cramér and von Mises over n: so the fit cannot make it worse.

What comes out are quantiles at evenly spaced levels q: F⁻¹(R⁻¹(q)). F is that of a Gaussian or a mixture of Gaussians;
S samples are quantiles at levels i/(S + 1); between quantiles F is linear, and those that cross are sorted. Beyond the
outermost of them F is not known: y there counts as half way to level 0 or 1, and quantiles end at the outermost. Levels
nearer to 0 or 1 than 1e-12 count as that, so that all quantiles are finite.

R rises strictly, so that distributions that differ stay so: that is what injective means here, of R∘F, of which the
quantiles are a part. The mean does not stay. One R for all rows mends levels on average over rows, not in each.

Kuleshov, Fenner & Ermon (2018), Accurate uncertainties for deep learning using calibrated regression, ICML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import UsageError, ValuesError
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles
from calibrant.predictions import Regression
from calibrant.recalibration.base import Fitted, Map, Recalibrator, option
from calibrant.recalibration.report import Fit

REACH = 1e-12
"""How near to 0 and 1 levels are told apart: about seven standard deviations."""
BLOCK = 1 << 21
"""Samples or quantiles that are sorted at a time."""
FEW = 20
"""Rows of which there should be more."""
CUT_OFF = 0.05
"""Share of the levels that may end at the outermost sample or quantile without a word."""


# --------------------------------------------------------------------------------------------- levels
def sorted_blocks(predictions: Regression) -> Iterator[tuple[slice, np.ndarray]]:
    """Samples or quantiles as (rows, (n, Q) in rising order), some rows at a time."""
    samples, quantiles = predictions.samples, predictions.quantiles
    width = len(samples) if samples is not None else quantiles.shape[1]  # type: ignore[union-attr]
    step = max(1, BLOCK // width)
    for start in range(0, predictions.n, step):
        rows = slice(start, min(start + step, predictions.n))
        block = samples[:, rows].T if samples is not None else quantiles[rows]  # type: ignore[index]
        yield rows, np.sort(block.astype(np.float64), axis=1)


def known_levels(predictions: Regression) -> np.ndarray:
    """The levels of sorted samples, i/(S + 1), or of quantiles."""
    if predictions.levels is not None:
        return predictions.levels
    count = len(predictions.samples)  # type: ignore[arg-type]
    return np.arange(1, count + 1) / (count + 1)


def level_of(values: np.ndarray, levels: np.ndarray, y: np.ndarray) -> np.ndarray:
    """F(y) (n,) where sorted values (n, Q) are quantiles at levels; in the middle of what y is tied with."""
    padded = np.concatenate([[levels[0] / 2], levels, [(1.0 + levels[-1]) / 2]])
    below, upto = (values < y[:, None]).sum(axis=1), (values <= y[:, None]).sum(axis=1)
    rows, last = np.arange(len(y)), len(levels) - 1
    low, high = values[rows, (below - 1).clip(0)], values[rows, below.clip(max=last)]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where((below > 0) & (below <= last), (y - low) / (high - low), 0.0)
    between = levels[(below - 1).clip(0)] + part * (levels[below.clip(max=last)] - levels[(below - 1).clip(0)])
    outside = np.where(below == 0, padded[0], padded[-1])
    tied = (padded[(below + 1).clip(max=last + 2)] + padded[upto]) / 2
    return np.where(upto > below, tied, np.where((below == 0) | (below > last), outside, between))


def levels_come_true(predictions: Regression, threads: int | None = None) -> np.ndarray:
    """u_i = F_i(y_i) of each row."""
    y = predictions.y.astype(np.float64)  # type: ignore[union-attr]
    if predictions.mean is not None:
        found = gaussian_scores(y, predictions.mean, predictions.std, nll=False, crps=False, threads=threads)  # type: ignore[arg-type]
        return found["pit"]
    levels = known_levels(predictions)
    return np.concatenate([level_of(values, levels, y[rows]) for rows, values in sorted_blocks(predictions)])


def quantiles_at(predictions: Regression, at: np.ndarray) -> np.ndarray:
    """F⁻¹ (n, Q) of each row at levels in (0, 1)."""
    if predictions.mean is not None:
        return np.ascontiguousarray(mixture_quantiles(predictions.mean, predictions.std, at).T)  # type: ignore[arg-type]
    levels = known_levels(predictions)
    place = np.interp(at, levels, np.arange(len(levels)))
    low = np.minimum(place.astype(np.int64), len(levels) - 1)
    high, part = np.minimum(low + 1, len(levels) - 1), place - low
    blocks = [v[:, low] + part * (v[:, high] - v[:, low]) for _, v in sorted_blocks(predictions)]
    return np.maximum.accumulate(np.concatenate(blocks), axis=1)


# ------------------------------------------------------------------------------------------------ map
@dataclass(frozen=True)
class LevelsMap(Map):
    """The points of R, from (0, 0) to (1, 1)."""

    predicted: np.ndarray
    observed: np.ndarray

    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for points in (self.predicted, self.observed):
            if points.ndim != 1 or points.size < 2 or not (np.diff(points) > 0).all():
                raise ValueError("points that do not rise")
            if points[0] != 0.0 or points[-1] != 1.0:
                raise ValueError("points that do not go from 0 to 1")
        if self.predicted.shape != self.observed.shape:
            raise ValueError("points that do not belong together")

    @property
    def n_parameters(self) -> int:
        """The number of points between the ends."""
        return len(self.observed) - 2

    def apply(self, levels: np.ndarray) -> np.ndarray:
        """R of predicted levels: the share of rows that come true at or below them."""
        return np.interp(levels, self.predicted, self.observed)

    def inverse(self, shares: np.ndarray) -> np.ndarray:
        """R⁻¹: the predicted level to look at for a share."""
        return np.interp(shares, self.observed, self.predicted)


def squared_error(u: np.ndarray, shares: np.ndarray) -> float:
    """∫ (p − share of u ≤ p)² dp over p in [0, 1]."""
    values, inverse = np.unique(u, return_inverse=True)
    mass = np.bincount(inverse, shares, len(values))
    middle = mass.cumsum() - mass / 2
    return float(exact_sum(mass * np.square(values - middle) + mass**3 / 12.0))


def middle_ranks(u: np.ndarray, shares: np.ndarray) -> LevelsMap:
    """R: the share of rows below u, and half of those at it."""
    values, inverse = np.unique(u, return_inverse=True)
    mass = np.bincount(inverse, shares, len(values))
    middle = mass.cumsum() - mass / 2
    return LevelsMap(np.concatenate([[0.0], values, [1.0]]), np.concatenate([[0.0], middle, [1.0]]))


# --------------------------------------------------------------------------------------------- method
@dataclass(eq=False, kw_only=True)
class IsotonicLevels(Recalibrator):
    """Quantiles at the levels that come true as often as they say. Members are recalibrated as one mixture."""

    name = "levels"
    title = "Isotonic recalibration of levels"
    reference = "Kuleshov, Fenner & Ermon (2018), Accurate uncertainties for deep learning using calibrated regression"
    tasks = frozenset({"regression"})
    map_class = LevelsMap
    promises_accuracy = False
    members: str = option("average", "members are recalibrated as one mixture", choices=("average",))
    levels: int = option(199, "evenly spaced levels of the quantiles that come out: 0.005, 0.01, …", at_least=1)

    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        shares = _shares(predictions)
        kept = shares > 0
        exact = levels_come_true(self._whole(predictions), threads)[kept]
        shares, u = shares[kept], np.clip(exact, REACH, 1.0 - REACH)
        found = middle_ranks(u, shares)
        far = float(exact_sum(shares[(exact < REACH) | (exact > 1.0 - REACH)]))
        fit = Fit(
            n=predictions.n,
            loss="squared calibration error",
            before=squared_error(exact, shares),
            after=squared_error(found.apply(u), shares),
            passes=1,
            at_bound=(_far_off(far),) if far > 0 else (),
            said=self._said(predictions, found, int(kept.sum())),
        )
        return Fitted(maps=(found,), fits=(fit,), task="regression", name=predictions.name)

    def _transformed(self, predictions: Any) -> Any:
        found: Any = self.found.maps[0]
        at = self._levels()
        values = quantiles_at(self._whole(predictions), found.inverse(at))
        return replace(
            predictions, kind="quantiles", mean=None, std=None, samples=None, member_names=None, quantiles=values,
            levels=at,
        )  # fmt: skip

    def _levels(self) -> np.ndarray:
        return np.arange(1, self.levels + 1) / (self.levels + 1)

    def _whole(self, predictions: Regression) -> Regression:
        if predictions.samples is not None and len(predictions.samples) < 2:
            raise UsageError(
                self.name, expected="two samples a row or more", came="there is one", do="give more draws, or Gaussians"
            )
        return predictions

    def _said(self, predictions: Regression, found: LevelsMap, n: int) -> tuple[tuple[str, str], ...]:
        said: tuple[tuple[str, str], ...] = ()
        if n < FEW:
            told = f"{n} rows are few: R moves by 1/{n} at each of them"
            said += (("few-rows", f"{told}; a method with few parameters, variance scaling, needs fewer"),)
        if predictions.mean is None:
            known, at = known_levels(predictions), found.inverse(self._levels())
            out = int(((at < known[0]) | (at > known[-1])).sum())
            if out > CUT_OFF * self.levels:
                what = "sample" if predictions.samples is not None else "quantile"
                told = f"{out} of {self.levels} levels lie beyond the outermost {what} and end at it"
                said += (("levels-cut-off", f"{told}: the tails are too short; give predictions with a wider reach"),)
        return said


def _shares(predictions: Regression) -> np.ndarray:
    if predictions.weights is None:
        return np.full(predictions.n, 1.0 / predictions.n)
    weights = predictions.weights.astype(np.float64) / predictions.info.weight_unit
    total = exact_sum(weights)
    if not total > 0:
        raise ValuesError("weights", expected="some row that counts", came="all are 0", do="give weights above 0")
    return weights / total


def _far_off(share: float) -> str:
    said = f"{100 * share:.3g} % of the outcomes lie where the predictions leave no probability (level 0 or 1)"
    return f"{said}: R cannot tell how far; widen the predictions first, by variance scaling"
