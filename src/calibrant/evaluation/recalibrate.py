"""`recalibrate`: fit a map on some rows, apply it to others, and say what it gained there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.evaluation.choice import Choice, fitted
from calibrant.evaluation.choosing import DEFAULT, applicable, asked, by_default
from calibrant.evaluation.evaluate import described, evaluate, version
from calibrant.evaluation.gains import Improvement
from calibrant.evaluation.improvement import improvement
from calibrant.evaluation.result import Evaluation
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.cross_fitting import CrossFit, cross_fit
from calibrant.recalibration.storing import to_json

CLASSES = ("accuracy", "nll", "brier", "rbs", "ece", "tce(binning=mass,debias=true)", "cwce", "ks")
NUMBERS = ("mse", "dss", "nll", "crps", "pinball(levels=19)", "mace", "picp", "width", "se_var_ratio")
"""What is shown before and after, where nothing is named."""
MOST_NUMBERS = 200
"""Parameters that are written out in an evaluation; all of them are in the file of the map."""
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Recalibration:
    """Recalibrated predictions, the map that made them, and what it gained."""

    predictions: Any
    """The applied rows, recalibrated."""
    recalibrator: Recalibrator
    """Fitted on all rows of `fit`, also where the applied rows were cross-fitted: for predictions to come."""
    improvement: Improvement | None
    """None where the applied rows have no labels."""
    evaluation: Evaluation
    """Scores and errors before and after, with intervals: what is printed and written."""
    choice: Choice | None = None
    """The candidates of "auto" and their scores."""
    cross_fit: CrossFit | None = None
    """The folds, where no other rows were given to apply it to."""

    def __str__(self) -> str:
        return str(self.evaluation)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.evaluation._repr_html_()


def recalibrate(
    fit: InMemory,
    apply: InMemory | None = None,
    method: str | Recalibrator = "temperature",
    *,
    candidates: str | Iterable[str | Recalibrator] | None = None,
    score: str | None = None,
    folds: int = 5,
    metrics: str | Iterable[str] | None = None,
    sizes: bool | Iterable[int] = False,
    repeats: int | None = None,
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Recalibration:
    """Fit a method on `fit`, apply it to `apply` and compare before and after there; without `apply`, cross-fit.

    method: a spec string such as "temperature" or "ets(loss=brier)", a recalibrator, or "auto": the best of
    `candidates` by the cross-validated `score`, chosen anew in every fold where rows are cross-fitted. metrics: shown
    before and after. sizes: the usual errors on subsets of many sizes too. units: a column of dependent rows.
    """
    listed = candidates if candidates is None or isinstance(candidates, str) else list(candidates)
    asked: dict[str, Any] = {"candidates": listed, "score": score, "folds": folds, "seed": seed, "units": units}
    asked |= {"threads": threads, "progress": progress}
    judged = _Judging(metrics, sizes, repeats, units, level, resamples, seed, threads, progress)
    made, choice = fitted(fit, method, **asked)
    notes = [*made.notes(), *_choice_notes(choice)]
    if apply is not None:
        return _applied(made, apply, judged, notes + _same_rows(fit, apply), choice)
    within = made if choice is None else lambda part: fitted(part, method, **asked)[0]
    crossed = cross_fit(fit, within, folds=folds, seed=seed, units=units, threads=threads)
    return _applied(made, fit, judged, [*notes, *crossed.notes()], choice, crossed)


def apply_fitted(made: Recalibrator, predictions: InMemory, **judging: Any) -> Recalibration:
    """Apply a recalibrator that was fitted before, and say what it gains on these rows."""
    return _applied(made, predictions, _Judging(**judging), [])


@dataclass(frozen=True)
class _Judging:
    """How before and after are compared."""

    metrics: str | Iterable[str] | None = None
    sizes: bool | Iterable[int] = False
    repeats: int | None = None
    units: str | None = None
    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    threads: int | None = None
    progress: Progress | None = None

    def evaluated(self, before: InMemory, after: InMemory) -> Evaluation:
        """Scores and errors of both."""
        wanted = self.metrics
        if by_default(self.metrics):
            usual = list(NUMBERS if before.task == "regression" else CLASSES)
            wanted = [spec.text for item in (before, after) for spec in applicable(usual, item)[0]]
            wanted += [text for text in asked(self.metrics) if text != DEFAULT]
            wanted = list(dict.fromkeys(wanted))
        return evaluate(
            [before, after], wanted, units=self.units, level=self.level, resamples=self.resamples, seed=self.seed,
            threads=self.threads, rows=0, progress=self.progress,
        )  # fmt: skip

    def gained(self, before: InMemory, after: InMemory) -> Improvement:
        """The gain in proper scores."""
        return improvement(
            before, after, metrics=None if by_default(self.metrics) else self.metrics, sizes=self.sizes,
            repeats=self.repeats, units=self.units, level=self.level, seed=self.seed,
            threads=self.threads, progress=self.progress,
        )  # fmt: skip

    def nothing(self, before: InMemory) -> Evaluation:
        """An evaluation of rows without labels: nothing was scored."""
        settings = {"level": self.level, "seed": self.seed, "metrics": "default", "by": [], "units": self.units}
        said = f"{before.name}: there are no labels, so that nothing can be said of what was gained"
        return Evaluation(version(), settings, (described(before),), (), (Note("no-labels", said),))


def _applied(
    made: Recalibrator,
    before: InMemory,
    judging: _Judging,
    notes: list[Note],
    choice: Choice | None = None,
    crossed: CrossFit | None = None,
) -> Recalibration:
    after = made.transform(before) if crossed is None else crossed.predictions
    nameless = before.name == "predictions"
    after = after.named("after" if nameless else f"{before.name}, {made.name}")
    before = before.named("before") if nameless else before
    known = before.has_labels
    found = judging.gained(before, after) if known else None
    evaluation = judging.evaluated(before, after) if known else judging.nothing(before)
    evaluation = replace(
        evaluation,
        warnings=tuple(dict.fromkeys([*notes, *evaluation.warnings])),
        sizes=() if found is None or found.sizes is None else (found.sizes,),
        improvement=None if found is None else replace(found, sizes=None),
        recalibration=facts_of(made, choice, crossed),
    )
    return Recalibration(after, made, found, evaluation, choice, crossed)


def facts_of(made: Recalibrator, choice: Choice | None = None, crossed: CrossFit | None = None) -> dict[str, Any]:
    """What is stored of a recalibration: its method, parameters and fit."""
    stored = to_json(made)
    report = made.report.to_json()
    out: dict[str, Any] = {
        "method": made.spec,
        "title": made.title,
        "reference": made.reference,
        "parameters": _listed(stored["maps"]) if made.n_parameters <= MOST_NUMBERS else None,
        "n_parameters": made.n_parameters,
        "members": made.members,
        "converged": made.converged,
        "injective": made.injective,
        "accuracy_preserving": made.accuracy_preserving,
        "loss": report["loss"],
        "before": report["before"],
        "after": report["after"],
        "fits": stored["fits"],
        "fitted_on": stored["fitted_on"],
    }
    out |= {} if crossed is None else {"cross_fitted": len(crossed.recalibrators)}
    return out | ({} if choice is None else {"choice": choice.to_json()})


def _listed(value: Any) -> Any:
    """Arrays as lists, all the way down."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


# ------------------------------------------------------------------------------------------------- notes
def _choice_notes(choice: Choice | None) -> list[Note]:
    if choice is None:
        return []
    out = [Note("candidate-failed", f"{c.method} was not tried: {c.failed}") for c in choice.candidates if c.failed]
    return out + ([Note("close-choice", choice.reading())] if choice.close else [])


def shared_rows(fit: InMemory, apply: InMemory) -> int:
    """How many of the rows that a map is applied to were fitted on: by ids, or all where predictions are the same."""
    if fit.info.ids is not None and apply.info.ids is not None:
        return int(np.isin(apply.info.ids, fit.info.ids).sum())
    return apply.n if _identical(fit, apply) else 0


def _same_rows(fit: InMemory, apply: InMemory) -> list[Note]:
    """A map is scored too well on rows that it was fitted on."""
    shared = shared_rows(fit, apply)
    if not shared:
        return []
    said = f"{shared} of the {apply.n} rows of {apply.name} were fitted on, so that the gain is too good to be true: "
    said += "give rows of their own, or none, and the rows of the fit are cross-fitted"
    return [Note("scored-on-fitted-rows", said, "Ashukha et al. (2020), section 4")]


def _identical(fit: InMemory, apply: InMemory) -> bool:
    for key in ("scores", "confidence", "mean", "samples", "quantiles"):
        one, two = getattr(fit, key, None), getattr(apply, key, None)
        if one is not None and two is not None:
            return one.shape == two.shape and bool((one == two).all())
    return False
