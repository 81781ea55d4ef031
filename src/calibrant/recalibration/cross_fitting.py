"""Cross-fitting: every row is transformed by a map that was fitted without it.

Rows are dealt out to K folds at random, class by class, so that every fold has its share of each; rows of one unit stay
together. Row i has the Philox word of (seed, FOLDS, 0, i).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from calibrant.errors import CalibrantWarning, UsageError
from calibrant.kernels.philox import words
from calibrant.kernels.resampling import FOLDS
from calibrant.predictions import Classification, Judged
from calibrant.predictions.base import Note
from calibrant.recalibration.base import Given, Recalibrator, chained
from calibrant.recalibration.class_rows import as_logits
from calibrant.recalibration.methods import recalibrator


@dataclass(frozen=True)
class CrossFit:
    """Predictions of which each row was transformed by a map that was fitted on the other folds."""

    predictions: Any
    fold: np.ndarray
    """The fold (N,) of each row."""
    recalibrators: tuple[Recalibrator, ...]
    """The one that transformed each fold."""

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of the fits, each once with the folds in which it was met."""
        met: dict[tuple[str, str], list[int]] = {}
        for k, made in enumerate(self.recalibrators):
            for note in made.notes():
                met.setdefault((note.code, note.message), []).append(k)
        return tuple(
            Note(code, f"{message} (fold{'s' * (len(folds) > 1)} {', '.join(map(str, folds))})")
            for (code, message), folds in met.items()
        )


def cross_fit(
    predictions: Given,
    method: str | Recalibrator | Callable[[Any], Recalibrator] = "temperature",
    *,
    folds: int = 5,
    seed: int = 0,
    units: str | None = None,
    threads: int | None = None,
) -> CrossFit:
    """Fit on all folds but one and transform that one, fold by fold; doubts of the fits are in `notes()`.

    method: a spec string such as "ets(loss=brier)", a recalibrator whose options are taken, or a function that gives a
    fitted recalibrator for some rows. units: a column of rows that depend on each other and stay in one fold.
    """
    fold = folds_of(predictions, folds, seed, units)
    made, parts = [], []
    for k in range(folds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            made.append(_fitted(predictions[fold != k], method, threads))
        parts.append(made[-1].transform(predictions[fold == k]))
    order = np.argsort(np.argsort(fold, kind="stable"), kind="stable")
    joined = _joined(parts)[order]
    info = replace(predictions.info, meta={**predictions.info.meta, "recalibration": _meta(predictions, made)})
    return CrossFit(joined._with_info(info), fold, tuple(made))


def _fitted(part: Given, method: Any, threads: int | None) -> Recalibrator:
    if isinstance(method, str):
        return recalibrator(method).fit(part, threads=threads)
    return copy.copy(method).fit(part, threads=threads) if isinstance(method, Recalibrator) else method(part)


def _meta(predictions: Given, made: list[Recalibrator]) -> dict[str, Any]:
    """What is said of the predictions: several maps at work are not one injective map."""
    step = {
        "method": " or ".join(dict.fromkeys(each.spec for each in made)),
        "injective": False,
        "accuracy_preserving": all(each.accuracy_preserving for each in made),
        "several": True,
    }
    return chained(predictions, step, predictions.name) | {"cross_fitted": len(made)}


def folds_of(predictions: Given, folds: int, seed: int, units: str | None = None) -> np.ndarray:
    """The fold (N,) of each row."""
    codes = None if units is None else np.unique(predictions.column(units), return_inverse=True)[1].ravel()
    most = predictions.n if codes is None else int(codes.max()) + 1
    if most < 2:
        what = "rows" if codes is None else "units"
        do = "give rows to apply it to, or more of them"
        raise UsageError("folds", expected=f"at least 2 {what} to deal out", came=f"there is {most}", do=do)
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or not 2 <= folds <= most:
        what = "rows" if codes is None else "units"
        raise UsageError(
            "folds",
            expected=f"a whole number from 2 to {most}, the {what}",
            came=f"got {folds}",
            do="5 is usual, fewer of few",
        )
    if codes is not None:
        return _dealt(np.zeros(most, np.int64), folds, seed)[codes]
    return _dealt(_strata(predictions), folds, seed)


def _strata(predictions: Given) -> np.ndarray:
    """What is dealt out evenly: labels, or nothing where there are none."""
    labels = predictions.labels if isinstance(predictions, Classification) else None
    labels = predictions.correct if isinstance(predictions, Judged) else labels
    return np.zeros(predictions.n, np.int64) if labels is None else np.asarray(labels, np.int64)


def _dealt(strata: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Rows in a random order within their stratum, the strata one after another, dealt out in turn."""
    order = np.lexsort((words(seed, FOLDS, 0, len(strata)), strata))
    fold = np.empty(len(strata), np.int64)
    fold[order] = np.arange(len(strata)) % folds
    return fold


# ------------------------------------------------------------------------------------------------- joining
def _joined(parts: list[Any]) -> Any:
    """The rows of several as one, each kind of predictions by its arrays; what is known of rows is put back after."""
    parts = _alike(parts)
    first = parts[0]
    rows = {"scores": 1, "confidence": 1, "mean": 1, "std": 1, "samples": 1, "quantiles": 0}
    rows |= {"labels": 0, "label_probs": 0, "correct": 0, "y": 0}
    arrays = {}
    for key, axis in rows.items():
        if getattr(first, key, None) is not None:
            arrays[key] = np.concatenate([getattr(part, key) for part in parts], axis=axis)
    n = sum(part.n for part in parts)
    return replace(first, info=replace(first.info, n=n, ids=None, weights=None, columns={}), **arrays)


def _alike(parts: list[Any]) -> list[Any]:
    """Predictions of one make: folds may have chosen methods whose predictions differ in kind, or in members."""
    if len({_make(part) for part in parts}) == 1:
        return parts
    if isinstance(parts[0], Classification):
        return [_as_log_probs(part.average()) for part in parts]
    if isinstance(parts[0], Judged):
        return [part.average() for part in parts]
    if any(part.quantiles is not None for part in parts):
        raise UsageError(
            "cross_fit",
            expected="methods whose predictions are of one kind",
            came=f"folds have {', '.join(sorted({part.kind for part in parts}))}",
            do="leave 'levels' out of the candidates, or try it alone",
        )
    return [part if part.kind == "gaussian" and part.members == 1 else part.moment_matched() for part in parts]


def _make(part: Any) -> tuple[Any, ...]:
    """What must agree for rows to be put together."""
    arrays = [getattr(part, key, None) for key in ("scores", "confidence", "mean", "samples")]
    shapes = [None if array is None else (array.shape[0], *array.shape[2:]) for array in arrays]
    levels = getattr(part, "levels", None)
    return (getattr(part, "kind", ""), *shapes, None if levels is None else tuple(levels))


def _as_log_probs(part: Classification) -> Classification:
    logs = log_softmax(as_logits(part.scores, part.kind), axis=-1)
    return replace(part, kind="log_probs", scores=logs)
