"""Ensemble temperature scaling: w₁·softmax(z/T) + w₂·softmax(z) + w₃/C, w on the simplex, T by temperature scaling.

Given T, both losses are convex in w: the negative log-likelihood −Σ s_i log(w·v_i) with v_i the three probabilities of
the label, and the Brier score wᵀGw − 2w·r + 1.

The minimum is found by Newton steps on the face of free weights. At a point w with gradient g, convexity gives for
every w' of the simplex f(w) − f(w') ≤ g·w − min_j g_j, the duality *gap*: below the tolerance, w is certified as the
minimum (Frank & Wolfe 1956; Jaggi 2013). The tolerance is relative to the size of f and of its gradient; near the
minimum, where values no longer tell two points apart, a step counts if the gap falls. No corner of the simplex is lower
than the result.

Zhang, Kailkhura & Han (2020), Mix-n-Match: ensemble and compositional methods for uncertainty calibration, ICML.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows, keep_top_class
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.methods.temperature import TemperatureScaling

SMALLEST = 1e-150
"""Probabilities of labels are clipped to this in the likelihood of the weights: squared ratios stay finite."""
GAP = 1e-11
"""The gap at convergence, relative to the largest of |f| and |∂f/∂w_j|."""
ROUNDING = 1e-14
"""The relative rounding error of a value."""
MAX_STEPS = 200
RIDGE = 1e-13
"""Added to the Hessian, relative to its size: no steps along directions in which nothing changes."""
SMALLEST_WEIGHT = 1e-12
"""Weights below this are set to 0."""

Objective = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""Weights to the value, the gradient and the Hessian."""


@dataclass(frozen=True)
class EnsembleTemperatureMap(ClassMap):
    """w₁·softmax(ℓ/T) + w₂·softmax(ℓ) + w₃/C, as its logarithm.

    It is the gradient by ℓ of w₁T·lse(ℓ/T) + w₂·lse(ℓ) + w₃·mean ℓ. Where w₁ + w₂ > 0 that function is strictly convex
    on the hyperplanes of constant Σℓ (the Hessian diag p − ppᵀ of lse is 0 along 1 alone), and the gradient of a
    strictly convex function takes no value twice: the map is injective. It is then also increasing in each ℓ_c within a
    row, so that classes keep their ranking; where rounding would hide that, the predicted class stays above the others
    by a few units in the last place. With w₃ = 1 it is constant.
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
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        if not (weights >= 0.0).all() or not abs(weights.sum() - 1.0) < 1e-9:
            raise ValueError(f"weights must be non-negative and sum to one, got {weights.tolist()}")

    @property
    def weights(self) -> np.ndarray:
        return np.array([self.temperature_weight, self.identity_weight, self.uniform_weight])

    @property
    def injective(self) -> bool:
        """Whether the uniform prediction does not have all weight."""
        return self.temperature_weight + self.identity_weight > 0.0

    keeps_order = injective

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        """The logarithm of the mixture, computed in log space so that small probabilities keep their precision."""
        with np.errstate(divide="ignore"):
            first, second, third = np.log(self.weights)
        scaled, unscaled = log_softmax(log_probs / self.temperature, axis=-1), log_softmax(log_probs, axis=-1)
        mixed = np.logaddexp(first + scaled, second + unscaled)
        output = np.logaddexp(mixed, third - np.log(log_probs.shape[-1]))
        return keep_top_class(output, log_probs) if self.keeps_order else output


@dataclass(eq=False, kw_only=True)
class EnsembleTemperatureScaling(ClassRecalibrator):
    """A mixture of the temperature-scaled prediction, the original prediction and the uniform distribution.

    Parameters
    ----------
    loss : {"nll", "brier"}
        The loss that the mixture weights minimise; the temperature always maximises the likelihood.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 50, [0, 1, 0, 0] * 25)
    >>> ets = cal.recalibration.EnsembleTemperatureScaling(loss="brier").fit(p)
    >>> ets.report.before > ets.report.after, ets.accuracy_preserving
    (True, True)
    """

    name = "ets"
    title = "Ensemble temperature scaling"
    reference = "Zhang, Kailkhura & Han (2020), Mix-n-Match, ICML"
    map_class = EnsembleTemperatureMap
    promises_accuracy = True
    loss: str = option("nll", "what the weights minimise", choices=("nll", "brier"))

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[EnsembleTemperatureMap, FitReport]:
        """Fit T by temperature scaling, then the weights."""
        scaling, scaled = TemperatureScaling().fit_rows(rows, threads)
        objective = (_nll if self.loss == "nll" else _brier)(rows, scaling.temperature)
        minimum = minimize_on_simplex(objective, 3)
        at_bound = scaled.at_bound if minimum.weights[0] > 0.0 else ()
        if minimum.weights[2] == 1.0:
            at_bound += ("the uniform prediction has all weight: the map is constant, no better than guessing",)
        text = f"{scaled.left_out} of {scaled.n} rows were left out of the temperature: their label has probability 0"
        fit = FitReport(
            n=rows.n, loss=self.loss, before=objective(np.array([0.0, 1.0, 0.0]))[0], after=minimum.value,
            converged=scaled.converged and minimum.converged, iterations=scaled.iterations + minimum.steps,
            passes=scaled.passes + 1, gradient=minimum.gradient, at_bound=at_bound,
            messages=(("impossible-labels-left-out", text),) if scaled.left_out else (),
        )  # fmt: skip
        return EnsembleTemperatureMap(scaling.temperature, *map(float, minimum.weights)), fit


def _nll(rows: ClassRows, temperature: float) -> Objective:
    """−Σ s_i log(w·v_i) with its gradient and Hessian in w."""
    log_probs, s = log_softmax(rows.log_probs, axis=1), rows.row_weights
    scaled = log_softmax(rows.log_probs / temperature, axis=1)
    v = np.exp(np.stack([rows.at_label(scaled), rows.at_label(log_probs)]))
    v = np.concatenate([np.maximum(v, SMALLEST), np.full((1, rows.n), 1.0 / rows.classes)])[:, s > 0.0]
    s = s[s > 0.0]

    def objective(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        p = w @ v
        if not (p > 0.0).all():
            return float("inf"), np.zeros(3), np.eye(3)
        ratio = v / p
        return -float(s @ np.log(p)), -(ratio @ s), (ratio * s) @ ratio.T

    return objective


def _brier(rows: ClassRows, temperature: float) -> Objective:
    """wᵀGw − 2w·r + 1 with its gradient and Hessian in w."""
    s, even = rows.row_weights, 1.0 / rows.classes
    p, scaled = np.exp(log_softmax(rows.log_probs, axis=1)), np.exp(log_softmax(rows.log_probs / temperature, axis=1))
    r = np.array([s @ rows.at_label(scaled), s @ rows.at_label(p), even])
    squares, both, own = (float(s @ np.einsum("ic,ic->i", a, b)) for a, b in ((scaled, scaled), (scaled, p), (p, p)))
    g = np.array([[squares, both, even], [both, own, even], [even, even, even]])
    return lambda w: (float(w @ g @ w - 2.0 * w @ r + 1.0), 2.0 * (g @ w - r), 2.0 * g)


# --------------------------------------------------------------------------- the minimum on the simplex
@dataclass(frozen=True)
class SimplexMinimum:
    """Weights (K,), the value there, its duality gap, and the number of steps."""

    weights: np.ndarray
    value: float
    gap: float
    gradient: float
    """The largest entry of the gradient, without what the constraints hold."""
    converged: bool
    steps: int


def minimize_on_simplex(objective: Objective, count: int) -> SimplexMinimum:
    """Minimise a convex function on the simplex, from equal weights."""
    w = np.full(count, 1.0 / count)
    value, gradient, hessian = objective(w)
    steps = 0
    while not _converged(w, value, gradient) and steps < MAX_STEPS:
        # The Newton step on the face of weights that are positive or would increase; its entries sum to zero.
        free = (w > 0.0) | (gradient < gradient @ w)
        step, blocked = np.zeros_like(w), free
        while blocked.any():
            k = int(free.sum())
            system = np.ones((k + 1, k + 1))
            system[:k, :k] = hessian[np.ix_(free, free)]
            system[:k, :k] += RIDGE * max(float(np.trace(hessian)), 1e-300) * np.eye(k)
            system[k, k] = 0.0
            step = np.zeros_like(w)
            step[free] = np.linalg.lstsq(system, np.append(-gradient[free], 0.0), rcond=None)[0][:k]
            blocked = free & (w == 0.0) & (step < 0.0)
            free &= ~blocked
        there = _line_search(objective, w, value, gradient, step - free * (step.sum() / int(free.sum())))
        if there is None:
            break
        w, steps = there, steps + 1
        value, gradient, hessian = objective(w)
    corner = min(np.eye(count), key=lambda each: objective(each)[0])
    if objective(corner)[0] < value:
        w, (value, gradient, _) = corner, objective(corner)
    excess = gradient - gradient @ w
    free = np.where(w > 0.0, np.abs(excess), np.maximum(-excess, 0.0))
    return SimplexMinimum(w, value, _gap(w, gradient), float(free.max()), _converged(w, value, gradient), steps)


def _gap(w: np.ndarray, gradient: np.ndarray) -> float:
    return float(gradient @ w - gradient.min())


def _converged(w: np.ndarray, value: float, gradient: np.ndarray) -> bool:
    """Whether the gap is negligible relative to the value and to the numbers that it is the difference of."""
    return _gap(w, gradient) <= GAP * max(abs(value), float(np.abs(gradient).max()))


def _line_search(
    objective: Objective, w: np.ndarray, value: float, gradient: np.ndarray, step: np.ndarray
) -> np.ndarray | None:
    """The point after as much of a step as stays on the simplex and lowers f, or the gap if f is equal to rounding;
    None if there is none."""
    slack, gap = ROUNDING * (1e-3 + abs(value)), _gap(w, gradient)
    decreasing = step < 0.0
    room = w[decreasing] / -step[decreasing]
    length = min(1.0, float(room.min(initial=1.0)))
    for _ in range(50):
        there = np.maximum(w + length * step, 0.0)
        there[there < SMALLEST_WEIGHT] = 0.0
        there /= there.sum()
        new_value, new_gradient, _ = objective(there)
        if new_value <= value + 1e-4 * length * min(float(gradient @ step), 0.0) and not np.array_equal(there, w):
            return there
        if new_value <= value + slack and _gap(there, new_gradient) < 0.5 * gap:
            return there
        length /= 2.0
    return None
