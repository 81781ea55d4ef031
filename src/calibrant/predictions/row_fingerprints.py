"""Row fingerprints: a few short hashes that detect later whether two sets share rows.

A row's hash covers its id if it has one, its label and up to three of its scores. The fingerprints of a set are its
smallest hashes that occur once (a bottom-k sketch, Broder 1997): a set with a tenth of the same rows has about a tenth
of the fingerprints. Rows with only round numbers, such as a confidence of 0.9, cannot be identified and have no
fingerprint unless they have an id; a set in which many hashes repeat has none at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FINGERPRINTS = 32
DIGITS = 12
"""Hexadecimal digits of a fingerprint: 48 bits."""
COLUMNS = 3
ROUND = 1e4
MAX_ID = 32
"""Characters of an id that enter the hash."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


def row_hashes(predictions: Any, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """48-bit hashes of rows; rows that cannot be identified have the largest uint64."""
    return np.where(_identifiable(predictions, rows), _hashes(predictions, rows), _NONE)


def row_fingerprints(predictions: Any) -> str:
    """The fingerprints of a set of rows as one text; empty if the rows cannot be identified."""
    hashes = _hashes(predictions)
    rows = np.flatnonzero(
        hashes < 2.0 ** (4 * DIGITS) * (4 * FINGERPRINTS / len(hashes))
    )  # enough: no need to sort all
    values, counts = np.unique(hashes[rows][_identifiable(predictions, rows)], return_counts=True)
    if len(values) < min(FINGERPRINTS, len(hashes)):  # too many of these rows cannot be identified
        values, counts = np.unique(hashes[_identifiable(predictions)], return_counts=True)
    values, counts = values[: 2 * FINGERPRINTS], counts[: 2 * FINGERPRINTS]
    if (counts > 1).sum() > 0.1 * (counts == 1).sum():
        return ""
    return format_fingerprints(values[counts == 1][:FINGERPRINTS])


def prediction_hashes(predictions: Any) -> np.ndarray:
    """Hashes of the predictions alone, without labels and ids; rows of round numbers have the largest uint64."""
    return np.where(_not_round(predictions, slice(None)), _fold(_numbers(predictions)), _NONE)


def _hashes(predictions: Any, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    outcomes = (getattr(predictions, name, None) for name in ("labels", "correct", "y"))
    numbers = [*_numbers(predictions), *(values for values in outcomes if values is not None)]
    hashes = _fold([values[rows] for values in numbers])
    ids = predictions.info.ids
    if ids is not None and ids.dtype.kind in "biuf":
        hashes = _mix(hashes ^ ids[rows].astype(np.float64).view(np.uint64))
    elif ids is not None:
        letters = np.ascontiguousarray(ids[rows].astype(np.str_))
        letters = letters.view(np.uint32).reshape(len(hashes), -1)[:, :MAX_ID].astype(np.uint64)
        for column in letters.T:
            hashes = np.where(column > 0, _mix(hashes ^ column), hashes)
    return _mix(hashes) >> np.uint64(64 - 4 * DIGITS)


def _fold(numbers: list[np.ndarray]) -> np.ndarray:
    hashes = np.full(len(numbers[0]), np.uint64(len(numbers)))
    for values in numbers:
        hashes ^= values.astype(np.float64).view(np.uint64)
        hashes *= _MULTIPLIER
    return hashes


def _identifiable(predictions: Any, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Whether rows have an id, or a number that is not round."""
    ids = predictions.info.ids
    return _not_round(predictions, rows) if ids is None else np.ones(len(ids[rows]), bool)


def _not_round(predictions: Any, rows: np.ndarray | slice) -> np.ndarray:
    scaled = np.stack([np.asarray(values[rows], np.float64) for values in _numbers(predictions)]) * ROUND
    with np.errstate(invalid="ignore"):
        not_round = np.abs(scaled - np.rint(scaled)) > 1e-6 * np.abs(scaled) + 1e-9
    return np.asarray((np.isfinite(scaled) & not_round).any(axis=0))


def format_fingerprints(hashes: np.ndarray) -> str:
    """Join hashes to one text."""
    return "".join([f"{value:0{DIGITS}x}" for value in hashes.tolist()])


def parse_fingerprints(text: str) -> np.ndarray:
    """The hashes of a text of `format_fingerprints`; `ValueError` for any other text."""
    if not isinstance(text, str) or len(text) % DIGITS:
        raise ValueError("not row fingerprints")
    return np.array([int(text[k : k + DIGITS], 16) for k in range(0, len(text), DIGITS)], np.uint64)


def matching_rows(fingerprints: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """The rows whose hash is one of a few fingerprints."""
    if not len(fingerprints):
        return np.empty(0, np.int64)
    candidates = np.flatnonzero(hashes <= fingerprints.max())  # not sorting all rows
    return candidates[np.isin(hashes[candidates], fingerprints)]


def _numbers(predictions: Any) -> list[np.ndarray]:
    """Up to three columns (N,) of the predictions."""
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


def _mix(hashes: np.ndarray) -> np.ndarray:
    """One round of a multiplicative hash; the high bits are mixed best."""
    hashes = hashes * _MULTIPLIER
    hashes ^= hashes >> np.uint64(29)
    hashes *= _MULTIPLIER
    return hashes
