"""ECE over bins that are known beforehand: sums of each bin, and what its interval and its null band need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.calibration.binned import NORMS, BinSums, BinTable, UnitSums
from calibrant.calibration.binning import equal_width
from calibrant.calibration.consistency import ConsistencyRows
from calibrant.calibration.inversion import union_of_inversions
from calibrant.intervals import NONE
from calibrant.kernels.rows import Rows
from calibrant.registry.accumulators import counting
from calibrant.registry.estimate import Estimate, Settings

Pairs = Callable[[Rows], tuple[np.ndarray, np.ndarray]]


@dataclass
class BinnedError:
    """ECE of pairs (p, y) over bins of equal width, with its test-inversion interval, null band and p-value."""

    pairs: Pairs
    bins: int = 15
    norm: str = "l1"
    n: int = 0
    sums: BinSums | None = None
    units: UnitSums | None = None
    null: ConsistencyRows | None = None
    binary: bool = True
    """Whether every y was 0 or 1, so that labels can be redrawn."""

    def add(self, rows: Rows, spread: bool = True) -> None:
        """Take in more rows."""
        p, y, w, units = counting(rows.weights, *self.pairs(rows), rows.weights, rows.units)
        self.n += rows.n
        self.add_pairs(p, y, w, units, equal_width(p, self.bins), spread)

    def add_pairs(
        self,
        p: np.ndarray,
        y: np.ndarray,
        w: np.ndarray | None,
        units: np.ndarray | None,
        bins: np.ndarray,
        spread: bool,
    ) -> None:
        """Take in pairs whose bins are known."""
        self._start(units is not None, spread)
        self.sums.add(p, y, w, bins)  # type: ignore[union-attr]
        if self.units is not None and units is not None:
            self.units.add(p, y, w, bins, units)
        elif self.null is not None:
            self.binary = self.binary and bool(((y == 0) | (y == 1)).all())
            self.null.add(p, w, bins)

    def _start(self, by_unit: bool, spread: bool) -> None:
        if self.sums is not None:
            return
        self.sums = BinSums(self.bins, spread=spread)
        if spread and by_unit:
            self.units = UnitSums(self.bins)
        elif spread:
            self.null = ConsistencyRows(self.bins)

    def merge(self, other: BinnedError) -> None:
        """Take in what another has seen."""
        self.n += other.n
        self.binary &= other.binary
        for name in ("sums", "units", "null"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is None:
                setattr(self, name, theirs)
            elif theirs is not None:
                mine.merge(theirs)

    def result(self, settings: Settings) -> Estimate:
        """The plug-in value with what a calibrated model would give beside it."""
        table = (self.sums or BinSums(self.bins)).table()
        statistic = NORMS[self.norm]
        value = float(statistic(table.signed, table.share))
        if not settings.intervals:
            return Estimate.of(value, self.n)
        null: dict[str, float] = {}
        if self.null is not None and self.binary:
            null = self._null(self.null, table, value, settings)
        interval = NONE
        if self.norm != "max" and (self.units is None or self.units.units() > 1):
            covariance = table.variance() if self.units is None else self.units.covariance(table)
            interval = union_of_inversions(
                table.signed, table.share, covariance, statistic,
                level=settings.level, draws=settings.resamples, seed=settings.seed, null_upper=null.get("null_high"),
            )  # fmt: skip
        return Estimate.of(value, self.n, interval, settings, (0.0, 1.0), **null)

    def _null(self, rows: ConsistencyRows, table: BinTable, value: float, settings: Settings) -> dict[str, float]:
        """The band of values of a calibrated model, and the share of them that are as large."""
        signed = rows.gaps(table, settings.resamples, settings.seed, settings.threads)
        drawn = NORMS[self.norm](signed, table.share)
        low, high = np.quantile(drawn, [0.5 - settings.level / 2, 0.5 + settings.level / 2])
        exceeding = float((drawn >= value * (1 - 1e-12)).sum())
        return {
            "null_low": float(low),
            "null_high": float(high),
            "p_value": (exceeding + 1) / (len(drawn) + 1),
        }
