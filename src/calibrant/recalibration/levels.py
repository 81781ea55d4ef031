"""Isotonic recalibration of the levels of predicted distributions: R∘F instead of F.

u_i = F_i(y_i) is the level at which y_i came true, and G(u) the share of fitted rows at or below u. That share rises by
itself, so that the isotonic regression of it on u has nothing to pool: R is G, linear between the fitted levels. Rows
at one level count half at it (R(u_i) = (i − ½)/n without ties), so that R takes neither 0 nor 1 between its ends (0, 0)
and (1, 1), rises strictly, and does not depend on the unit of weights. Of all rising functions these middle ranks leave
the least mean squared calibration error of the fitted rows, ∫ (p − share of R(u) ≤ p)² dp, which is the statistic of
Cramér and von Mises over n: the fit cannot make it worse.

What comes out are quantiles at evenly spaced levels q: F⁻¹(R⁻¹(q)). F is that of a Gaussian or a mixture of Gaussians;
S samples are quantiles at levels i/(S + 1); between quantiles F is linear, and those that cross are sorted. Where F
jumps, since several samples are equal to y, and beyond the outermost sample or quantile, where F is not known, only the
ends of the level are known: then the row counts evenly between them (Czado, Gneiting & Held 2009). Quantiles end at the
outermost sample or quantile. Levels of Gaussians nearer to 0 or 1 than 1e-12 count as that, so that quantiles are
finite.

R rises strictly, so that distributions that differ stay so: that is what injective means here, of R∘F, of which the
quantiles are a part. The mean does not stay. One R for all rows mends levels on average over rows, not in each.

Kuleshov, Fenner & Ermon (2018), Accurate uncertainties for deep learning using calibrated regression, ICML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from calibrant.errors import UsageError
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles
from calibrant.predictions import Regression
from calibrant.recalibration.base import Fitted, Map, Recalibrator, option
from calibrant.recalibration.report import Fit
from calibrant.recalibration.shares import shares_of

REACH = 1e-12
"""How near to 0 and 1 levels are told apart: about seven standard deviations."""
NO_MASS = 1e-12
"""A share that is rounding."""
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


def level_ends(values: np.ndarray, levels: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F(y−) and F(y) (n,) where sorted values (n, Q) are quantiles at levels; equal where F does not jump."""
    padded = np.concatenate([[0.0], levels, [1.0]])
    below, upto = (values < y[:, None]).sum(axis=1), (values <= y[:, None]).sum(axis=1)
    rows, last = np.arange(len(y)), len(levels) - 1
    left, right = values[rows, (below - 1).clip(0)], values[rows, below.clip(max=last)]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = (y - left) / (right - left)
    between = padded[below] + part * (padded[below + 1] - padded[below])
    outside, tied, jumps = (below == 0) | (below > last), upto > below, upto > below + 1
    low = np.where(tied, padded[np.where(jumps & (below == 0), 0, (below + 1).clip(max=last + 1))], between)
    high = np.where(tied, padded[np.where(jumps & (upto > last), last + 2, upto)], between)
    outside &= ~tied
    low[outside], high[outside] = padded[below[outside]], padded[below[outside] + 1]
    return low, high


def levels_come_true(predictions: Regression, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """F_i(y_i−) and F_i(y_i) of each row."""
    y = predictions.y.astype(np.float64)  # type: ignore[union-attr]
    if predictions.mean is not None:
        found = gaussian_scores(y, predictions.mean, predictions.std, nll=False, crps=False, threads=threads)  # type: ignore[arg-type]
        return found["pit"], found["pit"]
    levels = known_levels(predictions)
    ends = [level_ends(values, levels, y[rows]) for rows, values in sorted_blocks(predictions)]
    low, high = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return low, high


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


@dataclass(frozen=True)
class Observed:
    """G at the levels where it bends or jumps: just below each, and at it."""

    levels: np.ndarray
    below: np.ndarray
    upto: np.ndarray

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray, shares: np.ndarray) -> Observed:
        """G of rows that stand at a level, or evenly between two; levels of single rows are neither 0 nor 1."""
        levels = np.unique(np.concatenate([[0.0, 1.0], low, high]))
        first, last = np.searchsorted(levels, low), np.searchsorted(levels, high)
        wide = high > low
        jump = np.bincount(first[~wide], shares[~wide], len(levels))
        rate = shares[wide] / (high - low)[wide]
        slope = np.bincount(first[wide], rate, len(levels)) - np.bincount(last[wide], rate, len(levels))
        rise = slope.cumsum()[:-1] * np.diff(levels)
        rise[rise < NO_MASS] = 0.0
        upto = (jump + np.append(0.0, rise)).cumsum()
        upto /= upto[-1]
        return cls(levels, np.maximum(upto - jump, 0.0), upto)

    def squared_error(self, levels: np.ndarray) -> float:
        """∫ (p − G(p))² dp, once the levels have become these."""
        start, end = levels[:-1] - self.upto[:-1], levels[1:] - self.below[1:]
        return float(exact_sum(np.diff(levels) * (start**2 + start * end + end**2) / 3.0))

    def map(self) -> LevelsMap:
        """R: G with jumps met in their middle; a level range without rows is one point, its middle."""
        middle = (self.below + self.upto) / 2
        middle[0], middle[-1] = 0.0, 1.0
        observed, first, counts = np.unique(middle, return_index=True, return_counts=True)
        predicted = (self.levels[first] + self.levels[first + counts - 1]) / 2
        predicted[0], predicted[-1] = 0.0, 1.0
        return LevelsMap(predicted, observed)


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
    levels: int = option(
        199, "evenly spaced levels of what comes out; quantiles keep theirs", at_least=1, at_most=100_000
    )

    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        shares = shares_of(predictions)
        kept = shares > 0
        shares = shares[kept]
        low, high = (ends[kept] for ends in levels_come_true(self._whole(predictions), threads))
        far = (low == high) & ((low < REACH) | (low > 1.0 - REACH))
        inside = np.clip(low, REACH, 1.0 - REACH)
        seen = Observed.of(np.where(low == high, inside, low), np.where(low == high, inside, high), shares)
        found = seen.map()
        asked = found.inverse(self._levels(predictions))
        short = far.any() and (asked[0] <= REACH or asked[-1] >= 1.0 - REACH)
        fit = Fit(
            n=predictions.n,
            loss="squared calibration error",
            before=seen.squared_error(seen.levels),
            after=seen.squared_error(found.apply(seen.levels)),
            passes=1,
            at_bound=(_far_off(float(exact_sum(shares[far]))),) if short else (),
            said=self._said(predictions, found, int(kept.sum())),
        )
        return Fitted(maps=(found,), fits=(fit,), task="regression", name=predictions.name)

    def _transformed(self, predictions: Any) -> Any:
        found: Any = self.found.maps[0]
        at = self._levels(predictions)
        values = quantiles_at(self._whole(predictions), found.inverse(at))
        return replace(
            predictions, kind="quantiles", mean=None, std=None, samples=None, member_names=None, quantiles=values,
            levels=at,
        )  # fmt: skip

    def _levels(self, predictions: Regression) -> np.ndarray:
        """Those of quantiles that are given, so that scores at them can be compared; else evenly spaced ones."""
        if predictions.levels is not None:
            return predictions.levels
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
            known, at = known_levels(predictions), found.inverse(self._levels(predictions))
            out = int(((at < known[0]) | (at > known[-1])).sum())
            if out > CUT_OFF * len(at):
                what = "sample" if predictions.samples is not None else "quantile"
                told = f"{out} of {len(at)} levels lie beyond the outermost {what} and end at it"
                said += (("levels-cut-off", f"{told}: the tails are too short; give predictions with a wider reach"),)
        return said


def _far_off(share: float) -> str:
    said = f"{100 * share:.3g} % of the outcomes lie where the predictions leave no probability (level 0 or 1)"
    return f"{said}: R cannot tell how far; widen the predictions first, by variance scaling"
