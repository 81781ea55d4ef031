"""Marks of rows: a few short hashes by which it can be seen later whether rows were met before.

A row's hash is of its id where it has one, its label and up to three of its scores. The marks of a set are its smallest
hashes that occur once (a bottom-k sketch, Broder 1997): a set that holds a tenth of the same rows has about a tenth of
the marks. Rows whose numbers are all round, such as answers judged with a confidence of 0.9, say too little to be known
again and have no mark unless they have an id; sets in which hashes often repeat have none at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MARKS = 32
DIGITS = 12
"""Hexadecimal digits of a mark: 48 bits."""
COLUMNS = 3
ROUND = 1e4
LONGEST_ID = 32
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


def row_hashes(predictions: Any, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """48-bit hashes of rows; those that cannot be known again have the largest number there is."""
    return np.where(_known(predictions, rows), _hashes(predictions, rows), _NONE)


def marks_of(predictions: Any) -> str:
    """The marks of a set of rows, as one text; empty where rows cannot be known again."""
    hashes = _hashes(predictions)
    rows = np.flatnonzero(hashes < 2.0 ** (4 * DIGITS) * (4 * MARKS / len(hashes)))  # about as many: no need to sort
    values, times = _counted(hashes[rows], _known(predictions, rows))
    if len(values) < min(MARKS, len(hashes)):  # rows that say nothing may have taken the places of the others
        values, times = _counted(hashes, _known(predictions))
    if (times > 1).sum() > 0.1 * (times == 1).sum():
        return ""
    return written(values[times == 1][:MARKS])


def _counted(hashes: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, times = np.unique(hashes[known], return_counts=True)
    return values[: 2 * MARKS], times[: 2 * MARKS]


def prediction_hashes(predictions: Any) -> np.ndarray:
    """Hashes of what is predicted alone, without labels and ids; rows of round numbers have the largest there is."""
    return np.where(_odd(predictions, slice(None)), _folded(_numbers(predictions)), _NONE)


def _hashes(predictions: Any, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    truths = (getattr(predictions, name, None) for name in ("labels", "correct", "y"))
    numbers = [*_numbers(predictions), *(truth for truth in truths if truth is not None)]
    hashes = _folded([values[rows] for values in numbers])
    if predictions.info.ids is not None:
        hashes = _with_ids(hashes, predictions.info.ids[rows])
    return _stirred(hashes) >> np.uint64(64 - 4 * DIGITS)


def _folded(numbers: list[np.ndarray]) -> np.ndarray:
    hashes = np.full(len(numbers[0]), np.uint64(len(numbers)))
    for values in numbers:
        hashes ^= values.astype(np.float64).view(np.uint64)
        hashes *= _ODD
    return hashes


def _known(predictions: Any, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Whether rows have an id, or a number that is not round."""
    ids = predictions.info.ids
    return _odd(predictions, rows) if ids is None else np.ones(len(ids[rows]), bool)


def _odd(predictions: Any, rows: np.ndarray | slice) -> np.ndarray:
    scaled = np.stack([np.asarray(values[rows], np.float64) for values in _numbers(predictions)]) * ROUND
    with np.errstate(invalid="ignore"):
        odd = np.abs(scaled - np.rint(scaled)) > 1e-6 * np.abs(scaled) + 1e-9
    return np.asarray((np.isfinite(scaled) & odd).any(axis=0))


def written(hashes: np.ndarray) -> str:
    """Hashes as text."""
    return "".join([f"{value:0{DIGITS}x}" for value in hashes.tolist()])


def read_marks(text: str) -> np.ndarray:
    """The hashes of a text that `written` made; any other text is a ValueError."""
    if not isinstance(text, str) or len(text) % DIGITS:
        raise ValueError("marks of rows that are none")
    return np.array([int(text[k : k + DIGITS], 16) for k in range(0, len(text), DIGITS)], np.uint64)


def met(marks: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """The rows whose hash is among the marks; few marks, so that rows are not sorted."""
    if not len(marks):
        return np.empty(0, np.int64)
    near = np.flatnonzero(hashes <= marks.max())
    return near[np.isin(hashes[near], marks)]


def _numbers(predictions: Any) -> list[np.ndarray]:
    """Up to three columns (N,) of what is predicted."""
    if predictions.task == "classification":
        table = predictions.scores[0]
    elif predictions.task == "judged":
        return [predictions.confidence[0]]
    elif predictions.kind == "gaussian":
        return [predictions.mean[0], predictions.std[0]]
    else:
        table = predictions.quantiles if predictions.kind == "quantiles" else predictions.samples.T
    width = table.shape[1]
    return [table[:, k] for k in sorted({round(k) for k in np.linspace(0, width - 1, min(width, COLUMNS))})]


def _stirred(hashes: np.ndarray) -> np.ndarray:
    """One round of a multiplicative hash; the high bits are the good ones."""
    hashes = hashes * _ODD
    hashes ^= hashes >> np.uint64(29)
    hashes *= _ODD
    return hashes


def _with_ids(hashes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    if ids.dtype.kind in "biuf":
        return _stirred(hashes ^ ids.astype(np.float64).view(np.uint64))
    letters = np.ascontiguousarray(ids.astype(np.str_))
    letters = letters.view(np.uint32).reshape(len(ids), -1)[:, :LONGEST_ID].astype(np.uint64)
    for column in letters.T:
        hashes = np.where(column > 0, _stirred(hashes ^ column), hashes)
    return hashes
