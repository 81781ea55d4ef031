"""The largest running sum of w(p − y) in the order of p: the Kolmogorov-Smirnov calibration error of binary pairs.

KS = max_t |Σ_{pᵢ ≤ t} wᵢ(pᵢ − yᵢ)| / Σw (Gupta et al. 2021), t at the ends of runs of equal p.

Rows are put into buckets of p; only in buckets inside which the sum may exceed what it reaches at their ends are rows
sorted. The result is that of sorting all, and sums are integers: the same bits for any order of rows.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels.exact import exact_sum
from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import ks as loops

COARSE, MOST_BUCKETS = 1024, 1 << 15
SAMPLE = 1 << 16
"""Rows that tell where buckets should be narrow."""
BLOCK = 1 << 21
"""Rows after which sums of 64 bits are settled: weights are below 2."""


class Buckets:
    """Sums of w(p − y) in buckets of p, of all rows."""

    def __init__(self, p: np.ndarray) -> None:
        """Buckets of about equal numbers of rows, judged by some of them."""
        some = p[:: max(1, len(p) // SAMPLE)]
        count = np.bincount(np.minimum(some * COARSE, COARSE - 1).astype(np.int64), minlength=COARSE)
        wanted = min(MOST_BUCKETS, len(p) // 8)
        self.split = (1 + count * wanted // len(some)).astype(np.int32)
        self.base = (np.cumsum(self.split) - self.split).astype(np.int32)
        size = int(self.split.sum())
        self.high, self.low = np.zeros(2 * size, np.int64), np.zeros(2 * size, np.int64)
        self.seen = np.full(size, loops.NEVER)

    def add(self, p: np.ndarray, y: np.ndarray, w: np.ndarray, start: int, stop: int) -> None:
        """Add rows start … stop."""
        sums = np.zeros_like(self.high)
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            loops.add_to_buckets(p, y, w, self.base, self.split, sums, self.seen, first, last)
            loops.settle(sums, self.high, self.low)

    def like(self) -> Buckets:
        """The same buckets, without rows."""
        made = object.__new__(Buckets)
        made.split, made.base = self.split, self.base
        made.high, made.low = np.zeros_like(self.high), np.zeros_like(self.low)
        made.seen = np.full_like(self.seen, loops.NEVER)
        return made

    def merge(self, other: Buckets) -> None:
        """Add the rows of others in the same buckets."""
        self.high += other.high
        self.low += other.low
        self.high += self.low >> 40
        self.low &= loops.LOW
        same = (self.seen == other.seen) | (other.seen == loops.NEVER)
        self.seen = np.where(self.seen == loops.NEVER, other.seen, np.where(same, self.seen, loops.MIXED))


def ks(p: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, threads: int | None = None) -> float:
    """max_t |Σ_{pᵢ ≤ t} wᵢ(pᵢ − yᵢ)| / Σw of p in [0, 1], y in [0, 1] of any type, and weights below 2."""
    p = np.ascontiguousarray(p, None if p.dtype in (np.float32, np.float64) else np.float64)
    y = np.ascontiguousarray(y.view(np.uint8) if y.dtype == bool else y)
    weights = np.empty(0) if w is None else np.ascontiguousarray(w, np.float64)
    whole, parts = Buckets(p), list[Buckets]()

    def fill(a: int, b: int) -> None:
        part = whole.like()  # parts[-1] may be another thread's
        parts.append(part)
        part.add(p, y, weights, a, b)

    over_rows(fill, len(p), len(p), threads)
    buckets = parts[0]
    for part in parts[1:]:
        buckets.merge(part)
    best, starts = np.zeros(2, np.int64), np.empty((len(buckets.seen), 2), np.int64)
    loops.bucket_ends(buckets.high, buckets.low, starts, best)
    marks = np.zeros(len(starts), np.uint8)
    loops.mark_buckets(buckets.high, buckets.low, buckets.seen, starts, best, marks)
    if marks.any():
        found: list[tuple[np.ndarray, np.ndarray]] = []  # rows of marked buckets, and their buckets

        def pick(a: int, b: int) -> None:
            for first in range(a, b, BLOCK):
                last = min(first + BLOCK, b)
                rows, places = np.empty(last - first + 1, np.int64), np.empty(last - first + 1, np.int32)
                count = loops.pick(p, buckets.base, buckets.split, marks, rows, places, first, last)
                found.append((rows[:count].copy(), places[:count].copy()))

        over_rows(pick, len(p), len(p), threads)
        rows, places = (np.concatenate(parts_of) for parts_of in zip(*found, strict=True))
        order = np.argsort(p[rows])
        rows = rows[order]
        loops.inside_buckets(p[rows], y[rows], weights if w is None else weights[rows], places[order], starts, best)
    total = float(len(p)) if w is None else exact_sum(weights)
    return ((int(best[0]) << 40) + int(best[1])) / (1 << 40) / total if total else float("nan")
