"""Matrix scaling and Dirichlet calibration: softmax(Wx + b) with a full matrix W and ODIR penalties.

Dirichlet calibration has x = ℓ, the log-probabilities: the map that makes predictions calibrated if their distribution
within each class is a Dirichlet distribution (Kull, Perelló Nieto, Kängsepp, Silva Filho, Song & Flach 2019, Beyond
temperature scaling, NeurIPS). Matrix scaling has x = z = ℓ − mean of ℓ over classes, which differs from the logits of a
network by one number in each row and is the same whether logits, log-probabilities or probabilities are given (Guo,
Pleiss, Sun & Weinberger 2017, On calibration of modern neural networks, ICML).

Off-diagonal and intercept regularisation, ODIR (Kull et al. 2019), minimises

    mean negative log-likelihood + λ Σ_{i≠j} W_ij² + μ Σ_c b_c²,

with λ = `off_diagonal` and μ = `intercept`. The penalties are per entry, as in the experiments of the authors; their
paper divides the sums by C(C − 1) and by C, so that its λ is C(C − 1) times the one here and its μ is C times. A
penalty per entry means much the same for 10 classes as for 100; one of the mean does not.

The penalties are given, or selected from a grid by cross-validation (`penalty="cv"`): first λ, from the strongest down
until the held-out loss has risen twice, then μ. The fold of a row depends on its own numbers alone, so that neither the
order of rows nor whether a row is repeated or has a weight changes the selection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.methods.linear_maps import TOLERANCE, FullLoss, linear_report, weighted_rows

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

    centred: ClassVar[bool] = False
    """Whether x = z = ℓ − mean(ℓ) rather than ℓ."""

    def __post_init__(self) -> None:
        classes = len(self.intercepts)
        if self.weights.shape != (classes, classes) or self.intercepts.ndim != 1:
            raise ValueError("weights must be a square matrix, with an intercept for each class")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.intercepts).all()):
            raise ValueError("weights and intercepts must be finite numbers")

    def matches_classes(self, classes: int) -> bool:
        return len(self.intercepts) == classes

    @classmethod
    def features(cls, log_probs: np.ndarray) -> np.ndarray:
        """x (n, C) from ℓ (n, C)."""
        return log_probs - log_probs.mean(axis=-1, keepdims=True) if cls.centred else log_probs

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        return log_softmax(self.features(log_probs) @ self.weights.T + self.intercepts, axis=-1)

    @property
    def n_parameters(self) -> int:
        return self.weights.size + self.intercepts.size

    @property
    def effective_weights(self) -> np.ndarray:
        """A, as W acts on predictions: without its part that adds the same number to all new logits."""
        return self.weights - self.weights.mean(axis=0)

    @property
    def keeps_order(self) -> bool:
        """Whether A is a positive multiple of the centring matrix, and all intercepts are the same."""
        a = self.effective_weights
        slope = float(np.trace(a)) / (len(a) - 1)
        centring = slope * (np.eye(len(a)) - 1.0 / len(a))
        same = np.allclose(a, centring, rtol=0.0, atol=1e-15 * abs(slope)) and np.ptp(self.intercepts) == 0
        return bool(slope > 0 and same)

    @property
    def slopes(self) -> np.ndarray:
        """How much faster the new logit of each class increases with its own x than the others do on average (C,)."""
        own, classes = np.diag(self.weights), len(self.weights)
        return own - (self.weights.sum(axis=0) - own) / (classes - 1)


@dataclass(frozen=True)
class MatrixMap(FullMap):
    """Wz + b, normalised."""

    centred: ClassVar[bool] = True

    @property
    def effective_weights(self) -> np.ndarray:
        """A, also without its part that cannot act on z, which sums to 0."""
        return self.weights - self.weights.mean(axis=0) - self.weights.mean(axis=1)[:, None] + self.weights.mean()

    @property
    def injective(self) -> bool:
        """Whether A = (I − 11ᵀ/C) W (I − 11ᵀ/C) has rank C − 1, the most that it can have.

        Every z whose sum is 0 belongs to one prediction, and two of them have one image iff A(z − z') = 0.
        """
        singular_values = np.linalg.svd(self.effective_weights, compute_uv=False)
        return bool(singular_values[-2] > TOLERANCE * np.abs(self.weights).max())


@dataclass(frozen=True)
class DirichletMap(FullMap):
    """Wℓ + b, normalised."""

    @property
    def injective(self) -> bool:
        """Whether the null space of A = (I − 11ᵀ/C)W is one line, along a vector without entries of both signs.

        Two predictions with ℓ − ℓ' = δ have one image iff Aδ = 0. Such a δ ≠ 0 is a difference of two predictions iff
        it has entries of both signs: only then has Σ p e^(−δ) = Σ p a solution. A has rank C − 1 at most; in a null
        space of two dimensions there always is a δ whose sum is 0, which has both signs.
        """
        _, singular_values, right = np.linalg.svd(self.effective_weights)
        null = right[-1] * np.sign(right[-1][np.abs(right[-1]).argmax()])
        return bool(singular_values[-2] > TOLERANCE * np.abs(self.weights).max() and null.min() >= -TOLERANCE)


# ------------------------------------------------------------------------------------------- methods
@dataclass(eq=False, kw_only=True)
class OdirRecalibrator(ClassRecalibrator):
    """A full matrix with ODIR penalties; `map_class.features` says what it acts on."""

    map_class: ClassVar[type[Any]]
    promises_accuracy = False
    off_diagonal: float = option(OFF_DIAGONAL, "penalty λ of each squared weight off the diagonal", at_least=0.0)
    intercept: float = option(INTERCEPT, "penalty μ of each squared intercept", at_least=0.0)
    penalty: str = option("given", "penalties as given, or selected by cross-validation", choices=("given", "cv"))

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[Any, FitReport]:
        """Fit the weights and intercepts by penalised maximum likelihood."""
        data = weighted_rows(rows, self.map_class.features(rows.log_probs))
        off, intercept = self.off_diagonal, self.intercept
        if self.penalty == "cv":
            off, intercept = PenaltySelection(data, folds_of(*data[:2])).best(off, intercept)
        loss = FullLoss(*data, penalty=odir_penalty(rows.classes, off, intercept))
        minimum = loss.minimize()
        theta = minimum.theta.reshape(rows.classes, -1)
        fitted = self.map_class(theta[:, :-1].copy(), theta[:, -1] - theta[:, -1].mean(), float(off), float(intercept))
        ridge_only = np.asarray(loss.ridge_only(minimum).reshape(rows.classes, -1).any(axis=1))
        return fitted, linear_report(rows, minimum, rows.nll(fitted.apply(rows.log_probs)), ridge_only, fitted.slopes)


@dataclass(eq=False, kw_only=True)
class MatrixScaling(OdirRecalibrator):
    """A linear map of centred log-probabilities with ODIR penalties. The predicted class can change.

    Parameters
    ----------
    off_diagonal, intercept : float
        The penalties λ of squared weights off the diagonal and μ of squared intercepts.
    penalty : {"given", "cv"}
        Whether the penalties are used as given or selected by cross-validation.
    """

    name = "matrix"
    title = "Matrix scaling"
    reference = (
        "Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML, with the penalties of "
        "Kull et al. (2019), Beyond temperature scaling, NeurIPS"
    )
    map_class = MatrixMap


@dataclass(eq=False, kw_only=True)
class DirichletCalibration(OdirRecalibrator):
    """A linear map of log-probabilities with ODIR penalties. The predicted class can change.

    Parameters
    ----------
    off_diagonal, intercept, penalty
        As for `MatrixScaling`.
    """

    name = "dirichlet"
    title = "Dirichlet calibration"
    reference = (
        "Kull, Perelló Nieto, Kängsepp, Silva Filho, Song & Flach (2019), Beyond temperature scaling: obtaining "
        "well-calibrated multi-class probabilities with Dirichlet calibration, NeurIPS"
    )
    map_class = DirichletMap


def odir_penalty(classes: int, off_diagonal: float, intercept: float) -> np.ndarray:
    """The penalties of (W, b): λ off the diagonal, 0 on it, μ for b."""
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


class PenaltySelection:
    """Select the penalties of the grid `LAMBDAS` × `MUS` by cross-validated negative log-likelihood."""

    def __init__(self, data: tuple[np.ndarray, np.ndarray, np.ndarray], folds: np.ndarray) -> None:
        self.data, self.classes = data, data[0].shape[1]
        train_masks = [folds != k for k in range(FOLDS)]
        self.train_masks = [rows for rows in train_masks if 0 < rows.sum() < len(rows)]
        self.starts: list[np.ndarray | None] = [None] * len(self.train_masks)

    def best(self, off: float, intercept: float) -> tuple[float, float]:
        """λ at the given μ, from strong to weak until the loss has risen twice; then μ at that λ.

        With fewer than two folds, the given penalties.
        """
        if len(self.train_masks) < 2:
            return off, intercept
        losses: list[float] = []
        for off in LAMBDAS:
            losses.append(self.loss(off, intercept))
            if len(losses) - 1 - int(np.argmin(losses)) >= 2:
                break
        off, least = LAMBDAS[int(np.argmin(losses))], min(losses)
        by_loss = {self.loss(off, mu): mu for mu in MUS}
        return off, by_loss[min(by_loss)] if min(by_loss) < least else intercept

    def loss(self, off: float, intercept: float) -> float:
        """The negative log-likelihood of held-out rows, each fold under the map of the others."""
        (x, labels, row_weights), total = self.data, 0.0
        penalty = odir_penalty(self.classes, off, intercept)
        for k, train in enumerate(self.train_masks):
            weights = row_weights[train] / row_weights[train].sum()
            self.starts[k] = theta = FullLoss(x[train], labels[train], weights, penalty).minimize(self.starts[k]).theta
            test = FullLoss(x[~train], labels[~train], row_weights[~train], penalty)
            log_probs = log_softmax(test.logits(theta), axis=1)
            total += -float(test.row_weights @ log_probs[np.arange(len(log_probs)), test.labels])
        return total
