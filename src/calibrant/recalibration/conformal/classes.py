"""Sets of classes. Scores of a class c of a row with probabilities p, those of the classes before it in falling order
and its own rank from 1:

- lac: 1 − p_c; the smallest sets on average (Sadinle, Lei & Wasserman 2019, JASA 114).
- aps: Σ p before c + u·p_c; sets adapt to how hard a row is (Romano, Sesia & Candès 2020, NeurIPS 33).
- raps: aps + λ·max(0, rank − k_reg); classes far down the list cost more, so that sets of many classes are smaller
  (Angelopoulos, Bates, Jordan & Malik 2021, ICLR).

u is uniform in (0, 1), one number a row from (seed, row), so that results can be had again; not randomised it is 1,
which covers as often with larger sets. Sets can be empty. The members of an ensemble are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.kernels.philox import key_of, uniforms
from calibrant.kernels.resampling import CONFORMAL
from calibrant.predictions.classification import Classification
from calibrant.recalibration.class_rows import log_blocks
from calibrant.recalibration.conformal.base import Conformal, chosen
from calibrant.recalibration.conformal.results import Sets

SCORES = ("lac", "aps", "raps")
FITTED, NEW = 0, 1
"""Held-out rows and new rows have random numbers of their own."""


def lac_scores(p: np.ndarray) -> np.ndarray:
    """1 − p_c (n, C)."""
    return 1.0 - p


def aps_scores(p: np.ndarray, u: np.ndarray, penalty: float = 0.0, k_reg: int = 0) -> np.ndarray:
    """Σ p before c + u·p_c + penalty·max(0, rank − k_reg) (n, C); equal probabilities come in the order of classes."""
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    before = np.zeros_like(ranked)
    np.cumsum(ranked[:, :-1], axis=1, out=before[:, 1:])
    beyond = np.maximum(np.arange(1, p.shape[1] + 1) - k_reg, 0)
    scores = np.empty_like(ranked)
    np.put_along_axis(scores, order, before + u[:, None] * ranked + penalty * beyond, axis=1)
    return scores


@dataclass(eq=False, kw_only=True)
class ConformalSets(Conformal):
    """Sets of classes that hold the true one with a probability of `level`, on average over rows.

    score: lac, aps or raps. randomised, seed: of aps and raps. penalty, k_reg: λ and the rank that is free, of raps.
    """

    kind = "sets"
    title = "Conformal sets"
    reference = (
        "Sadinle, Lei & Wasserman (2019), Least ambiguous set-valued classifiers with bounded error levels, JASA 114; "
        "Romano, Sesia & Candès (2020), Classification with valid and adaptive coverage, NeurIPS 33; Angelopoulos, "
        "Bates, Jordan & Malik (2021), Uncertainty sets for image classifiers using conformal prediction, ICLR"
    )
    task = "classification"
    without_threshold = "every set holds all classes"
    score: str = "lac"
    randomised: bool = True
    seed: int = 0
    penalty: float = 0.01
    k_reg: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen(self.score, "score", SCORES)
        for name, wanted in (("randomised", bool), ("seed", int), ("k_reg", int)):
            if type(getattr(self, name)) is not wanted:
                came = f"got {show(getattr(self, name))}"
                raise UsageError(name, expected=f"a value of type {wanted.__name__}", came=came, do="leave it out")
        key_of(self.seed)
        number = isinstance(self.penalty, int | float) and 0.0 <= self.penalty < math.inf
        if not number or self.k_reg < 0:
            came = f"got {show(self.penalty)} and {show(self.k_reg)}"
            raise UsageError("penalty and k_reg", expected="numbers from 0", came=came, do="0.01 and 5 are usual")
        self.penalty = float(self.penalty)

    def _known(self, predictions: Classification) -> dict[str, Any]:
        known = {"classes": predictions.classes, "class_names": predictions.class_names}
        return super()._known(predictions) | known

    def _blocks(self, predictions: Classification, replicate: int) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, the score (n, C) of every class), some rows at a time."""
        for start, logs in log_blocks(predictions.average()):
            p, rows = np.exp(logs), slice(start, start + len(logs))
            if self.score == "lac":
                yield rows, lac_scores(p)
                continue
            u = uniforms(self.seed, CONFORMAL, replicate, len(p), start) if self.randomised else np.ones(len(p))
            yield rows, aps_scores(p, u, *((self.penalty, self.k_reg) if self.score == "raps" else ()))

    def _scores(self, predictions: Classification, known: dict[str, Any]) -> np.ndarray:
        out, labels = np.empty(predictions.n), np.asarray(predictions.labels)
        for rows, scores in self._blocks(predictions, FITTED):
            out[rows] = scores[np.arange(len(scores)), labels[rows]]
        return out

    def _predicted(self, predictions: Classification) -> Sets:
        included = np.empty((predictions.n, predictions.classes), bool)
        for rows, scores in self._blocks(predictions, NEW):
            included[rows] = scores <= self.threshold
        return Sets(
            included=included,
            labels=predictions.labels,
            class_names=predictions.class_names,
            ids=predictions.info.ids,
            level=self.level,
            method=self.score,
            threshold=self.threshold,
            name=predictions.name,
            fitted_on=(self.found.name, self.found.n),
            notes=self.notes(),
        )
