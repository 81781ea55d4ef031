"""The log-likelihood of an average of members as a function of their inverse temperatures, with two derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.exact import exact_sum
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import temperature as loops

MOST_SPANS = 64
SPAN_ENTRIES = 1 << 22
"""Sums that are held for all spans together."""


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
    over_rows(lambda a, b: loops.member_terms(*run, a, b), n, scores.size, threads)
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
    edges = _edges(members, n)
    spans = len(edges) - 1
    sums = np.zeros((spans, loops.VECTORS + (members if hessian else 0), members))
    log_mean = np.empty(n)
    run = (scores, labels, weights, beta, hessian, edges, log_mean, sums)
    over_rows(lambda a, b: loops.mixture_spans(*run, a, b), spans, scores.size, threads)
    total = sums.sum(axis=0)
    return MixtureSums(
        value=exact_sum(np.where(weights > 0, weights * np.where(weights > 0, log_mean, 0.0), 0.0)),
        gradient=total[loops.GRADIENT],
        hessian=_hessian(total) if hessian else None,
        own_slope=total[loops.OWN_SLOPE],
        own_curvature=total[loops.OWN_CURVATURE],
        log_mean=log_mean,
    )


def _edges(members: int, n: int) -> np.ndarray:
    """Where spans begin and end: by the size of the input alone."""
    most = min(MOST_SPANS, max(1, SPAN_ENTRIES // members**2))
    spans = max(1, min(most, -(-n // loops.ROWS)))
    return np.arange(spans + 1, dtype=np.int64) * n // spans


def _hessian(total: np.ndarray) -> np.ndarray:
    lower = np.tril(total[loops.VECTORS :])
    outer = lower + np.tril(lower, -1).T
    return np.diag(total[loops.SECOND]) - outer
