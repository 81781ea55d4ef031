"""Maximum-likelihood fits of softmax(Θ·(x, 1)), for vector scaling, matrix scaling and Dirichlet calibration.

Notation: x (n, C) are log-probabilities ℓ or centred ones; η = Wx + b are the new logits; s (n,) are the weights of
rows, which sum to one. The objective

    Σ_i s_i (log Σ_c exp η_ic − η_iy) + Σ_k penalty_k θ_k² + ½·RIDGE·|θ − identity|²

is convex in θ = (W, b). The ridge of 1e-8 makes the minimum unique: a constant added to b, or one row added to all rows
of W, changes no prediction, and with separable classes parameters would grow without bound. A parameter is determined
by the ridge alone if the Newton step without the ridge moves it far; if the data determine it, that step is tiny. The
identity has no penalty, so that no fit is worse than it on its own rows.

The minimum is found by Newton steps where a Hessian can be formed and solved at every step, otherwise by L-BFGS. A step
is halved until the value falls; near the minimum, where values no longer tell two points apart, until the gradient
does.

Vector scaling is here: softmax(w∘ℓ + b), a slope w_c and an intercept b_c for each class, without a penalty. With two
classes it is beta calibration without a sign constraint on its slopes. Guo, Pleiss, Sun & Weinberger (2017), On
calibration of modern neural networks, ICML. Maps with a full matrix are in `odir`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import log_softmax

from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.fit_report import FitReport

RIDGE = 1e-8
BLOCK = 1 << 19
"""Entries of the factors of second derivatives in memory at a time."""
MAX_WORK, MAX_DIAGONAL_VARIABLES = 2e10, 4000
"""For a diagonal map: products in a Hessian, and parameters, up to which Newton steps are taken."""
RIDGE_STEP = 0.01
"""A parameter that a Newton step without the ridge moves by more than this is determined by the ridge alone."""
SEPARABLE_LOSS = 1e-4
"""A mean loss below this, after the fit, occurs only with separable classes."""
TOLERANCE = 1e-12
"""Anything below this share of the largest number counts as zero."""
MAX_NEWTON_VARIABLES = 300
"""Variables up to which Newton steps are taken."""
NEWTON_TOLERANCE, LBFGS_TOLERANCE = 1e-9, 1e-7
"""The largest entry of the gradient at convergence, of Newton steps and of L-BFGS."""
MAX_STEPS, MAX_LBFGS_STEPS = 100, 3000
ROUNDING = 1e-14
ARMIJO = 1e-4
"""The share of the decrease predicted by the gradient that a step must achieve."""

ValueAndGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]


# -------------------------------------------------------------------------------------- the minimum
@dataclass(frozen=True)
class Minimum:
    """The minimum of a function, and how it was found."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    converged: bool
    iterations: int
    passes: int
    """How often the function was evaluated."""

    @property
    def max_gradient(self) -> float:
        """The largest entry of the gradient."""
        return float(np.abs(self.gradient).max(initial=0.0))


def newton(
    value_and_gradient: ValueAndGradient, hessian: Callable[[np.ndarray], np.ndarray], start: np.ndarray
) -> Minimum:
    """Minimise by damped Newton steps; the Hessian must be positive definite."""
    here = Minimum(start, *value_and_gradient(start), converged=False, iterations=0, passes=1)
    for step in range(MAX_STEPS):
        if here.max_gradient < NEWTON_TOLERANCE:
            break
        direction = -cho_solve(cho_factor(hessian(here.theta)), here.gradient)
        there = _line_search(value_and_gradient, here, direction)
        if there is None:
            break
        here = Minimum(there.theta, there.value, there.gradient, False, step + 1, there.passes + 1)
    converged = here.max_gradient < LBFGS_TOLERANCE
    return Minimum(here.theta, here.value, here.gradient, converged, here.iterations, here.passes)


def _line_search(value_and_gradient: ValueAndGradient, here: Minimum, direction: np.ndarray) -> Minimum | None:
    """The first of the step, its half, its quarter, … that is lower, or equal to rounding and flatter."""
    predicted, slack = float(here.gradient @ direction), ROUNDING * (1e-3 + abs(here.value))
    for halving in range(40):
        length = 0.5**halving
        theta = here.theta + length * direction
        there = Minimum(theta, *value_and_gradient(theta), False, 0, here.passes + halving + 1)
        if there.value < here.value + ARMIJO * length * predicted:
            return there
        if there.value <= here.value + slack and there.max_gradient < here.max_gradient:
            return there
    return None


def lbfgs(value_and_gradient: ValueAndGradient, scale: np.ndarray, start: np.ndarray) -> Minimum:
    """Minimise by L-BFGS; `scale` is about how far each variable moves."""

    def scaled(phi: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(start + scale * phi)
        return value, scale * gradient

    options = {"maxiter": MAX_LBFGS_STEPS, "maxfun": 2 * MAX_LBFGS_STEPS, "maxcor": 30, "ftol": 0.0}
    options["gtol"] = LBFGS_TOLERANCE
    result = minimize(scaled, np.zeros_like(start), jac=True, method="L-BFGS-B", options=options)
    theta = start + scale * result.x
    value, gradient = value_and_gradient(theta)
    converged = float(np.abs(gradient).max(initial=0.0)) < 10 * LBFGS_TOLERANCE
    return Minimum(theta, value, gradient, converged, int(result.nit), int(result.nfev) + 1)


# -------------------------------------------------------------------------------------- the loss
@dataclass(frozen=True)
class LinearLoss:
    """The penalised negative log-likelihood of softmax(Θ·(x, 1)) as a function of θ."""

    x: np.ndarray
    labels: np.ndarray
    row_weights: np.ndarray
    penalty: np.ndarray
    """The factor of the square of each entry of θ."""

    @property
    def classes(self) -> int:
        return self.x.shape[1]

    @cached_property
    def identity(self) -> np.ndarray:
        """The θ that changes nothing."""
        raise NotImplementedError

    def logits(self, theta: np.ndarray) -> np.ndarray:
        """η (n, C)."""
        raise NotImplementedError

    def backward(self, logit_gradients: np.ndarray) -> np.ndarray:
        """The gradient with respect to θ, given the gradient (n, C) with respect to η."""
        raise NotImplementedError

    def backward_squared(self, weights: np.ndarray) -> np.ndarray:
        """As `backward`, with squared features."""
        raise NotImplementedError

    def hessian_factors(self, probs: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """(D, U) of some rows: the Hessian is Σ_i s_i (D_i − u_i u_iᵀ), where D is returned as its sum."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------- derivatives
    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss and its gradient."""
        log_probs = log_softmax(self.logits(theta), axis=1)
        rows, offset = np.arange(len(log_probs)), theta - self.identity
        value = -float(self.row_weights @ log_probs[rows, self.labels])
        residuals = np.exp(log_probs)
        residuals[rows, self.labels] -= 1.0
        gradient = self.backward(residuals * self.row_weights[:, None])
        value += float(self.penalty @ theta**2) + 0.5 * RIDGE * float(offset @ offset)
        return value, gradient + 2.0 * self.penalty * theta + RIDGE * offset

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """The Hessian."""
        probs = np.exp(log_softmax(self.logits(theta), axis=1))
        out = np.diag(2.0 * self.penalty + RIDGE)
        step = max(1, BLOCK // len(theta))
        for start in range(0, len(probs), step):
            diagonal, factors = self.hessian_factors(probs, slice(start, start + step))
            out += diagonal - factors.T @ factors
        return out

    def hessian_diagonal(self, theta: np.ndarray) -> np.ndarray:
        """The diagonal of the Hessian without penalty and ridge."""
        probs = np.exp(log_softmax(self.logits(theta), axis=1))
        return self.backward_squared(probs * (1.0 - probs) * self.row_weights[:, None])

    # -------------------------------------------------------------------------------- the minimum
    @property
    def uses_newton(self) -> bool:
        """Whether the parameters are few enough to form a Hessian at every step."""
        return len(self.identity) <= MAX_NEWTON_VARIABLES

    def minimize(self, start: np.ndarray | None = None) -> Minimum:
        """Minimise the loss, from the identity unless a start is given."""
        start = self.identity if start is None else start
        if self.uses_newton:
            return newton(self.value_and_gradient, self.hessian, start)
        scale = 1.0 / np.sqrt(np.maximum(self.hessian_diagonal(start), 1e-6) + 2.0 * self.penalty)
        return lbfgs(self.value_and_gradient, scale, start)

    def ridge_only(self, minimum: Minimum) -> np.ndarray:
        """Which parameters only the ridge determines: those that a Newton step without it moves most.

        If there are many parameters, each is moved alone with the others fixed, which finds fewer.
        """
        pull = RIDGE * (minimum.theta - self.identity)
        if self.uses_newton:
            step = np.abs(cho_solve(cho_factor(self.hessian(minimum.theta)), pull))
        else:
            step = np.abs(pull) / (self.hessian_diagonal(minimum.theta) + 2.0 * self.penalty + RIDGE)
        return step > max(RIDGE_STEP, 0.5 * float(step.max()))


@dataclass(frozen=True)
class DiagonalLoss(LinearLoss):
    """η = w∘x + b, with θ = (w, b).

    If classes have a row or two, or none, the likelihood is nearly flat along many directions, in which L-BFGS takes
    thousands of steps and Newton a dozen: so Newton steps are taken with more parameters than usual.
    """

    @property
    def uses_newton(self) -> bool:
        """Whether forming the Hessian takes seconds at most."""
        size = len(self.identity)
        return size <= MAX_NEWTON_VARIABLES or (size <= MAX_DIAGONAL_VARIABLES and len(self.x) * size**2 <= MAX_WORK)

    @cached_property
    def identity(self) -> np.ndarray:
        return np.repeat([1.0, 0.0], self.classes)

    def logits(self, theta: np.ndarray) -> np.ndarray:
        return self.x * theta[: self.classes] + theta[self.classes :]

    def backward(self, logit_gradients: np.ndarray) -> np.ndarray:
        return np.concatenate([np.einsum("nc,nc->c", logit_gradients, self.x), logit_gradients.sum(axis=0)])

    def backward_squared(self, weights: np.ndarray) -> np.ndarray:
        return np.concatenate([np.einsum("nc,nc,nc->c", weights, self.x, self.x), weights.sum(axis=0)])

    def hessian_factors(self, probs: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """D has p x², p x and p on its diagonals; u = (p∘x, p)."""
        x, p, row_weights = self.x[rows], probs[rows], self.row_weights[rows, None]
        slope, cross, level = ((row_weights * p * x**k).sum(axis=0) for k in (2, 1, 0))
        diagonal = np.block([[np.diag(slope), np.diag(cross)], [np.diag(cross), np.diag(level)]])
        return diagonal, np.sqrt(row_weights) * np.concatenate([p * x, p], axis=1)


@dataclass(frozen=True)
class FullLoss(LinearLoss):
    """η = Wx + b, with θ the rows of (W, b) (C, C + 1) one after another."""

    @cached_property
    def identity(self) -> np.ndarray:
        return np.eye(self.classes, self.classes + 1).ravel()

    @cached_property
    def design(self) -> np.ndarray:
        """(x, 1) of each row."""
        return np.concatenate([self.x, np.ones((len(self.x), 1))], axis=1)

    def logits(self, theta: np.ndarray) -> np.ndarray:
        return self.design @ theta.reshape(self.classes, -1).T

    def backward(self, logit_gradients: np.ndarray) -> np.ndarray:
        return (logit_gradients.T @ self.design).ravel()

    def backward_squared(self, weights: np.ndarray) -> np.ndarray:
        return (weights.T @ self.design**2).ravel()

    def hessian_factors(self, probs: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """D has the blocks p_c (x, 1)(x, 1)ᵀ; u = p ⊗ (x, 1)."""
        design, root = self.design[rows], np.sqrt(self.row_weights[rows, None])
        size = design.shape[1]
        scaled = (root * probs[rows])[:, :, None] * design[:, None, :]
        diagonal = np.zeros((self.classes * size, self.classes * size))
        for c in range(self.classes):
            block = slice(c * size, (c + 1) * size)
            diagonal[block, block] = scaled[:, c].T @ (root * design)
        return diagonal, scaled.reshape(len(design), -1)


# ------------------------------------------------------------------------------------------- rows and reports
def weighted_rows(rows: ClassRows, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features, labels, row weights) of the rows with positive weight."""
    counted = rows.row_weights > 0
    if counted.all():
        return features, rows.labels, rows.row_weights
    return features[counted], rows.labels[counted], rows.row_weights[counted]


def linear_report(
    rows: ClassRows, minimum: Minimum, after: float, ridge_only: np.ndarray, slopes: np.ndarray
) -> FitReport:
    """The report of a fit.

    `ridge_only` (C,) are the classes with a parameter that only the ridge determines, `slopes` (C,) how much faster the
    new logit of each class increases with its own log-probability than the others do.
    """
    absent = rows.class_counts == 0
    messages = []
    if absent.any():
        whose = "its" if absent.sum() == 1 else "their"
        text = f"{classes_have(absent)} no rows: only a penalty keeps {whose} predictions above 0"
        messages.append(("classes-without-rows", text))
    if (slopes < 0).any():
        text = f"{classes_have(slopes < 0)} a negative slope (down to {slopes.min():.3g})"
        messages.append(("negative-slope", f"{text}: a higher prediction makes the class less likely"))
    counted = int((rows.row_weights > 0).sum())
    if counted < len(minimum.theta):
        messages.append(("few-rows", f"{counted} rows for {len(minimum.theta)} parameters"))
    why = f"only a ridge of {RIDGE:g} keeps finite: the classes are separable, so the likelihood keeps rising"
    at_bound: tuple[str, ...] = ()
    if ridge_only.any():
        at_bound = (f"{classes_have(ridge_only)} parameters that {why}",)
    elif after < SEPARABLE_LOSS:
        at_bound = (f"the loss is {after:.3g}, with parameters that {why}",)
    return FitReport(
        n=rows.n, loss="nll", before=rows.nll(rows.log_probs), after=after, converged=minimum.converged,
        iterations=minimum.iterations, passes=minimum.passes, gradient=minimum.max_gradient, at_bound=at_bound,
        messages=tuple(messages),
    )  # fmt: skip


def classes_have(which: np.ndarray) -> str:
    """ "class 2 has", "classes 2, 3 have", "classes 0, 1, 2, … (17) have"."""
    numbers = [str(c) for c in np.flatnonzero(which)]
    if len(numbers) == 1:
        return f"class {numbers[0]} has"
    return f"classes {', '.join(numbers[:6])}{f', … ({len(numbers)})' if len(numbers) > 6 else ''} have"


# ---------------------------------------------------------------------------------------- vector scaling
@dataclass(frozen=True)
class VectorMap(ClassMap):
    """w∘ℓ + b, normalised."""

    slopes: np.ndarray
    intercepts: np.ndarray

    def __post_init__(self) -> None:
        for each in (self.slopes, self.intercepts):
            if each.ndim != 1 or each.shape != self.slopes.shape or not np.isfinite(each).all():
                raise ValueError("slopes and intercepts must be finite, one for each class")

    def matches_classes(self, classes: int) -> bool:
        return len(self.slopes) == classes

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        return log_softmax(log_probs * self.slopes + self.intercepts, axis=-1)

    @property
    def injective(self) -> bool:
        """Whether all slopes have one sign, or just one of them is zero.

        Two predictions with ℓ − ℓ' = δ have one image iff w∘δ = k1 for some number k, and δ ≠ 0 is a difference of two
        predictions iff it has entries of both signs: only then has Σ p e^(−δ) = Σ p a solution. With no slope zero,
        δ = k/w has both signs iff w has. With one zero, k is 0 and δ differs from 0 in one entry alone; with two, in
        two, which can be chosen of both signs.
        """
        zero = self.slopes == 0.0
        small = np.abs(self.slopes) <= TOLERANCE * np.abs(self.slopes).max()
        if (small & ~zero).any() or zero.sum() > 1:
            return False
        return bool(zero.any() or (self.slopes > 0).all() or (self.slopes < 0).all())

    @property
    def keeps_order(self) -> bool:
        """Whether all classes have the same positive slope and the same intercept."""
        return bool(self.slopes[0] > 0 and np.ptp(self.slopes) == 0 and np.ptp(self.intercepts) == 0)


@dataclass(eq=False, kw_only=True)
class VectorScaling(ClassRecalibrator):
    """A slope and an intercept for the log-probability of each class. The predicted class can change.

    Examples
    --------
    >>> import calibrant as cal
    >>> logits = [[2.0, 0.0], [0.0, 3.0], [1.0, 0.0], [0.0, 1.0]] * 25
    >>> p = cal.Classification.from_logits(logits, [0, 1, 0, 1] * 24 + [1, 0, 1, 0])
    >>> scaling = cal.recalibration.VectorScaling().fit(p)
    >>> scaling.n_parameters, scaling.accuracy_preserving
    (4, False)
    """

    name = "vector"
    title = "Vector scaling"
    reference = "Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML"
    map_class = VectorMap
    promises_accuracy = False

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[VectorMap, FitReport]:
        loss = DiagonalLoss(*weighted_rows(rows, rows.log_probs), penalty=np.zeros(2 * rows.classes))
        minimum = loss.minimize()
        slopes, intercepts = minimum.theta.reshape(2, -1)
        fitted = VectorMap(slopes.copy(), intercepts - intercepts.mean())
        ridge_only = np.asarray(loss.ridge_only(minimum).reshape(2, -1).any(axis=0))
        return fitted, linear_report(rows, minimum, rows.nll(fitted.apply(rows.log_probs)), ridge_only, slopes)
