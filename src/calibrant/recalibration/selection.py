"""Select a recalibration method by its cross-validated proper score.

Each candidate is cross-fitted on the same folds, so that no row is scored by a map that was fitted on it; the one with
the best mean score is fitted on all rows. No recalibration is among the candidates.
"""

from __future__ import annotations

import copy
import math
import textwrap
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, CalibrantWarning, LabelsError, UsageError, plain, show
from calibrant.pipeline.evaluate import Progress
from calibrant.pipeline.measure import score_rows
from calibrant.predictions import InMemory
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.cross_fitting import cross_fit
from calibrant.recalibration.lookup import recalibrator
from calibrant.recalibration.paired_gain import default_scores
from calibrant.registry import lookup
from calibrant.registry.state.accumulators import Moments

CLASSIFICATION = (
    "none", "temperature", "ets", "vector", "matrix", "dirichlet", "beta", "isotonic_multiclass", "spline(ends=inside)",
)  # fmt: skip
REGRESSION, QUANTILES = ("none", "std", "variance"), ("none", "levels")
MAX_CLASSES = 50
"""Number of classes above which maps with a parameter for every pair of classes are tried only by name."""
QUADRATIC = ("dirichlet", "matrix")


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
    """Why it was skipped."""

    def to_json(self) -> dict[str, Any]:
        """As plain data; non-finite numbers become null."""
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()}


@dataclass(frozen=True, repr=False)
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

    def reading(self) -> str:
        """Which methods are not significantly worse than the best; empty if there are none."""
        if not self.close:
            return ""
        text = f"{self.best} is best by cross-validated {self.score}, but {', '.join(self.close)} "
        return f"{text}{'is' if len(self.close) == 1 else 'are'} within two standard errors of it"

    def __repr__(self) -> str:
        return f"Choice(best={self.best!r}, score={self.score!r}, candidates={len(self.candidates)})"

    def __str__(self) -> str:
        from calibrant.render import table as rendering
        from calibrant.render.recalibration import candidates_table

        return "\n".join([rendering.text(candidates_table(self.to_json())), *textwrap.wrap(self.reading(), 80)])


def choose(
    predictions: InMemory, candidates: str | Iterable[str | Recalibrator] | None = None, *, score: str | None = None,
    folds: int = 5, seed: int = 0, units: str | None = None, threads: int | None = None,
    progress: Progress | None = None,
) -> Choice:  # fmt: skip
    """Compare recalibration methods by their cross-validated score; of equals the first is the best.

    Parameters
    ----------
    predictions : Classification, Judged or Regression
        Predictions with labels.
    candidates : str or iterable, optional
        Specs or recalibrators; by default a list for the task, which includes no recalibration.
    score : str, optional
        A proper score that is a mean over rows; by default nll, for regression dss, for quantiles pinball.
    folds : int
        The number of folds.
    seed : int
        The seed of the assignment to folds.
    units : str, optional
        A column that identifies dependent rows.
    threads : int, optional
        Number of threads; by default all cores.
    progress : callable, optional
        Called with a text, the number of candidates done and their total.

    Returns
    -------
    Choice
        `best` is the spec of the best method, `close` those not significantly worse; prints as a table.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 50, [0, 1, 0, 0] * 25)
    >>> cal.recalibration.choose(p, "none,temperature")
    Choice(best='temperature', score='nll', candidates=2)
    """
    if not predictions.has_labels:
        expected = "an observed outcome for each row"
        raise LabelsError(predictions.name, expected=expected, got="no labels", hint="give labels")
    quantiles = getattr(predictions, "quantiles", None) is not None
    defaults = lookup.with_role("quantile_score") if quantiles else default_scores(predictions.task)
    spec = lookup.parse(score or defaults[0])
    if not spec.metric.proper:
        hint = "use nll or brier, for regression dss or crps"
        raise UsageError("score", expected="a proper score", got=show(score), hint=hint)
    if reason := spec.metric.unsupported_reason(spec, predictions):
        hint = "leave it out: the default is nll, for regression dss, for quantiles pinball"
        raise UsageError(
            "score", expected="a score that these predictions support", got=f"another: {reason.text}", hint=hint
        )
    if candidates is None:
        default = QUANTILES if quantiles else REGRESSION if predictions.task == "regression" else CLASSIFICATION
        few = getattr(predictions, "classes", 2) <= MAX_CLASSES
        candidates = [name for name in default if few or name not in QUADRATIC]
    items = lookup.split(candidates) if isinstance(candidates, str) else list(candidates)
    if not items:
        raise UsageError("candidates", expected="at least one method", got="none", hint="leave it out for a list")
    methods = {each.spec: each for each in (recalibrator(i.strip()) if isinstance(i, str) else i for i in items)}
    rows: dict[str, np.ndarray] = {}
    failed: dict[str, str] = {}
    for done, (name, method) in enumerate(methods.items()):
        if progress is not None:
            progress(f"{predictions.name}: trying {name}", done, len(methods))
        try:
            crossed = cross_fit(predictions, method, folds=folds, seed=seed, units=units, threads=threads)
            (rows[name],) = score_rows(crossed.predictions, spec.text, threads=threads).values()
        except CalibrantError as error:
            about_folds = error.subject in ("folds", "column") or error.subject.endswith(": column")
            if len(methods) == 1 or about_folds:
                raise
            failed[name] = plain(str(error), 200)
    if not rows:
        raise UsageError(
            "candidates", expected="a method that can be fitted to these rows",
            got="; ".join(f"{name}: {why}" for name, why in failed.items()), hint="name others, or give more rows",
        )  # fmt: skip
    codes = None if units is None else np.unique(predictions.column(units), return_inverse=True)[1].ravel()
    means = {name: _mean_and_error(scores, predictions.weights, None)[0] for name, scores in rows.items()}
    order = sorted(means, key=lambda name: means[name] if not math.isnan(means[name]) else math.inf)
    ranked = []
    for name in order:
        with np.errstate(invalid="ignore"):
            behind, standard_error = _mean_and_error(rows[name] - rows[order[0]], predictions.weights, codes)
        behind = behind if math.isfinite(means[name]) else math.inf
        ranked.append(Candidate(name, means[name], behind, standard_error if name != order[0] else math.nan))
    ranked += [Candidate(name, math.nan, math.nan, math.nan, why) for name, why in failed.items()]
    return Choice(spec.text, folds, seed, tuple(ranked))


def _mean_and_error(rows: np.ndarray, weights: np.ndarray | None, units: np.ndarray | None) -> tuple[float, float]:
    moments = Moments()
    moments.add(rows, weights, units)
    return moments.mean(), moments.error_and_skewness()[0]


def fit_method(
    predictions: InMemory, method: str | Recalibrator = "temperature", *,
    candidates: str | Iterable[str | Recalibrator] | None = None, score: str | None = None, folds: int = 5,
    seed: int = 0, units: str | None = None, threads: int | None = None, progress: Progress | None = None,
) -> tuple[Recalibrator, Choice | None]:  # fmt: skip
    """Fit a method to all rows, for "auto" the one that `choose` ranks first; warnings are only in its `notes()`."""
    choice = None
    if isinstance(method, str) and method.strip() == "auto":
        listed = candidates if candidates is None or isinstance(candidates, str) else list(candidates)
        choice = choose(
            predictions, listed, score=score, folds=folds, seed=seed, units=units, threads=threads, progress=progress
        )
        instances = {item.spec: item for item in listed or () if isinstance(item, Recalibrator)}
        method = instances.get(choice.best, choice.best)
    elif candidates is not None or score is not None:
        raise UsageError(
            "candidates and score", expected='method="auto" with them', got=show(method),
            hint='leave them out, or use method="auto"',
        )  # fmt: skip
    unfitted = recalibrator(method) if isinstance(method, str) else copy.copy(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return unfitted.fit(predictions, threads=threads), choice
