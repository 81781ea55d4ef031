"""Log-likelihoods as functions of inverse temperatures, of one for all rows or one a member, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.exact import exact_sum
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.floats import LOWEST_32, LOWEST_64
from calibrant.kernels.loops.temperature import members as member_loops
from calibrant.kernels.loops.temperature import sums as loops

MOST_SPANS = 64
SPAN_ENTRIES = 1 << 22
"""Sums of members that are held for all spans together."""
SPAN_ROWS = 256
PART = 20
"""One row in so many is read by a pass over a part."""


@dataclass(frozen=True)
class Sums:
    """Σ_i w_i (−log softmax(β z_i)[y_i]) and its derivatives by β."""

    value: float
    slope: float
    curvature: float
    third: float


class TemperatureSums:
    """Passes over scores (n, C), float32 or float64, whose weights (n,) are this object's own.

    What the first pass finds: `impossible` rows, whose label has a score of −inf and whose weight is 0 from then on;
    `wrong` rows, whose label is not the largest; `widest`, the largest difference of two scores of a row.
    """

    def __init__(self, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, threads: int | None) -> None:
        self.scores, self.labels, self.weights, self.threads = scores, labels, weights, threads
        self.impossible, self.wrong, self.widest, self.passes = 0, 0, 0.0, 0.0
        self._known = np.empty((2, len(scores)))
        self._new = True

    def at(self, beta: float, *, single: bool = False, part: bool = False) -> Sums:
        """The sums at β, exponentials in float32 where `single`; of a part, those of every twentieth stretch of rows.

        The first pass is over all rows.
        """
        n = len(self.scores)
        count = max(1, min(MOST_SPANS, -(-n // SPAN_ROWS)))  # spans depend on the size of the input alone
        edges = np.arange(count + 1, dtype=np.int64) * n // count
        begins, ends = edges[:-1], edges[:-1] - (edges[:-1] - edges[1:]) // PART if part else edges[1:]
        kind, least = (np.float32, LOWEST_32) if single else (np.float64, LOWEST_64)
        inverse = kind(beta)
        sums = np.zeros((len(begins), loops.FIELDS))
        run = (self.scores, self.labels, self.weights, inverse, kind(least / inverse), begins, ends, self._new)
        elements = int((ends - begins).sum()) * self.scores.shape[1]
        over_rows(
            lambda a, b: loops.temperature_spans(*run, self._known, sums, a, b), len(begins), elements, self.threads
        )
        self.passes += 1.0 / PART if part else 1.0
        if self._new:
            self._new = False
            self.impossible, self.wrong = (int(sums[:, field].sum()) for field in (loops.IMPOSSIBLE, loops.WRONG))
            self.widest = float(sums[:, loops.WIDEST].max())
        return Sums(*map(float, sums.sum(axis=0)[: loops.WIDEST]))


def sure_rows(scores: np.ndarray, beta: float, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The largest probability and the entropy in nats (n,) of softmax(βz); scores (n, C) in float64."""
    out = np.empty((2, len(scores)))
    run = (scores, float(beta), LOWEST_64 / float(beta), out)
    over_rows(lambda a, b: loops.sure_rows(*run, a, b), len(scores), scores.size, threads)
    return out[0], out[1]


# ------------------------------------------------------------------------------ averages of members
@dataclass(frozen=True)
class MixtureSums:
    """Σ_i w_i log mean_m softmax(β_m z_m[i])[y_i] and its derivatives by β.

    own_slope, own_curvature (M,): the derivatives of Σ_i w_i log softmax(β_m z_m[i])[y_i] of each member alone, over
    the rows whose label it finds possible.
    """

    value: float
    gradient: np.ndarray
    hessian: np.ndarray | None
    own_slope: np.ndarray
    own_curvature: np.ndarray
    log_mean: np.ndarray
    """log mean_m softmax(β_m z_m[i])[y_i] of each row: −inf where no member finds the label possible."""


def log_likelihoods(
    scores: np.ndarray, labels: np.ndarray, beta: np.ndarray, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ℓ = log softmax(β_m z_m[i])[y_i], dℓ/dβ and d²ℓ/dβ², each (M, n); (−inf, 0, 0) where the label cannot be.

    scores: (M, n, C) in float32 or float64, logits or log-probabilities; NaN where a row holds NaN or +inf, or nothing
    but −inf.
    """
    members, n, _ = scores.shape
    out = np.empty((members, 3, n))
    run = (scores, np.ascontiguousarray(labels, np.int64), np.ascontiguousarray(beta, np.float64), out)
    over_rows(lambda a, b: member_loops.member_terms(*run, a, b), n, scores.size, threads)
    return out[:, 0], out[:, 1], out[:, 2]


def mixture_sums(
    scores: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    beta: np.ndarray,
    *,
    hessian: bool = True,
    threads: int | None = None,
) -> MixtureSums:
    """The weighted log-likelihood of the averaged prediction, and its derivatives, whatever the number of threads.

    With responsibilities r and slopes a of the members, u = r·a: the gradient is Σ w·u, the Hessian
    diag Σ w·r(ℓ″ + a²) − Σ w·u·uᵀ. Rows of weight 0 do not count, impossible labels among them included.
    """
    members, n, _ = scores.shape
    most = min(MOST_SPANS, max(1, SPAN_ENTRIES // members**2))
    spans = max(1, min(most, -(-n // member_loops.ROWS)))  # by the size of the input alone
    edges = np.arange(spans + 1, dtype=np.int64) * n // spans
    sums = np.zeros((spans, member_loops.VECTORS + (members if hessian else 0), members))
    log_mean = np.empty(n)
    run = (scores, labels, weights, beta, hessian, edges, log_mean, sums)
    over_rows(lambda a, b: member_loops.mixture_spans(*run, a, b), spans, scores.size, threads)
    total = sums.sum(axis=0)
    curvature = None
    if hessian:
        lower = np.tril(total[member_loops.VECTORS :])
        curvature = np.diag(total[member_loops.SECOND]) - (lower + np.tril(lower, -1).T)
    return MixtureSums(
        value=exact_sum(np.where(weights > 0, weights * np.where(weights > 0, log_mean, 0.0), 0.0)),
        gradient=total[member_loops.GRADIENT],
        hessian=curvature,
        own_slope=total[member_loops.OWN_SLOPE],
        own_curvature=total[member_loops.OWN_CURVATURE],
        log_mean=log_mean,
    )
