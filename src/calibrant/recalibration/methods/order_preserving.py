"""Networks that keep the ranking of classes: DIAG, and intra order-preserving networks.

DIAG has one strictly increasing function m of all scores, f(ℓ)_c = m(ℓ_c), the integral of a positive network:
m(ℓ) = −∫_ℓ^0 g(t) dt with g(t) = β · positive(network(t)) > 0. The integral is that of Clenshaw and Curtis: of the
polynomial through g at Chebyshev points. It is taken in x with u = log(1 − t) = U (1 + x)/2, since scores of −50 and
−60 are much the same, while −0.1 and −1 are not. Wehenkel & Louppe (2019), Unconstrained monotonic neural networks,
NeurIPS.

Intra order-preserving networks scale every gap between the sorted scores y_1 ≥ … ≥ y_C by a positive number:
f(ℓ) = S(ℓ)⁻¹ U w(ℓ), where S sorts, U has ones on and above its diagonal and w_i = (y_i − y_{i+1}) · g_i ≥ 0 is zero
where neighbours tie; w_C is free, but softmax does not see it. g = β · positive(network(ℓ)) > 0. A network
of ℓ (op) may treat classes differently; a network of y only (order_invariant) is equivariant to permutations of
classes.

Rahimi, Shaban, Cheng, Hartley & Boots (2020), Intra order-preserving functions for calibration of multi-class neural
networks, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import log_softmax

from calibrant.recalibration.base import need_torch, option
from calibrant.recalibration.class_rows import FLOOR, ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.fit_report import FitReport, Messages
from calibrant.recalibration.methods.network_training import (
    positive,
    positive_tensor,
    restore_order,
    start_scale,
    train,
)

PAPER = (
    "Rahimi, Shaban, Cheng, Hartley & Boots (2020), Intra order-preserving functions for calibration of "
    "multi-class neural networks, NeurIPS"
)

# ---------------------------------------------------------------------------------------------- DIAG
DEGREE = 64
WIDTH = float(np.log1p(-FLOOR))
"""U: the u of the lowest possible score."""
NODES = np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)
STEPS = np.exp(WIDTH * (NODES + 1.0) / 2.0) * (WIDTH / 2.0)
"""−dt/dx at the nodes."""
FINE = 1 << 14
"""Points at which the sign of the derivative is checked."""
_COEFFICIENTS = np.linalg.solve(chebyshev.chebvander(NODES, DEGREE), np.eye(DEGREE + 1))
"""From the values of a polynomial at the nodes to its Chebyshev coefficients."""
_ANTIDERIVATIVES = np.stack([chebyshev.chebint(row, lbnd=-1) for row in np.eye(DEGREE + 1)])
INTEGRAL = -(_COEFFICIENTS.T @ _ANTIDERIVATIVES).T * STEPS
"""Coefficients (DEGREE + 2,) of m in x = INTEGRAL · g(nodes)."""


def chebyshev_x(log_probs: np.ndarray) -> np.ndarray:
    """x in [−1, 1] of each score."""
    return np.clip(np.log1p(-np.clip(log_probs, FLOOR, 0.0)) * (2.0 / WIDTH) - 1.0, -1.0, 1.0)


@dataclass(frozen=True)
class DiagonalMap(ClassMap):
    """m(ℓ), normalised; the network has one layer of tanh units."""

    beta: float
    """The derivative where the network output is 0."""
    slopes: np.ndarray
    """(H,) of the hidden units in x."""
    offsets: np.ndarray
    """(H,) of the hidden units."""
    outputs: np.ndarray
    """(H,) weights of the hidden units."""
    bias: np.ndarray
    """(1,)"""

    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        arrays = (self.slopes, self.offsets, self.outputs, self.bias)
        if not (self.slopes.ndim == 1 and self.slopes.shape == self.offsets.shape == self.outputs.shape):
            raise ValueError("the shapes of the layers do not match")
        if self.bias.shape != (1,) or not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("weights must be finite numbers")
        if not 0.0 < self.beta < np.inf:
            raise ValueError(f"beta must be positive, got {self.beta}")

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Chebyshev coefficients (DEGREE + 2,) of m in x."""
        units = np.tanh(NODES[:, None] * self.slopes + self.offsets)
        return INTEGRAL @ (self.beta * positive(units @ self.outputs + self.bias))

    @cached_property
    def injective(self) -> bool:
        """Whether m is strictly increasing.

        Then m(ℓ_k) − m(ℓ'_k) cannot be one number for all k unless it is 0: the exp(ℓ_k) would sum to more than the
        exp(ℓ'_k), or to less. That the polynomial of the derivative has one sign between fine Chebyshev points follows
        from that at the points (Ehlich and Zeller): it leaves their range by at most a factor 1/cos(π degree/2 FINE).
        """
        grid = np.cos(np.pi * (np.arange(FINE) + 0.5) / FINE)
        rise = -chebyshev.chebval(grid, chebyshev.chebder(self.coefficients))
        middle, half = (rise.max() + rise.min()) / 2.0, (rise.max() - rise.min()) / 2.0
        return bool(middle - half / np.cos(np.pi * DEGREE / (2.0 * FINE)) > 0.0)

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        m = chebyshev.chebval(chebyshev_x(log_probs), self.coefficients)
        return restore_order(log_softmax(m, axis=-1), log_probs)


@dataclass(eq=False, kw_only=True)
class NetworkRecalibrator(ClassRecalibrator):
    """The options of a small network with one hidden layer, and what it promises."""

    reference = PAPER
    promises_accuracy = True
    hidden: int = option(16, "hidden units", at_least=1, at_most=256)
    decay: float = option(3e-3, "weight of the squared distance of the weights from their start", at_least=1e-8)
    seed: int = option(0, "seed of the initial hidden units", at_least=0)


@dataclass(eq=False, kw_only=True)
class DiagonalNetwork(NetworkRecalibrator):
    """One increasing function of all scores, a small network: temperature scaling whose temperature may depend on the
    score. It keeps every ranking of classes. Requires PyTorch.

    Parameters
    ----------
    hidden : int
        The number of hidden units.
    decay : float
        The weight of the squared distance of the weights from their start.
    seed : int
        The seed of the initial hidden units.
    """

    name = "diag"
    title = "Diagonal order-preserving network"
    map_class = DiagonalMap

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[DiagonalMap, FitReport]:
        """Fit the network by penalised maximum likelihood, starting from temperature scaling."""
        torch = need_torch(self.name)
        beta, at_bound = start_scale(rows)
        rng = np.random.default_rng(self.seed)  # units whose bends are spread over [−1, 1], with zero output weights
        slopes = rng.uniform(1.0, 4.0, self.hidden) * rng.choice([-1.0, 1.0], self.hidden)
        offsets = -slopes * rng.uniform(-1.0, 1.0, self.hidden)
        start = {"slopes": slopes, "offsets": offsets, "outputs": np.zeros(self.hidden), "bias": np.zeros(1)}
        matrix, nodes = torch.from_numpy(INTEGRAL), torch.from_numpy(NODES)[:, None]

        def prepare(log_probs: np.ndarray) -> Any:
            return torch.from_numpy(chebyshev.chebvander(chebyshev_x(log_probs), DEGREE + 1))

        def scores(weights: dict[str, Any], basis: Any) -> Any:
            units = torch.tanh(nodes * weights["slopes"] + weights["offsets"])
            derivative = beta * positive_tensor(units @ weights["outputs"] + weights["bias"])
            return basis @ (matrix @ derivative)

        trained = train(rows, start, scores, prepare, decay=self.decay, threads=threads)
        return DiagonalMap(beta, **trained.weights), trained.report(rows, at_bound)


# ---------------------------------------------------------------------------------- gaps between scores
@dataclass(frozen=True)
class OrderPreservingMap(ClassMap):
    """Scaled gaps between sorted scores, summed and put back in the original order; the network has one tanh layer."""

    beta: float
    """The scale of every gap where the network output is 0."""
    weights: np.ndarray
    """(C, H) of the hidden units."""
    offsets: np.ndarray
    """(H,)"""
    outputs: np.ndarray
    """(H, C − 1)"""
    biases: np.ndarray
    """(C − 1,)"""

    injective: ClassVar[bool] = False  # not known to be
    keeps_order: ClassVar[bool] = True
    sees_sorted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        arrays = (self.weights, self.offsets, self.outputs, self.biases)
        if self.weights.ndim != 2 or len(self.weights) < 2:
            raise ValueError("weights must be a matrix")
        classes, hidden = self.weights.shape
        if [a.shape for a in arrays[1:]] != [(hidden,), (hidden, classes - 1), (classes - 1,)]:
            raise ValueError("the shapes of the layers do not match")
        if not all(np.isfinite(array).all() for array in arrays) or not 0.0 < self.beta < np.inf:
            raise ValueError("weights must be finite numbers")

    def matches_classes(self, classes: int) -> bool:
        return len(self.weights) == classes

    def apply(self, log_probs: np.ndarray) -> np.ndarray:
        order = np.argsort(-log_probs, axis=1, kind="stable")
        ranked = np.take_along_axis(log_probs, order, axis=1)
        units = np.tanh(chebyshev_x(ranked if self.sees_sorted else log_probs) @ self.weights + self.offsets)
        scales = self.beta * positive(units @ self.outputs + self.biases)
        sums = np.zeros_like(log_probs)
        np.cumsum(np.diff(ranked, axis=1) * scales, axis=1, out=sums[:, 1:])
        out = np.empty_like(log_probs)
        np.put_along_axis(out, order, log_softmax(sums, axis=1), axis=1)
        return restore_order(out, log_probs)


@dataclass(frozen=True)
class OrderInvariantMap(OrderPreservingMap):
    """The same with a network of the sorted scores."""

    sees_sorted: ClassVar[bool] = True


@dataclass(eq=False, kw_only=True)
class OrderPreservingNetwork(NetworkRecalibrator):
    """Gaps between sorted scores, scaled by a small network of all scores of the row. It keeps every ranking, and may
    treat classes differently. Requires PyTorch.

    Parameters
    ----------
    hidden, decay, seed
        As for `DiagonalNetwork`.
    """

    name = "op"
    title = "Order-preserving network"
    map_class = OrderPreservingMap
    hidden: int = option(8, "hidden units", at_least=1, at_most=256)
    decay: float = option(1e-2, "weight of the squared distance of the weights from their start", at_least=1e-8)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[OrderPreservingMap, FitReport]:
        """Fit the network by penalised maximum likelihood, starting from temperature scaling."""
        torch = need_torch(self.name)
        beta, at_bound = start_scale(rows)
        sees_sorted = self.map_class.sees_sorted
        rng = np.random.default_rng(self.seed)  # units that bend within the range of scores, with zero output weights
        start = {
            "weights": rng.normal(0.0, 2.0 / np.sqrt(rows.classes), (rows.classes, self.hidden)),
            "offsets": rng.uniform(-1.0, 1.0, self.hidden),
            "outputs": np.zeros((self.hidden, rows.classes - 1)),
            "biases": np.zeros(rows.classes - 1),
        }

        def prepare(log_probs: np.ndarray) -> Any:
            order = np.argsort(-log_probs, axis=1, kind="stable")
            ranked = np.take_along_axis(log_probs, order, axis=1)
            x = chebyshev_x(ranked if sees_sorted else log_probs)
            back = np.argsort(order, axis=1)
            return tuple(torch.from_numpy(a) for a in (x, beta * np.diff(ranked, axis=1), back))

        def scores(weights: dict[str, Any], inputs: Any) -> Any:
            x, gaps, back = inputs
            units = torch.tanh(x @ weights["weights"] + weights["offsets"])
            scales = positive_tensor(units @ weights["outputs"] + weights["biases"])
            sums = torch.cumsum(gaps * scales, dim=1)
            return torch.nn.functional.pad(sums, (1, 0)).gather(1, back)

        absent = np.flatnonzero(rows.class_counts == 0).tolist()
        messages: Messages = ()
        if absent and not sees_sorted:
            listed = ", ".join(map(str, absent[:5])) + (", …" if len(absent) > 5 else "")
            text = f"no row has the label {listed}: the network learns that it never occurs"
            messages = (("classes-missing", text),)
        trained = train(rows, start, scores, prepare, decay=self.decay, threads=threads)
        return self.map_class(beta, **trained.weights), trained.report(rows, at_bound, messages)


@dataclass(eq=False, kw_only=True)
class OrderInvariantNetwork(OrderPreservingNetwork):
    """Gaps between sorted scores, scaled by a small network of the sorted scores: it treats all classes alike. It keeps
    every ranking of classes. Requires PyTorch.

    Parameters
    ----------
    hidden, decay, seed
        As for `DiagonalNetwork`.
    """

    name = "order_invariant"
    title = "Order-invariant network"
    map_class = OrderInvariantMap
    decay: float = option(3e-3, "weight of the squared distance of the weights from their start", at_least=1e-8)
