"""Temperature scaling: softmax(z/T) with one T > 0, fitted by maximum likelihood.

The negative log-likelihood is convex in β = 1/T, so that there is one optimum, within [1/64, 64] or at an end of it.
Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.errors import ValuesError
from calibrant.kernels.exact import exact_sum
from calibrant.kernels.temperature_sums import Sums, TemperatureSums
from calibrant.predictions.classification import Classification
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows, all_logits, as_logits, check_rows
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.temperature_solver import best_inverse


@dataclass(frozen=True)
class TemperatureMap(ClassMap):
    """ℓ/T, normalised."""

    temperature: float

    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < np.inf:
            raise ValueError(f"temperature must be positive, got {self.temperature}")

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        return log_softmax(log_probs / self.temperature, axis=-1)


@dataclass(eq=False, kw_only=True)
class TemperatureScaling(ClassRecalibrator):
    """Divide all logits by one temperature, fitted by maximum likelihood. It keeps every ranking of classes.

    Parameters
    ----------
    members : {"average", "each"}
        Recalibrate the average of several members, or each member with a temperature of its own.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 50, [0, 1, 0, 0] * 25)
    >>> scaling = cal.recalibration.TemperatureScaling().fit(p)
    >>> scaling
    TemperatureScaling(): temperature=1.674, fitted on 100 rows
    >>> scaling.transform(p).average().scores[0, 0].round(3).tolist()
    [1.792, 0.0, 0.0]
    """

    name = "temperature"
    title = "Temperature scaling"
    reference = "Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML"
    map_class = TemperatureMap
    promises_accuracy = True

    @property
    def temperature(self) -> float:
        """The fitted temperature; with several members, the first one's."""
        return self.maps[0].temperature  # type: ignore[attr-defined]

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[TemperatureMap, FitReport]:
        predictions = rows.predictions
        if predictions.kind != "logits":
            check_rows(predictions)
        scores = all_logits(predictions)[0]
        sums = TemperatureSums(scores, rows.labels, rows.row_weights.copy(), threads)
        first = sums.at(1.0, single=scores.dtype.itemsize == 4)
        if math.isnan(first.slope):
            check_rows(predictions)
        if sums.impossible:
            total = exact_sum(sums.weights)
            if not total > 0.0:
                raise ValuesError(
                    f"temperature: {predictions.name}", expected="a row whose label has a positive probability",
                    got="labels of probability 0 only", hint="check that the labels belong to these classes",
                )  # fmt: skip
            sums.weights /= total
            first = Sums(*(value / total for value in astuple(first)))
        optimum = best_inverse(sums, first)
        bound = "the temperature ended at the bound 1/64: a lower one would fit these rows even better"
        if sums.wrong == 0:
            bound = "the temperature ended at the bound 1/64: every row is correct, which does not determine it"
        elif optimum.beta <= 1.0:
            bound = "the temperature ended at the bound 64: a uniform prediction fits as well, or logits are huge"
        fit = FitReport(
            n=rows.n, loss="nll", before=optimum.before, after=optimum.after, converged=optimum.converged,
            iterations=optimum.steps, passes=math.ceil(sums.passes), gradient=optimum.gradient,
            at_bound=(bound,) if optimum.at_bound else (), left_out=sums.impossible,
        )  # fmt: skip
        return TemperatureMap(1.0 / optimum.beta), fit

    def _apply(self, fitted_map: TemperatureMap, part: Classification) -> Classification:
        """Divide the logits by the temperature, without normalising them.

        They keep their precision, unless almost equal scores of a row would then tie and change the predicted class.
        """
        scores = part.scores if part.kind == "logits" else as_logits(part.scores, part.kind)
        out = np.empty(scores.shape, np.float64 if scores.dtype.itemsize == 8 else np.float32)
        np.divide(scores, fitted_map.temperature, out=out, dtype=np.float64, casting="same_kind")
        top = scores.argmax(axis=-1)
        if (out.argmax(axis=-1) != top).any():
            out = np.divide(scores, fitted_map.temperature, dtype=np.float64)
            tied = np.nonzero(out.argmax(axis=-1) != top)  # even in float64: one float above the others
            out[(*tied, top[tied])] = np.nextafter(out[tied].max(axis=-1), np.inf)
        return replace(part, kind="logits", scores=out)
