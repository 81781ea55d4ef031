"""What matrix scaling and Dirichlet calibration share: a full matrix W and intercepts b, held by ODIR penalties.

Off-diagonal and intercept regularisation (Kull et al. 2019): what is minimised is

    mean negative log-likelihood + λ Σ_{i≠j} W_ij² + μ Σ_c b_c²,

with λ = `off_diagonal` and μ = `intercept`. The penalties are of each entry, as in the experiments of the authors;
their paper divides the sums by C(C − 1) and by C, so that its λ is C(C − 1) times the one here and its μ is C times. A
penalty of each entry means much the same for 10 classes as for 100; one of their mean does not.

The penalties are given, or chosen from a grid by cross-validation (`penalty="cv"`): first λ, from the strongest down
until the loss of rows left out has risen twice, then μ. Which fold a row is in depends on its own numbers alone, so
that neither the order of rows nor whether a row is repeated or has a weight changes the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.linear_maps import FullLoss, told
from calibrant.recalibration.report import Fit
from calibrant.recalibration.vector import rows_of

OFF_DIAGONAL, INTERCEPT = 0.2, 1e-3
LAMBDAS = (100.0, 10.0, 1.0, 0.1, 0.01)
MUS = (1e-2, 1e-3, 1e-4)
FOLDS = 5
GRAIN = 1024
"""Log-probabilities that agree when rounded to multiples of one over this put rows into one fold."""


@dataclass(frozen=True)
class FullMap(ClassMap):
    """Wx + b, normalised, and the penalties under which W and b were fitted."""

    weights: np.ndarray
    intercepts: np.ndarray
    off_diagonal: float
    intercept: float

    def __post_init__(self) -> None:
        classes = len(self.intercepts)
        if self.weights.shape != (classes, classes) or self.intercepts.ndim != 1:
            raise ValueError("a square matrix of weights and an intercept for each class")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.intercepts).all()):
            raise ValueError("weights and intercepts that are numbers")

    def is_for(self, classes: int) -> bool:
        """Whether there is a row of weights for each class."""
        return len(self.intercepts) == classes

    @staticmethod
    def features(logs: np.ndarray) -> np.ndarray:
        """x (n, C), of ℓ (n, C)."""
        raise NotImplementedError

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log softmax(Wx + b)."""
        return log_softmax(self.features(logs) @ self.weights.T + self.intercepts, axis=-1)

    @property
    def n_parameters(self) -> int:
        """C² + C."""
        return self.weights.size + self.intercepts.size

    @property
    def acting(self) -> np.ndarray:
        """A, as W acts on predictions: what adds the same number to all new logits is taken away."""
        return self.weights - self.weights.mean(axis=0)

    @property
    def keeps_order(self) -> bool:
        """Whether A is a multiple, above 0, of what takes the mean away, and all intercepts are the same."""
        acting = self.acting
        slope = float(np.trace(acting)) / (len(acting) - 1)
        plain = slope * (np.eye(len(acting)) - 1.0 / len(acting))
        same = np.allclose(acting, plain, rtol=0.0, atol=1e-15 * abs(slope)) and np.ptp(self.intercepts) == 0
        return bool(slope > 0 and same)

    @property
    def slopes(self) -> np.ndarray:
        """How much faster the new logit of each class rises with its own x than the others do on average (C,)."""
        own, classes = np.diag(self.weights), len(self.weights)
        return own - (self.weights.sum(axis=0) - own) / (classes - 1)


@dataclass(eq=False, kw_only=True)
class OdirRecalibrator(ClassRecalibrator):
    """A method that fits a full matrix under ODIR penalties; its map says what the matrix acts on."""

    map_class: ClassVar[type[Any]]
    promises_accuracy = False
    off_diagonal: float = option(OFF_DIAGONAL, "penalty λ of each squared weight off the diagonal", at_least=0.0)
    intercept: float = option(INTERCEPT, "penalty μ of each squared intercept", at_least=0.0)
    penalty: str = option(
        "given", "whether penalties are as given or chosen by cross-validation", choices=("given", "cv")
    )

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[Any, Fit]:
        """The weights and intercepts of the largest penalised likelihood."""
        known = rows_of(rows, self.map_class.features(rows.logs))
        off, intercept = self.off_diagonal, self.intercept
        if self.penalty == "cv":
            off, intercept = Choice(known, folds_of(*known[:2])).best(off, intercept)
        loss = FullLoss(*known, penalty=odir(rows.classes, off, intercept))
        found = loss.least()
        theta = found.theta.reshape(rows.classes, -1)
        made = self.map_class(theta[:, :-1].copy(), theta[:, -1] - theta[:, -1].mean(), float(off), float(intercept))
        held = np.asarray(loss.held(found).reshape(rows.classes, -1).any(axis=1))
        return made, told(rows, found, rows.nll(made.apply(rows.logs)), held, made.slopes)


def odir(classes: int, off_diagonal: float, intercept: float) -> np.ndarray:
    """The penalties of (W, b): λ of what is off the diagonal, 0 of what is on it, μ of b."""
    out = np.full((classes, classes + 1), float(off_diagonal))
    np.fill_diagonal(out[:, :classes], 0.0)
    out[:, -1] = intercept
    return out.ravel()


# ---------------------------------------------------------------------------------- cross-validation
def folds_of(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The fold (n,) of each row, by a hash of its rounded numbers and its label."""
    keys = np.rint(x * GRAIN).astype(np.int64).astype(np.uint64)
    out = labels.astype(np.uint64)
    for column in keys.T:
        out = (out ^ column) * np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return (out >> np.uint64(33)).astype(np.int64) % FOLDS


class Choice:
    """Penalties that are best for rows left out, of the grid `LAMBDAS` × `MUS`."""

    def __init__(self, known: tuple[np.ndarray, np.ndarray, np.ndarray], folds: np.ndarray) -> None:
        self.known, self.classes = known, known[0].shape[1]
        inside = [folds != k for k in range(FOLDS)]
        self.inside = [rows for rows in inside if 0 < rows.sum() < len(rows)]
        self.starts: list[np.ndarray | None] = [None] * len(self.inside)

    def best(self, off: float, intercept: float) -> tuple[float, float]:
        """λ at the given μ, from strong to weak until the loss has risen twice; then μ at that λ. One fold has none."""
        if len(self.inside) < 2:
            return off, intercept
        losses: list[float] = []
        for off in LAMBDAS:
            losses.append(self.loss(off, intercept))
            if len(losses) - 1 - int(np.argmin(losses)) >= 2:
                break
        off, least = LAMBDAS[int(np.argmin(losses))], min(losses)
        tried = {self.loss(off, mu): mu for mu in MUS}
        return off, tried[min(tried)] if min(tried) < least else intercept

    def loss(self, off: float, intercept: float) -> float:
        """The negative log-likelihood of rows left out, each fold by the map of the others."""
        return sum(self._left_out(k, odir(self.classes, off, intercept)) for k in range(len(self.inside)))

    def _left_out(self, k: int, penalty: np.ndarray) -> float:
        (x, labels, shares), inside = self.known, self.inside[k]
        loss = FullLoss(x[inside], labels[inside], shares[inside] / shares[inside].sum(), penalty)
        self.starts[k] = theta = loss.least(self.starts[k]).theta
        others = FullLoss(x[~inside], labels[~inside], shares[~inside], penalty)
        logs = log_softmax(others.logits(theta), axis=1)
        return -float(others.shares @ logs[np.arange(len(logs)), others.labels])
