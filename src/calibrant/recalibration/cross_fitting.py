"""Cross-fitting: every row is transformed by a map that was fitted on the other folds.

Rows are assigned to K folds at random, stratified by class; rows of one unit stay together. Row i uses the Philox word
of (seed, FOLDS, 0, i).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from calibrant.errors import CalibrantWarning, UsageError, check_range
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import FOLDS
from calibrant.predictions import Classification, Judged
from calibrant.predictions.base import Note
from calibrant.recalibration.base import Predictions, Recalibrator, meta_with_step
from calibrant.recalibration.class_rows import as_logits
from calibrant.recalibration.lookup import recalibrator


@dataclass(frozen=True, repr=False)
class CrossFit:
    """Predictions in which each row was transformed by a map that was fitted on the other folds."""

    predictions: Any
    fold: np.ndarray
    """The fold (N,) of each row."""
    recalibrators: tuple[Recalibrator, ...]
    """The one that transformed each fold."""

    def __repr__(self) -> str:
        return f"CrossFit({self.recalibrators[0].spec!r}, folds={len(self.recalibrators)}, rows={len(self.fold)})"

    def notes(self) -> tuple[Note, ...]:
        """Warnings about the fits, each once with the folds it applies to."""
        folds_by_note: dict[tuple[str, str], list[int]] = {}
        for k, each in enumerate(self.recalibrators):
            for note in each.notes():
                folds_by_note.setdefault((note.code, note.message), []).append(k)
        return tuple(
            Note(code, f"{message} (fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))})")
            for (code, message), folds in folds_by_note.items()
        )


def cross_fit(
    predictions: Predictions, method: str | Recalibrator | Callable[[Any], Recalibrator] = "temperature", *,
    folds: int = 5, seed: int = 0, units: str | None = None, threads: int | None = None,
) -> CrossFit:  # fmt: skip
    """Recalibrate every row by a map that was fitted on the other folds.

    Parameters
    ----------
    predictions : Classification, Judged or Regression
        Predictions with labels.
    method : str, Recalibrator or callable
        A spec such as "ets(loss=brier)", a recalibrator whose options are used, or a function that returns a fitted
        recalibrator for some rows.
    folds : int
        The number of folds.
    seed : int
        The seed of the assignment to folds.
    units : str, optional
        A column that identifies dependent rows, which stay in one fold.
    threads : int, optional
        Number of threads; by default all cores.

    Returns
    -------
    CrossFit
        The recalibrated `predictions`, the `fold` of each row, the `recalibrators`, and warnings in `notes()`.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 50, [0, 1, 0, 0] * 25)
    >>> crossed = cal.recalibration.cross_fit(p, "temperature", folds=4)
    >>> crossed
    CrossFit('temperature', folds=4, rows=100)
    >>> crossed.predictions.n
    100
    """
    if not isinstance(predictions, Predictions):
        hint = 'write cross_fit(predictions, "temperature")'
        raise UsageError("cross_fit", expected="predictions", got=type(predictions).__name__, hint=hint)
    fold = folds_of(predictions, folds, seed, units)
    recalibrators, parts = [], []
    for k in range(int(folds)):
        rows = predictions[fold != k]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            if isinstance(method, str | Recalibrator):
                unfitted = recalibrator(method) if isinstance(method, str) else copy.copy(method)
                recalibrators.append(unfitted.fit(rows, threads=threads))
            else:
                recalibrators.append(method(rows))
        parts.append(recalibrators[-1].transform(predictions[fold == k]))
    order = np.argsort(np.argsort(fold, kind="stable"), kind="stable")
    step = {
        "method": " or ".join(dict.fromkeys(each.spec for each in recalibrators)),
        "injective": False,  # several maps are not one injective map
        "accuracy_preserving": all(each.accuracy_preserving for each in recalibrators),
        "several": True,
    }
    meta = meta_with_step(predictions, step, predictions.name) | {"cross_fitted": len(recalibrators)}
    info = replace(predictions.info, meta={**predictions.info.meta, "recalibration": meta})
    return CrossFit(_concatenate(parts)[order]._with_info(info), fold, tuple(recalibrators))


def folds_of(predictions: Predictions, folds: int, seed: int, units: str | None = None) -> np.ndarray:
    """The fold (N,) of each row: rows in random order within their class, one class after another, dealt in turn."""
    codes = None if units is None else np.unique(predictions.column(units), return_inverse=True)[1].ravel()
    count = predictions.n if codes is None else int(codes.max()) + 1
    what = "rows" if codes is None else "units"
    if count < 2:
        hint = "give more, or separate rows to apply the map to"
        raise UsageError("folds", expected=f"at least 2 {what}", got=f"{count}", hint=hint)
    check_range("folds", folds, 2, count, integer=True, hint=f"use folds=5, or fewer: there are {count} {what}")
    strata = np.zeros(count, np.int64)
    labels = predictions.labels if isinstance(predictions, Classification) else None
    labels = predictions.correct if isinstance(predictions, Judged) else labels
    if codes is None and labels is not None:
        strata = np.asarray(labels, np.int64)
    order = np.lexsort((words(seed, FOLDS, 0, count), strata))
    fold = np.empty(count, np.int64)
    fold[order] = np.arange(count) % folds
    return fold if codes is None else fold[codes]


def _concatenate(parts: list[Any]) -> Any:
    """The rows of several parts as one; `info` keeps neither ids, weights nor columns.

    Folds may have selected methods whose predictions differ in kind or in members: these are converted to one kind.
    """

    def layout(part: Any) -> tuple[Any, ...]:
        arrays = part._arrays(part.ROW_AXES)
        shapes = [(key, *np.delete(array.shape, part.ROW_AXES[key]).tolist()) for key, array in arrays]
        levels = getattr(part, "levels", None)
        return (getattr(part, "kind", ""), *shapes, None if levels is None else tuple(levels))

    if len(set(map(layout, parts))) > 1:
        if isinstance(parts[0], Classification):
            averages = [part.average() for part in parts]
            log_probs = [log_softmax(as_logits(part.scores, part.kind), axis=-1) for part in averages]
            pairs = zip(averages, log_probs, strict=True)
            parts = [replace(part, kind="log_probs", scores=scores) for part, scores in pairs]
        elif isinstance(parts[0], Judged):
            parts = [part.average() for part in parts]
        elif any(part.quantiles is not None for part in parts):
            got = f"{', '.join(sorted({part.kind for part in parts}))} in different folds"
            hint = "leave 'levels' out of the candidates, or try it alone"
            raise UsageError("cross_fit", expected="methods whose predictions are of one kind", got=got, hint=hint)
        else:
            one = [part.kind == "gaussian" and part.members == 1 for part in parts]
            parts = [part if same else part.moment_matched() for part, same in zip(parts, one, strict=True)]
    first = parts[0]
    arrays = {
        key: np.concatenate([getattr(part, key) for part in parts], axis=first.ROW_AXES[key])
        for key, _ in first._arrays(first.ROW_AXES)
    }
    info = replace(first.info, n=sum(part.n for part in parts), ids=None, weights=None, columns={})
    return replace(first, info=info, **arrays)
