"""Workloads over all pairs of rows: kernel calibration errors and Dirichlet kernels, beside NumPy, SciPy and torch.

No library on the list computes them, so the others are what one would write: blocks of rows that fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.spatial.distance import cdist, pdist

from benchmarks import peers
from benchmarks.data import SIZES, logits_and_labels
from benchmarks.regression import gaussians
from calibrant.kernels.dirichlet import dirichlet_regression
from calibrant.kernels.kernel_pairs import gaussian_skce_sums, median_distance, skce_sums

Contestants = dict[str, Callable[[], object]]
BLOCK = 500
BANDWIDTH = 0.01
PLAIN, SCIPY = "plain NumPy", "NumPy and SciPy"
SLOW = (PLAIN, SCIPY)
"""They take seconds, and have nothing to warm up."""

BUDGET = 3.0
"""Seconds of rounds of one workload."""


def workloads(threads: int, quick: bool) -> Iterator[tuple[str, Contestants, str, tuple[str, ...]]]:
    """Name, contestants, goal, and whom the goal speaks of."""
    logits, labels = logits_and_labels(*SIZES["A"])
    p = peers.numpy_probabilities(logits).astype(np.float64)
    ours, plain, scipy = _skce(p, labels, threads).items()
    yield "SKCE with its median distance, A", dict([ours, plain]), "20", (PLAIN,)
    if threads == 1:  # SciPy has no use for more
        yield "SKCE with its median distance, A, beside SciPy's distances", dict([ours, scipy]), "", (SCIPY,)
    yield "SKCE of Gaussians, 10k rows", _gaussian(10_000, threads), "20", (PLAIN,)
    yield "canonical calibration error, Dirichlet kernels, A", _dirichlet(p, labels, threads), "3", ("torch, blocks",)


# ---------------------------------------------------------------------------------------------- SKCE
def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, n, BLOCK))


def numpy_skce(p: np.ndarray, labels: np.ndarray) -> float:
    """The unbiased SKCE in NumPy alone."""
    n = len(p)
    rest, total = np.eye(p.shape[1])[labels] - p, 0.0
    width = np.median(np.concatenate([np.sqrt(((p[i] - p[i + 1 :]) ** 2).sum(axis=1)) for i in range(n - 1)]))
    for rows in _blocks(n):
        gaps = np.sqrt(((p[rows, None] - p) ** 2).sum(axis=2))
        total += (np.exp(-gaps / width) * (rest[rows] @ rest.T)).sum()
    return float((total - (rest**2).sum()) / (n * (n - 1)))


def scipy_skce(p: np.ndarray, labels: np.ndarray) -> float:
    """The unbiased SKCE with SciPy's distances: all at once for the median, in blocks for the sum."""
    n = len(p)
    rest, total = np.eye(p.shape[1])[labels] - p, 0.0
    width = np.median(pdist(p))
    for rows in _blocks(n):
        total += (np.exp(-cdist(p[rows], p) / width) * (rest[rows] @ rest.T)).sum()
    return float((total - (rest**2).sum()) / (n * (n - 1)))


def _skce(p: np.ndarray, labels: np.ndarray, threads: int) -> Contestants:
    """Ours also gives the sums of rows and of squares, from which its variance is made."""
    return {
        "calibrant": lambda: skce_sums(p, labels, median_distance(p, threads), threads),
        PLAIN: lambda: numpy_skce(p, labels),
        SCIPY: lambda: scipy_skce(p, labels),
    }


def numpy_gaussian(mean: np.ndarray, std: np.ndarray, y: np.ndarray) -> float:
    """Σ over all pairs, rows with themselves included, of the terms for Gaussians."""
    room, total = 1 + std**2, 0.0
    for rows in _blocks(len(y)):
        m, s, v, own = mean[rows, None], std[rows, None], room[rows, None], y[rows, None]
        both = v + std**2
        terms = np.exp(-0.5 * (own - y) ** 2) - np.exp(-0.5 * (m - y) ** 2 / v) / np.sqrt(v)
        terms += np.exp(-0.5 * (m - mean) ** 2 / both) / np.sqrt(both)
        terms -= np.exp(-0.5 * (own - mean) ** 2 / room) / np.sqrt(room)
        total += (np.exp(-np.sqrt((m - mean) ** 2 + (s - std) ** 2)) * terms).sum()
    return float(total)


def _gaussian(n: int, threads: int) -> Contestants:
    mean, std, y = gaussians(1, n)
    return {
        "calibrant": lambda: gaussian_skce_sums(mean[0], std[0], y, threads),
        PLAIN: lambda: numpy_gaussian(mean[0], std[0], y),
    }


# ----------------------------------------------------------------------------------------- Dirichlet
def torch_dirichlet(p: torch.Tensor, labels: torch.Tensor) -> float:
    """E‖E[y | p] − p‖₁ with Dirichlet kernels, leave-one-out, by matrix products in blocks."""
    scaled, hot = p / BANDWIDTH, torch.eye(p.shape[1])[labels]
    offsets = torch.lgamma((scaled + 1).sum(1)) - torch.lgamma(scaled + 1).sum(1)
    logs, total = torch.log(p.clamp(min=1e-12)), 0.0
    for rows in _blocks(len(p)):
        x = logs[rows] @ scaled.T + offsets
        own = torch.arange(len(x))
        x[own, rows.start + own] = -torch.inf
        x = torch.exp(x - x.max(1, keepdim=True).values)
        shares = x @ hot
        total += float((shares / shares.sum(1, keepdim=True) - p[rows]).abs().sum())
    return total / len(p)


def _dirichlet(p: np.ndarray, labels: np.ndarray, threads: int) -> Contestants:
    """The bandwidth is given to all."""
    tensor, target = torch.from_numpy(p).float(), torch.from_numpy(labels)
    return {
        "calibrant": lambda: np.abs(dirichlet_regression(p, labels, BANDWIDTH, threads) - p).sum(axis=1).mean(),
        "torch, blocks": lambda: torch_dirichlet(tensor, target),
    }
