"""Regression: whether outcomes lie where the predicted distributions say, F being the predictive CDF of a row.

- `pit`: the share of rows whose F(y) lies in each of 20 bins: lower, upper, n, share.
- `calibration`: the share of rows with F(y) ≤ level, at 0.01, 0.02 … 1: level, observed (Kuleshov, Fenner & Ermon 2018,
  ICML 35). For quantiles, the share with y below the quantile, ties counting half, at the given levels.
- `central_coverage`: the share of rows inside the central interval of a level, |2F(y) − 1| ≤ level: level, observed.
  For quantiles, at the levels that two of them enclose symmetrically.

band_low and band_high: where a share lies with probability `level` of the evaluation if the distributions are right, by
the binomial distribution; for weighted rows, with n = (Σw)²/Σw². There is no band for dependent rows. A row with S
samples is spread evenly over y's place among them (Czado, Gneiting & Held 2009, Biometrics 65: 1254-1261), so that
samples of the right distribution give even bins for every S; shares then vary a little less than the band allows.

All counts are exact sums, the same for any order of the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import partial

import numpy as np

from calibrant.calibration.binning import BinSums
from calibrant.intervals import binomial_band
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.regression_rows import PIT, RegressionRows, quantile_key
from calibrant.pipeline.curves.base import Columns, Curve, CurveState, MakeColumns, columns, with_band
from calibrant.predictions import Regression
from calibrant.predictions.regression import symmetric_levels
from calibrant.registry.estimate import Settings
from calibrant.registry.state.accumulators import counting

BINS = 20
LEVELS = np.arange(1, 101) / 100
LATTICE = 100
EDGES = np.arange(1, LATTICE + 1) / LATTICE
MOST_CODES = 1 << 20
"""The range of integers within which rows are counted without being sorted."""


def curves(example: Regression) -> Iterator[Curve]:
    """All three for distributions; for quantiles those that their levels allow."""
    makers: dict[str, MakeColumns] = {"pit": _pit, "calibration": _calibration, "central_coverage": _central}
    required: frozenset[Hashable] = frozenset({PIT} if example.samples is None else ())
    levels: tuple[float, ...] = ()
    if example.levels is not None:
        levels = tuple(sorted(float(level) for level in example.levels))
        required = frozenset(quantile_key(level) for level in example.levels.tolist())
        pairs = tuple(reversed(symmetric_levels(example.levels)))
        makers = {"calibration": partial(_calibration, levels=np.array(levels))}
        if pairs:
            makers["central_coverage"] = partial(_central, levels=np.array([1.0 - 2.0 * low for low, _ in pairs]))

    def accumulate(example: Regression, make_columns: MakeColumns) -> CurveState:
        if levels:
            return CurveState(("quantiles", levels), Quantiles(levels, pairs), make_columns)
        if example.samples is None:
            return CurveState(("points",), Points(), make_columns)
        size = len(example.samples)
        return CurveState(("places", size), Places(size), make_columns)

    for name, make_columns in makers.items():
        yield Curve(name, partial(accumulate, make_columns=make_columns), required_columns=required)


def _pit(state: Points | Places, settings: Settings) -> Columns:
    if state.effective_n() == 0:
        return {}
    edges = np.arange(BINS + 1) / BINS
    n, share = (np.diff(below(edges[1:]), prepend=0) for below in (state.rows_up_to, state.up_to))
    return with_band(
        columns(lower=edges[:-1], upper=edges[1:], n=n, share=share), _band(state, np.full(BINS, 1.0 / BINS), settings)
    )


def _calibration(state: Points | Places | Quantiles, settings: Settings, levels: np.ndarray = LEVELS) -> Columns:
    if state.effective_n() == 0:
        return {}
    return with_band(columns(level=levels, observed=state.up_to(levels)), _band(state, levels, settings))


def _central(state: Points | Places | Quantiles, settings: Settings, levels: np.ndarray = LEVELS) -> Columns:
    if state.effective_n() == 0:
        return {}
    return with_band(columns(level=levels, observed=state.within(levels)), _band(state, levels, settings))


def _band(
    state: Points | Places | Quantiles, share: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray] | None:
    rows = state.effective_n()
    return None if rows is None or not settings.intervals else binomial_band(rows, share, settings.level)


# -------------------------------------------------------------------------------- counts
class _EffectiveRows:
    """The effective number of independent rows, by weights."""

    def __init__(self) -> None:
        self.n, self.by_unit = 0, False
        self.mass: ExactSum | None = None
        self.squares = ExactSum()

    def count(self, rows: RegressionRows, n: int, w: np.ndarray | None) -> None:
        """Add n rows."""
        self.n += n
        self.by_unit |= rows.units is not None
        if w is not None:
            self.mass = (self.mass or ExactSum()).add(w)
            self.squares.add(w * w)

    def merge_counts(self, other: _EffectiveRows) -> None:
        """Add the rows of another state."""
        self.n += other.n
        self.by_unit |= other.by_unit
        if other.mass is not None:
            self.mass = (self.mass or ExactSum()).merge(other.mass)
            self.squares.merge(other.squares)

    def total(self) -> float:
        """Σw."""
        return float(self.n) if self.mass is None else self.mass.value()

    def effective_n(self) -> int | None:
        """(Σw)²/Σw², rounded; None if rows depend on each other."""
        if self.mass is None or self.n == 0:
            return None if self.by_unit and self.n else self.n
        return None if self.by_unit else max(1, round(self.total() ** 2 / self.squares.value()))


class Points(_EffectiveRows):
    """F(y) and |2F(y) − 1| of each row, counted between multiples of 1/100; levels are such multiples."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.central = BinSums(LATTICE, spread=False), BinSums(LATTICE, spread=False)

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Add rows."""
        if rows.pit is None:
            return
        pit, w = counting(rows.weights, rows.pit, rows.weights)
        known = ~np.isnan(pit)
        if not known.all():
            pit, w = pit[known], None if w is None else w[known]
        self.count(rows, len(pit), w)
        for sums, x in ((self.below, pit), (self.central, np.abs(2.0 * pit - 1.0))):
            sums.add(x, x, w, np.searchsorted(EDGES[:-1], x))  # the last bin holds what rounding puts beyond 1

    def merge(self, other: Points) -> None:
        """Add the rows of another state."""
        self.merge_counts(other)
        self.below.merge(other.below)
        self.central.merge(other.central)

    def up_to(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight with F(y) at most each level."""
        return self._cumulated(self.below, levels)

    def rows_up_to(self, levels: np.ndarray) -> np.ndarray:
        """The number of rows with F(y) at most each level."""
        return self.below.rows.cumsum()[np.rint(levels * LATTICE).astype(np.int64) - 1]

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight with |2F(y) − 1| at most each level."""
        return self._cumulated(self.central, levels)

    def _cumulated(self, sums: BinSums, levels: np.ndarray) -> np.ndarray:
        weight = sums.table().w.cumsum()
        return weight[np.rint(levels * LATTICE).astype(np.int64) - 1] / weight[-1]


class Tally:
    """The number and the weight of rows by an integer code."""

    def __init__(self) -> None:
        self.rows: Counter[int] = Counter()
        self.masses: dict[int, ExactSum] = {}

    def add(self, codes: np.ndarray, weights: np.ndarray | None) -> None:
        """Add rows."""
        if not codes.size:
            return
        lowest = int(codes.min())
        if weights is None and int(codes.max()) - lowest < MOST_CODES:
            counts = np.bincount(codes - lowest)
            found = np.flatnonzero(counts)
            self.rows.update(dict(zip((found + lowest).tolist(), counts[found].tolist(), strict=True)))
            return
        order = np.argsort(codes)
        found, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
        self.rows.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        if weights is not None:
            for code, part in zip(found.tolist(), np.split(weights[order], first[1:]), strict=True):
                self.masses.setdefault(code, ExactSum()).add(part)

    def merge(self, other: Tally) -> None:
        """Add the rows of another state."""
        self.rows.update(other.rows)
        for code, mass in other.masses.items():
            self.masses.setdefault(code, ExactSum()).merge(mass)

    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The codes, rising, with the number and the weight of the rows of each."""
        codes = sorted(self.rows)
        rows = np.array([self.rows[code] for code in codes], np.float64)
        mass = np.array([self.masses[code].value() for code in codes]) if self.masses else rows
        return np.array(codes, np.int64), rows, mass


class Places(_EffectiveRows):
    """The weight by y's place among S samples: from below/(S + 1) to (below + ties + 1)/(S + 1)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.tally = Tally()
        """By the code of a place: begin·(S + 2) + end, in units of 1/(S + 1)."""

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Add rows."""
        if rows.pit_low is None or rows.pit_high is None:
            return
        low, high, w = counting(rows.weights, rows.pit_low, rows.pit_high, rows.weights)
        begin, end = (np.rint(x * (self.size + 1)).astype(np.int64) for x in (low, high))
        self.count(rows, len(low), w)
        self.tally.add(begin * (self.size + 2) + end, w)

    def merge(self, other: Places) -> None:
        """Add the rows of another state."""
        self.merge_counts(other)
        self.tally.merge(other.tally)

    def _shares(self, levels: Iterable[float], central: bool = False, rows: bool = False) -> np.ndarray:
        """Sums over places of the part that lies up to each level, or within the central interval."""
        codes, counts, weight = self.tally.table()
        begin, end = (x / (self.size + 1) for x in np.divmod(codes, self.size + 2))
        mass = counts if rows else weight
        out = []
        for level in levels:
            low, high = (0.5 - level / 2, 0.5 + level / 2) if central else (0.0, level)
            inside = np.minimum(end, high) - np.maximum(begin, low)
            out.append(float((mass * np.clip(inside / (end - begin), 0.0, 1.0)).sum()))
        return np.array(out)

    def up_to(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight up to each level."""
        return self._shares(levels) / self._shares([1.0])

    def rows_up_to(self, levels: np.ndarray) -> np.ndarray:
        """The number of rows up to each level; a row may count in part."""
        return self._shares(levels, rows=True)

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight within the central interval of each level."""
        return self._shares(levels, central=True) / self._shares([1.0])


class Quantiles(_EffectiveRows):
    """The weight of rows with y below each quantile, ties counting half as in `mace`, and between pairs of them."""

    def __init__(self, levels: tuple[float, ...], pairs: tuple[tuple[float, float], ...]) -> None:
        super().__init__()
        self.levels, self.pairs = levels, pairs
        self.sums = [ExactSum() for _ in (*levels, *pairs)]

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Add rows."""
        if rows.y is None:
            return
        y, w = counting(rows.weights, rows.y, rows.weights)
        q = {t: counting(rows.weights, rows.extras[quantile_key(t)])[0] for t in self.levels}
        self.count(rows, len(y), w)
        under = {t: (y < q[t]) + 0.5 * (y == q[t]) for t in self.levels}
        inside = [under[t] for t in self.levels] + [under[b] - under[a] for a, b in self.pairs]
        for total, hit in zip(self.sums, inside, strict=True):
            total.add(hit if w is None else hit * w)

    def merge(self, other: Quantiles) -> None:
        """Add the rows of another state."""
        self.merge_counts(other)
        for mine, theirs in zip(self.sums, other.sums, strict=True):
            mine.merge(theirs)

    def up_to(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight at most each quantile; levels are all of them."""
        return np.array([total.value() for total in self.sums[: len(levels)]]) / self.total()

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight between each pair; levels are those of all pairs."""
        return np.array([total.value() for total in self.sums[-len(levels) :]]) / self.total()
