"""Conformal sets of classes. The score of a class c in a row of probabilities p is

- lac: 1 − p_c; the smallest sets on average (Sadinle, Lei & Wasserman 2019, JASA 114).
- aps: Σ p of the more probable classes + u·p_c; sets adapt to the difficulty of a row (Romano, Sesia & Candès 2020,
  NeurIPS 33).
- raps: aps + λ·max(0, rank − k_reg), with the rank of c from 1; improbable classes cost more, so that sets of many
  classes are smaller (Angelopoulos, Bates, Jordan & Malik 2021, ICLR).

u is uniform in (0, 1), one number per row from (seed, row), so that results are reproducible; without randomisation it
is 1, which covers at least as often with larger sets. Sets can be empty. The members of an ensemble are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.conformal.base import Conformal
from calibrant.conformal.results import Sets
from calibrant.errors import UsageError, check_choice, check_range, show
from calibrant.kernels.philox import key_of, uniforms
from calibrant.kernels.resampling import CONFORMAL
from calibrant.predictions.classification import Classification
from calibrant.recalibration.class_rows import log_blocks

SCORES = ("lac", "aps", "raps")
FITTED, NEW = 0, 1
"""Held-out rows and new rows have random numbers of their own."""


def aps_scores(p: np.ndarray, u: np.ndarray, penalty: float = 0.0, k_reg: int = 0) -> np.ndarray:
    """Σ p before c + u·p_c + penalty·max(0, rank − k_reg) (n, C); equal probabilities are ranked in class order."""
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    before = np.zeros_like(ranked)
    np.cumsum(ranked[:, :-1], axis=1, out=before[:, 1:])
    beyond = np.maximum(np.arange(1, p.shape[1] + 1) - k_reg, 0)
    scores = np.empty_like(ranked)
    np.put_along_axis(scores, order, before + u[:, None] * ranked + penalty * beyond, axis=1)
    return scores


@dataclass(eq=False, kw_only=True, repr=False)
class ConformalSets(Conformal):
    """Sets of classes that contain the true class with probability `level`, on average over rows.

    Parameters
    ----------
    level : float
        The coverage, between 0 and 1.
    score : {"lac", "aps", "raps"}
        The nonconformity score: lac gives the smallest sets, aps and raps adapt to the difficulty of a row.
    randomised : bool
        Whether aps and raps are randomised, for exact coverage.
    seed : int
        The seed of the randomisation.
    penalty : float
        The penalty λ of raps for each class beyond the first `k_reg`.
    k_reg : int
        The number of classes without penalty in raps.

    Examples
    --------
    >>> import calibrant as cal
    >>> val = cal.Classification.from_probs([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]] * 50, [0, 1, 0, 2] * 25)
    >>> sets = cal.conformal.ConformalSets(level=0.8).fit(val).predict(val)
    >>> sets.included[:2].tolist()
    [[True, False, False], [False, True, True]]
    >>> sets.coverage
    1.0
    """

    kind = "sets"
    title = "Conformal sets"
    reference = (
        "Sadinle, Lei & Wasserman (2019), Least ambiguous set-valued classifiers with bounded error levels, JASA 114; "
        "Romano, Sesia & Candès (2020), Classification with valid and adaptive coverage, NeurIPS 33; Angelopoulos, "
        "Bates, Jordan & Malik (2021), Uncertainty sets for image classifiers using conformal prediction, ICLR"
    )
    task = "classification"
    without_threshold = "every set contains all classes"
    score: str = "lac"
    randomised: bool = True
    seed: int = 0
    penalty: float = 0.01
    k_reg: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("score", self.score, SCORES)
        for name, kind in (("randomised", bool), ("seed", int), ("k_reg", int)):
            if type(getattr(self, name)) is not kind:
                got = show(getattr(self, name))
                raise UsageError(name, expected=f"a value of type {kind.__name__}", got=got, hint="leave it out")
        key_of(self.seed)
        self.penalty = check_range("penalty", self.penalty, 0, hint="use penalty=0.01")
        check_range("k_reg", self.k_reg, 0, integer=True, hint="use k_reg=5")

    @property
    def method(self) -> str:
        return self.score

    def _fitted_properties(self, predictions: Classification) -> dict[str, Any]:
        return {"classes": predictions.classes, "class_names": predictions.class_names}

    def _blocks(self, predictions: Classification, replicate: int) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, the score (n, C) of every class) in blocks of rows."""
        for start, log_probs in log_blocks(predictions.average()):
            p, rows = np.exp(log_probs), slice(start, start + len(log_probs))
            if self.score == "lac":
                yield rows, 1.0 - p
                continue
            u = uniforms(self.seed, CONFORMAL, replicate, len(p), start) if self.randomised else np.ones(len(p))
            yield rows, aps_scores(p, u, *((self.penalty, self.k_reg) if self.score == "raps" else ()))

    def _scores(self, predictions: Classification, properties: dict[str, Any]) -> np.ndarray:
        out, labels = np.empty(predictions.n), np.asarray(predictions.labels)
        for rows, scores in self._blocks(predictions, FITTED):
            out[rows] = scores[np.arange(len(scores)), labels[rows]]
        return out

    def _predict(self, predictions: Classification, **facts: Any) -> Sets:
        included = np.empty((predictions.n, predictions.classes), bool)
        for rows, scores in self._blocks(predictions, NEW):
            included[rows] = scores <= self.threshold
        return Sets(included=included, labels=predictions.labels, class_names=predictions.class_names, **facts)
