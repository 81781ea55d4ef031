"""What the maps of single probabilities share: one class against the rest, and rows that sum to one again.

Of two classes the curve g maps P(class 1), and P(class 0) = 1 − g. Of more, each class k has a curve of its own, fitted
to p_k and 1{y = k}, and the rows g_k(p_k) are divided by their sum; a row whose values are all 0 becomes uniform, as in
scikit-learn. Curves have unlike numbers of points: they are stored end to end, with the number of points of each.

Probabilities that were equal, as those of forests and neighbours often are, differ in their last digits once rows have
been normalised. What differs by no more than such rounding counts as tied.

Zadrozny & Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates, KDD.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrant.kernels.exact import exact_sum
from calibrant.kernels.isotonic import joined_ties
from calibrant.recalibration.class_rows import ClassMap, ClassRows
from calibrant.recalibration.report import Fit

Said = tuple[tuple[str, str], ...]
ENDS = ("fitted", "inside")
ROUNDING, ROUNDING_SINGLE = 2e-14, 2.0**-21
"""Share of themselves by which probabilities may differ that were equal in double, and in single precision."""
FEW = 10
"""Rows of a class of which its curve should have more."""


# ---------------------------------------------------------------------------------------------- rows
@dataclass(frozen=True)
class Pairs:
    """Scores in [0, 1], what came true (0 or 1), and the share of each row; rows without weight are left out."""

    scores: np.ndarray
    hits: np.ndarray
    shares: np.ndarray

    @property
    def one_row(self) -> float:
        """The share of a typical row, 1/n of equal ones: Σ shares², so that it does not depend on the unit of weights.

        It is what one pseudo-row weighs.
        """
        return float(exact_sum(self.shares**2))

    def by_score(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distinct scores in rising order, their mass, and the mass of those that came true."""
        values, inverse = np.unique(self.scores, return_inverse=True)
        mass = np.bincount(inverse, self.shares, len(values))
        return values, mass, np.bincount(inverse, self.shares * self.hits, len(values))


def pairs_made(rows: ClassRows, logs: np.ndarray, hits: np.ndarray, shares: np.ndarray) -> Pairs:
    """Pairs of rows that have weight, ties joined."""
    given = rows.predictions
    single = given.kind != "logits" and given.scores.dtype.itemsize < 8
    scores = joined_ties(np.exp(logs), ROUNDING_SINGLE if single else ROUNDING)
    return Pairs(scores, hits.astype(np.float64), shares)


def curved_classes(classes: int) -> range:
    """The classes that have a curve: the second of two, else all."""
    return range(1, 2) if classes == 2 else range(classes)


def pairs_of(rows: ClassRows, k: int) -> Pairs:
    """P(class k) and 1{y = k}."""
    kept = rows.shares > 0
    return pairs_made(rows, rows.logs[kept, k], rows.labels[kept] == k, rows.shares[kept])


def brier(rows: ClassRows, probs: np.ndarray) -> float:
    """The weighted mean of Σ_c (p_c − 1{c = label})²."""
    terms = np.square(probs).sum(axis=1) - 2.0 * rows.at_label(probs) + 1.0
    return float(exact_sum(rows.shares * np.maximum(terms, 0.0)))


def brier_fit(rows: ClassRows, probs: np.ndarray, said: Said) -> Fit:
    """The report of a map that was found in one pass: the Brier score before it, and of its predictions (n, C)."""
    before, after = brier(rows, np.exp(rows.logs)), brier(rows, probs)
    return Fit(n=rows.n, loss="brier", before=before, after=after, passes=1, said=said)


# ----------------------------------------------------------------------------------------------- maps
@dataclass(frozen=True)
class OneVsRestMap(ClassMap):
    """A curve for class 1 of two, or for each class."""

    kind: ClassVar[str] = "probs"
    injective: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = False

    @property
    def curves(self) -> int:
        """The number of curves: 1 or the number of classes."""
        return len(self.parameters()["sizes"])

    @property
    def n_parameters(self) -> int:
        """The number of points, or bins, of all curves."""
        return len(self.parameters()["values"])

    def is_for(self, classes: int) -> bool:
        """Whether there is a curve for the second of two classes, or for each."""
        return self.curves == len(curved_classes(classes))

    def curve(self, number: int, scores: np.ndarray) -> np.ndarray:
        """What one curve makes of scores (n,)."""
        raise NotImplementedError

    def apply(self, logs: np.ndarray) -> np.ndarray:
        """g_k(p_k), normalised."""
        return one_vs_rest(self, logs)


def one_vs_rest(found: OneVsRestMap, logs: np.ndarray) -> np.ndarray:
    """The probabilities (n, C) of a map's curves."""
    classes = curved_classes(logs.shape[1])
    if found.curves != len(classes):
        raise ValueError(f"{found.curves} curves for {logs.shape[1]} classes")
    made = np.stack([found.curve(number, np.exp(logs[:, k])) for number, k in enumerate(classes)], axis=1)
    if logs.shape[1] == 2:
        return np.concatenate([1.0 - made, made], axis=1)
    total = made.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, made / total, 1.0 / logs.shape[1])


def cut(flat: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """The pieces that were stored end to end."""
    return np.split(flat, np.cumsum(sizes.astype(np.int64))[:-1])


def piece(flat: np.ndarray, sizes: np.ndarray, number: int) -> np.ndarray:
    """One of the pieces."""
    stop = int(sizes[: number + 1].sum())
    return flat[stop - int(sizes[number]) : stop]


def check_pieces(sizes: np.ndarray, *flat: np.ndarray) -> None:
    """Refuse stored pieces that do not belong together."""
    if sizes.ndim != 1 or not sizes.size or not (sizes >= 1).all() or (sizes != np.floor(sizes)).any():
        raise ValueError("no numbers of points")
    for values in flat:
        if values.shape != (int(sizes.sum()),) or not np.isfinite(values).all():
            raise ValueError(f"{values.shape} numbers for {int(sizes.sum())} points, or some that are not finite")


# ---------------------------------------------------------------------------------------------- notes
def class_notes(rows: ClassRows) -> Said:
    """What is to be said of classes with few rows, or none."""
    counts = np.bincount(rows.labels[rows.shares > 0], minlength=rows.classes)
    return tuple(_class_notes(counts))


def _class_notes(counts: np.ndarray) -> Iterator[tuple[str, str]]:
    none, few = np.flatnonzero(counts == 0), np.flatnonzero((counts > 0) & (counts < FEW))
    if none.size:
        said = f"{none.size} of {counts.size} classes, the first of them {none[0]}, have no row"
        yield "missing-classes", f"{said}: nothing is known of how often they come true"
    if few.size:
        said = f"{few.size} of {counts.size} classes have fewer than {FEW} rows, class {few[0]} only {counts[few[0]]}"
        yield "few-rows", f"{said}: a free curve needs more; a method with few parameters, temperature, does not"


def end_notes(values: np.ndarray, do: str = "ends=inside keeps probabilities off 0 and 1") -> Said:
    """What is to be said of curves that reach 0 or 1."""
    if not ((values <= 0.0) | (values >= 1.0)).any():
        return ()
    said = "the map predicts 0 or 1, so that the NLL of new rows may be infinite"
    return (("probabilities-of-0-or-1", f"{said}; {do}"),)
