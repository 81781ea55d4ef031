"""An e-value against calibration: evidence that is valid after every row.

Null hypothesis: given the past and the forecast p_t, P(y_t = 1) = p_t. An alternative predicts q_t instead, a fixed
function of p_t, and the product of its likelihood ratios is a nonnegative martingale that starts at 1. So is a mixture
of such products with fixed weights, here E = (A + B)/2 with

    A = Σ_k w_k Π_t LR_k(p_t, y_t)              logit q = a + b·logit p (Cox 1958), on rings around (a, b) = (0, 1),
    B = Π_bins (½ + Σ_j v_j Π_{t in bin} LR_j)  logit q = logit p + δ_j, apart in each of ten bins of equal width.

Ville's inequality then bounds the chance that E ever reaches 1/α by α, whenever one stops, and 1/E is a p-value. Both
parts are functions of sums of log ratios, so the last value depends on no order, and parts of the rows merge exactly.

An outcome with forecast probability 0 makes the null hypothesis impossible: E is then infinite. Otherwise alternatives
do not change p = 0 and p = 1. Within 2⁻²⁰ of these, only alternatives that move p inwards bet.

References: Ville (1939), Étude critique de la notion de collectif; Shafer (2021), JRSS A 184: 407-431; Vovk & Wang
(2021), Annals of Statistics 49: 1736-1754; Arnold, Henzi & Ziegel (2023), Annals of Applied Statistics 17: 1909-1935;
Henzi, Puke, Dimitriadis & Ziegel (2022), A safe Hosmer-Lemeshow test, arXiv:2203.00426.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binning import equal_width
from calibrant.kernels.loops import evalue as loops

RADII = tuple(2.0 ** (1 - j) for j in range(7))
"""Of the rings: a up to ±2 and b from 1/4 to 4, down to a = ±1/32 and b = 1 ± 0.02."""
RING_WEIGHTS = np.arange(1.0, 1.0 + len(RADII)) / sum(range(1, 1 + len(RADII)))
"""Small deviations are more likely, and large ones are detected anyway."""
DIRECTIONS = 8
BINS = 10
UNCHANGED = 0.5
"""Weight, in each bin, of the hypothesis that the bin is calibrated."""
LOWEST = -math.log(2.0) + BINS * math.log(UNCHANGED)
"""Lower bound of log E: every bin may be calibrated."""
UNIT_BITS = 54
"""Sums are whole numbers of 2⁻⁵⁴."""
HIGH_BITS = 20


def _alternatives() -> tuple[np.ndarray, np.ndarray]:
    """(a, b) of every alternative (2, K) and its weight; those of b = 1, which shift p, come last."""
    turns = np.arange(DIRECTIONS)
    bent = turns[turns % (DIRECTIONS // 2) != 0]
    angles = [(r, w, 2 * math.pi * t / DIRECTIONS) for t in bent for r, w in zip(RADII, RING_WEIGHTS, strict=True)]
    lines = [(r * math.cos(angle), 2.0 ** (r * math.sin(angle)), w / DIRECTIONS) for r, w, angle in angles]
    lines += [(s * r, 1.0, w / DIRECTIONS) for s in (1, -1) for r, w in zip(RADII, RING_WEIGHTS, strict=True)]
    a, b, weights = np.array(lines).T
    return np.ascontiguousarray([a, b]), np.ascontiguousarray(weights)


LINES, WEIGHTS = _alternatives()
SHIFTS = 2 * len(RADII)
SHIFT_WEIGHTS = (1.0 - UNCHANGED) * np.tile(RING_WEIGHTS / 2.0, 2)
_LOG_WEIGHTS, _LOG_SHIFT_WEIGHTS = np.log(WEIGHTS), np.log(SHIFT_WEIGHTS)


@dataclass
class LogRatios:
    """Exact sums of log ratios in units of 2⁻⁵⁴: all that E depends on."""

    n: int = 0
    impossible: int = 0
    """Rows whose outcome had forecast probability 0."""
    of_lines: list[int] = field(default_factory=lambda: [0] * len(WEIGHTS))
    of_bins: list[int] = field(default_factory=lambda: [0] * (BINS * SHIFTS))
    """Of the alternatives that shift p, bin by bin."""

    def add(self, p: np.ndarray, y: np.ndarray) -> None:
        """Add rows: forecasts p and outcomes y of 0 and 1."""
        for part in _parts(p, y):
            high, low = np.zeros(len(WEIGHTS)), np.zeros(len(WEIGHTS))
            bins = np.zeros((2, BINS, SHIFTS))
            self.impossible += loops.add_rows(*part, LINES, high, low, *bins)
            self.n += len(part[0])
            self.of_lines = _plus(self.of_lines, _units(high, low))
            self.of_bins = _plus(self.of_bins, _units(*bins))

    def merge(self, other: LogRatios) -> None:
        """Merge another of the same kind."""
        self.n += other.n
        self.impossible += other.impossible
        self.of_lines = _plus(self.of_lines, other.of_lines)
        self.of_bins = _plus(self.of_bins, other.of_bins)

    def log_e(self) -> float:
        """log E after all rows added so far."""
        if self.impossible:
            return math.inf
        terms, few = np.empty(len(WEIGHTS)), np.empty(SHIFTS)
        lines = loops.log_mixture(*_floats(self.of_lines), _LOG_WEIGHTS, 0.0, terms)
        high, low = (part.reshape(BINS, SHIFTS) for part in _floats(self.of_bins))
        bins = [loops.log_mixture(high[b], low[b], _LOG_SHIFT_WEIGHTS, UNCHANGED, few) for b in range(BINS)]
        return float(loops.log_half_sum(lines, np.array(bins)))

    def follow(self, p: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Add rows in their order of arrival; log E (N,) after each of them."""
        path = np.empty(len(p))
        start = 0
        for part in _parts(p, y):
            stop = start + len(part[0])
            high, low = _floats(self.of_lines)
            bin_high, bin_low = (x.reshape(BINS, SHIFTS) for x in _floats(self.of_bins))
            weights = (_LOG_WEIGHTS, _LOG_SHIFT_WEIGHTS, UNCHANGED)
            sums = (high, low, bin_high, bin_low)
            impossible = loops.follow_rows(*part, LINES, *weights, *sums, path[start:stop])
            if self.impossible:
                path[start:stop] = np.inf
            self.impossible += impossible
            self.n += stop - start
            self.of_lines, self.of_bins = _units(high, low), _units(bin_high, bin_low)
            start = stop
        return path


def log_e_value(p: np.ndarray, y: np.ndarray) -> float:
    """log E of forecasts p (N,) and outcomes y (N,)."""
    state = LogRatios()
    state.add(p, y)
    return state.log_e()


def log_e_path(p: np.ndarray, y: np.ndarray, state: LogRatios | None = None) -> np.ndarray:
    """log E (N,) after each row; `state` holds earlier rows, and these are added to it."""
    return (LogRatios() if state is None else state).follow(p, y)


def _parts(p: np.ndarray, y: np.ndarray) -> Any:
    """p, y and bin of successive blocks of rows, small enough for exact sums of floats."""
    p, y = np.ascontiguousarray(p, np.float64), np.ascontiguousarray(y, np.float64)
    for start in range(0, len(p), loops.MOST_ROWS):
        part = p[start : start + loops.MOST_ROWS]
        yield part, y[start : start + loops.MOST_ROWS], equal_width(part, BINS)


def _plus(a: list[int], b: list[int]) -> list[int]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _units(high: np.ndarray, low: np.ndarray) -> list[int]:
    """Whole numbers of 2⁻⁵⁴."""
    scale = 2.0**UNIT_BITS
    return [int(h * scale) + int(low_part * scale) for h, low_part in zip(high.flat, low.flat, strict=True)]


def _floats(units: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """As multiples of 2⁻²⁰ and what is left of them; exact up to 2³³ = 8.6e9, which takes as many rows."""
    shift = UNIT_BITS - HIGH_BITS
    high = [(x + (1 << (shift - 1))) >> shift for x in units]
    low = [x - (h << shift) for x, h in zip(units, high, strict=True)]
    return np.array(high, np.float64) * 2.0**-HIGH_BITS, np.array(low, np.float64) * 2.0**-UNIT_BITS
