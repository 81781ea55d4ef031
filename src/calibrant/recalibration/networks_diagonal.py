"""DIAG: one strictly increasing function m of all scores, f(ℓ)_c = m(ℓ_c), found as the integral of a positive network.

m(ℓ) = −∫_ℓ^0 g(t) dt with g(t) = β · positive(network(t)) > 0. The integral is that of Clenshaw and Curtis: of the
polynomial through g at Chebyshev points. It is taken in x with u = log(1 − t) = U (1 + x)/2, as a score of −50 or −60
is much the same while −0.1 or −1 is not. Rahimi, Shaban, Cheng, Hartley & Boots (2020), Intra order-preserving
functions for calibration of multi-class neural networks, NeurIPS; Wehenkel & Louppe (2019), Unconstrained monotonic
neural networks, NeurIPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import log_softmax

from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import FLOOR, ClassMap, ClassRecalibrator, ClassRows
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

DEGREE = 64
WIDTH = float(np.log1p(-FLOOR))
"""U: the u of the least score that there is."""
NODES = np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)
STEPS = np.exp(WIDTH * (NODES + 1.0) / 2.0) * (WIDTH / 2.0)
"""−dt/dx at the nodes."""
FINE = 1 << 14
"""Points at which the sign of the derivative is looked at."""


def _integral() -> np.ndarray:
    """The matrix of the values of a polynomial at the nodes to the Chebyshev coefficients of its integral from −1."""
    values = chebyshev.chebvander(NODES, DEGREE)
    return np.linalg.solve(values, np.eye(DEGREE + 1)).T @ _antiderivatives()


def _antiderivatives() -> np.ndarray:
    return np.stack([chebyshev.chebint(row, lbnd=-1) for row in np.eye(DEGREE + 1)])


INTEGRAL = -_integral().T * STEPS
"""Coefficients (DEGREE + 2,) of m in x = INTEGRAL · g(nodes)."""


def places(logs: np.ndarray) -> np.ndarray:
    """x in [−1, 1] of each score."""
    return np.clip(np.log1p(-np.clip(logs, FLOOR, 0.0)) * (2.0 / WIDTH) - 1.0, -1.0, 1.0)


@dataclass(frozen=True)
class DiagonalMap(ClassMap):
    """m(ℓ), normalised; the network has one layer of tanh units."""

    beta: float
    """What the derivative is where the network says nothing."""
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
            raise ValueError("layers that do not fit together")
        if self.bias.shape != (1,) or not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("weights that are not numbers")
        if not 0.0 < self.beta < np.inf:
            raise ValueError(f"a slope of {self.beta}")

    @property
    def n_parameters(self) -> int:
        """The weights of the network, and the slope that it starts from."""
        return 2 + 3 * len(self.slopes)

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Chebyshev coefficients (DEGREE + 2,) of m in x."""
        units = np.tanh(NODES[:, None] * self.slopes + self.offsets)
        return INTEGRAL @ (self.beta * positive(units @ self.outputs + self.bias))

    @cached_property
    def injective(self) -> bool:
        """Whether m rises everywhere.

        Then m(ℓ_k) − m(ℓ'_k) cannot be one number for all k unless it is 0: the exp(ℓ_k) would sum to more than the
        exp(ℓ'_k), or to less. That the polynomial of the derivative has one sign between fine Chebyshev points follows
        from that at the points (Ehlich and Zeller): it leaves their range by at most a factor 1/cos(π degree/2 FINE).
        """
        grid = np.cos(np.pi * (np.arange(FINE) + 0.5) / FINE)
        rise = -chebyshev.chebval(grid, chebyshev.chebder(self.coefficients))
        middle, half = (rise.max() + rise.min()) / 2.0, (rise.max() - rise.min()) / 2.0
        return bool(middle - half / np.cos(np.pi * DEGREE / (2.0 * FINE)) > 0.0)

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """log softmax(m(ℓ))."""
        return in_order(log_softmax(chebyshev.chebval(places(logs), self.coefficients), axis=-1), logs)


@dataclass(eq=False, kw_only=True)
class DiagonalNetwork(ClassRecalibrator):
    """One increasing function of all scores, found by a small network: temperature scaling whose temperature may depend
    on the score. It keeps every ranking of classes."""

    name = "diag"
    title = "Diagonal order-preserving network"
    reference = (
        "Rahimi, Shaban, Cheng, Hartley & Boots (2020), Intra order-preserving functions for calibration of "
        "multi-class neural networks, NeurIPS"
    )
    map_class = DiagonalMap
    promises_accuracy = True
    hidden: int = option(16, "hidden units", at_least=1, at_most=256)
    decay: float = option(3e-3, "weight of the squared distance of the weights from their start", at_least=1e-8)
    seed: int = option(0, "seed of the hidden units at the start", at_least=0)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[DiagonalMap, Fit]:
        """The network near temperature scaling that makes the rows likeliest."""
        torch = need_torch(self.name)
        beta, at_bound = slope_of(rows)
        matrix, nodes = torch.from_numpy(INTEGRAL), torch.from_numpy(NODES)[:, None]

        def prepare(logs: np.ndarray) -> Any:
            return torch.from_numpy(chebyshev.chebvander(places(logs), DEGREE + 1))

        def scores(weights: dict[str, Any], basis: Any) -> Any:
            units = torch.tanh(nodes * weights["slopes"] + weights["offsets"])
            derivative = beta * positive_tensor(units @ weights["outputs"] + weights["bias"])
            return basis @ (matrix @ derivative)

        found = train(rows, self._start(), scores, prepare, decay=self.decay, threads=threads)
        return DiagonalMap(beta, **found.weights), found.fit(rows, at_bound, ())

    def _start(self) -> Weights:
        """Units whose bends lie all over [−1, 1], and of which nothing comes out yet."""
        rng = np.random.default_rng(self.seed)
        slopes = rng.uniform(1.0, 4.0, self.hidden) * rng.choice([-1.0, 1.0], self.hidden)
        offsets = -slopes * rng.uniform(-1.0, 1.0, self.hidden)
        return {"slopes": slopes, "offsets": offsets, "outputs": np.zeros(self.hidden), "bias": np.zeros(1)}
