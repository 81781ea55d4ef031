"""Histogram binning: probabilities in one bin become the share of its rows that came true.

Bins are as for calibration errors: of equal width, ((b − 1)/B, b/B] with 0 in the first, or of equal mass, cut between
distinct values nearest to the equal split so that ties stay together. Empty bins, of which only equal width has any,
keep their midpoint. Several classes: see `one_vs_rest`. The map is a step function: never injective.

Of C classes a class has about n/C rows, and equal mass spends most of its bins on those of the others: with 15 bins and
10 classes all rows of a class fall into one or two bins, and much accuracy is lost. Equal mass is for two classes.

The share that came true has the least Brier score among constants, but p itself may do better within a bin: unlike an
isotonic fit, histogram binning may do worse than the predictions that it was given, also on the fitted rows; then a
note says so.

ends="fitted" leaves values 0 and 1, of bins whose rows all missed or all came true. ends="inside" adds to each bin one
pseudo-row, as heavy as a typical row, that came true in the share of the bin's midpoint.

Zadrozny & Elkan (2001), Obtaining calibrated probability estimates from decision trees and naive Bayesian classifiers,
ICML; Guo, Pleiss, Sun & Weinberger (2017), On calibration of modern neural networks, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibration.binning import equal_mass_edges
from calibrant.recalibration.base import option
from calibrant.recalibration.class_rows import ClassRecalibrator, ClassRows
from calibrant.recalibration.one_vs_rest import (
    ENDS,
    OneVsRestMap,
    Pairs,
    Said,
    brier_fit,
    check_pieces,
    class_notes,
    curved_classes,
    cut,
    end_notes,
    pairs_of,
    piece,
)
from calibrant.recalibration.report import Fit


@dataclass(frozen=True)
class HistogramMap(OneVsRestMap):
    """The upper edge and the value of each bin, the bins of all curves end to end; the last upper edge is 1."""

    edges: np.ndarray
    values: np.ndarray
    sizes: np.ndarray

    def __post_init__(self) -> None:
        check_pieces(self.sizes, self.edges, self.values)
        if not ((self.values >= 0.0) & (self.values <= 1.0)).all():
            raise ValueError("values that are no probabilities")
        for edges in cut(self.edges, self.sizes):
            if not ((np.diff(edges) > 0).all() and edges[-1] == 1.0):
                raise ValueError("edges that do not rise to 1")

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """The value of the bin that each score is in."""
        inner = piece(self.edges, self.sizes, number)[:-1]
        return piece(self.values, self.sizes, number)[np.searchsorted(inner, scores, side="left")]


@dataclass(eq=False, kw_only=True)
class HistogramBinning(ClassRecalibrator):
    """The share of rows of a bin that came true, for the probability of each class."""

    name = "histogram"
    title = "Histogram binning"
    reference = (
        "Zadrozny & Elkan (2001), Obtaining calibrated probability estimates from decision trees and naive Bayesian "
        "classifiers, ICML"
    )
    map_class = HistogramMap
    promises_accuracy = False
    bins: int = option(15, "number of bins", at_least=1)
    binning: str = option("width", "bins of equal width, or of equal mass", choices=("width", "mass"))
    ends: str = option("fitted", "values 0 and 1 as they are fitted, or kept inside by pseudo-rows", choices=ENDS)

    def fit_rows(self, rows: ClassRows, threads: int | None) -> tuple[HistogramMap, Fit]:
        """The bins and their values for each class."""
        weights = rows.predictions.weights
        kept = None if weights is None else weights[rows.shares > 0].astype(np.float64)
        curves, empty = [], 0
        for k in curved_classes(rows.classes):
            pairs = pairs_of(rows, k)
            edges = self._edges(pairs.scores, kept)
            values, without = self._values(pairs, edges)
            curves.append((edges, values))
            empty += without
        made = HistogramMap(
            edges=np.concatenate([edges for edges, _ in curves]),
            values=np.concatenate([values for _, values in curves]),
            sizes=np.array([len(edges) for edges, _ in curves], np.float64),
        )
        said = class_notes(rows) + end_notes(made.values) + _empty_notes(empty, made.n_parameters)
        return made, brier_fit(rows, made.apply(rows.logs), said)

    def _edges(self, scores: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """The upper edges."""
        if self.binning == "width":
            return np.arange(1, self.bins + 1) / self.bins
        inner = equal_mass_edges(scores, self.bins, weights)
        return np.append(inner, 1.0)

    def _values(self, pairs: Pairs, edges: np.ndarray) -> tuple[np.ndarray, int]:
        """The value of each bin, and how many are empty."""
        place = np.searchsorted(edges[:-1], pairs.scores, side="left")
        mass = np.bincount(place, pairs.shares, len(edges))
        hits = np.bincount(place, pairs.shares * pairs.hits, len(edges))
        middle = (np.append(0.0, edges[:-1]) + edges) / 2
        pseudo = pairs.one_row if self.ends == "inside" else 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(mass + pseudo > 0, (hits + pseudo * middle) / (mass + pseudo), middle)
        return np.clip(values, 0.0, 1.0), int((mass == 0).sum())


def _empty_notes(empty: int, bins: int) -> Said:
    if not empty:
        return ()
    return (("empty-bins", f"{empty} of {bins} bins have no row and keep their midpoint; binning=mass has none empty"),)
