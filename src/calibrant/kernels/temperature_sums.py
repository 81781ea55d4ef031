"""The negative log-likelihood of some rows as a function of one inverse temperature, with three derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import temperature_sums as loops
from calibrant.kernels.loops.floats import LOWEST_32, LOWEST_64

MOST_SPANS = 64
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
        begins, ends = self._spans(part)
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
            self._learn(sums)
        return Sums(*map(float, sums.sum(axis=0)[: loops.WIDEST]))

    def _spans(self, part: bool) -> tuple[np.ndarray, np.ndarray]:
        """Where spans begin and end, by the size of the input alone."""
        n = len(self.scores)
        count = max(1, min(MOST_SPANS, -(-n // SPAN_ROWS)))
        edges = np.arange(count + 1, dtype=np.int64) * n // count
        ends = edges[:-1] - (edges[:-1] - edges[1:]) // PART if part else edges[1:]
        return edges[:-1], ends

    def _learn(self, sums: np.ndarray) -> None:
        self._new = False
        self.impossible, self.wrong = (int(sums[:, field].sum()) for field in (loops.IMPOSSIBLE, loops.WRONG))
        self.widest = float(sums[:, loops.WIDEST].max())


def sure_rows(scores: np.ndarray, beta: float, threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The largest probability and the entropy in nats (n,) of softmax(βz); scores (n, C) in float64."""
    out = np.empty((2, len(scores)))
    run = (scores, float(beta), LOWEST_64 / float(beta), out)
    over_rows(lambda a, b: loops.sure_rows(*run, a, b), len(scores), scores.size, threads)
    return out[0], out[1]
