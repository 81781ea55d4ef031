"""Kernel calibration errors over all pairs of rows, in tiles: memory of a few rows, never of N x N.

Every result has the same bits for any number of threads: tiles are cut in one way, and their parts are added in one
order. It does depend on the order of rows, within rounding: callers that promise more put rows in an order of their
own. p (N, C) are probabilities, y (N,) labels, R labellings come as (R, N).
References: Widmann, Lindsten & Zachariah (2019, 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops.pairs import kernel_pairs as loops
from calibrant.kernels.loops.pairs import relabelled as redrawn
from calibrant.kernels.philox import key_of, words

W = loops.W
SAMPLED = 1 << 17
"""Random pairs whose distances tell where the median lies before all are counted."""

PLACES = 20
"""log2 of the places of the histogram around the median: at one float32 a place, a window of 12 % of its lower end."""

INFINITE = 0x7F800000
"""The bits of the float32 infinity: above those of every finite distance."""


@dataclass(frozen=True)
class PairSums:
    """Sums of a symmetric h over pairs of rows: what U-statistics, biased forms and their variances are made of."""

    total: float
    """Σ_{i<j} h_ij"""
    rows: np.ndarray
    """Σ_{j≠i} h_ij of each row (N,)"""
    squares: float
    """Σ_{i<j} h_ij²"""
    diagonal: float
    """Σ_i h_ii"""


def tiles_of(x: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """(tiles, D, W) from (N, D), the last tile filled up with copies of the last row."""
    n, dims = x.shape
    count = -(-n // W)
    out = np.empty((count, dims, W), dtype)
    whole = n // W
    out[:whole] = x[: whole * W].reshape(whole, W, dims).transpose(0, 2, 1)
    if whole < count:
        out[whole] = x[-1][:, None]
        out[whole, :, : n - whole * W] = x[whole * W :].T
    return out


def lanes_of(x: np.ndarray) -> np.ndarray:
    """(tiles, W) from (N,), filled up with copies of the last entry."""
    return tiles_of(x[:, None], x.dtype.type)[:, 0]


def _walk(step: Callable[[int, int, int], None], count: int, elements: int, threads: int | None) -> None:
    """Join every pair of `count` tiles once: step(s, start, stop) joins tiles t of the span with t + s."""
    for s in range(count // 2 + 1):
        over_rows(partial(step, s), count // 2 if 2 * s == count else count, elements, threads)


# ------------------------------------------------------------------------------------------- median
def median_distance(x: np.ndarray, threads: int | None = None) -> float:
    """The median of ‖x_i − x_j‖₂ over i < j, x (N, D), N >= 2: of an even count the lower of the two in the middle.

    Exact up to the rounding of the squared distance to float32. Random pairs give a window that should hold the
    median; one walk over all pairs counts those under it and those in it; where it was missed or was too wide, again.
    """
    n = len(x)
    rank = (n * (n - 1) // 2 - 1) // 2
    largest = float(np.abs(x).max())
    unit = 2.0 ** np.ceil(np.log2(largest)) if largest else 1.0
    x = x / unit  # by a power of two: exact, and no square leaves the range of float32
    tiles = tiles_of(x - x.mean(axis=0), np.float32)
    low, high = _window(x)
    while low < INFINITE:
        shift = max(0, (high - low - 1).bit_length() - PLACES)
        below, counts = _counted(x, tiles, low, high - low, shift, threads)
        if below > rank:
            low, high = 0, low
        elif below + counts.sum() <= rank:
            low, high = high, INFINITE
        else:
            place = int(np.searchsorted(np.cumsum(counts), rank - below, side="right"))
            if shift == 0:
                return float(unit * np.sqrt(_float32(low + place)))
            low, high = low + (place << shift), min(high, low + ((place + 1) << shift))
    return float("nan")


def _float32(bits: int) -> np.float64:
    return np.float64(np.array(bits, np.int32).view(np.float32))


def _window(x: np.ndarray) -> tuple[int, int]:
    """Bits of float32 numbers between which the median of the squared distances lies, most likely."""
    n = len(x)
    first = np.arange(SAMPLED) * n // SAMPLED  # each row as often as any other: the window can be smaller
    second = (words(0, 0, 0, SAMPLED) * (n * 2.0**-32)).astype(np.int64)
    second = np.where(first == second, (second + 1) % n, second)
    squares = np.empty(SAMPLED, np.float32)
    loops.sampled_squares(x, first, second, squares)
    squares.sort()
    margin = int(1.25 * np.sqrt(SAMPLED))  # 2.5 standard deviations, or more, of the number of pairs under the median
    low, high = squares[[SAMPLED // 2 - margin, SAMPLED // 2 + margin]].view(np.int32)
    return int(low), int(high) + 1


def _counted(
    x: np.ndarray, tiles: np.ndarray, low: int, width: int, shift: int, threads: int | None
) -> tuple[int, np.ndarray]:
    """Pairs under the window, and those in each of its places."""
    below = np.zeros(len(tiles), np.int64)
    # squared distances that float32 arithmetic may give for true ones in the window
    ulp, dims = 2.0**-23, tiles.shape[1]
    off = 2 * ulp * np.sqrt(dims) * float(np.abs(tiles).max())
    least = max(0.0, np.sqrt(_float32(low)) * (1 - (dims + 4) * ulp) - off)
    most = np.sqrt(_float32(low + width)) * (1 + (dims + 4) * ulp) + off
    slack = np.array([least**2, most**2]).astype(np.float32)
    window = (np.int32(low), np.uint32(width), np.uint32(shift))
    counts: dict[int, np.ndarray] = {}  # one of each span: spans of one step run side by side

    def step(s: int, start: int, stop: int) -> None:
        own = counts.setdefault(start, np.zeros(((width - 1) >> shift) + 1, np.int64))
        loops.gap_counts(x, tiles, slack, *window, own, below, s, start, stop)

    _walk(step, len(tiles), len(x) ** 2 * x.shape[1], threads)
    return int(below.sum()), np.sum(list(counts.values()), axis=0)


# ---------------------------------------------------------------------------------------------- SKCE
def skce_sums(p: np.ndarray, y: np.ndarray, width: float, threads: int | None = None) -> PairSums:
    """Sums of h_ij = exp(−‖p_i − p_j‖₂/width)·⟨e_{y_i} − p_i, e_{y_j} − p_j⟩ (Widmann et al. 2019), width > 0."""
    order = np.argsort(y, kind="stable")
    p, y = p[order], y[order]
    tiles, labels = tiles_of(p), lanes_of(y.astype(np.int64))
    halves = 0.5 * np.einsum("nc,nc->n", p, p)
    run = (tiles, lanes_of(halves), labels, run_ends_of(labels), len(p), loops.BITS / width)
    sums = _summed(partial(loops.skce_step, *run), tiles, p.size * len(p), threads)
    rows = np.empty(len(p))
    rows[order] = sums[1][: len(p)]
    diagonal = 1.0 - 2.0 * p[np.arange(len(p)), y] + 2.0 * halves
    return PairSums(sums[0], rows, sums[2], float(diagonal.sum()))


def run_ends_of(labels: np.ndarray) -> np.ndarray:
    """Where, in its tile, the run of equal labels ends that holds each lane."""
    last = np.ones(labels.shape, bool)
    last[:, :-1] = labels[:, 1:] != labels[:, :-1]
    ends = np.where(last, np.arange(1, W + 1), W)
    return np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1].copy()


def _summed(
    step: Callable[..., None], tiles: np.ndarray, elements: int, threads: int | None
) -> tuple[float, np.ndarray, float]:
    """Total, row sums (of filled-up tiles) and sum of squares of a walk."""
    rows, columns, squares = np.zeros((3, len(tiles), W))
    _walk(partial(step, rows, columns, squares), len(tiles), elements, threads)
    return float(rows.sum()), (rows + columns).ravel(), float(squares.sum())


def skce_blocks(
    p: np.ndarray, y: np.ndarray, width: float, edges: np.ndarray, threads: int | None = None
) -> np.ndarray:
    """The mean of h_ij over i < j in each block of rows edges[b] … edges[b + 1] (two rows at least)."""
    out = np.empty(len(edges) - 1)
    run = (p, y.astype(np.int64), 1.0 / width, edges.astype(np.int64), out)
    over_rows(partial(loops.skce_blocks, *run), len(out), int((np.diff(edges) ** 2).sum()) * p.shape[1], threads)
    return out


# ------------------------------------------------------------------------------- Gaussian predictions
def gaussian_skce_sums(mean: np.ndarray, std: np.ndarray, y: np.ndarray, threads: int | None = None) -> PairSums:
    """Sums of h_ij for predictions N(mean, std²) (Widmann et al. 2021), in units in which the kernel of y has width 1.

    h_ij = exp(−W₂(P_i, P_j))·[k(y_i, y_j) − E k(Z_i, y_j) − E k(y_i, Z_j) + E k(Z_i, Z_j)], k(a, b) = exp(−(a − b)²/2).
    """
    n = len(y)
    tiles = _gaussian_tiles(mean, std, y, loops.UNIT)
    total, rows, squares = _summed(partial(loops.gaussian_step, tiles, n), tiles, 10 * n * n, threads)
    return PairSums(total, rows[:n], squares, float(gaussian_diagonal(mean, std, y).sum()))


def gaussian_diagonal(mean: np.ndarray, std: np.ndarray, y: np.ndarray) -> np.ndarray:
    """h_ii = 1 − 2 E k(Z_i, y_i) + E k(Z_i, Z_i'), Z' another draw."""
    room = 1.0 + std**2
    return 1.0 - 2.0 * np.exp(-0.5 * (mean - y) ** 2 / room) / np.sqrt(room) + 1.0 / np.sqrt(1.0 + 2.0 * std**2)


def _gaussian_tiles(mean: np.ndarray, std: np.ndarray, y: np.ndarray, unit: float) -> np.ndarray:
    """Coordinates in the order of `loops.MEAN` and so on; half·(a − b)² is an exponent of 2 in UNIT, of e in unit 1."""
    room = 1.0 + std**2
    half = (0.5 if unit == 1.0 else 1.0) / room
    return tiles_of(np.stack([unit * mean, unit * std, unit * y, 1.0 / np.sqrt(room), half, std**2], axis=1))


def gaussian_skce_blocks(
    mean: np.ndarray, std: np.ndarray, y: np.ndarray, edges: np.ndarray, threads: int | None = None
) -> np.ndarray:
    """The mean of the Gaussian h_ij over i < j in each block of rows edges[b] … edges[b + 1] (two rows at least)."""
    out = np.empty(len(edges) - 1)
    run = (mean, std, y, edges.astype(np.int64), out)
    over_rows(partial(loops.gaussian_blocks, *run), len(out), 10 * int((np.diff(edges) ** 2).sum()), threads)
    return out


# -------------------------------------------------------------------------------- many labellings at once
def redrawn_labels(q: np.ndarray, replicates: int, seed: int, purpose: int, threads: int | None = None) -> np.ndarray:
    """Labels (replicates, N) drawn from the rows of q, in the smallest unsigned type.

    Row i of replicate r inverts the CDF of q[i] at the uniform number of (seed, purpose, r, i). A class of probability
    0 is never drawn.
    """
    n, classes = q.shape
    cumulative = np.cumsum(q, axis=1)
    last = classes - 1 - np.argmax(q[:, ::-1] > 0, axis=1)
    cumulative[np.arange(classes) >= last[:, None]] = np.inf
    out: np.ndarray = np.empty((replicates, n), np.min_scalar_type(classes - 1))
    run = (*key_of(seed), np.uint32(purpose), cumulative, out)
    over_rows(partial(redrawn.draw_labels, *run), replicates, out.size, threads)
    return out


def by_row(x: np.ndarray, count: int, dtype: type) -> np.ndarray:
    """(count·W, R) from (R, N): rows to fill up the last tile are 0."""
    out: np.ndarray = np.zeros((count * W, len(x)), dtype)
    out[: x.shape[1]] = x.T
    return out


def skce_redrawn(p: np.ndarray, labels: np.ndarray, width: float, threads: int | None = None) -> np.ndarray:
    """Σ_{i<j} h_ij of `skce_sums` for each of the labellings (R, N).

    Only Σ k_ij 1{y_i = y_j} is taken pair by pair, in float32 within a row and a tile; the rest is linear in labels:
    with L_j = Σ_{i≠j} k_ij p_i it is ½ Σ_j p_j·L_j − Σ_j L_j[y_j].
    """
    n = len(p)
    tiles = tiles_of(p)
    left, right = np.zeros_like(tiles), np.zeros_like(tiles)
    same = np.zeros((len(tiles), len(labels)))
    kind = np.min_scalar_type(p.shape[1] - 1).type
    run = (tiles, n, loops.BITS / width, by_row(labels, len(tiles), kind), left, right, same)
    _walk(partial(redrawn.same_label_step, *run), len(tiles), n * n * (p.shape[1] + len(labels) // 4), threads)
    linear = (left + right).transpose(0, 2, 1).reshape(-1, p.shape[1])[:n]
    constant = 0.5 * np.einsum("nc,nc->n", p, linear).sum()
    at = np.arange(n)
    return same.sum(axis=0) + constant - np.array([linear[at, drawn].sum() for drawn in labels])


def gaussian_skce_redrawn(mean: np.ndarray, std: np.ndarray, ys: np.ndarray, threads: int | None = None) -> np.ndarray:
    """Σ_{i<j} h_ij of `gaussian_skce_sums` for each of the outcomes ys (R, N), in float32 within a row and a tile."""
    n = len(mean)
    tiles = _gaussian_tiles(mean, std, mean, 1.0)
    out, constant = np.zeros((len(tiles), len(ys))), np.zeros(len(tiles))
    run = (tiles, n, by_row(ys - mean, len(tiles), np.float32), out, constant)
    _walk(partial(redrawn.gaussian_redrawn_step, *run), len(tiles), n * n * len(ys), threads)
    return out.sum(axis=0) + constant.sum()
