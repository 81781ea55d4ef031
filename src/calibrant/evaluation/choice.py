"""Choosing a method of recalibration: by cross-validated proper score among a declared list.

Each candidate is cross-fitted on the same folds, so that no row is scored by a map that was fitted on it; the one with
the best mean score is fitted on all rows. Doing nothing is among the candidates.
"""

from __future__ import annotations

import copy
import math
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import CalibrantError, CalibrantWarning, LabelsError, UsageError, plain, show
from calibrant.evaluation.evaluate import score_rows
from calibrant.predictions import InMemory
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.cross_fitting import cross_fit
from calibrant.recalibration.methods import recalibrator
from calibrant.registry.accumulators import Moments

CLASSES = (
    "none", "temperature", "ets", "vector", "matrix", "dirichlet", "beta", "isotonic_multiclass", "spline(ends=inside)",
)  # fmt: skip
NUMBERS, QUANTILES = ("none", "std", "variance"), ("none", "levels")
MANY_CLASSES = 50
"""Beyond which maps with a number for every pair of classes are tried only where they are named."""
QUADRATIC = ("dirichlet", "matrix")
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Candidate:
    """A method and its cross-validated score."""

    method: str
    score: float
    behind: float
    """How much worse than the best one, on the same rows."""
    error: float
    """Standard error of that difference; NaN for the best one."""
    failed: str = ""
    """Why it could not be tried."""

    def to_json(self) -> dict[str, Any]:
        """As plain data; what is not finite is null."""
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}


@dataclass(frozen=True)
class Choice:
    """All candidates, the best one first, and how they were compared."""

    score: str
    folds: int
    seed: int
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> str:
        """The method with the best score."""
        return self.candidates[0].method

    @property
    def close(self) -> list[str]:
        """Methods whose score is within two standard errors of the best."""
        return [c.method for c in self.candidates[1:] if not c.failed and c.behind <= 2.0 * c.error]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        listed = [candidate.to_json() for candidate in self.candidates]
        return {"score": self.score, "folds": self.folds, "seed": self.seed, "best": self.best, "candidates": listed}

    def __str__(self) -> str:
        from calibrant.evaluation import rendering
        from calibrant.evaluation.recalibration_tables import choice_table

        return "\n".join([rendering.text(choice_table(self)), *textwrap.wrap(self.reading(), 80)])

    __repr__ = __str__

    def reading(self) -> str:
        """Which methods these rows do not tell from the best; nothing where there are none."""
        if not self.close:
            return ""
        said = f"{self.best} is the best by cross-validated {self.score}, but {', '.join(self.close)} "
        return f"{said}lie{'s' * (len(self.close) == 1)} within two standard errors of it"


def choose(
    predictions: InMemory,
    candidates: str | Iterable[str | Recalibrator] | None = None,
    *,
    score: str | None = None,
    folds: int = 5,
    seed: int = 0,
    units: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Compare methods by their cross-validated score on these rows; the first of equals is the best.

    candidates: spec strings or recalibrators; without them a list for the task, doing nothing included. score: a proper
    score that is a mean over rows; nll by default, of numbers dss, of quantiles pinball.
    """
    if not predictions.has_labels:
        raise LabelsError(
            predictions.name, expected="what came true for each row", came="there are no labels", do="give labels"
        )
    decides = _score(score, predictions)
    made = _candidates(candidates, predictions)
    rows: dict[str, np.ndarray] = {}
    failed: dict[str, str] = {}
    for place, method in enumerate(made):
        if progress is not None:
            progress(f"{predictions.name}: trying {method.spec}", place, len(made))
        try:
            fitted = cross_fit(predictions, method, folds=folds, seed=seed, units=units, threads=threads)
            (rows[method.spec],) = score_rows(fitted.predictions, decides, threads=threads).values()
        except CalibrantError as error:
            if len(made) == 1 or folds_refused(error):
                raise
            failed[method.spec] = plain(str(error), 200)
    if not rows:
        raise UsageError(
            "candidates", expected="a method that can be fitted to these rows",
            came="; ".join(f"{name}: {why}" for name, why in failed.items()), do="name others, or give more rows",
        )  # fmt: skip
    codes = None if units is None else np.unique(predictions.column(units), return_inverse=True)[1].ravel()
    return Choice(decides, folds, seed, _ranked(rows, failed, predictions.weights, codes))


def folds_refused(error: CalibrantError) -> bool:
    """Whether what was wrong has nothing to do with the method."""
    return error.subject in ("folds", "column") or error.subject.endswith(": column")


def _score(score: str | None, predictions: InMemory) -> str:
    quantiles = getattr(predictions, "quantiles", None) is not None
    usual = "pinball" if quantiles else "dss" if predictions.task == "regression" else "nll"
    decides = registry.parse(score or usual)
    if not decides.metric.proper:
        raise UsageError(
            "score", expected="a proper score", came=f"got {show(score)}", do="nll or brier, of numbers dss or crps"
        )
    reason = decides.metric.lacks(decides, predictions)
    if reason:
        do = "leave it out: nll is usual, of numbers dss, of quantiles pinball"
        raise UsageError("score", expected="a score that these predictions can give", came=reason, do=do)
    return decides.text


def _candidates(given: str | Iterable[str | Recalibrator] | None, predictions: InMemory) -> list[Recalibrator]:
    if given is None:
        few = getattr(predictions, "classes", 2) <= MANY_CLASSES
        quantiles = getattr(predictions, "quantiles", None) is not None
        usual = QUANTILES if quantiles else NUMBERS if predictions.task == "regression" else CLASSES
        return [recalibrator(name) for name in usual if few or name not in QUADRATIC]
    listed = registry.split(given) if isinstance(given, str) else list(given)
    if not listed:
        raise UsageError("candidates", expected="at least one method", came="got none", do="leave it out for a list")
    made = [recalibrator(item.strip()) if isinstance(item, str) else item for item in listed]
    return list({method.spec: method for method in made}.values())


def _ranked(
    rows: dict[str, np.ndarray], failed: dict[str, str], weights: np.ndarray | None, units: np.ndarray | None
) -> tuple[Candidate, ...]:
    means = {method: _mean_and_error(of_rows, weights, None)[0] for method, of_rows in rows.items()}
    order = sorted(means, key=lambda method: means[method] if not math.isnan(means[method]) else math.inf)
    best, found = order[0], []
    for method in order:
        with np.errstate(invalid="ignore"):
            behind, error = _mean_and_error(rows[method] - rows[best], weights, units)
        finite = math.isfinite(means[method])
        found.append(
            Candidate(method, means[method], behind if finite else math.inf, error if method != best else math.nan)
        )
    lost = [Candidate(method, math.nan, math.nan, math.nan, why) for method, why in failed.items()]
    return (*found, *lost)


def _mean_and_error(rows: np.ndarray, weights: np.ndarray | None, units: np.ndarray | None) -> tuple[float, float]:
    moments = Moments()
    moments.add(rows, weights, units)
    return moments.mean(), moments.error_and_skewness()[0]


def fitted(
    predictions: InMemory,
    method: str | Recalibrator = "temperature",
    *,
    candidates: str | Iterable[str | Recalibrator] | None = None,
    score: str | None = None,
    folds: int = 5,
    seed: int = 0,
    units: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Recalibrator, Choice | None]:
    """A method fitted to all rows; "auto" is the one that `choose` finds best. Doubts are in its `notes()`."""
    choice = None
    if isinstance(method, str) and method.strip() == "auto":
        listed = None if candidates is None or isinstance(candidates, str) else list(candidates)
        choice = choose(
            predictions, candidates if listed is None else listed, score=score, folds=folds, seed=seed, units=units,
            threads=threads, progress=progress,
        )  # fmt: skip
        given = {item.spec: item for item in listed or () if isinstance(item, Recalibrator)}
        method = given.get(choice.best, choice.best)
    elif candidates is not None or score is not None:
        raise UsageError(
            "candidates and score",
            expected='method="auto" beside them',
            came=f"got {show(method)}",
            do="leave them out",
        )
    made = recalibrator(method) if isinstance(method, str) else copy.copy(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return made.fit(predictions, threads=threads), choice
