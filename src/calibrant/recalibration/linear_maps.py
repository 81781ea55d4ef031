"""What vector scaling, matrix scaling and Dirichlet calibration share: softmax(Θ·(x, 1)), fitted by likelihood.

Notation: x (n, C) are log-probabilities ℓ or centred ones; η = Wx + b are the new logits; s (n,) are the shares of
rows, which sum to one. What is minimised is

    Σ_i s_i (log Σ_c exp η_ic − η_iy) + Σ_k penalty_k θ_k² + ½·RIDGE·|θ − identity|²,

which is convex in θ = (W, b). The ridge, of 1e-8, is there for uniqueness: a constant added to b, or one row to all
rows of W, changes no prediction, and where rows are separable parameters would grow for ever. Whether it is the ridge
that holds a parameter is told by the step that Newton would take without it: next to nothing where the data hold it.
The identity has no penalty, so that no fit is worse than it on its own rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax

from calibrant.recalibration.class_rows import ClassRows
from calibrant.recalibration.newton import FEW, Minimum, lbfgs, newton
from calibrant.recalibration.report import Fit

RIDGE = 1e-8
BLOCK = 1 << 19
"""Numbers of second derivatives' factors that are held at a time."""
WORK, WIDE = 2e10, 4000
"""Of a diagonal map: products in a matrix of second derivatives, and parameters, up to which Newton steps are taken."""
MOVES = 0.01
"""A parameter that a Newton step without the ridge moves by more than this is held by the ridge alone."""
CERTAIN = 1e-4
"""A mean loss, after the fit, that only separable rows have."""
TOLERANCE = 1e-12
"""What is less than this share of the largest number counts as zero."""


@dataclass(frozen=True)
class LinearLoss:
    """The penalised negative log-likelihood of softmax(Θ·(x, 1)) as a function of θ."""

    x: np.ndarray
    labels: np.ndarray
    shares: np.ndarray
    penalty: np.ndarray
    """Of each entry of θ, the factor of its square."""

    @property
    def classes(self) -> int:
        """C."""
        return self.x.shape[1]

    @cached_property
    def identity(self) -> np.ndarray:
        """The θ that changes nothing."""
        raise NotImplementedError

    def logits(self, theta: np.ndarray) -> np.ndarray:
        """η (n, C)."""
        raise NotImplementedError

    def pulled(self, residuals: np.ndarray) -> np.ndarray:
        """The gradient with respect to θ of a function whose gradient with respect to η is given."""
        raise NotImplementedError

    def factors(self, probs: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """(D, U) of some rows: the Hessian is Σ_i s_i (D_i − u_i u_iᵀ), of which D is given as its sum."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------- derivatives
    def slope(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and its gradient."""
        logs = log_softmax(self.logits(theta), axis=1)
        rows, off = np.arange(len(logs)), theta - self.identity
        value = -float(self.shares @ logs[rows, self.labels])
        residuals = np.exp(logs)
        residuals[rows, self.labels] -= 1.0
        gradient = self.pulled(residuals * self.shares[:, None])
        value += float(self.penalty @ theta**2) + 0.5 * RIDGE * float(off @ off)
        return value, gradient + 2.0 * self.penalty * theta + RIDGE * off

    def curvature(self, theta: np.ndarray) -> np.ndarray:
        """The Hessian."""
        probs = np.exp(log_softmax(self.logits(theta), axis=1))
        out = np.diag(2.0 * self.penalty + RIDGE)
        step = max(1, BLOCK // len(theta))
        for start in range(0, len(probs), step):
            whole, factors = self.factors(probs, slice(start, start + step))
            out += whole - factors.T @ factors
        return out

    # -------------------------------------------------------------------------------- the minimum
    @property
    def few(self) -> bool:
        """Whether there are so few parameters that second derivatives can be made at every step."""
        return len(self.identity) <= FEW

    def least(self, start: np.ndarray | None = None) -> Minimum:
        """Where it is smallest."""
        start = self.identity if start is None else start
        if self.few:
            return newton(self.slope, self.curvature, start)
        return lbfgs(self.slope, self.reach(start), start)

    def reach(self, theta: np.ndarray) -> np.ndarray:
        """About how far each parameter moves: one over the root of its own curvature."""
        return 1.0 / np.sqrt(np.maximum(self.spread(theta), 1e-6) + 2.0 * self.penalty)

    def spread(self, theta: np.ndarray) -> np.ndarray:
        """What the rows give to the diagonal of the Hessian."""
        probs = np.exp(log_softmax(self.logits(theta), axis=1))
        return self.squared(probs * (1.0 - probs) * self.shares[:, None])

    def squared(self, weights: np.ndarray) -> np.ndarray:
        """As `pulled`, of squared features."""
        raise NotImplementedError

    def held(self, found: Minimum) -> np.ndarray:
        """Which parameters only the ridge holds: those that a Newton step without it moves most.

        Where they are many, each is moved alone, as if the others were held: fewer are found so.
        """
        pull = RIDGE * (found.theta - self.identity)
        if self.few:
            step = np.abs(cho_solve(cho_factor(self.curvature(found.theta)), pull))
        else:
            step = np.abs(pull) / (self.spread(found.theta) + 2.0 * self.penalty + RIDGE)
        return step > max(MOVES, 0.5 * float(step.max()))


@dataclass(frozen=True)
class DiagonalLoss(LinearLoss):
    """η = w∘x + b, with θ = (w, b).

    Where classes have a row or two, or none, the likelihood is all but flat along many directions, in which L-BFGS
    takes thousands of steps and Newton a dozen: so more parameters are few.
    """

    @property
    def few(self) -> bool:
        """As of all maps, or where a matrix of second derivatives takes seconds at most."""
        size = len(self.identity)
        return size <= FEW or (size <= WIDE and len(self.x) * size**2 <= WORK)

    @cached_property
    def identity(self) -> np.ndarray:
        """w = 1, b = 0."""
        return np.repeat([1.0, 0.0], self.classes)

    def logits(self, theta: np.ndarray) -> np.ndarray:
        """w∘x + b."""
        return self.x * theta[: self.classes] + theta[self.classes :]

    def pulled(self, residuals: np.ndarray) -> np.ndarray:
        """(Σ r∘x, Σ r)."""
        return np.concatenate([np.einsum("nc,nc->c", residuals, self.x), residuals.sum(axis=0)])

    def squared(self, weights: np.ndarray) -> np.ndarray:
        """(Σ w∘x², Σ w)."""
        return np.concatenate([np.einsum("nc,nc,nc->c", weights, self.x, self.x), weights.sum(axis=0)])

    def factors(self, probs: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """D has p x², p x and p on its diagonals; u = (p∘x, p)."""
        x, p, shares = self.x[rows], probs[rows], self.shares[rows, None]
        slope, cross, level = ((shares * p * x**k).sum(axis=0) for k in (2, 1, 0))
        whole = np.block([[np.diag(slope), np.diag(cross)], [np.diag(cross), np.diag(level)]])
        return whole, np.sqrt(shares) * np.concatenate([p * x, p], axis=1)


@dataclass(frozen=True)
class FullLoss(LinearLoss):
    """η = Wx + b, with θ the rows of (W, b) (C, C + 1) one after another."""

    @cached_property
    def identity(self) -> np.ndarray:
        """W = I, b = 0."""
        return np.eye(self.classes, self.classes + 1).ravel()

    @cached_property
    def wide(self) -> np.ndarray:
        """(x, 1), of each row."""
        return np.concatenate([self.x, np.ones((len(self.x), 1))], axis=1)

    def logits(self, theta: np.ndarray) -> np.ndarray:
        """Wx + b."""
        return self.wide @ theta.reshape(self.classes, -1).T

    def pulled(self, residuals: np.ndarray) -> np.ndarray:
        """Σ r (x, 1)ᵀ."""
        return (residuals.T @ self.wide).ravel()

    def squared(self, weights: np.ndarray) -> np.ndarray:
        """Σ w (x², 1)ᵀ."""
        return (weights.T @ self.wide**2).ravel()

    def factors(self, probs: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """D has the blocks p_c (x, 1)(x, 1)ᵀ; u = p ⊗ (x, 1)."""
        wide, root = self.wide[rows], np.sqrt(self.shares[rows, None])
        size = wide.shape[1]
        scaled = (root * probs[rows])[:, :, None] * wide[:, None, :]
        whole = np.zeros((self.classes * size, self.classes * size))
        for c in range(self.classes):
            here = slice(c * size, (c + 1) * size)
            whole[here, here] = scaled[:, c].T @ (root * wide)
        return whole, scaled.reshape(len(wide), -1)


# ------------------------------------------------------------------------------------------- reports
def told(rows: ClassRows, found: Minimum, after: float, held: np.ndarray, slopes: np.ndarray) -> Fit:
    """The report of a fit: `held` (C,) are the classes with a parameter that only the ridge holds, `slopes` (C,) how
    much faster the new logit of each class rises with its own log-probability than the others do."""
    absent = np.bincount(rows.labels[rows.shares > 0], minlength=rows.classes) == 0
    said = []
    if absent.any():
        message = f"{classes_have(absent)} no row: nothing but a penalty keeps their predictions above 0"
        said.append(("classes-without-rows", message.replace("their", "its") if absent.sum() == 1 else message))
    if (slopes < 0).any():
        message = f"{classes_have(slopes < 0)} a slope below 0 (down to {slopes.min():.3g})"
        said.append(("negative-slope", f"{message}: the more likely it was predicted, the less likely it is made"))
    counted = int((rows.shares > 0).sum())
    if counted < len(found.theta):
        said.append(("few-rows", f"{counted} rows for {len(found.theta)} parameters"))
    return Fit(
        n=rows.n,
        loss="nll",
        before=rows.nll(rows.logs),
        after=after,
        converged=found.converged,
        iterations=found.iterations,
        passes=found.passes,
        gradient=found.steepest,
        at_bound=_bounds(held, after),
        said=tuple(said),
    )


def _bounds(held: np.ndarray, after: float) -> tuple[str, ...]:
    """What only the ridge holds, in words."""
    why = f"but a ridge of {RIDGE:g}: the rows are told apart without error, so that larger ones are ever more likely"
    if held.any():
        return (f"{classes_have(held)} parameters that nothing holds {why}",)
    if after < CERTAIN:
        return (f"the loss is {after:.3g}; nothing holds the parameters {why}",)
    return ()


def classes_have(which: np.ndarray) -> str:
    """ "class 2 has", "classes 2, 3 have", "classes 0, 1, 2, … (17) have"."""
    numbers = [str(c) for c in np.flatnonzero(which)]
    if len(numbers) == 1:
        return f"class {numbers[0]} has"
    return f"classes {', '.join(numbers[:6])}{f', … ({len(numbers)})' if len(numbers) > 6 else ''} have"
