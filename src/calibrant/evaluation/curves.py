"""Curves as plain data, summed while the rows go by: the reliability curve, and the histogram of the PIT."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.calibration.binned import BinSums
from calibrant.calibration.binning import equal_width
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression_rows import RegressionRows

RELIABILITY_BINS = 15
PIT_BINS = 20
Columns = dict[str, list[float]]


class Reliability:
    """Confidence and accuracy of the top label over 15 bins of equal width."""

    def __init__(self) -> None:
        """No rows yet."""
        self.sums = BinSums(RELIABILITY_BINS, spread=False)
        self.known = False

    def add(self, rows: Any) -> None:
        """Take in more rows."""
        if rows.hit is not None:
            self.known = True
            self.sums.add(rows.confidence, rows.hit, rows.weights, equal_width(rows.confidence, RELIABILITY_BINS))

    def merge(self, other: Reliability) -> None:
        """Take in what another has seen."""
        self.known |= other.known
        self.sums.merge(other.sums)

    def columns(self) -> dict[str, Columns]:
        """The curve by name, over the bins that have rows; nothing where labels are unknown."""
        if not self.known:
            return {}
        table = self.sums.table()
        edges = np.arange(RELIABILITY_BINS + 1) / RELIABILITY_BINS
        filled = np.flatnonzero(table.w > 0)
        weight = np.where(table.w > 0, table.w, 1)
        return {
            "reliability": {
                "lower": edges[filled].tolist(),
                "upper": edges[filled + 1].tolist(),
                "n": table.rows[filled].tolist(),
                "confidence": (table.wp / weight)[filled].tolist(),
                "accuracy": (table.wy / weight)[filled].tolist(),
            }
        }


class PitHistogram:
    """Share of rows whose PIT lies in each of 20 bins; 1/20 each where the model is right."""

    def __init__(self) -> None:
        """No rows yet."""
        self.mass = GroupSums()
        self.rows = np.zeros(PIT_BINS, np.int64)

    def add(self, rows: RegressionRows) -> None:
        """Take in more rows."""
        if rows.pit is not None:
            bins = equal_width(rows.pit, PIT_BINS)
            self.rows += np.bincount(bins, minlength=PIT_BINS)
            self.mass.add(np.ones(rows.n) if rows.weights is None else rows.weights, bins)

    def merge(self, other: PitHistogram) -> None:
        """Take in what another has seen."""
        self.rows += other.rows
        self.mass.merge(other.mass)

    def columns(self) -> dict[str, Columns]:
        """The histogram by name; nothing where it is not known what came true."""
        if not self.rows.any():
            return {}
        mass = np.zeros(PIT_BINS)
        mass[: self.mass.groups] = self.mass.values()
        edges = np.arange(PIT_BINS + 1) / PIT_BINS
        return {
            "pit": {
                "lower": edges[:-1].tolist(),
                "upper": edges[1:].tolist(),
                "n": self.rows.tolist(),
                "share": (mass / mass.sum()).tolist(),
            }
        }
