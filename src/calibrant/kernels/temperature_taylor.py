"""Rows of one prediction, or of the running average of members, expanded about one inverse temperature at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.temperature import taylor as loops
from calibrant.kernels.loops.temperature.taylor import FIELDS, W


@dataclass(frozen=True)
class Slopes:
    """The loss of the halves (R, 2) of some rows: three derivatives by β, and how far the first may be off."""

    slope: np.ndarray
    curvature: np.ndarray
    third: np.ndarray
    error: np.ndarray


class RowExpansions:
    """What rows say at inverse temperatures near β: either of one prediction, or of members that are added one by one.

    Members are added up as probabilities in float64; of a label that is too unlikely for that, the logarithm is kept.
    """

    def __init__(self, labels: np.ndarray, classes: int, threads: int | None) -> None:
        self.labels, self.classes, self.threads = labels, classes, threads
        self.n, self.tiles = len(labels), -(-len(labels) // W)
        self.beta, self.passes, self.widest = 1.0, 0, 0.0
        self.marks = np.zeros(self.n, np.uint8)
        self._sums, self._deep, self._rec = np.empty(0), np.empty(0), np.empty(0)
        self._scores, self._is_probs, self._unit = np.empty((0, classes)), False, False

    # ------------------------------------------------------------------------------------------ rows
    def take(self, scores: np.ndarray, kind: str) -> None:
        """The rows of one prediction (n, C), float32 or float64, that is only looked at."""
        self._scores, self._is_probs, self._unit = scores, kind == "probs", kind != "logits"

    def add(self, scores: np.ndarray, kind: str, beta: float | None = None) -> None:
        """Add a member (n, C); with β, expand the average there in the same pass."""
        if not self._sums.size:
            self._sums = np.zeros(self.tiles * self.classes * W)
            self._deep = np.full(self.n, -np.inf)
        self.take(scores, kind)
        self._pass(scores, beta)
        self._scores = scores[:0]

    def clear(self) -> None:
        """Forget the members."""
        self.marks.fill(0)
        self._sums.fill(0.0)
        self._deep.fill(-np.inf)

    def expand(self, beta: float) -> None:
        """Expand all rows about β."""
        self._pass(self._scores, beta)

    def _pass(self, scores: np.ndarray, beta: float | None) -> None:
        if beta is not None and not self._rec.size:
            self._rec = np.empty(self.tiles * FIELDS * W)
        rec = np.empty(0) if beta is None else self._rec
        at = 1.0 if beta is None else float(beta)
        run = (scores, self.labels, self._is_probs, self._unit, at, self._sums, self._deep, rec, self.marks)
        over_rows(lambda a, b: loops.pass_tiles(*run, a, b), self.tiles, self.n * self.classes, self.threads)
        self.beta, self.passes = at, self.passes + 1
        self.widest = 0.0 if beta is None else float(self.field(loops.WIDTH).max())

    # ------------------------------------------------------------------------------- what is known of them
    def field(self, k: int) -> np.ndarray:
        """A field (n,) of the records."""
        return np.ascontiguousarray(self._rec.reshape(self.tiles, FIELDS, W)[:, k]).reshape(-1)[: self.n]

    @property
    def faulty(self) -> bool:
        """Whether some row is no prediction."""
        return bool((self.marks & loops.FAULT).any())

    @property
    def impossible(self) -> np.ndarray:
        """Rows (n,) whose label has probability 0."""
        return (self.marks & loops.IMPOSSIBLE) > 0

    def log_likelihood(self) -> np.ndarray:
        """log p(label) (n,) at the β of the expansion."""
        return np.where(self.impossible, -np.inf, self.field(loops.AT_LABEL) - self.field(loops.LOG_SUM))

    def raw(self) -> np.ndarray:
        """ℓ (n,) of the labels: logits, or logarithms of probabilities or of their sums."""
        return self.field(loops.RAW)

    # ------------------------------------------------------------------------------------- temperatures
    def padded(self, x: np.ndarray) -> np.ndarray:
        """What belongs to rows (…, n), with zeros up to whole tiles."""
        out = np.zeros((*x.shape[:-1], self.tiles * W), x.dtype)
        out[..., : self.n] = x
        return out

    def remainder(self, delta: np.ndarray) -> np.ndarray:
        """What Lagrange's remainder is multiplied by at δ: 1 above β."""
        with np.errstate(over="ignore"):
            return np.exp(np.minimum(np.maximum(-delta, 0.0) * self.widest, 700.0))

    def slopes(self, half: np.ndarray, weights: np.ndarray, delta: np.ndarray, wanted: np.ndarray) -> Slopes:
        """Sums by the weights (padded,) of halves (R, padded) at β + δ, in those repeats (R,) that are wanted."""
        out = np.zeros((len(half), 2, 4))
        run = (self._rec, half, weights, delta, self.remainder(delta), wanted, out)
        over_rows(lambda a, b: loops.half_slopes(*run, a, b), len(half), 8 * half.size, self.threads)
        return Slopes(*np.moveaxis(out, 2, 0))

    def score(self, half: np.ndarray, scored: int, delta: float, tolerance: float, out: np.ndarray) -> int:
        """Add log p(label) at β + δ of the rows in half `scored` to out (padded,); how many rows cannot be told so."""
        scale = float(self.remainder(np.array(delta))) * abs(delta) ** (loops.ORDER + 1)
        return int(loops.half_scores(self._rec, half, self.beta, delta, scored, scale, tolerance, out))

    def untold(self, delta: float, tolerance: float) -> np.ndarray:
        """Rows (n,) whose expansion cannot be told to reach β + δ within the tolerance."""
        scale = float(self.remainder(np.array(delta))) * abs(delta) ** (loops.ORDER + 1)
        value = np.ones(self.n)
        for k in range(loops.ORDER):
            value += self.field(k) * delta ** (k + 1)
        return ~(np.abs(self.field(loops.LAST)) * scale <= tolerance * value)

    def exact(self, beta: np.ndarray) -> np.ndarray:
        """log p(label) and the Brier score (2, n) of each row at its own β (n,)."""
        out = np.zeros((2, self.n))
        run = (self._scores, self.labels, self._is_probs, beta, self._sums, self._deep, out)
        over_rows(lambda a, b: loops.exact_tiles(*run, a, b), self.tiles, self.n * self.classes, self.threads)
        return out
