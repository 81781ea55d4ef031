"""Temperature scaling: softmax(z/T) with one T > 0, the T of the largest likelihood.

The negative log-likelihood is convex in β = 1/T, so that there is one optimum, in [1/64, 64] or at an end of it. Guo,
Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.predictions.classification import Classification
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows, as_logits
from calibrant.recalibration.member_temperatures import MemberTemperatures
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
        found = MemberTemperatures.fit(rows.predictions, threads=threads)
        fit = Fit(
            n=rows.n,
            loss="nll",
            before=found.before,
            after=found.after,
            converged=found.converged,
            iterations=found.iterations,
            passes=found.passes,
            at_bound=(found._bounds(),) if found.at_bound else (),
            left_out=found.left_out,
        )
        return TemperatureMap(float(found.temperatures[0])), fit

    def _apply(self, found: TemperatureMap, part: Classification) -> Classification:
        """Logits divided by the temperature, in the precision they were given in: no need to normalise."""
        scores = part.scores
        wide = np.float64 if scores.dtype.itemsize == 8 or part.kind != "logits" else np.float32
        logits = scores.astype(wide) if part.kind == "logits" else as_logits(scores, part.kind)
        return replace(part, kind="logits", scores=np.divide(logits, found.temperature, dtype=logits.dtype))
