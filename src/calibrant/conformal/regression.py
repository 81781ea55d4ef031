"""Conformal intervals for regression, from predicted means μ and standard deviations σ, or from quantiles.

- absolute: score |y − μ|, interval μ ± q. scaled: |y − μ|/σ, μ ± qσ (Lei, G'Sell, Rinaldo, Tibshirani & Wasserman
  2018, JASA 113). Members and samples are the Gaussian with their moments.
- Conformalised quantiles: score max(lower − y, y − upper), interval [lower − q, upper + q], where q may be negative:
  intervals that are too wide shrink (Romano, Patterson & Candès 2019, NeurIPS 32).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.conformal.base import Conformal
from calibrant.conformal.results import Intervals
from calibrant.errors import UsageError, check_choice, show
from calibrant.predictions.base import Note
from calibrant.predictions.regression import Regression, mean_and_variance
from calibrant.recalibration.gaussian_rows import gaussian_arrays, to_gaussian

SCORES = ("absolute", "scaled")
LEVEL_TOLERANCE = 1e-9
Levels = tuple[float | None, float | None]
"""Of the two quantiles that intervals start from."""


@dataclass(eq=False, kw_only=True, repr=False)
class IntervalMethod(Conformal):
    """A method for intervals: subclasses say where they start and how the threshold moves their ends."""

    task = "regression"
    without_threshold = "every interval is the whole real line"

    def _base_intervals(self, predictions: Regression, levels: Levels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both ends (n,) of intervals before widening, and the unit (n,) of the threshold."""
        raise NotImplementedError

    def _scores(self, predictions: Regression, properties: dict[str, Any]) -> np.ndarray:
        levels = properties.get("lower"), properties.get("upper")
        lower, upper, unit = self._base_intervals(predictions, levels)
        y = np.asarray(predictions.y, np.float64)
        return np.maximum(lower - y, y - upper) / unit

    def _predict(self, predictions: Regression, **facts: Any) -> Intervals:
        lower, upper, unit = self._base_intervals(predictions, (self.state.lower, self.state.upper))
        y = None if predictions.y is None else predictions.y.astype(np.float64)
        return Intervals(lower=lower - self.threshold * unit, upper=upper + self.threshold * unit, y=y, **facts)


@dataclass(eq=False, kw_only=True, repr=False)
class SplitConformal(IntervalMethod):
    """Intervals around the predicted mean that contain the outcome with probability `level`, on average over rows.

    Parameters
    ----------
    level : float
        The coverage, between 0 and 1.
    score : {"absolute", "scaled"}
        Intervals of constant width, or of widths proportional to the predicted standard deviation.

    Examples
    --------
    >>> import calibrant as cal
    >>> val = cal.Regression.from_gaussian([0.0] * 10, [1.0] * 10, y=[0.1 * k for k in range(10)])
    >>> split = cal.conformal.SplitConformal(level=0.8).fit(val)
    >>> split
    SplitConformal(level=0.8, score='absolute'): threshold=0.8, fitted on 10 rows
    >>> split.predict(val).coverage
    0.9
    """

    kind = "split"
    title = "Split conformal intervals"
    reference = (
        "Lei, G'Sell, Rinaldo, Tibshirani & Wasserman (2018), Distribution-free predictive inference for regression, "
        "JASA 113"
    )
    score: str = "absolute"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("score", self.score, SCORES)

    @property
    def method(self) -> str:
        return "split" if self.score == "absolute" else "scaled"

    def _base_intervals(self, predictions: Regression, levels: Levels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self.score == "absolute" and predictions.kind != "quantiles":
            values = predictions.samples if predictions.mean is None else predictions.mean
            mean = mean_and_variance(np.asarray(values))[0]  # members or samples may all be equal
            return mean, mean, np.ones_like(mean)
        gaussian = gaussian_arrays(to_gaussian(predictions, "SplitConformal"))
        mean, std = (each[0].astype(np.float64) for each in gaussian)
        return mean, mean, std


@dataclass(eq=False, kw_only=True, repr=False)
class ConformalQuantiles(IntervalMethod):
    """Intervals between two predicted quantiles, shifted to contain the outcome with probability `level`.

    The quantiles at (1 − level)/2 and (1 + level)/2 are used; if they are missing, the nearest on either side of the
    median: coverage holds for any two, but with others intervals are less sharp.

    Parameters
    ----------
    level : float
        The coverage, between 0 and 1.

    Examples
    --------
    >>> import calibrant as cal
    >>> y = [0.1 * k for k in range(20)]
    >>> val = cal.Regression.from_quantiles([[0.5, 1.0, 1.5]] * 20, [0.1, 0.5, 0.9], y)
    >>> intervals = cal.conformal.ConformalQuantiles(level=0.8).fit(val).predict(val)
    >>> round(float(intervals.lower[0]), 3), round(float(intervals.upper[0]), 3)
    (0.2, 1.8)
    """

    kind = "cqr"
    title = "Conformalised quantiles"
    reference = "Romano, Patterson & Candès (2019), Conformalized quantile regression, NeurIPS 32"

    def _fitted_properties(self, predictions: Regression) -> dict[str, Any]:
        levels = _known_levels(predictions)
        low, high = levels[levels < 0.5 - LEVEL_TOLERANCE], levels[levels > 0.5 + LEVEL_TOLERANCE]
        if not (low.size and high.size):
            raise UsageError(
                "ConformalQuantiles", expected="a quantile below the median and one above",
                got=f"the levels {_listed(levels)} in {show(predictions.name)}", hint="predict both",
            )  # fmt: skip
        ideal = (1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0
        lower, upper = (float(near[np.abs(near - at).argmin()]) for near, at in zip((low, high), ideal, strict=True))
        notes: tuple[Note, ...] = ()
        if max(abs(lower - ideal[0]), abs(upper - ideal[1])) > LEVEL_TOLERANCE:
            text = f"no quantiles at {ideal[0]:g} and {ideal[1]:g}; using those at {lower:g} and {upper:g}"
            notes = (Note("conformal-other-levels", f"ConformalQuantiles: {text}"),)
        return {"lower": lower, "upper": upper, "notes": notes}

    def _base_intervals(self, predictions: Regression, levels: Levels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        known, columns = _known_levels(predictions), []
        for at in levels:
            nearest = int(np.abs(known - at).argmin())
            if abs(known[nearest] - at) > LEVEL_TOLERANCE:
                raise UsageError(
                    "ConformalQuantiles", expected=f"the quantile at {at:g}, as in the fit",
                    got=f"the levels {_listed(known)} in {show(predictions.name)}", hint="predict the same levels",
                )  # fmt: skip
            columns.append(nearest)
        quantiles = np.asarray(predictions.quantiles, np.float64)
        return quantiles[:, columns[0]], quantiles[:, columns[1]], np.ones(predictions.n)


def _known_levels(predictions: Regression) -> np.ndarray:
    if predictions.levels is None:
        raise UsageError(
            "ConformalQuantiles", expected="predicted quantiles",
            got=f"{predictions.kind} predictions, {show(predictions.name)}",
            hint="give quantiles and levels, or use SplitConformal(score='scaled')",
        )  # fmt: skip
    return predictions.levels


def _listed(levels: np.ndarray) -> str:
    return ", ".join(f"{level:g}" for level in levels)
