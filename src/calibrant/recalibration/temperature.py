"""Temperature scaling: softmax(z/T) with one T > 0, the T of the largest likelihood.

The negative log-likelihood is convex in β = 1/T, so that there is one optimum, in [1/64, 64] or at an end of it. Guo,
Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML.
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
from calibrant.recalibration.one_temperature import best_inverse
from calibrant.recalibration.report import Fit


@dataclass(frozen=True)
class TemperatureMap(ClassMap):
    """ℓ/T, normalised."""

    temperature: float

    n_parameters: ClassVar[int] = 1
    injective: ClassVar[bool] = True
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < np.inf:
            raise ValueError(f"a temperature of {self.temperature}")

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log softmax(ℓ/T)."""
        return log_softmax(logs / self.temperature, axis=-1)


@dataclass(eq=False, kw_only=True)
class TemperatureScaling(ClassRecalibrator):
    """One temperature for all rows: logits are divided by it. It keeps every ranking of classes."""

    name = "temperature"
    title = "Temperature scaling"
    reference = "Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML"
    map_class = TemperatureMap
    promises_accuracy = True

    @property
    def temperature(self) -> float:
        """The temperature that was found; of several members, the first one's."""
        return self.found.maps[0].temperature  # type: ignore[attr-defined]

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[TemperatureMap, Fit]:
        """The temperature of the largest likelihood."""
        sums, first = _first_pass(rows, threads)
        found = best_inverse(sums, first)
        fit = Fit(
            n=rows.n,
            loss="nll",
            before=found.before,
            after=found.after,
            converged=found.converged,
            iterations=found.steps,
            passes=math.ceil(sums.passes),
            gradient=found.gradient,
            at_bound=(_said(found.beta, sums.wrong),) if found.at_bound else (),
            left_out=sums.impossible,
        )
        return TemperatureMap(1.0 / found.beta), fit

    def _apply(self, found: TemperatureMap, part: Classification) -> Classification:
        """Logits divided by the temperature: no need to normalise.

        They stay in the precision they were given in, unless scores of a row that differ by next to nothing would then
        tie, and another class be the first of the highest.
        """
        scores = part.scores if part.kind == "logits" else as_logits(part.scores, part.kind)
        out = np.empty(scores.shape, np.float64 if scores.dtype.itemsize == 8 else np.float32)
        np.divide(scores, found.temperature, out=out, dtype=np.float64, casting="same_kind")
        top = scores.argmax(axis=-1)
        if (out.argmax(axis=-1) != top).any():
            out = np.divide(scores, found.temperature, dtype=np.float64)
            _raise(out, top)
        return replace(part, kind="logits", scores=out)


def _raise(scores: np.ndarray, top: np.ndarray) -> None:
    """Where rounding has made scores (M, n, C) tie, put those of the classes `top` (M, n) a float above the others."""
    lost = np.nonzero(scores.argmax(axis=-1) != top)
    scores[(*lost, top[lost])] = np.nextafter(scores[lost].max(axis=-1), np.inf)


def _first_pass(rows: ClassRows, threads: int | None) -> tuple[TemperatureSums, Sums]:
    """The sums at T = 1, by which rows that are no predictions are refused and impossible labels left out."""
    known = rows.predictions
    if known.kind != "logits":
        check_rows(known)
    scores = all_logits(known)[0]
    sums = TemperatureSums(scores, rows.labels, rows.shares.copy(), threads)
    first = sums.at(1.0, single=scores.dtype.itemsize == 4)
    if math.isnan(first.slope):
        check_rows(known)
    if sums.impossible:
        total = exact_sum(sums.weights)
        if not total > 0.0:
            raise ValuesError(
                f"temperature: {known.name}",
                expected="some row whose label has a probability above 0",
                came="no label is possible",
                do="check that labels and classes belong together",
            )
        sums.weights /= total
        first = Sums(*(value / total for value in astuple(first)))
    return sums, first


def _said(beta: float, wrong: int) -> str:
    if wrong == 0:
        return "the temperature ended at the bound 1/64: every row is right, and does not tell how small it should be"
    if beta > 1.0:
        return "the temperature ended at the bound 1/64: a smaller one would fit these rows still better"
    return "the temperature ended at the bound 64: guessing fits these rows nearly as well, or logits are very wide"
