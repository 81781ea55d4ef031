"""Intra order-preserving networks: of the sorted scores y_1 ≥ … ≥ y_C, every gap is scaled by a positive number.

f(ℓ) = S(ℓ)⁻¹ U w(ℓ), where S sorts, U has ones on and above its diagonal and w_i = (y_i − y_{i+1}) · g_i ≥ 0 is zero
where neighbours tie; w_C is free, but softmax does not see it. g = β · positive(network(ℓ)) > 0. Where the network sees
ℓ as it is (op), classes may be treated apart; where it sees y only (order_invariant), permuted classes come out
permuted. Rahimi, Shaban, Cheng, Hartley & Boots (2020), Intra order-preserving functions for calibration of multi-class
neural networks, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassMap, ClassRecalibrator, ClassRows
from calibrant.recalibration.networks_diagonal import places
from calibrant.recalibration.networks_training import (
    Weights,
    in_order,
    need_torch,
    positive,
    positive_tensor,
    slope_of,
    train,
)
from calibrant.recalibration.report import Fit

PAPER = (
    "Rahimi, Shaban, Cheng, Hartley & Boots (2020), Intra order-preserving functions for calibration of "
    "multi-class neural networks, NeurIPS"
)


@dataclass(frozen=True)
class OrderPreservingMap(ClassMap):
    """Scaled gaps between sorted scores, summed and put back in their places; the network has one layer of tanh."""

    beta: float
    """What scales every gap where the network says nothing."""
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
            raise ValueError("weights that are no matrix")
        classes, hidden = self.weights.shape
        if [a.shape for a in arrays[1:]] != [(hidden,), (hidden, classes - 1), (classes - 1,)]:
            raise ValueError("layers that do not fit together")
        if not all(np.isfinite(array).all() for array in arrays) or not 0.0 < self.beta < np.inf:
            raise ValueError("weights that are not numbers")

    @property
    def n_parameters(self) -> int:
        """The weights of the network, and the scale that it starts from."""
        return 1 + sum(array.size for array in (self.weights, self.offsets, self.outputs, self.biases))

    def is_for(self, classes: int) -> bool:
        """Whether there is a weight for each class."""
        return len(self.weights) == classes

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log softmax(f(ℓ))."""
        order = np.argsort(-logs, axis=1, kind="stable")
        ranked = np.take_along_axis(logs, order, axis=1)
        units = np.tanh(places(ranked if self.sees_sorted else logs) @ self.weights + self.offsets)
        scales = self.beta * positive(units @ self.outputs + self.biases)
        sums = np.zeros_like(logs)
        np.cumsum(np.diff(ranked, axis=1) * scales, axis=1, out=sums[:, 1:])
        out = np.empty_like(logs)
        np.put_along_axis(out, order, log_softmax(sums, axis=1), axis=1)
        return in_order(out, logs)


@dataclass(frozen=True)
class OrderInvariantMap(OrderPreservingMap):
    """The same, of a network that sees the sorted scores only."""

    sees_sorted: ClassVar[bool] = True


@dataclass(eq=False, kw_only=True)
class OrderPreservingNetwork(ClassRecalibrator):
    """Gaps between sorted scores, scaled by a small network that sees all scores of the row. It keeps every ranking of
    classes, and may treat them differently."""

    name = "op"
    title = "Order-preserving network"
    reference = PAPER
    map_class = OrderPreservingMap
    promises_accuracy = True
    hidden: int = option(8, "hidden units", at_least=1, at_most=256)
    decay: float = option(1e-2, "weight of the squared distance of the weights from their start", at_least=1e-8)
    seed: int = option(0, "seed of the hidden units at the start", at_least=0)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[OrderPreservingMap, Fit]:
        """The network near temperature scaling that makes the rows likeliest."""
        torch = need_torch(self.name)
        beta, at_bound = slope_of(rows)
        sees_sorted = self.map_class.sees_sorted

        def prepare(logs: np.ndarray) -> Any:
            order = np.argsort(-logs, axis=1, kind="stable")
            ranked = np.take_along_axis(logs, order, axis=1)
            seen = places(ranked if sees_sorted else logs)
            back = np.argsort(order, axis=1)
            return tuple(torch.from_numpy(a) for a in (seen, beta * np.diff(ranked, axis=1), back))

        def scores(weights: dict[str, Any], inputs: Any) -> Any:
            seen, gaps, back = inputs
            units = torch.tanh(seen @ weights["weights"] + weights["offsets"])
            scales = positive_tensor(units @ weights["outputs"] + weights["biases"])
            sums = torch.cumsum(gaps * scales, dim=1)
            return torch.nn.functional.pad(sums, (1, 0)).gather(1, back)

        found = train(rows, self._start(rows.classes), scores, prepare, decay=self.decay, threads=threads)
        return self.map_class(beta, **found.weights), found.fit(rows, at_bound, self._said(rows))

    def _said(self, rows: ClassRows) -> tuple[tuple[str, str], ...]:
        absent = sorted(set(range(rows.classes)) - set(rows.labels[rows.shares > 0].tolist()))
        if not absent or self.map_class.sees_sorted:
            return ()
        named = ", ".join(map(str, absent[:5])) + (", …" if len(absent) > 5 else "")
        return (("classes-missing", f"no row has the label {named}: what is learnt of it is that it never comes"),)

    def _start(self, classes: int) -> Weights:
        """Units that bend within the range of scores, and of which nothing comes out yet."""
        rng = np.random.default_rng(self.seed)
        return {
            "weights": rng.normal(0.0, 2.0 / np.sqrt(classes), (classes, self.hidden)),
            "offsets": rng.uniform(-1.0, 1.0, self.hidden),
            "outputs": np.zeros((self.hidden, classes - 1)),
            "biases": np.zeros(classes - 1),
        }


@dataclass(eq=False, kw_only=True)
class OrderInvariantNetwork(OrderPreservingNetwork):
    """Gaps between sorted scores, scaled by a small network that sees the sorted scores only: the names of classes do
    not matter to it. It keeps every ranking of classes."""

    name = "order_invariant"
    title = "Order-invariant network"
    map_class = OrderInvariantMap
    decay: float = option(3e-3, "weight of the squared distance of the weights from their start", at_least=1e-8)
