"""Isotonic recalibration of the quantile levels of predicted distributions: R∘F instead of F.

u_i = F_i(y_i) is the level at which y_i was observed (its PIT value), and G(u) the share of fitted rows at or below u.
That share is increasing, so that the isotonic regression of it on u has nothing to pool: R is G, linear between the
fitted levels. Rows at one level count half at it (R(u_i) = (i − ½)/n without ties), so that R takes neither 0 nor 1
between its ends (0, 0) and (1, 1), is strictly increasing, and does not depend on the unit of weights. Of all
increasing functions these middle ranks have the lowest mean squared calibration error on the fitted rows,
∫ (p − share of R(u) ≤ p)² dp, which is the Cramér-von Mises statistic over n: the fit cannot make it worse.

The output is quantiles at evenly spaced levels q: F⁻¹(R⁻¹(q)). F is that of a Gaussian or a mixture of Gaussians; S
samples are quantiles at levels i/(S + 1); between quantiles F is linear, and crossing quantiles are sorted. Where F
jumps, since several samples are equal to y, and beyond the outermost sample or quantile, where F is unknown, only the
ends of the level are known: then the row counts evenly between them (Czado, Gneiting & Held 2009). Quantiles end at the
outermost sample or quantile. Levels of Gaussians within 1e-12 of 0 or 1 are clipped, so that quantiles are finite.

R is strictly increasing, so that different distributions stay different: that is the meaning of injective here, for
R∘F, of which the quantiles are a part. The mean does not stay. One R for all rows calibrates levels on average over
rows, not for each row.

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
from calibrant.recalibration.base import FitState, Map, Recalibrator, normalized_weights, option
from calibrant.recalibration.fit_report import FitReport, Messages

CLIP = 1e-12
"""Levels of Gaussians are clipped to this distance from 0 and 1: about seven standard deviations."""
NO_MASS = 1e-12
"""A share that is a rounding error."""
BLOCK = 1 << 21
"""Samples or quantiles that are sorted at a time."""
MIN_ROWS = 20
"""Rows below which the fit comes with a warning."""
MAX_CUT_OFF = 0.05
"""Share of the levels that may end at the outermost sample or quantile without a warning."""


# --------------------------------------------------------------------------------------------- levels
def sorted_blocks(predictions: Regression) -> Iterator[tuple[slice, np.ndarray]]:
    """Samples or quantiles as (rows, (n, Q) in ascending order), in blocks of rows."""
    samples, quantiles = predictions.samples, predictions.quantiles
    width = len(samples) if samples is not None else quantiles.shape[1]  # type: ignore[union-attr]
    step = max(1, BLOCK // width)
    for start in range(0, predictions.n, step):
        rows = slice(start, min(start + step, predictions.n))
        block = samples[:, rows].T if samples is not None else quantiles[rows]  # type: ignore[index]
        yield rows, np.sort(block.astype(np.float64), axis=1)


def input_levels(predictions: Regression) -> np.ndarray:
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


def observed_levels(predictions: Regression, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """F_i(y_i−) and F_i(y_i) of each row."""
    y = predictions.y.astype(np.float64)  # type: ignore[union-attr]
    if predictions.mean is not None:
        scores = gaussian_scores(y, predictions.mean, predictions.std, nll=False, crps=False, threads=threads)  # type: ignore[arg-type]
        return scores["pit"], scores["pit"]
    levels = input_levels(predictions)
    ends = [level_ends(values, levels, y[rows]) for rows, values in sorted_blocks(predictions)]
    low, high = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    return low, high


def quantiles_at(predictions: Regression, at: np.ndarray) -> np.ndarray:
    """F⁻¹ (n, Q) of each row at levels in (0, 1)."""
    if predictions.mean is not None:
        return np.ascontiguousarray(mixture_quantiles(predictions.mean, predictions.std, at).T)  # type: ignore[arg-type]
    levels = input_levels(predictions)
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
                raise ValueError("points must increase")
            if points[0] != 0.0 or points[-1] != 1.0:
                raise ValueError("points must go from 0 to 1")
        if self.predicted.shape != self.observed.shape:
            raise ValueError("predicted and observed points must be equally many")

    @property
    def n_parameters(self) -> int:
        """The number of points between the ends."""
        return len(self.observed) - 2

    def apply(self, levels: np.ndarray) -> np.ndarray:
        """R of predicted levels: the share of rows observed at or below them."""
        return np.interp(levels, self.predicted, self.observed)

    def inverse(self, levels: np.ndarray) -> np.ndarray:
        """R⁻¹: the predicted level that is observed at these frequencies."""
        return np.interp(levels, self.observed, self.predicted)

    def is_usable(self, classes: int) -> bool:
        levels = np.concatenate([turn(np.array([0.1, 0.5, 0.9])) for turn in (self.apply, self.inverse)])
        return bool(((levels >= 0.0) & (levels <= 1.0)).all())


@dataclass(frozen=True)
class LevelCurve:
    """G at the levels where it bends or jumps: just below each, and at it."""

    levels: np.ndarray
    below: np.ndarray
    upto: np.ndarray

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray, row_weights: np.ndarray) -> LevelCurve:
        """G of rows at a level, or spread evenly between two; levels of single rows are neither 0 nor 1."""
        levels = np.unique(np.concatenate([[0.0, 1.0], low, high]))
        first, last = np.searchsorted(levels, low), np.searchsorted(levels, high)
        wide = high > low
        jump = np.bincount(first[~wide], row_weights[~wide], len(levels))
        rate = row_weights[wide] / (high - low)[wide]
        slope = np.bincount(first[wide], rate, len(levels)) - np.bincount(last[wide], rate, len(levels))
        rise = slope.cumsum()[:-1] * np.diff(levels)
        rise[rise < NO_MASS] = 0.0
        upto = (jump + np.append(0.0, rise)).cumsum()
        upto /= upto[-1]
        return cls(levels, np.maximum(upto - jump, 0.0), upto)

    def squared_error(self, levels: np.ndarray) -> float:
        """∫ (p − G(p))² dp, with the levels replaced by these."""
        start, end = levels[:-1] - self.upto[:-1], levels[1:] - self.below[1:]
        return float(exact_sum(np.diff(levels) * (start**2 + start * end + end**2) / 3.0))

    def map(self) -> LevelsMap:
        """R: G with jumps replaced by their middle; a level range without rows is one point, its middle."""
        middle = (self.below + self.upto) / 2
        middle[0], middle[-1] = 0.0, 1.0
        observed, first, counts = np.unique(middle, return_index=True, return_counts=True)
        predicted = (self.levels[first] + self.levels[first + counts - 1]) / 2
        predicted[0], predicted[-1] = 0.0, 1.0
        return LevelsMap(predicted, observed)


# --------------------------------------------------------------------------------------------- method
@dataclass(eq=False, kw_only=True)
class IsotonicLevels(Recalibrator):
    """Predict quantiles whose levels match their observed frequency. Members are recalibrated as one mixture.

    Parameters
    ----------
    levels : int
        The number of evenly spaced levels of the output; predictions that are quantiles keep their own levels.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Regression.from_gaussian([0.0] * 40, [1.0] * 40, y=[-2.0, -1.0, 1.0, 2.0] * 10)
    >>> cal.recalibration.IsotonicLevels(levels=3).fit(p).transform(p).quantiles[0].round(3).tolist()
    [-1.336, 0.0, 1.336]
    """

    name = "levels"
    title = "Isotonic recalibration of levels"
    reference = "Kuleshov, Fenner & Ermon (2018), Accurate uncertainties for deep learning using calibrated regression"
    tasks = frozenset({"regression"})
    map_class = LevelsMap
    promises_accuracy = False
    members: str = option("average", "members are recalibrated as one mixture", choices=("average",))
    levels: int = option(199, "evenly spaced levels of the output; quantiles keep theirs", at_least=1, at_most=100_000)

    def _fit(self, predictions: Any, threads: int | None) -> FitState:
        self._check_samples(predictions)
        row_weights = normalized_weights(predictions)
        counted = row_weights > 0
        row_weights = row_weights[counted]
        low, high = (ends[counted] for ends in observed_levels(predictions, threads))
        extreme = (low == high) & ((low < CLIP) | (low > 1.0 - CLIP))
        clipped = np.clip(low, CLIP, 1.0 - CLIP)
        curve = LevelCurve.of(np.where(low == high, clipped, low), np.where(low == high, clipped, high), row_weights)
        fitted = curve.map()
        output = fitted.inverse(self._output_levels(predictions))
        at_bound: tuple[str, ...] = ()
        messages: Messages = ()
        if extreme.any() and (output[0] <= CLIP or output[-1] >= 1.0 - CLIP):
            share = float(exact_sum(row_weights[extreme]))
            text = f"{100 * share:.3g}% of the outcomes lie where the predictions have no probability (level 0 or 1)"
            at_bound = (f"{text}, and R cannot tell how far; widen the predictions first, with variance scaling",)
        n = int(counted.sum())
        if n < MIN_ROWS:
            text = f"{n} rows are few: R jumps by 1/{n} at each of them"
            messages += (("few-rows", f"{text}; use a method with few parameters, such as variance"),)
        if predictions.mean is None:
            levels = input_levels(predictions)
            count = int(((output < levels[0]) | (output > levels[-1])).sum())
            if count > MAX_CUT_OFF * len(output):
                what = "sample" if predictions.samples is not None else "quantile"
                text = f"{count} of {len(output)} levels lie beyond the outermost {what} and end at it"
                messages += (("levels-cut-off", f"{text}; give predictions with wider tails"),)
        fit = FitReport(
            n=predictions.n, loss="squared calibration error", before=curve.squared_error(curve.levels),
            after=curve.squared_error(fitted.apply(curve.levels)), passes=1, at_bound=at_bound, messages=messages,
        )  # fmt: skip
        return FitState(maps=(fitted,), fits=(fit,), task="regression", name=predictions.name)

    def _transform(self, predictions: Any) -> Any:
        self._check_samples(predictions)
        levels = self._output_levels(predictions)
        values = quantiles_at(predictions, self.maps[0].inverse(levels))  # type: ignore[attr-defined]
        return replace(
            predictions, kind="quantiles", mean=None, std=None, samples=None, member_names=None, quantiles=values,
            levels=levels,
        )  # fmt: skip

    def _output_levels(self, predictions: Regression) -> np.ndarray:
        """The levels of given quantiles, so that scores at them can be compared; otherwise evenly spaced ones."""
        if predictions.levels is not None:
            return predictions.levels
        return np.arange(1, self.levels + 1) / (self.levels + 1)

    def _check_samples(self, predictions: Regression) -> None:
        if predictions.samples is not None and len(predictions.samples) < 2:
            hint = "give more draws, or Gaussians"
            raise UsageError(self.name, expected="at least two samples per row", got="one", hint=hint)
