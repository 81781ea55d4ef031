"""Curves as plain data, summed while the rows go by: the reliability curve, and the histogram of the PIT."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.calibration.binned import BinSums
from calibrant.calibration.binning import equal_width
from calibrant.kernels.detection_rows import DetectionRows
from calibrant.kernels.exact import ExactSum
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
    """Share of rows whose PIT lies in each of 20 bins; 1/20 each where the model is right.

    A row of S samples is spread evenly over y's place among them, which ties make longer (Czado, Gneiting & Held 2009,
    Biometrics 65: 1254-1261), so that samples of the right distribution give even bins for every S.
    """

    def __init__(self) -> None:
        """No rows yet."""
        self.below = [(ExactSum(), ExactSum()) for _ in range(PIT_BINS)]
        """Rows and weight below the upper edge of each bin."""

    def add(self, rows: RegressionRows) -> None:
        """Take in more rows."""
        if rows.pit is None:
            return
        for place, (count, mass) in enumerate(self.below):
            edge = (place + 1) / PIT_BINS
            if rows.pit_low is not None and rows.pit_high is not None:
                share = np.clip((edge - rows.pit_low) / (rows.pit_high - rows.pit_low), 0.0, 1.0)
            else:
                share = rows.pit <= edge
            count.add(share)
            mass.add(share if rows.weights is None else share * rows.weights)

    def merge(self, other: PitHistogram) -> None:
        """Take in what another has seen."""
        for mine, theirs in zip(self.below, other.below, strict=True):
            mine[0].merge(theirs[0])
            mine[1].merge(theirs[1])

    def columns(self) -> dict[str, Columns]:
        """The histogram by name; nothing where it is not known what came true."""
        rows, mass = (np.array([sums[k].value() for sums in self.below]) for k in (0, 1))
        if not mass[-1] > 0:
            return {}
        edges = np.arange(PIT_BINS + 1) / PIT_BINS
        return {
            "pit": {
                "lower": edges[:-1].tolist(),
                "upper": edges[1:].tolist(),
                "n": np.diff(rows, prepend=0.0).tolist(),
                "share": (np.diff(mass, prepend=0.0) / mass[-1]).tolist(),
            }
        }


class ScoreHistograms:
    """Share of inside and of outside rows in each of 50 ranges of the score, from its lowest to its highest value."""

    BINS = 50

    def __init__(self) -> None:
        """No rows yet."""
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []

    def add(self, rows: DetectionRows) -> None:
        """Take in more rows."""
        self.parts.append((rows.score, rows.outside, rows.weights))

    def merge(self, other: ScoreHistograms) -> None:
        """Take in what another has seen."""
        self.parts += other.parts

    def columns(self) -> dict[str, Columns]:
        """Both histograms by name; nothing where scores have no finite range."""
        score, outside = (np.concatenate([part[k] for part in self.parts]) for k in (0, 1))
        weights = [part[2] for part in self.parts]
        w = np.ones(len(score)) if weights[0] is None else np.concatenate([x for x in weights if x is not None])
        finite = np.isfinite(score)
        if not finite.any():
            return {}
        low, high = float(score[finite].min()), float(score[finite].max())
        share = np.arange(self.BINS + 1) / self.BINS
        edges = low * (1.0 - share) + (high if high > low else low + 1.0) * share  # high − low may overflow
        place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, self.BINS - 1)
        order = np.lexsort((w, place))  # sums then do not depend on the order of rows
        columns: Columns = {"lower": edges[:-1].tolist(), "upper": edges[1:].tolist()}
        for name, side in (("inside", outside[order] == 0), ("outside", outside[order] == 1)):
            mass = np.bincount(place[order][side], w[order][side], self.BINS)
            columns[name] = (mass / mass.sum()).tolist() if mass.sum() > 0 else mass.tolist()
        return {"scores": columns}


CURVES: dict[str, type] = {"regression": PitHistogram, "detection": ScoreHistograms}
"""The curve of each task; the reliability curve where none is named."""
