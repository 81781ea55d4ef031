"""Where outcomes lie in their predictive distributions, summed: as points, as places among samples, or by quantiles.

All are exact sums, the same for any order of rows, and all answer by shares of the weight; see `curves.regression`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from calibrant.calibration.binned import BinSums
from calibrant.kernels.exact import ExactSum
from calibrant.kernels.regression_rows import RegressionRows, quantile_key
from calibrant.registry.accumulators import counting

LATTICE = 100
EDGES = np.arange(1, LATTICE + 1) / LATTICE
MOST_CODES = 1 << 20
"""Whole numbers between which rows are counted without being sorted."""


class _Worth:
    """How many independent rows the weights are worth."""

    def __init__(self) -> None:
        """No rows yet."""
        self.n, self.by_unit = 0, False
        self.mass: ExactSum | None = None
        self.squares = ExactSum()

    def count(self, rows: RegressionRows, n: int, w: np.ndarray | None) -> None:
        """Take in n rows."""
        self.n += n
        self.by_unit |= rows.units is not None
        if w is not None:
            self.mass = (self.mass or ExactSum()).add(w)
            self.squares.add(w * w)

    def merge_worth(self, other: _Worth) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.by_unit |= other.by_unit
        if other.mass is not None:
            self.mass = (self.mass or ExactSum()).merge(other.mass)
            self.squares.merge(other.squares)

    def total(self) -> float:
        """Σw."""
        return float(self.n) if self.mass is None else self.mass.value()

    def worth(self) -> int | None:
        """(Σw)²/Σw², rounded; None where rows depend on each other."""
        if self.mass is None or self.n == 0:
            return None if self.by_unit and self.n else self.n
        return None if self.by_unit else max(1, round(self.total() ** 2 / self.squares.value()))


class Points(_Worth):
    """F(y) of each row, counted between multiples of 1/100, and |2F(y) − 1|; levels are such multiples."""

    def __init__(self) -> None:
        """No rows yet."""
        super().__init__()
        self.below, self.central = BinSums(LATTICE, spread=False), BinSums(LATTICE, spread=False)

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
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
        """Take in what another has seen."""
        self.merge_worth(other)
        self.below.merge(other.below)
        self.central.merge(other.central)

    def up_to(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight with F(y) at most each level."""
        return _cumulated(self.below, levels)

    def rows_up_to(self, levels: np.ndarray) -> np.ndarray:
        """The number of rows with F(y) at most each level."""
        return self.below.rows.cumsum()[_cell(levels)]

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight with |2F(y) − 1| at most each level."""
        return _cumulated(self.central, levels)


def _cumulated(sums: BinSums, levels: np.ndarray) -> np.ndarray:
    weight = sums.table().w.cumsum()
    return weight[_cell(levels)] / weight[-1]


def _cell(levels: np.ndarray) -> np.ndarray:
    return np.rint(levels * LATTICE).astype(np.int64) - 1


class Tally:
    """Rows, and weights where there are any, by a whole number that rows share."""

    def __init__(self) -> None:
        """No rows yet."""
        self.rows: Counter[int] = Counter()
        self.masses: dict[int, ExactSum] = {}

    def add(self, codes: np.ndarray, weights: np.ndarray | None) -> None:
        """Take in more rows."""
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
        """Take in what another has seen."""
        self.rows.update(other.rows)
        for code, mass in other.masses.items():
            self.masses.setdefault(code, ExactSum()).merge(mass)

    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers, rising, with the rows and the weight of each."""
        codes = sorted(self.rows)
        rows = np.array([self.rows[code] for code in codes], np.float64)
        mass = np.array([self.masses[code].value() for code in codes]) if self.masses else rows
        return np.array(codes, np.int64), rows, mass


class Places(_Worth):
    """The weight of each place among S samples: from below/(S + 1) to (below + ties + 1)/(S + 1)."""

    def __init__(self, size: int) -> None:
        """No rows yet."""
        super().__init__()
        self.size = size
        self.tally = Tally()
        """By the code of a place: begin·(S + 2) + end, in units of 1/(S + 1)."""

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        if rows.pit_low is None or rows.pit_high is None:
            return
        low, high, w = counting(rows.weights, rows.pit_low, rows.pit_high, rows.weights)
        begin, end = (np.rint(x * (self.size + 1)).astype(np.int64) for x in (low, high))
        self.count(rows, len(low), w)
        self.tally.add(begin * (self.size + 2) + end, w)

    def merge(self, other: Places) -> None:
        """Take in what another has seen."""
        self.merge_worth(other)
        self.tally.merge(other.tally)

    def _shares(self, levels: Iterable[float], central: bool = False, rows: bool = False) -> np.ndarray:
        """Sums over places of the part that lies up to each level, or in the middle."""
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
        """The number of rows up to each level, of which some are shared."""
        return self._shares(levels, rows=True)

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight in the middle."""
        return self._shares(levels, central=True) / self._shares([1.0])


class Quantiles(_Worth):
    """The weight of rows with y below each quantile, ties counting half as in `mace`, and between two of them."""

    def __init__(self, levels: tuple[float, ...], pairs: tuple[tuple[float, float], ...]) -> None:
        """No rows yet."""
        super().__init__()
        self.levels, self.pairs = levels, pairs
        self.sums = [ExactSum() for _ in (*levels, *pairs)]

    def add(self, rows: RegressionRows, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
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
        """Take in what another has seen."""
        self.merge_worth(other)
        for mine, theirs in zip(self.sums, other.sums, strict=True):
            mine.merge(theirs)

    def up_to(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight at most each quantile; levels are all of them."""
        return np.array([total.value() for total in self.sums[: len(levels)]]) / self.total()

    def within(self, levels: np.ndarray) -> np.ndarray:
        """The share of the weight between each two; levels are all of them."""
        return np.array([total.value() for total in self.sums[-len(levels) :]]) / self.total()

    def rows_up_to(self, levels: np.ndarray) -> np.ndarray:
        """Not asked for: quantiles have no histogram."""
        raise NotImplementedError
