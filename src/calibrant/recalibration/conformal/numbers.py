"""Intervals of a number, from held-out rows with predicted mean μ, standard deviation σ, or quantiles.

- absolute: score |y − μ|, interval μ ± q. scaled: |y − μ|/σ, μ ± qσ (Lei, G'Sell, Rinaldo, Tibshirani & Wasserman
  2018, JASA 113). Members and samples are the Gaussian with their moments.
- Conformalised quantiles: score max(lower − y, y − upper), interval [lower − q, upper + q], where q may be negative:
  quantiles too far apart move closer (Romano, Patterson & Candès 2019, NeurIPS 32).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.predictions.base import Note
from calibrant.predictions.regression import Regression, mean_and_variance
from calibrant.recalibration.conformal.base import Conformal, chosen
from calibrant.recalibration.conformal.results import Intervals
from calibrant.recalibration.gaussian_rows import gaussian_of, one_gaussian

SCORES = ("absolute", "scaled")
SAME_LEVEL = 1e-9


@dataclass(eq=False, kw_only=True)
class _Numbers(Conformal):
    """A method for intervals of numbers."""

    task = "regression"
    without_threshold = "every interval is the whole line"

    def _ends(self, predictions: Regression, known: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both ends (n,) that intervals start from, and by how much q moves them."""
        raise NotImplementedError

    def _scores(self, predictions: Regression, known: dict[str, Any]) -> np.ndarray:
        lower, upper, unit = self._ends(predictions, known)
        y = np.asarray(predictions.y, np.float64)
        return np.maximum(lower - y, y - upper) / unit

    def _predicted(self, predictions: Regression) -> Intervals:
        found = self.found
        lower, upper, unit = self._ends(predictions, {"lower": found.lower, "upper": found.upper})
        return Intervals(
            lower=lower - self.threshold * unit,
            upper=upper + self.threshold * unit,
            y=None if predictions.y is None else predictions.y.astype(np.float64),
            ids=predictions.info.ids,
            level=self.level,
            method=self._method(),
            threshold=self.threshold,
            name=predictions.name,
            fitted_on=(found.name, found.n),
            notes=self.notes(),
        )

    def _method(self) -> str:
        raise NotImplementedError


@dataclass(eq=False, kw_only=True)
class SplitConformal(_Numbers):
    """Intervals about the predicted mean that hold the outcome with a probability of `level`, on average over rows.

    score: "absolute", intervals of one width, or "scaled", of widths in proportion to the standard deviation.
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
        chosen(self.score, "score", SCORES)

    def _method(self) -> str:
        return "split" if self.score == "absolute" else "scaled"

    def _ends(self, predictions: Regression, known: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if self.score == "absolute" and predictions.kind != "quantiles":
            mean = _centres(predictions)
            return mean, mean, np.ones_like(mean)
        mean, std = (each[0].astype(np.float64) for each in gaussian_of(one_gaussian(predictions, "SplitConformal")))
        return mean, mean, std


@dataclass(eq=False, kw_only=True)
class ConformalQuantiles(_Numbers):
    """Intervals between two predicted quantiles, moved until they hold the outcome with a probability of `level`.

    The quantiles at (1 − level)/2 and (1 + level)/2 are taken; where they are not there, the nearest on either side of
    the median: any two do, but others are less sharp.
    """

    kind = "cqr"
    title = "Conformalised quantiles"
    reference = "Romano, Patterson & Candès (2019), Conformalized quantile regression, NeurIPS 32"

    def _method(self) -> str:
        return "cqr"

    def _known(self, predictions: Regression) -> dict[str, Any]:
        levels = _levels(predictions)
        low, high = levels[levels < 0.5 - SAME_LEVEL], levels[levels > 0.5 + SAME_LEVEL]
        if not (low.size and high.size):
            raise UsageError(
                "ConformalQuantiles", expected="a quantile below the median and one above",
                came=f"the levels of {show(predictions.name)} are {_listed(levels)}", do="predict both",
            )  # fmt: skip
        wanted = (1.0 - self.level) / 2.0, (1.0 + self.level) / 2.0
        lower, upper = (float(near[np.abs(near - at).argmin()]) for near, at in zip((low, high), wanted, strict=True))
        notes: tuple[Note, ...] = ()
        if max(abs(lower - wanted[0]), abs(upper - wanted[1])) > SAME_LEVEL:
            said = (
                f"there are no quantiles at {wanted[0]:g} and {wanted[1]:g}; those at {lower:g} and {upper:g} are used"
            )
            notes = (Note("conformal-other-levels", f"ConformalQuantiles: {said}"),)
        return super()._known(predictions) | {"lower": lower, "upper": upper, "notes": notes}

    def _ends(self, predictions: Regression, known: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        levels = _levels(predictions)
        columns = []
        for at in (known["lower"], known["upper"]):
            near = int(np.abs(levels - at).argmin())
            if abs(levels[near] - at) > SAME_LEVEL:
                raise UsageError(
                    "ConformalQuantiles", expected=f"the quantile at {at:g}, as in the fit",
                    came=f"the levels of {show(predictions.name)} are {_listed(levels)}", do="predict the same levels",
                )  # fmt: skip
            columns.append(near)
        quantiles = np.asarray(predictions.quantiles, np.float64)
        return quantiles[:, columns[0]], quantiles[:, columns[1]], np.ones(predictions.n)


def _centres(predictions: Regression) -> np.ndarray:
    """The mean (n,) of members or samples, which need not differ."""
    each = predictions.samples if predictions.mean is None else predictions.mean
    return mean_and_variance(np.asarray(each))[0]


def _levels(predictions: Regression) -> np.ndarray:
    if predictions.levels is None:
        raise UsageError(
            "ConformalQuantiles",
            expected="predicted quantiles",
            came=f"{show(predictions.name)} is {predictions.kind}",
            do="give quantiles and levels, or take the method scaled (SplitConformal with score='scaled')",
        )
    return predictions.levels


def _listed(levels: np.ndarray) -> str:
    return ", ".join(f"{level:g}" for level in levels)
