"""The inputs of maps of Gaussian predictions: mean μ, standard deviation σ and observed outcome y of each row.

Several members are one Gaussian with the moments of their mixture, or Gaussians of their own; samples are the Gaussian
with their moments. Quantiles have no variance to scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.kernels.exact import exact_sum
from calibrant.predictions.regression import Regression
from calibrant.recalibration.base import FitState, Map, Recalibrator, normalized_weights
from calibrant.recalibration.fit_report import FitReport, Messages

MIN_ROWS = 20
"""Effective number of rows below which a fit comes with a warning."""


@dataclass(frozen=True)
class GaussianRows:
    """The rows (n,) that a map is fitted to, in float64."""

    mean: np.ndarray
    std: np.ndarray
    y: np.ndarray
    row_weights: np.ndarray
    """The weight of each row, normalised to sum to one: a loss is Σ row_weights · loss of the row."""
    name: str

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.y)

    def weighted_mean(self, terms: np.ndarray) -> float:
        """Σ row_weights · terms, independent of the order of rows; rows of weight 0 are ignored."""
        counted = self.row_weights > 0
        return exact_sum(self.row_weights[counted] * terms[counted])

    def few_rows_message(self) -> Messages:
        """A warning if there are few rows; for weighted rows the effective number counts."""
        count = 1.0 / float(np.square(self.row_weights).sum())
        if count >= MIN_ROWS:
            return ()
        return (("few-rows", f"the fit rests on {count:.3g} rows, so its parameters are uncertain"),)

    @classmethod
    def of(cls, one: Regression) -> GaussianRows:
        """The rows of one Gaussian prediction."""
        mean, std = gaussian_arrays(one)
        y = np.asarray(one.y, np.float64)
        return cls(mean[0].astype(np.float64), std[0].astype(np.float64), y, normalized_weights(one), one.name)


def gaussian_arrays(predictions: Regression) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations (M, N) of Gaussian predictions."""
    if predictions.mean is None or predictions.std is None:
        raise UsageError(
            show(predictions.name), expected="Gaussian predictions", got=predictions.kind,
            hint="give a mean and a standard deviation for each row",
        )  # fmt: skip
    return predictions.mean, predictions.std


def to_gaussian(predictions: Regression, subject: str) -> Regression:
    """One Gaussian per row: as given, or with the moments of the mixture or of the samples; quantiles are refused."""
    if predictions.kind == "quantiles":
        raise UsageError(
            subject, expected="predictions with a mean and a variance", got=f"quantiles in {show(predictions.name)}",
            hint="give mean and std, or samples; for intervals from quantiles use conformal prediction",
        )  # fmt: skip
    if predictions.mean is not None and predictions.members == 1:
        return predictions
    return predictions.moment_matched()


# ------------------------------------------------------------------------------------------- methods
@dataclass(frozen=True)
class SpreadMap(Map):
    """A map of standard deviations; means stay as they are."""

    def apply(self, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
        """Recalibrated standard deviations of predictions N(mean, std²)."""
        raise NotImplementedError

    def is_usable(self, classes: int) -> bool:
        std = self.apply(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
        return bool(std.shape == (2,) and (std > 0.0).all() and np.isfinite(std).all())


@dataclass(eq=False, kw_only=True)
class SpreadRecalibrator(Recalibrator):
    """A method for Gaussian predictions that keeps means: subclasses implement `fit_rows`."""

    tasks = frozenset({"regression"})
    promises_accuracy = True

    def fit_rows(self, rows: GaussianRows) -> tuple[Any, FitReport]:
        """Fit a map to the rows of one Gaussian prediction and report how that went."""
        raise NotImplementedError

    def _fit(self, predictions: Any, threads: int | None) -> FitState:
        results = [self.fit_rows(GaussianRows.of(part)) for part in self._split_members(predictions)]
        return FitState.of(predictions, [fitted for fitted, _ in results], [fit for _, fit in results], self.members)

    def _split_members(self, predictions: Regression) -> list[Regression]:
        if self.members == "average" or predictions.mean is None:
            return [to_gaussian(predictions, self.name)]
        return [predictions.member(m) for m in range(predictions.members)]

    def _transform(self, predictions: Any) -> Any:
        parts = [gaussian_arrays(part) for part in self._split_members(predictions)]
        mean = np.concatenate([each for each, _ in parts])
        pairs = zip(self.maps, parts, strict=True)
        std = np.concatenate([fitted_map.apply(*part) for fitted_map, part in pairs])  # type: ignore[attr-defined]
        names = predictions.member_names if len(parts) == predictions.members else None
        return replace(predictions, kind="gaussian", mean=mean, std=std, samples=None, member_names=names)
