"""The calibrated log-likelihood (CLL): log-likelihood at the best temperature, fitted on rows that are not scored.

Temperature acts on log p of the averaged prediction: p_T ∝ p^(1/T). With the temperature of the *same* rows
(Ashukha et al. 2020) it is fitted on one half and scores the other, both ways, in every repeat of `splits`; a row's
CLL is the mean over repeats, and the CLL of a model is the mean over rows, which is the average of all halves where
they are of one size. With the temperature of *clean* rows (Ovadia et al. 2019) one temperature, fitted on other
rows, scores all. A label of probability 0 keeps it at every temperature: its CLL is −∞, and fits leave it out. One
model is taken as it was given, however wide its logits; in an average of members a class whose probabilities are all
under 2⁻¹⁰²⁰ counts as impossible, unless it is the label.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from calibrant.comparison.halves import best_inverses, halves_of
from calibrant.comparison.splits import Splits
from calibrant.errors import LabelsError, ValuesError
from calibrant.kernels.expansions import RowExpansions
from calibrant.predictions import Classification, Judged
from calibrant.recalibration.class_rows import as_classes, check_rows
from calibrant.recalibration.shares import shares_of

SAME, CLEAN = "same", "clean"


@dataclass(frozen=True)
class Calibrated:
    """The rows of one model at temperatures that were fitted on other rows."""

    log_likelihood: np.ndarray
    """(N,) log p_T(label), the mean over repeats."""
    brier: np.ndarray
    """(N,) Brier score at the same temperatures, the mean over repeats."""
    temperatures: np.ndarray
    """(R, 2): [r, h] was fitted on half h of repeat r and scores the other half; (1, 1) of clean rows."""
    temperature: float
    """Fitted on all rows: for information, nothing is scored by it; of clean rows the one that scores."""
    before: np.ndarray = field(default_factory=lambda: np.empty(0))
    """(N,) log p(label) as it was given."""


def calibrated(predictions: Classification | Judged, splits: Splits, threads: int | None = None) -> Calibrated:
    """Test-time cross-validation of one model, the average of its members."""
    known = as_classes(predictions)
    rows = expanded(known, threads)
    halves = halves_of(rows, splits, shares_of(known))
    before = rows.log_likelihood()
    beta = best_inverses(rows, halves)
    total = np.zeros((2, rows.n))
    for r, half in enumerate(splits.half):
        total += rows.exact(beta[r][1 - half.astype(np.int64)])
    total /= splits.repeats
    return Calibrated(total[0], total[1], 1.0 / beta[:-1], float(1.0 / beta[-1, 0]), before)


def calibrated_by(
    predictions: Classification | Judged, clean: Classification | Judged, threads: int | None = None
) -> Calibrated:
    """All rows at the temperature that is best for other, clean rows."""
    rows = expanded(as_classes(predictions), threads)
    beta = fitted(clean, threads)
    loglik, brier = rows.exact(np.full(rows.n, beta))
    return Calibrated(loglik, brier, np.array([[1.0 / beta]]), 1.0 / beta, rows.log_likelihood())


def fitted(predictions: Classification | Judged, threads: int | None = None) -> float:
    """The inverse temperature that is best for all rows."""
    known = as_classes(predictions)
    rows = expanded(known, threads)
    whole = Splits(np.zeros((0, rows.n), np.uint8), 0)
    return float(best_inverses(rows, halves_of(rows, whole, shares_of(known)))[-1, 0])


# --------------------------------------------------------------------------------------------- rows
def expanded(predictions: Classification, threads: int | None) -> RowExpansions:
    """The rows of the average of all members, expanded about T = 1; what is no prediction is refused."""
    rows = RowExpansions(labels_of(predictions), predictions.classes, threads)
    if predictions.members == 1:
        rows.take(member_scores(predictions, 0), predictions.kind)
    else:
        for m in range(predictions.members):
            rows.add(member_scores(predictions, m), predictions.kind)
    rows.expand(1.0)
    refuse_faulty(rows, predictions)
    return rows


def labels_of(predictions: Classification) -> np.ndarray:
    """The label (N,) of each row."""
    if predictions.labels is not None:
        return np.ascontiguousarray(predictions.labels, np.int64)
    raise LabelsError(
        f"calibrated log-likelihood: {predictions.name}",
        expected="a label for each row",
        came="there are only soft labels" if predictions.label_probs is not None else "there are none",
        do="give the labels of the rows",
    )


def member_scores(predictions: Classification, m: int) -> np.ndarray:
    """The scores (N, C) of one member in float32 or float64, C order; those given where they are that already."""
    member = predictions.member(m)
    (_, block), *_ = member.score_blocks(member.n)
    return block[0]


def refuse_faulty(rows: RowExpansions, predictions: Classification) -> None:
    """Refuse rows that are no predictions, in the words that recalibration has for them."""
    if not rows.faulty:
        return
    check_rows(predictions)
    raise ValuesError(
        predictions.kind, expected="numbers that can be compared", came="some are beyond float64", do="scale them down"
    )
