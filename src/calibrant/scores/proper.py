"""Proper scores per row (N,).

With soft labels q the score is its expectation under q: −Σ q log p, and Σp² − 2Σ q·p + 1; `hit` is then q of the
predicted class. References: Gneiting & Raftery (2007); Brier (1950); Gruber & Buettner (2022) for the upper bounds.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.records import PREDICTIONS
from calibrant.kernels.rows import PROBS, RANK, Rows, rows_of


def _labelled(values: np.ndarray | None) -> np.ndarray:
    if values is None:
        raise AttributeError("these rows have no labels")
    return values


def accuracy(rows: Rows) -> np.ndarray:
    """1 where the predicted class is the label."""
    return _labelled(rows.hit)


def top_k(rows: Rows, k: int) -> np.ndarray:
    """1 where the label is among the k most probable classes."""
    return (rows.extras[RANK] < k).astype(np.float64)


def nll(rows: Rows, clip: float = 0.0) -> np.ndarray:
    """−log p(label); infinite where p(label) = 0 unless probabilities are clipped at `clip`."""
    log_label = rows.extras.get(("clip", clip), _labelled(rows.log_label))
    return -np.maximum(log_label, np.log(clip)) if clip > 0 else -log_label


def brier(rows: Rows) -> np.ndarray:
    """Σ_c (p_c − 1{c = label})², in [0, 2]."""
    return np.maximum(rows.sum_squares - 2.0 * _labelled(rows.label_p) + 1.0, 0.0)


def rbs_factor(classes: int, p: float) -> float:
    """Gruber's ladder: C^(1/p − 1/2)·√BS ≥ CE_p for 1 ≤ p ≤ 2."""
    return float(classes ** (1.0 / p - 0.5))


CHUNK = 1 << 14
"""Rows whose probabilities of all classes are in memory at a time."""


def ranked_probability(rows: Rows) -> np.ndarray:
    """Σ_{k < C} (Σ_{c ≤ k} p_c − 1{label ≤ k})², of classes in their order (Epstein 1969)."""
    lazy = rows.extras[PREDICTIONS]
    out = np.empty(rows.n)
    for start in range(0, rows.n, CHUNK):
        part = lazy[np.arange(start, min(start + CHUNK, rows.n))].predictions()
        record = rows_of(part, frozenset({("class", 0)}) if part.classes == 2 else frozenset({PROBS}), threads=1)
        first = record.extras["class", 0][:, None] if part.classes == 2 else record.extras[PROBS]
        below = np.cumsum(first, axis=1)[:, : part.classes - 1]
        reached = part.labels[:, None] <= np.arange(part.classes - 1)
        out[start : start + CHUNK] = ((below - reached) ** 2).sum(axis=1)
    return out
