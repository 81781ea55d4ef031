"""Ensemble temperature scaling: w₁·softmax(z/T) + w₂·softmax(z) + w₃/C, w on the simplex, T by temperature scaling.

Given T, both losses are convex in w: the negative log-likelihood −Σ s_i log(w·v_i) with v_i the three probabilities of
the label, and the Brier score wᵀGw − 2w·r + 1. The minimum is certified by its gap (`simplex`).

Zhang, Kailkhura & Han (2020), Mix-n-Match: ensemble and compositional methods for uncertainty calibration, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.isotonic_multiclass import kept_on_top
from calibrant.recalibration.report import Fit
from calibrant.recalibration.simplex import At, Weights, least_on_simplex
from calibrant.recalibration.temperature import TemperatureScaling

CONSTANT = "all weight went to the uniform prediction: the map is constant, and these rows are best met by guessing"

SMALLEST = 1e-150
"""Probabilities of labels count as at least this in the likelihood of the weights: squares of ratios stay finite."""


@dataclass(frozen=True)
class EnsembleTemperatureMap(ClassMap):
    """w₁·softmax(ℓ/T) + w₂·softmax(ℓ) + w₃/C, as its logarithm.

    It is the gradient by ℓ of w₁T·lse(ℓ/T) + w₂·lse(ℓ) + w₃·mean ℓ. Where w₁ + w₂ > 0 that function is strictly convex
    on the hyperplanes of constant Σℓ (the Hessian diag p − ppᵀ of lse is 0 along 1 alone), and the gradient of a
    strictly convex function takes no value twice: the map is injective. It then also rises with each ℓ_c within a row,
    so that classes keep their order; where rounding would hide that, the predicted class stays above the others by
    a few units in the last place. With w₃ = 1 it is constant.
    """

    temperature: float
    temperature_weight: float
    identity_weight: float
    uniform_weight: float

    n_parameters: ClassVar[int] = 3
    """T and two weights: the third follows."""

    def __post_init__(self) -> None:
        weights = self.weights
        if not 0.0 < self.temperature < np.inf:
            raise ValueError(f"a temperature of {self.temperature}")
        if not (weights >= 0.0).all() or not abs(weights.sum() - 1.0) < 1e-9:
            raise ValueError(f"weights of {weights.tolist()}")

    @property
    def weights(self) -> np.ndarray:
        """w₁, w₂, w₃."""
        return np.array([self.temperature_weight, self.identity_weight, self.uniform_weight])

    @property
    def injective(self) -> bool:
        """Whether anything but guessing has weight."""
        return self.temperature_weight + self.identity_weight > 0.0

    @property
    def keeps_order(self) -> bool:
        """Whether anything but guessing has weight."""
        return self.injective

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log of the mixture; in log space, so that what is unlikely keeps its digits."""
        with np.errstate(divide="ignore"):
            first, second, third = np.log(self.weights)
        mixed = np.logaddexp(first + log_softmax(logs / self.temperature, axis=-1), second + log_softmax(logs, axis=-1))
        out = np.logaddexp(mixed, third - np.log(logs.shape[-1]))
        return kept_on_top(out, logs) if self.keeps_order else out


@dataclass(eq=False, kw_only=True)
class EnsembleTemperatureScaling(ClassRecalibrator):
    """A mixture of the scaled prediction, the prediction as it is, and guessing."""

    name = "ets"
    title = "Ensemble temperature scaling"
    reference = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML"
    map_class = EnsembleTemperatureMap
    promises_accuracy = True
    loss: str = option("nll", "what the weights minimise", choices=("nll", "brier"))

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[EnsembleTemperatureMap, Fit]:
        """T by temperature scaling, then the weights that are best."""
        scaling, scaled = TemperatureScaling().fit_rows(rows, threads)
        at = _likelihood(rows, scaling.temperature) if self.loss == "nll" else _brier(rows, scaling.temperature)
        found = least_on_simplex(at, 3)
        before = at(np.array([0.0, 1.0, 0.0]))[0]
        made = EnsembleTemperatureMap(scaling.temperature, *map(float, found.weights))
        fit = Fit(
            n=rows.n,
            loss=self.loss,
            before=before,
            after=found.value,
            converged=scaled.converged and found.converged,
            iterations=scaled.iterations + found.steps,
            passes=scaled.passes + 1,
            gradient=found.gradient,
            at_bound=_bounds(found, scaled),
            said=_said(scaled),
        )
        return made, fit


# ---------------------------------------------------------------------------------------------- the losses
def _likelihood(rows: ClassRows, temperature: float) -> At:
    """−Σ s_i log(w·v_i) with its derivatives by w."""
    logs, s = log_softmax(rows.logs, axis=1), rows.shares
    v = np.exp(np.stack([rows.at_label(log_softmax(rows.logs / temperature, axis=1)), rows.at_label(logs)]))
    v = np.concatenate([np.maximum(v, SMALLEST), np.full((1, rows.n), 1.0 / rows.classes)])[:, s > 0.0]
    s = s[s > 0.0]

    def at(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        p = w @ v
        if not (p > 0.0).all():
            return float("inf"), np.zeros(3), np.eye(3)
        ratio = v / p
        return -float(s @ np.log(p)), -(ratio @ s), (ratio * s) @ ratio.T

    return at


def _brier(rows: ClassRows, temperature: float) -> At:
    """wᵀGw − 2w·r + 1 with its derivatives by w."""
    s, even = rows.shares, 1.0 / rows.classes
    p, scaled = np.exp(log_softmax(rows.logs, axis=1)), np.exp(log_softmax(rows.logs / temperature, axis=1))
    r = np.array([s @ rows.at_label(scaled), s @ rows.at_label(p), even])
    squares, both, own = (float(s @ np.einsum("ic,ic->i", a, b)) for a, b in ((scaled, scaled), (scaled, p), (p, p)))
    g = np.array([[squares, both, even], [both, own, even], [even, even, even]])
    return lambda w: (float(w @ g @ w - 2.0 * w @ r + 1.0), 2.0 * (g @ w - r), 2.0 * g)


# ------------------------------------------------------------------------------------------- what is said
def _bounds(found: Weights, scaled: Fit) -> tuple[str, ...]:
    constant = (CONSTANT,) if found.weights[2] == 1.0 else ()
    return scaled.at_bound * bool(found.weights[0] > 0.0) + constant


def _said(scaled: Fit) -> tuple[tuple[str, str], ...]:
    if not scaled.left_out:
        return ()
    out = f"{scaled.left_out} of {scaled.n} rows, whose label has probability 0, were left out of the temperature"
    return (("impossible-labels-left-out", out),)
