"""Regression of labels on whole predictions with Dirichlet kernels, leave-one-out, in tiles (Popordanoska et al. 2022).

k(p_j; p_i) is the density at p_j of a Dirichlet distribution with α = p_i/h + 1, h the bandwidth; p is taken to be at
least 1e-12 inside the logarithm. Every row is worked out alone, so that results have the same bits for any number of
threads. p (N, C) are probabilities, y (N,) labels, N >= 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.kernel_pairs import W, by_row, lanes_of, run_ends_of, tiles_of
from calibrant.kernels.loops.pairs import dirichlet as loops

LEAST = 1e-12


def dirichlet_log_likelihood(
    p: np.ndarray, bandwidths: Sequence[float] | np.ndarray, threads: int | None = None
) -> np.ndarray:
    """mean_j log(1/(N − 1) Σ_{i≠j} k_h(p_j; p_i)) for each bandwidth h (H,)."""
    n = len(p)
    rates = 1.0 / np.asarray(bandwidths, np.float64)
    out = np.empty((len(rates), n))
    run = (tiles_of(p), np.stack([_offsets(p, rate) for rate in rates]), rates, np.log(np.maximum(p, LEAST)), out)
    over_rows(partial(loops.log_likelihoods, *run), n, p.size * n, threads)
    return out.mean(axis=1) - np.log(n - 1)


def dirichlet_regression(p: np.ndarray, y: np.ndarray, bandwidth: float, threads: int | None = None) -> np.ndarray:
    """Ê[e_y | p_j] = Σ_{i≠j} k(p_j; p_i) e_{y_i} / Σ_{i≠j} k(p_j; p_i), (N, C)."""
    order = np.argsort(y, kind="stable")
    p, labels = p[order], lanes_of(y[order].astype(np.int64))
    shares = np.zeros(p.shape)
    run = (*_kernels(p, bandwidth), labels, run_ends_of(labels), shares)
    over_rows(partial(loops.label_weights, *run), len(p), p.size * len(p), threads)
    out = np.empty(p.shape)
    out[order] = shares
    return out


def dirichlet_redrawn(
    p: np.ndarray, labels: np.ndarray, bandwidth: float, order: float, threads: int | None = None
) -> np.ndarray:
    """mean_j Σ_c |p_j[c] − Ê_r[c | p_j]|^order for each of the labellings r (R, N).

    Weights under 1e-9 of the largest of their row are left out: where the bandwidth is small, most are.
    """
    tiles, *kernels = _kernels(p, bandwidth)
    out = np.zeros((len(tiles), len(labels)))
    rows = by_row(labels, len(tiles), np.min_scalar_type(p.shape[1] - 1).type)
    run = (tiles, *kernels, p, rows, float(order), out)
    over_rows(partial(loops.redrawn_distances, *run), len(tiles), p.size * len(p), threads)
    return out.sum(axis=0) / len(p)


def _kernels(p: np.ndarray, bandwidth: float) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    rate = 1.0 / bandwidth
    return tiles_of(p), _offsets(p, rate)[None], rate, np.log(np.maximum(p, LEAST))


def _offsets(p: np.ndarray, rate: float) -> np.ndarray:
    """lnΓ(Σα) − Σ lnΓ(α) of every row, (tiles, W); far below all where a tile is filled up."""
    from scipy.special import gammaln

    alpha = rate * p + 1.0
    offsets = lanes_of(gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1))
    offsets[-1, len(p) - W * (len(offsets) - 1) :] = loops.NEVER
    return offsets
