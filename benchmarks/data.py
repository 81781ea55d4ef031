"""Problems of the sizes that the table speaks of, made the same way each time."""

from __future__ import annotations

import numpy as np

SIZES = {"A": (10_000, 10), "B": (10_000, 100), "C": (50_000, 1000)}
OVERCONFIDENCE = 1.7


def logits_and_labels(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 logits of an over-confident model: labels follow softmax(z), the model says softmax(1.7 z)."""
    rng = np.random.default_rng(seed)
    logits, labels = np.empty((n, classes), np.float32), np.empty(n, np.int64)
    for start in range(0, n, 5000):
        rows = slice(start, min(start + 5000, n))
        size = rows.stop - rows.start
        z = rng.standard_normal((size, classes), dtype=np.float32)
        z[np.arange(size), rng.integers(0, classes, size)] += np.log(classes) + 2.5 * rng.random(size) + 0.5
        noise = -np.log(-np.log(rng.random((size, classes), dtype=np.float32) + 1e-12) + 1e-12)
        labels[rows] = (z + noise).argmax(axis=1)
        logits[rows] = OVERCONFIDENCE * z
    return logits, labels


def member_logits(members: int, n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 logits (M, N, C) of members that differ by noise."""
    logits, labels = logits_and_labels(n, classes, seed)
    rng = np.random.default_rng(seed + 99)
    out = np.empty((members, n, classes), np.float32)
    for m in range(members):
        out[m] = logits + OVERCONFIDENCE * 0.7 * rng.standard_normal((n, classes), dtype=np.float32)
    return out, labels
