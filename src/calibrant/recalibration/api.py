"""`recalibrate`: fit a map on some rows, apply it to others, and measure the gain there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.pipeline.compilation import compile_ahead
from calibrant.pipeline.evaluate import EvaluateOptions, Progress, describe_input, run_evaluation
from calibrant.pipeline.select_metrics import applicable
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.cross_fitting import CrossFit, cross_fit
from calibrant.recalibration.lookup import default_method
from calibrant.recalibration.paired_gain import improvement
from calibrant.recalibration.selection import Choice, fit_method
from calibrant.recalibration.serialization import to_json
from calibrant.registry.lookup import DEFAULT, by_default, spec_texts, with_role
from calibrant.results.evaluation import RECALIBRATION, Evaluation
from calibrant.results.improvement import Improvement
from calibrant.version import __version__

MAX_STORED_PARAMETERS = 200
"""Parameters that are stored with an evaluation, at most; the file of the map has all of them."""


@dataclass(frozen=True, repr=False)
class Recalibration:
    """Recalibrated predictions, the map that was applied, and its gain."""

    predictions: Any
    """The recalibrated rows."""
    recalibrator: Recalibrator
    """Fitted on all rows of `fit`, for future predictions, even if the rows were cross-fitted."""
    improvement: Improvement | None
    """None if the rows have no labels."""
    evaluation: Evaluation
    """Scores and errors before and after, with intervals: this is what is printed and stored."""
    choice: Choice | None = None
    """The candidates of method="auto" and their scores."""
    cross_fit: CrossFit | None = None
    """The folds, if no other rows were given to apply the map to."""

    def __repr__(self) -> str:
        return f"Recalibration({self.recalibrator.spec!r}, rows={self.predictions.n})"

    def __str__(self) -> str:
        return str(self.evaluation)

    def _repr_html_(self) -> str:
        return self.evaluation._repr_html_()


def recalibrate(
    fit: InMemory, apply: InMemory | None = None, method: str | Recalibrator | None = None, *,
    candidates: str | Iterable[str | Recalibrator] | None = None, score: str | None = None, folds: int = 5,
    metrics: str | Iterable[str] | None = None, sizes: bool | Iterable[int] = False, repeats: int | None = None,
    units: str | None = None, level: float = 0.95, resamples: int = 1000, relevant_error: float | None = None,
    seed: int = 0, threads: int | None = None, progress: Progress | None = None,
) -> Recalibration:  # fmt: skip
    """Fit a method on held-out rows, apply it to other rows, and compare before and after there.

    Parameters
    ----------
    fit : Classification, Judged or Regression
        Predictions with labels that the model was not trained on.
    apply : Classification, Judged or Regression, optional
        The rows to recalibrate. Without them the rows of `fit` are cross-fitted.
    method : str or Recalibrator, optional
        By default temperature scaling; "variance" for Gaussian regression, "levels" for samples and quantiles. A spec
        such as "temperature" or "ets(loss=brier)", a recalibrator, or "auto", which selects the best of
        `candidates`; if rows are cross-fitted, in each fold separately.
    candidates : str or iterable, optional
        The methods to select from; by default a list for the task.
    score : str, optional
        The proper score of the selection; by default nll, for regression dss, for quantiles pinball.
    folds : int
        The number of folds of cross-fitting and selection.
    metrics : str or iterable of str, optional
        The metrics to report before and after.
    sizes : bool or iterable of int
        Whether to also compare calibration errors on random subsets of different sizes, or these sizes.
    repeats : int, optional
        The number of subsets of each size.
    units : str, optional
        A column that identifies dependent rows.
    level : float
        The level of the intervals.
    resamples, seed : int
        The number of bootstrap resamples, and the seed of all random numbers.
    relevant_error : float, optional
        The calibration error that matters in the verdicts before and after, as in `evaluate`.
    threads : int, optional
        Number of threads; by default all cores.
    progress : callable, optional
        Called with a text, the number of steps done and their total.

    Returns
    -------
    Recalibration
        The recalibrated `predictions`, the fitted `recalibrator`, the `improvement`, and the `evaluation` with the
        verdicts on calibration before and after.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 50, [0, 1, 0, 0] * 25)
    >>> done = cal.recalibrate(p[:50], p[50:], "temperature")
    >>> done
    Recalibration('temperature', rows=50)
    >>> done.improvement["nll"].gain > 0
    True
    """
    candidates = candidates if candidates is None or isinstance(candidates, str) else list(candidates)
    chosen = default_method(fit) if method is None else method
    if chosen == "temperature":
        compile_ahead(fit, RECALIBRATION, threads, progress)

    def fit_on(rows: InMemory) -> tuple[Recalibrator, Choice | None]:
        return fit_method(
            rows, chosen, candidates=candidates, score=score, folds=folds, seed=seed, units=units, threads=threads,
            progress=progress,
        )  # fmt: skip

    recalibrator, choice = fit_on(fit)
    notes, crossed = list(recalibrator.notes()), None
    if choice is not None:
        failed = [each for each in choice.candidates if each.failed]
        notes += [Note("candidate-failed", f"{each.method} was skipped: {each.failed}") for each in failed]
        notes += [Note("close-choice", choice.reading())] if choice.close else []
    if apply is None:
        method_in_fold = recalibrator if choice is None else lambda rows: fit_on(rows)[0]
        crossed = cross_fit(fit, method_in_fold, folds=folds, seed=seed, units=units, threads=threads)
        notes += crossed.notes()
    elif shared := shared_rows(fit, apply):
        text = f"{shared} of the {apply.n} rows of {apply.name} were fitted on, so the gain is too optimistic"
        text += ": apply the map to other rows, or to none, which cross-fits the rows of the fit"
        notes.append(Note("scored-on-fitted-rows", text, "Ashukha et al. (2020), section 4"))
    return apply_fitted(
        recalibrator, fit if apply is None else apply, metrics=metrics, sizes=sizes, repeats=repeats, units=units,
        level=level, resamples=resamples, relevant_error=relevant_error, seed=seed, threads=threads, progress=progress,
        notes=notes, choice=choice, crossed=crossed,
    )  # fmt: skip


def apply_fitted(
    recalibrator: Recalibrator, predictions: InMemory, *, metrics: str | Iterable[str] | None = None,
    sizes: bool | Iterable[int] = False, repeats: int | None = None, units: str | None = None, level: float = 0.95,
    resamples: int = 1000, relevant_error: float | None = None, seed: int = 0, threads: int | None = None,
    progress: Progress | None = None, notes: Iterable[Note] = (), choice: Choice | None = None,
    crossed: CrossFit | None = None,
) -> Recalibration:  # fmt: skip
    """Apply a fitted recalibrator, or use cross-fitted predictions, and measure the gain; see `recalibrate`."""
    before, after = predictions, recalibrator.transform(predictions) if crossed is None else crossed.predictions
    unnamed = before.name == "predictions"
    after = after.named("after" if unnamed else f"{before.name}, {recalibrator.name}")
    before = before.named("before") if unnamed else before
    gain = None
    if before.has_labels:
        specs = metrics
        if DEFAULT in spec_texts(metrics):
            default = with_role("recalibration", before.task)
            texts = [spec.text for item in (before, after) for spec in applicable(default, item)[0]]
            specs = list(dict.fromkeys([*texts, *(text for text in spec_texts(metrics) if text != DEFAULT)]))
        gain = improvement(
            before, after, metrics=None if by_default(metrics) else metrics, sizes=sizes, repeats=repeats, units=units,
            level=level, seed=seed, threads=threads, progress=progress,
        )  # fmt: skip
        options = EvaluateOptions(
            units=units, level=level, resamples=resamples, relevant_error=relevant_error, seed=seed, threads=threads,
            worst_rows=0, always_judge=True, progress=progress,
        )  # fmt: skip
        evaluation = run_evaluation([before, after], specs, options)
    else:
        settings = {"level": level, "seed": seed, "metrics": "default", "by": [], "units": units}
        text = f"{before.name}: without labels the gain cannot be measured"
        evaluation = Evaluation(__version__, settings, (describe_input(before),), (), (Note("no-labels", text),))
    evaluation = replace(
        evaluation, warnings=tuple(dict.fromkeys([*notes, *evaluation.warnings])),
        sizes=() if gain is None or gain.sizes is None else (gain.sizes,),
        improvement=None if gain is None else replace(gain, sizes=None),
        recalibration=recalibration_summary(recalibrator, choice, crossed), kind=RECALIBRATION,
    )  # fmt: skip
    return Recalibration(after, recalibrator, gain, evaluation, choice, crossed)


def recalibration_summary(
    recalibrator: Recalibrator, choice: Choice | None = None, crossed: CrossFit | None = None
) -> dict[str, Any]:
    """The method, its parameters and its fit, as they are stored with an evaluation."""
    stored, report = to_json(recalibrator), recalibrator.report.to_json()
    few = recalibrator.n_parameters <= MAX_STORED_PARAMETERS
    maps = [
        {key: value.tolist() if isinstance(value, np.ndarray | np.generic) else value for key, value in each.items()}
        for each in stored["maps"]
    ]
    out: dict[str, Any] = {
        "method": recalibrator.spec,
        "title": recalibrator.title,
        "reference": recalibrator.reference,
        "parameters": maps if few else None,
    }
    facts = ("n_parameters", "members", "converged", "injective", "accuracy_preserving")
    out |= {key: getattr(recalibrator, key) for key in facts}
    out |= {key: report[key] for key in ("loss", "before", "after")}
    out |= {key: stored[key] for key in ("fits", "fitted_on")}
    out |= {} if crossed is None else {"cross_fitted": len(crossed.recalibrators)}
    return out | ({} if choice is None else {"choice": choice.to_json()})


def shared_rows(fit: InMemory, apply: InMemory) -> int:
    """How many rows of `apply` are rows of `fit`: by ids, or all if the predictions are identical."""
    if fit.info.ids is not None and apply.info.ids is not None:
        return int(np.isin(apply.info.ids, fit.info.ids).sum())
    for key in ("scores", "confidence", "mean", "samples", "quantiles"):
        one, two = getattr(fit, key, None), getattr(apply, key, None)
        if one is not None and two is not None:
            return apply.n if one.shape == two.shape and bool((one == two).all()) else 0
    return 0
