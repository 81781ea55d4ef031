"""Regression: how wide the intervals are, and whether wide intervals cover what narrow ones miss.

`width`: a histogram of the width of the central 95% interval of each row; for quantiles without those of 95%, of the
widest interval that two of their levels enclose symmetrically: lower, upper, n, covered, missed, level. A bin
holds widths from lower up to but without upper. n counts rows. covered and missed are the rows inside and outside of
their interval, sums of weights if rows have weights; without outcomes they are left out. level, the same in every bin,
is the nominal coverage.

Bins are geometric: rows are counted between fixed fractions of an octave, so that counts can be added, and these are
joined in pairs until at most 2·∛n bins, or 40, have rows. Bins without rows are left out, and so are intervals of zero
or infinite width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from calibrant.kernels.regression_rows import RegressionRows, quantile_key
from calibrant.pipeline.curves.base import Columns, Curve, CurveState, columns
from calibrant.pipeline.curves.coverage import Tally
from calibrant.predictions import Regression
from calibrant.predictions.regression import central_levels
from calibrant.registry.estimate import Settings
from calibrant.registry.state.accumulators import counting
from calibrant.scores.regression import interval_ends

LEVEL = 0.95
STEPS = 64
"""Steps of an octave."""
PARTS = 0.5 * 2.0 ** (np.arange(STEPS) / STEPS)
"""Where they begin, in the octave from ½ to 1."""
MAX_BINS = 40


def curves(example: Regression) -> Iterator[Curve]:
    """The histogram, if there is an interval."""
    ends = interval_ends(LEVEL) if example.levels is None else central_levels(example.levels)
    if ends is not None:
        required = frozenset(map(quantile_key, ends))
        yield Curve(
            "width", lambda example: CurveState(("widths", ends), Widths(*ends), _columns), frozenset(), required
        )


class Widths:
    """Rows inside and outside of their interval, by its width."""

    def __init__(self, low: float, high: float) -> None:
        """No rows yet; of the interval between the quantiles of two levels."""
        self.low, self.high = low, high
        self.tally = Tally()
        self.known = False
        """Whether there are outcomes."""

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Add rows."""
        self.known = rows.y is not None
        low, high = (rows.extras[quantile_key(level)] for level in (self.low, self.high))
        inside = (low <= rows.y) & (rows.y <= high) if rows.y is not None else np.zeros(rows.n, bool)
        with np.errstate(over="ignore"):
            width = high - low
        width, inside, w = counting(rows.weights, width, inside, rows.weights)
        some = (width > 0) & (width < np.inf)
        self.tally.add(2 * _part(width[some]) + inside[some], None if w is None else w[some])

    def merge(self, other: Widths) -> None:
        """Add the rows of another state."""
        self.known |= other.known
        self.tally.merge(other.tally)


def _part(width: np.ndarray) -> np.ndarray:
    """The number of the step of an octave in which a width lies."""
    fraction, octave = np.frexp(width)
    return octave.astype(np.int64) * STEPS + np.searchsorted(PARTS, fraction, side="right") - 1


def _edges(part: np.ndarray) -> np.ndarray:
    """Where steps begin, at most the largest float."""
    with np.errstate(over="ignore"):
        return np.minimum(np.ldexp(PARTS[part % STEPS], part // STEPS), np.finfo(np.float64).max)


def _columns(state: Widths, settings: Settings) -> Columns:
    codes, rows, mass = state.tally.table()
    if not codes.size:
        return {}
    part, inside = codes // 2, codes % 2 == 1
    joined = 1
    while len(np.unique(part // joined)) > min(MAX_BINS, math.ceil(2.0 * np.cbrt(rows.sum()))):
        joined *= 2
    bins, place = np.unique(part // joined, return_inverse=True)
    count, covered, missed = (
        np.bincount(place, x, len(bins)) for x in (rows, np.where(inside, mass, 0.0), np.where(inside, 0.0, mass))
    )
    return columns(
        lower=_edges(bins * joined),
        upper=_edges((bins + 1) * joined),
        n=count.astype(np.int64),
        covered=covered if state.known else None,
        missed=missed if state.known else None,
        level=np.full(len(bins), 1.0 - 2.0 * min(state.low, 1.0 - state.high)),
    )
