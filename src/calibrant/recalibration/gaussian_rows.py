"""What maps of predicted numbers see: the mean μ, the standard deviation σ and the outcome y of each row.

Several members are one Gaussian with the moments of their mixture, or Gaussians of their own; samples are the Gaussian
with their moments. Quantiles have no variance that could be scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.kernels.exact import exact_sum
from calibrant.predictions.regression import Regression
from calibrant.recalibration.base import Fitted, Map, Recalibrator
from calibrant.recalibration.report import Fit
from calibrant.recalibration.shares import shares_of

FEW = 20
"""Rows that count in full below which a fit is said to rest on few."""


@dataclass(frozen=True)
class GaussianRows:
    """The rows (n,) that a map is fitted to, in float64."""

    mean: np.ndarray
    std: np.ndarray
    y: np.ndarray
    shares: np.ndarray
    """The weight of each row, all together one: a loss is Σ shares · loss of the row."""
    name: str

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.y)

    def total(self, terms: np.ndarray) -> float:
        """Σ shares · terms, whatever the order of rows; a row of no weight has no say."""
        counted = self.shares > 0
        return exact_sum(self.shares[counted] * terms[counted])

    def few(self) -> tuple[tuple[str, str], ...]:
        """What is said of few rows; of weighted ones, the number that would be as good in full."""
        count = 1.0 / float(np.square(self.shares).sum())
        if count >= FEW:
            return ()
        return (("few-rows", f"the fit rests on {count:.3g} rows: what it found may be far from what more would show"),)

    @classmethod
    def of(cls, one: Regression) -> GaussianRows:
        """The rows of one Gaussian."""
        mean, std = gaussian_of(one)
        y = np.asarray(one.y, np.float64)
        return cls(mean[0].astype(np.float64), std[0].astype(np.float64), y, shares_of(one), one.name)


def gaussian_of(predictions: Regression) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations (M, N) of Gaussian predictions."""
    if predictions.mean is None or predictions.std is None:
        raise UsageError(
            show(predictions.name), expected="Gaussian predictions", came=f"they are {predictions.kind}",
            do="give a mean and a standard deviation for each row",
        )  # fmt: skip
    return predictions.mean, predictions.std


def one_gaussian(predictions: Regression, subject: str) -> Regression:
    """One Gaussian a row: as given, or with the moments of the mixture or of the samples; quantiles are refused."""
    if predictions.kind == "quantiles":
        raise UsageError(
            subject,
            expected="predictions with a mean and a variance",
            came=f"{show(predictions.name)} has quantiles",
            do="give mean and std, or samples; intervals of quantiles are calibrated by conformal prediction",
        )
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


@dataclass(eq=False, kw_only=True)
class SpreadRecalibrator(Recalibrator):
    """A method for Gaussian predictions that leaves means alone; it says how a map is fitted to some rows."""

    tasks = frozenset({"regression"})
    promises_accuracy = True

    def fit_rows(self, rows: GaussianRows) -> tuple[Any, Fit]:
        """The map that is best for these rows, and how it was found."""
        raise NotImplementedError

    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        results = [self.fit_rows(GaussianRows.of(part)) for part in self._parts(predictions)]
        return Fitted(
            maps=tuple(made for made, _ in results),
            fits=tuple(fit for _, fit in results),
            task=predictions.task,
            member_names=predictions.member_names if self.members == "each" else None,
            name=predictions.name,
        )

    def _parts(self, predictions: Regression) -> list[Regression]:
        if self.members == "average" or predictions.mean is None:
            return [one_gaussian(predictions, self.name)]
        return [predictions.member(m) for m in range(predictions.members)]

    def _transformed(self, predictions: Any) -> Any:
        parts = [gaussian_of(part) for part in self._parts(predictions)]
        mean = np.concatenate([each for each, _ in parts])
        pairs = zip(self.found.maps, parts, strict=True)
        std = np.concatenate([made.apply(*part) for made, part in pairs])  # type: ignore[attr-defined]
        names = predictions.member_names if len(parts) == predictions.members else None
        return replace(predictions, kind="gaussian", mean=mean, std=std, samples=None, member_names=names)
